package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The table of parts says what each costs, and these rules keep it true.
const (
	// mostCPU is how many minutes of a processor all parts of a regular run may
	// need together. A new part takes as much from another, or is a slice of the
	// long tier.
	mostCPU = 60
	// mostSlice is how many minutes a slice of the long tier may take.
	mostSlice = 15
	// mostOver is how many times its entry a recorded part may have needed.
	mostOver = 1.5
	// mostOverNow is the same for a part of a run, which fails at once. It is
	// more: without caches some parts compile what others find there.
	mostOverNow = 2.5
	// leastOver is how many minutes of a processor a part must need beyond its
	// entry for that: small parts vary.
	leastOver = 1
)

// measurement is what one run of a part, or a whole run, took.
type measurement struct {
	Date    string  `json:"date"`    // of its start, UTC
	Minutes float64 `json:"minutes"` // from start to end
	CPU     float64 `json:"cpu"`     // minutes of a processor
}

// record is the newest measurement of each part and slice that passed, and of
// the newest whole run in which all did.
type record struct {
	Whole *measurement           `json:"whole,omitempty"`
	Parts map[string]measurement `json:"parts"`
}

const (
	// measuredFile has what the last run on this machine took.
	measuredFile = logDir + "/measured.json"
	// recordFile has what is checked in; -record writes it.
	recordFile = "tools/gate/measured.json"
	// tableFile has a table of the record between two marks.
	tableFile  = "CONTRIBUTING.md"
	tableBegin = "<!-- written by `go run ./tools/gate -record` -->\n"
	tableEnd   = "<!-- end -->\n"
)

//go:embed measured.json
var recorded []byte

// lastRecord is the record that is checked in.
func lastRecord() (record, error) {
	return parseRecord(recorded)
}

func parseRecord(text []byte) (record, error) {
	r := record{}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read the record of what parts took: %w", err)
	}
	return r, nil
}

// measure is what results of a run say, with what was started at start. Only
// a whole run, which has no part chosen by name, says what regular parts cost.
func measure(results []result, start time.Time, whole bool) record {
	date := start.UTC().Format(time.DateOnly)
	r := record{Parts: map[string]measurement{}}
	total := 0.0
	for _, p := range results {
		total += p.used.Minutes()
		if p.state == passed && p.minutes > 0 && (whole || isSlice(p.name)) {
			r.Parts[p.name] = measurement{Date: date, Minutes: tenths(p.took.Minutes()), CPU: tenths(p.used.Minutes())}
		}
	}
	if whole && !slices.ContainsFunc(results, func(p result) bool { return p.state == failed || p.state == skipped }) {
		r.Whole = &measurement{Date: date, Minutes: tenths(time.Since(start).Minutes()), CPU: tenths(total)}
	}
	return r
}

func isSlice(name string) bool {
	return slices.ContainsFunc(tier, func(p part) bool { return p.name == name })
}

func tenths(minutes float64) float64 {
	return float64(int(minutes*10+0.5)) / 10
}

// overspent fails the parts that needed more of the processors than their
// entries say. A machine that is slower for all parts is none of their faults:
// what counts is a part's share beside the median of the others.
func overspent(results []result) {
	var ratios []float64
	for _, r := range results {
		if r.state == passed && r.cpu > 0 {
			ratios = append(ratios, r.used.Minutes()/r.cpu)
		}
	}
	if len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	pace := max(1, ratios[len(ratios)/2])
	for i := range results {
		r := &results[i]
		used := r.used.Minutes() / pace
		if r.state == passed && used > mostOverNow*r.cpu && used > r.cpu+leastOver {
			r.state = failed
			r.err = fmt.Errorf("it passed, and used %.1f minutes of a processor (%.1f at the pace of the other parts) where its entry in tools/gate/parts.go says %.1f: find what grew, or correct the entry",
				r.used.Minutes(), used, r.cpu)
		}
	}
}

// saveMeasured keeps what a run took for -record.
func saveMeasured(r record) error {
	return writeJSON(measuredFile, r)
}

func writeJSON(file string, r record) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // for everybody to read, as the checkout is
}

// saveRecord adds what the run in directory dir took to the record of this
// checkout, and writes the table in CONTRIBUTING.md from it.
func saveRecord(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, measuredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no run has ended in %s; give -record the root of a clone in which one has", dir)
	}
	if err != nil {
		return err
	}
	run, err := parseRecord(text)
	if err != nil {
		return err
	}
	kept, err := lastRecord()
	if err != nil {
		return err
	}
	kept = kept.with(run)
	contributing, err := os.ReadFile(tableFile)
	if err != nil {
		return err
	}
	page, err := withTable(string(contributing), costTable(kept))
	if err != nil {
		return err
	}
	if err := os.WriteFile(tableFile, []byte(page), 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	return writeJSON(recordFile, kept)
}

// with is r with what a newer run says, without parts that are no more.
func (r record) with(run record) record {
	merged := record{Whole: r.Whole, Parts: map[string]measurement{}}
	if run.Whole != nil {
		merged.Whole = run.Whole
	}
	for _, p := range slices.Concat(parts, tier) {
		for _, from := range []record{r, run} {
			if m, ok := from.Parts[p.name]; ok {
				merged.Parts[p.name] = m
			}
		}
	}
	return merged
}

// withTable is page with table between the marks.
func withTable(page, table string) (string, error) {
	before, rest, begun := strings.Cut(page, tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		return "", fmt.Errorf("%s has no place for the table: %q and %q", tableFile, tableBegin, tableEnd)
	}
	return before + tableBegin + "\n" + table + "\n" + tableEnd + after, nil
}

// costTable is the record in Markdown: what each part guards, may cost and took.
func costTable(r record) string {
	var out strings.Builder
	row := func(p part) {
		took := " | | never"
		if m, ok := r.Parts[p.name]; ok {
			took = fmt.Sprintf("%.1f | %.1f | %s", m.Minutes, m.CPU, m.Date)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %g | %s |\n", p.name, p.what, p.cpu, took)
	}
	out.WriteString("| part | what it guards | CPU minutes allowed | minutes | CPU minutes | last recorded |\n| --- | --- | --- | --- | --- | --- |\n")
	sum := 0.0
	for _, p := range parts {
		row(p)
		sum += p.cpu
	}
	whole := " | | never"
	if r.Whole != nil {
		whole = fmt.Sprintf("%.1f | %.1f | %s", r.Whole.Minutes, r.Whole.CPU, r.Whole.Date)
	}
	fmt.Fprintf(&out, "| whole, with a slice | at most %d minutes of a processor without the slice | %g | %s |\n", mostCPU, tenths(sum), whole)
	for _, p := range tier {
		row(p)
	}
	return out.String()
}

// overdue is the half of the slices whose last recorded run is longest ago.
func overdue(from []part, r record) []part {
	sorted := slices.Clone(from)
	slices.SortStableFunc(sorted, func(a, b part) int {
		return cmp.Compare(r.Parts[a.name].Date, r.Parts[b.name].Date)
	})
	return sorted[:(len(sorted)+1)/2]
}
