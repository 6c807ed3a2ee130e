package api

import (
	"bytes"
	"io"
)

// Plain takes terminal control sequences out of a command's output and makes
// its newlines "\n", on the way to another writer. A sequence may be cut anywhere
// between two writes.
//
//   - ESC [ ... (CSI), ESC ] ... (OSC), ESC P, X, ^, _ ... (DCS, SOS, PM, APC),
//     charset selections and all other sequences that start with ESC go away.
//   - "\r\n" becomes "\n", and so does any run of "\r" before it. A "\r" that is
//     followed by something else, as progress bars print it, becomes "\n" too:
//     every state of the bar is a line, and nothing that was printed is lost.
//   - All other bytes stay, valid UTF-8 or not.
//
// A control string that is never ended hides at most its own line. Those of kind DCS, as
// pictures, may have several: what follows the first is held until it is known whether the
// string ends, and 64 KiB at most. What such a string hides of the output is counted: the
// program may have meant it to be read.
type Plain struct {
	out   io.Writer
	state ansiState
	cr    bool   // a "\r" is held back until the next visible byte
	kind  byte   // which control string, in inString
	lines []byte // of a DCS, from the end of its first one on
	held  int64  // bytes since the last one that was decided on
	open  int64  // of a control string, behind its introducer, that nothing else shows
	lost  int64  // open of all those that were never ended
	buf   []byte // of one Write, kept for the next
}

type ansiState uint8

const (
	ground         ansiState = iota
	escape                   // after ESC
	escapeBetween            // after ESC and an intermediate byte: a charset, or DECALN
	inCSI                    // after ESC [
	inString                 // after ESC ] P X ^ _
	inStringEscape           // after an ESC in one of these
)

const (
	esc = 0x1b
	bel = 0x07
	can = 0x18 // ends any sequence
	sub = 0x1a // so does this
)

// mostLines bounds the lines of a DCS that are held.
const mostLines = 64 << 10

// NewPlain returns a Plain that writes to out.
func NewPlain(out io.Writer) *Plain { return &Plain{out: out} }

// Held is how many of the last bytes written are not decided on: the start of
// a sequence, or a "\r". To begin anew that many bytes earlier loses nothing.
func (p *Plain) Held() int64 { return p.held }

// Hidden is how many bytes control strings without an end have hidden. That of a string
// which is still open counts, too.
func (p *Plain) Hidden() int64 { return p.lost + p.open }

// Write passes on what remains of b. Its count is of b's bytes, not of those
// that are passed on.
func (p *Plain) Write(b []byte) (int, error) {
	plain := b
	if p.held > 0 || bytes.IndexByte(b, esc) >= 0 || bytes.IndexByte(b, '\r') >= 0 {
		p.strip(b)
		plain = p.buf
	}
	if len(plain) == 0 {
		return len(b), nil
	}
	if _, err := p.out.Write(plain); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush passes on what is held back when no more will come.
func (p *Plain) Flush() error {
	p.buf = p.buf[:0]
	p.giveBack()
	if p.cr {
		p.buf = append(p.buf, '\n')
	}
	p.cr, p.held = false, 0
	if len(p.buf) == 0 {
		return nil
	}
	_, err := p.out.Write(p.buf)
	return err
}

// giveBack ends a control string that has no end: it shows the lines of a DCS, and counts
// what stays hidden.
func (p *Plain) giveBack() {
	p.state = ground
	p.lost, p.open = p.lost+p.open, 0
	for _, c := range p.lines {
		p.visible(c)
	}
	p.lines = p.lines[:0]
}

// strip sets buf to what remains of b.
func (p *Plain) strip(b []byte) {
	p.buf = p.buf[:0]
	for len(b) > 0 {
		if p.held == 0 {
			n := visibleRun(b)
			p.buf = append(p.buf, b[:n]...)
			b = b[n:]
		}
		if len(b) > 0 {
			p.take(b[0])
			b = b[1:]
		}
	}
}

// visibleRun is how many bytes there are before the first "\r" or ESC.
func visibleRun(b []byte) int {
	for i, c := range b {
		if c == esc || c == '\r' {
			return i
		}
	}
	return len(b)
}

func (p *Plain) take(c byte) {
	p.held++
	p.step(c)
	if p.state == ground && !p.cr {
		p.held = 0
	}
}

func (p *Plain) step(c byte) {
	switch p.state {
	case ground:
		p.visible(c)
	case escape:
		p.afterEscape(c)
	case escapeBetween:
		switch {
		case c >= 0x20 && c <= 0x2f: // another intermediate
		case c >= 0x30 && c <= 0x7e:
			p.state = ground
		default:
			p.abort(c)
		}
	case inCSI:
		switch {
		case c >= 0x20 && c <= 0x3f: // parameters and intermediates
		case c >= 0x40 && c <= 0x7e:
			p.state = ground
		default:
			p.abort(c)
		}
	case inString:
		p.inString(c)
	case inStringEscape:
		if c == '\\' { // ST
			p.endString()
			return
		}
		p.giveBack()
		p.afterEscape(c)
	}
}

func (p *Plain) inString(c byte) {
	switch {
	case c == bel, c == can, c == sub:
		p.endString()
	case c == esc:
		p.state = inStringEscape
	case c == '\n' && p.kind != 'P':
		p.giveBack()
		p.visible(c)
	case c == '\n', len(p.lines) > 0:
		if p.lines = append(p.lines, c); len(p.lines) > mostLines {
			p.giveBack()
		}
	default:
		p.open++
	}
}

// endString takes out a control string that has its end.
func (p *Plain) endString() {
	p.state, p.lines, p.open = ground, p.lines[:0], 0
}

// afterEscape decides what a sequence is.
func (p *Plain) afterEscape(c byte) {
	switch {
	case c == '[':
		p.state = inCSI
	case c == ']', c == 'P', c == 'X', c == '^', c == '_':
		p.state, p.kind = inString, c
	case c >= 0x20 && c <= 0x2f:
		p.state = escapeBetween
	case c >= 0x30 && c <= 0x7e:
		p.state = ground
	default:
		p.abort(c)
	}
}

// abort ends a sequence at a byte that cannot be part of it.
func (p *Plain) abort(c byte) {
	p.state = ground
	if c != can && c != sub {
		p.visible(c)
	}
}

// visible takes a byte outside of any sequence.
func (p *Plain) visible(c byte) {
	switch c {
	case esc:
		p.state = escape
		return
	case '\r':
		p.cr = true
		return
	}
	if p.cr && c != '\n' {
		p.buf = append(p.buf, '\n')
	}
	p.cr = false
	p.buf = append(p.buf, c)
}
