package config

import (
	"maps"
	"slices"
	"strings"
)

// suggest says what may have been meant by an unknown name in section.
func (l *loader) suggest(section, name string) string {
	here := l.names(section)
	for _, key := range slices.Sorted(maps.Keys(l.options)) {
		if _, last, _ := cutLast(key); last == name {
			return "did you mean " + key + "?"
		}
	}
	if near := nearest(name, here); near != "" {
		return "did you mean " + near + "?"
	}
	if !l.sections[section] {
		return "and there is no section " + section + ": the sections are " + strings.Join(l.sectionNames(), ", ")
	}
	return "the keys here are " + strings.Join(here, ", ")
}

// names lists what may stand in a section: its keys, and at the top the
// sections too.
func (l *loader) names(section string) []string {
	var names []string
	for key := range l.options {
		if in, last, _ := cutLast(key); in == section {
			names = append(names, last)
		}
	}
	if section == "" {
		names = append(names, l.sectionNames()...)
	}
	slices.Sort(names)
	return names
}

func (l *loader) sectionNames() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for section := range l.sections {
			if section != "" && !yield(section) {
				return
			}
		}
	})
}

// nearest returns the candidate that a slip of the fingers turns into name,
// or nothing.
func nearest(name string, candidates []string) string {
	best, least := "", 1+len(name)/3
	for _, c := range candidates {
		if d := distance(name, c); d <= least && (best == "" || d < distance(name, best)) {
			best = c
		}
	}
	return best
}

// distance is Levenshtein's: the insertions, deletions and replacements that
// make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
