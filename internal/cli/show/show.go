// Package show is how the command line shows things to people and programs:
// tables, sizes, times, JSON, progress, and text of a sandbox's, which a terminal
// must not obey. It knows no commands and no daemon.
package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// Printable shows control characters instead of sending them to a terminal:
// what a sandbox or a daemon wrote could otherwise retitle windows, move the
// cursor or imitate our own output.
func Printable(s string) string { return Visible(s, "") }

// Visible is Printable with some characters let through.
func Visible(s, keep string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r) || strings.ContainsRune(keep, r) || protection.Off(protection.TerminalText):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += size
	}
	return b.String()
}

// IsTerminal reports whether somebody looks at f.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// JSON writes v for programs. A terminal finds nothing in it to obey either.
func JSON(w io.Writer, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if _, err := w.Write(escapeControls(text.Bytes())); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// escapeControls writes what is not to be printed, which can be in strings only, the way
// that JSON has for it.
func escapeControls(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == '\n' || strconv.IsPrint(r) {
			out = append(out, text[:size]...)
		} else {
			for _, half := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, "\\u%04x", half)
			}
		}
		text = text[size:]
	}
	return out
}

// Table prints rows for people; the first is the heading.
func Table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Printable(cell)
		}
		if _, err := fmt.Fprintln(t, strings.Join(cells, "\t")); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// Size shows bytes in the unit that people would use.
func Size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return strconv.FormatInt(bytes, 10) + " B"
	}
	f, prefixes := float64(bytes)/unit, "KMGT"
	for f >= unit && len(prefixes) > 1 {
		f, prefixes = f/unit, prefixes[1:]
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + prefixes[:1] + "iB"
}

// Span shows a time in one unit: 5s, 12m, 3h, 2d.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < day:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d/day)) + "d"
}
