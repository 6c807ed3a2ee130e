// Package coverage is the list of cases that the attack battery is measured by,
// and of those that no test of the battery is for, with the reason. It is data:
// the tests are in the directory above, each named by its case.
package coverage

// Starred are the cases without which nothing is released.
var Starred = []string{
	"A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08", "A10",
	"C01", "C02",
	"D01", "D02",
	"E01", "E02", "E03", "E05",
	"H01", "H02", "H03", "H04", "H05", "H07", "H09",
	"I01",
	"K01", "K02", "K03", "K04", "K05", "K06", "K07", "K08", "K09", "K11", "K12", "K15", "K16", "K17", "K19", "K20",
	"N01", "N02", "N03", "N04",
	"P01", "P02", "P04", "P05", "P06", "P07", "P08", "P09", "P10",
	"R01", "R02", "R03", "R04", "R05", "R06", "R07",
	"S01", "S02", "S03", "S04", "S05", "S06", "S07", "S10", "S12",
	"T01", "T02", "T03", "T04", "T05", "T08",
	"W01", "W02", "W03", "W04", "W05", "W06", "W10", "W13", "W14", "W15",
}

// Others are the remaining cases of the list.
var Others = []string{
	"A09", "A11", "A12", "A13", "A14", "A15",
	"C03", "C04",
	"D03", "D04",
	"E04", "E06", "E07", "E08",
	"H06", "H08", "H10", "H11", "H12", "H13", "H14",
	"I02",
	"K10", "K13", "K14", "K18", "K21", "K22", "K23", "K24", "K25",
	"N05", "N06", "N07",
	"P03", "P11", "P12", "P13", "P14", "P15",
	"R08", "R09", "R10", "R11", "R12", "R13", "R14", "R15", "R16", "R17", "R18", "R19", "R20",
	"S08", "S09", "S11", "S13", "S14", "S15", "S16", "S17", "S18",
	"T06", "T07", "T09", "T10", "T11",
	"W07", "W08", "W09", "W11", "W12", "W16",
}

// Without says why a case has no test in the battery.
var Without = map[string]string{
	"D01": "of a daemon on a Docker engine: internal/runtime/docker.TestEngine, part inspect, looks at every container's settings",
	"D02": "of a daemon on a Docker engine: go tool task test:attack:docker runs this battery there; docs/docker.md has its cases one by one",
	"D03": "there is no Kubernetes driver yet",
	"D04": "the audit programs come from the network, which the battery does without; K, P and R ask what they ask",

	"W03": "there is no network mode proxy yet; in none W01 finds no way out",
	"W04": "there is no network mode proxy yet",
	"W05": "there is no network mode proxy, and so no list of hosts yet",
	"W06": "there is no network mode proxy, and so no resolver of ours yet",
	"W07": "there is no network mode proxy, and so no list of hosts yet",
	"W08": "there is no network mode proxy yet; what may be cut in two ways on the way to a port: internal/api/v1.TestSmuggling",
	"W09": "there is no network mode proxy yet",
	"W11": "there is no network mode full yet",
}
