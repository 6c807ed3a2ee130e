package files

import (
	"bytes"
	"fmt"
)

// diffContext is how many unchanged lines surround a change.
const diffContext = 3

// change replaces the lines first to last (exclusive) of a text.
type change struct {
	first, last int
	lines       [][]byte
}

// unifiedDiff describes the replacement of every before in old by after, as
// diff -u does. It stops at a whole hunk when it gets longer than limit.
func unifiedDiff(path string, old, before, after []byte, limit int) (diff []byte, whole bool) {
	lines := splitLines(old)
	out := fmt.Appendf(nil, "--- a/%s\n+++ b/%s\n", path, path)
	shift := 0
	changes := changesOf(old, lines, before, after)
	for len(changes) > 0 {
		n := 1 // how many share a hunk
		for n < len(changes) && changes[n].first-changes[n-1].last <= 2*diffContext {
			n++
		}
		hunk, added := appendHunk(nil, lines, changes[:n], shift)
		if len(out)+len(hunk) > limit {
			return out, false
		}
		out = append(out, hunk...)
		shift += added
		changes = changes[n:]
	}
	return out, true
}

// splitLines splits after every newline.
func splitLines(text []byte) [][]byte {
	lines := bytes.SplitAfter(text, []byte{'\n'})
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// changesOf finds which lines become which. Replacements that touch the same
// line are one change.
func changesOf(old []byte, lines [][]byte, before, after []byte) []change {
	var changes []change
	find := func(from int) int {
		if i := bytes.Index(old[from:], before); i >= 0 {
			return from + i
		}
		return len(old)
	}
	seen, line := 0, 0 // line begins at seen
	for next := find(0); next < len(old); {
		start := bytes.LastIndexByte(old[:next], '\n') + 1
		at, end := start, start
		var text []byte
		for next < len(old) && (end == start || next < end) {
			text = append(append(text, old[at:next]...), after...)
			at = next + len(before)
			end = lineEnd(old, at)
			if at == end && !bytes.HasSuffix(text, []byte{'\n'}) {
				end = lineEnd(old, end+1) // the next line is joined to this one
			}
			next = find(at)
		}
		text = append(text, old[at:end]...)
		line += bytes.Count(old[seen:start], []byte{'\n'})
		c := change{first: line, last: line + len(splitLines(old[start:end])), lines: splitLines(text)}
		changes = append(changes, trimmed(c, lines))
		seen, line = end, c.last
	}
	return changes
}

// lineEnd is where the line ends that the byte before at is in.
func lineEnd(text []byte, at int) int {
	if at > len(text) {
		return len(text)
	}
	if i := bytes.IndexByte(text[at-1:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

// trimmed leaves out the lines at both ends that stay as they are.
func trimmed(c change, old [][]byte) change {
	for c.first < c.last && len(c.lines) > 0 && bytes.Equal(old[c.first], c.lines[0]) {
		c.first, c.lines = c.first+1, c.lines[1:]
	}
	for c.first < c.last && len(c.lines) > 0 && bytes.Equal(old[c.last-1], c.lines[len(c.lines)-1]) {
		c.last, c.lines = c.last-1, c.lines[:len(c.lines)-1]
	}
	return c
}

// appendHunk appends some changes that lie close together, and returns by how
// many lines they make the text longer.
func appendHunk(out []byte, old [][]byte, changes []change, shift int) ([]byte, int) {
	first := max(0, changes[0].first-diffContext)
	last := min(len(old), changes[len(changes)-1].last+diffContext)
	added := 0
	for _, c := range changes {
		added += len(c.lines) - (c.last - c.first)
	}
	out = fmt.Appendf(out, "@@ -%s +%s @@\n", span(first, last-first), span(first+shift, last-first+added))
	at := first
	for _, c := range changes {
		out = appendLines(out, ' ', old[at:c.first])
		out = appendLines(out, '-', old[c.first:c.last])
		out = appendLines(out, '+', c.lines)
		at = c.last
	}
	return appendLines(out, ' ', old[at:last]), added
}

// span writes a range as diff does: an empty one names the line before it.
func span(first, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", first)
	case 1:
		return fmt.Sprint(first + 1)
	}
	return fmt.Sprintf("%d,%d", first+1, n)
}

func appendLines(out []byte, sign byte, lines [][]byte) []byte {
	for _, l := range lines {
		out = append(append(out, sign), l...)
		if l[len(l)-1] != '\n' {
			out = append(out, "\n\\ No newline at end of file\n"...)
		}
	}
	return out
}
