package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Marks in docs/security.md between which the matrix stands.
const (
	matrixBegin = "<!-- the matrix, written by go tool task test:attack:control -->\n"
	matrixEnd   = "<!-- end of the matrix -->\n"
)

// readMatrix returns what was found so far: by row, the cases that were red.
func readMatrix(file string) (map[string][]string, error) {
	matrix := map[string][]string{}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return matrix, nil
	}
	if err != nil {
		return nil, err
	}
	return matrix, json.Unmarshal(text, &matrix)
}

// keep adds what was found to the file of all that was, without rows that are
// gone, and writes the page anew.
func keep(file, page string, found map[string][]string) error {
	matrix, err := readMatrix(file)
	if err != nil {
		return err
	}
	maps.Copy(matrix, found)
	maps.DeleteFunc(matrix, func(name string, _ []string) bool {
		return !slices.ContainsFunc(rows, func(r row) bool { return r.name() == name })
	})
	text, err := json.MarshalIndent(matrix, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil { //nolint:gosec // of the repository
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	updated, err := withMatrix(string(old), matrix)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(updated), 0o644) //nolint:gosec // of the repository
}

// withMatrix is a page with the matrix between its marks.
func withMatrix(page string, matrix map[string][]string) (string, error) {
	before, rest, ok := strings.Cut(page, matrixBegin)
	_, after, end := strings.Cut(rest, matrixEnd)
	if !ok || !end {
		return "", errors.New("the page has no marks for the matrix")
	}
	return before + matrixBegin + "\n" + table(matrix) + "\n" + matrixEnd + after, nil
}

// nameInText is a row's name as the page has it.
func nameInText(r row) string { return "`" + strings.ReplaceAll(r.name(), "+", "` and `") + "`" }

// table writes the matrix, without its empty fields: a line for each case.
func table(matrix map[string][]string) string {
	notice := map[string][]string{}
	for _, r := range rows {
		for _, id := range matrix[r.name()] {
			notice[id] = append(notice[id], nameInText(r))
		}
	}
	var text strings.Builder
	text.WriteString("| case | is red without |\n| --- | --- |\n")
	for _, id := range slices.Sorted(maps.Keys(notice)) {
		fmt.Fprintf(&text, "| %s | %s |\n", id, strings.Join(notice[id], "; "))
	}
	text.WriteString("\n| case | holds without, by the protection that is left |\n| --- | --- |\n")
	for _, r := range rows {
		if _, ran := matrix[r.name()]; !ran {
			continue
		}
		for _, id := range r.holding() {
			fmt.Fprintf(&text, "| %s | %s |\n", id, nameInText(r))
		}
	}
	text.WriteString("\n| case | why nothing turns it red |\n| --- | --- |\n")
	for _, id := range slices.Sorted(maps.Keys(withoutRow)) {
		fmt.Fprintf(&text, "| %s | %s |\n", id, withoutRow[id])
	}
	var waiting []string
	for _, r := range rows {
		if _, ran := matrix[r.name()]; !ran {
			waiting = append(waiting, "`"+r.name()+"` ("+strings.TrimSpace(r.cases+" "+r.holds)+")")
		}
	}
	if len(waiting) > 0 {
		fmt.Fprintf(&text, "\nRows that were not run for this page: %s.\n", strings.Join(waiting, ", "))
	}
	if len(unasked) > 0 {
		fmt.Fprintf(&text, "\nFor these the control has nothing to take away yet: %s.\n", strings.Join(unasked, ", "))
	}
	return text.String()
}
