package coverage

import (
	"fmt"
	"slices"
	"strings"
)

// Group has cases and what decides them on a Docker engine.
type Group struct {
	Why   string
	Cases []string
}

// DockerEveryRun are the cases that every run tries in containers: what holds an
// attacker there is the engine, or our driver for it, so that the native driver's
// pass says nothing of them.
var DockerEveryRun = []Group{
	{"the engine makes the namespaces", cases("K02 K03 K12 K18 K19")},
	{"the engine loads the seccomp profile, which is written for it", cases("K04 K05 K06 K07 K08 K09 K10 K11 K13 K14 K16 K22 K25")},
	{"the engine gives the capabilities and the user, and the runner is root there", cases("K01 K15 K20 K23 K24 K26 N01 N02")},
	{"the engine mounts the root, /proc, /sys and /dev, and masks them", cases("K17 P01 P02 P03 P04 P05 P06 P09 P10 P11 P12 P13")},
	{"the engine starts programs in a container, as CVE-2019-5736 and CVE-2024-21626 abuse", cases("P07 P08 K21")},
	{"the engine makes the control groups and other limits", cases("R01 R02 R03 R04 R05 R07 R08 R11 R14 R20")},
	{"the relay carries what the runner says", cases("N04 N05 R06")},
	{"the driver ends a container and all that it runs", cases("E01 E05 E06")},
	{"a terminal is of the container's own devpts", cases("S18")},
	{"the driver connects a container's network, or leaves it without one", cases("R12 W01 W02 W03 W04 W10 W11 W12")},
}

// DockerLongTier are the cases that the long tier alone tries in containers, with
// all others. Every run tries them natively, where what holds is the same.
var DockerLongTier = []Group{
	{"the runner ends commands, and it is the same program", cases("E02 E03 E04 E07 E08 R09")},
	{"the runner drives the shell, and it is the same program", cases("S01 S02 S03 S04 S05 S06 S07 S08 S09 S10 S11 S12 S13 S14 S15 S16 S17")},
	{"the daemon reads what a runner says, by the same code", cases("N03 N06 N07")},
	{"the daemon answers and keeps its log, by the same code", cases("R13 R15 R17")},
	{"the daemon's proxy decides about names and requests, by the same code", cases("W05 W06 W07 W08 W09 W17 W18 W19 W20")},
	{"the daemon serves previews, by the same code", cases("W13 W14 W15 W16")},
	{"the masks decide, which P01 and P13 look at in every run", cases("P14")},
	{"the control group decides, which R01 and R02 look at in every run; this measures a share of the processor", cases("R10")},
	{"nothing holds in containers, as OnDocker says", cases("P15 R16 R18 R19")},
}

func cases(ids string) []string { return strings.Fields(ids) }

// DockerPattern is the expression for the tests of the cases that every run tries in
// containers, or of all that are tried there.
func DockerPattern(all bool) string {
	groups := DockerEveryRun
	if all {
		groups = slices.Concat(DockerEveryRun, DockerLongTier)
	}
	var ids []string
	for _, g := range groups {
		ids = append(ids, g.Cases...)
	}
	slices.Sort(ids)
	return fmt.Sprintf("^Test(%s)_", strings.Join(ids, "|"))
}
