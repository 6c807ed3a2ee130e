package show

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// Screen passes text on to a terminal with its control characters shown, as Visible
// does, but for newlines and tabs. A character may come in pieces.
type Screen struct {
	to   io.Writer
	rest []byte // the beginning of a character
}

// NewScreen returns a Screen that writes to w.
func NewScreen(w io.Writer) *Screen { return &Screen{to: w} }

func (s *Screen) Write(p []byte) (int, error) {
	text := append(s.rest, p...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	s.rest = append([]byte(nil), text[whole:]...)
	return len(p), s.show(text[:whole])
}

// Flush shows the bytes of a character that did not come to its end.
func (s *Screen) Flush() error {
	rest := s.rest
	s.rest = nil
	return s.show(rest)
}

func (s *Screen) show(text []byte) error {
	if _, err := io.WriteString(s.to, Visible(string(text), "\n\t")); err != nil {
		return fmt.Errorf("show output: %w", err)
	}
	return nil
}
