package api

import (
	"fmt"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// Output collects a command's output up to a limit: the first half of the
// limit from the start, the other half from the end, and the count of what is
// missing between them. It is for one writer.
type Output struct {
	half  int
	head  []byte
	tail  []byte // at least the last half bytes after head
	taken int64
}

// NewOutput returns an Output that keeps at most limit bytes.
func NewOutput(limit int64) *Output {
	if protection.Off(protection.OutputBound) {
		limit *= 16
	}
	return &Output{half: int(limit / 2)}
}

// Write never fails and never refuses a byte.
func (o *Output) Write(p []byte) (int, error) {
	n := len(p)
	o.taken += int64(n)
	if room := o.half - len(o.head); room > 0 {
		room = min(room, len(p))
		o.head = append(o.head, p[:room]...)
		p = p[room:]
	}
	if len(p) >= o.half {
		o.tail = append(o.tail[:0], p[len(p)-o.half:]...)
		return n, nil
	}
	o.tail = append(o.tail, p...)
	// Twice the half before it is cut back: each byte is moved once at most.
	if len(o.tail) > 2*o.half {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-o.half:]...)
	}
	return n, nil
}

// Text returns what was kept and how many bytes are missing. Where they are
// missing, a line in between says so. No character is cut there, so the text
// is valid UTF-8 if the output was.
func (o *Output) Text() (text []byte, missing int64) {
	if o.taken <= int64(len(o.head)+o.half) {
		return append(o.head, o.tail...), 0
	}
	head, tail := o.head, o.tail[len(o.tail)-o.half:]
	head, tail = head[:len(head)-Unfinished(head)], tail[cutAtStart(tail):]
	missing = o.taken - int64(len(head)) - int64(len(tail))
	text = append(text, head...)
	text = fmt.Appendf(text, "\n[... %d bytes of output are left out here ...]\n", missing)
	return append(text, tail...), missing
}

// Unfinished is the length of a UTF-8 sequence at the end of b that the next
// bytes may complete.
func Unfinished(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax, len(b)); n++ {
		if !utf8.RuneStart(b[len(b)-n]) {
			continue
		}
		if utf8.FullRune(b[len(b)-n:]) {
			return 0
		}
		return n
	}
	return 0
}

// cutAtStart is the length of the rest of a UTF-8 sequence at the start of b.
func cutAtStart(b []byte) int {
	n := 0
	for n < len(b) && n < utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}
