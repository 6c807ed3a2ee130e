// Package rawpath carries the path and query of a request through a proxy byte for byte.
// net/url refuses a path like /50%off, writes others anew ({a} becomes %7Ba%7D), and cannot
// say what begins with //; a server behind the proxy may tell all of these apart.
//
// A proxy does three things: Scanner has net/http accept the request, Of tells what the
// client wrote, and Set, with FirstLine where it has to, has a transport write that.
package rawpath

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// mark stands for a percent sign that begins no escape. It is in no text of UTF-8, and a
// request that has it already is refused.
const mark = '\xff'

// Target is what a request line names: path, and query with its question mark.
type Target struct{ Path, Query string }

// Of is the target of a request as its client wrote it. What is before the path, in a
// target that is a whole address, is left out.
func Of(r *http.Request) Target {
	whole := r.RequestURI
	if whole == "" { // a request that came over no connection
		whole = r.URL.RequestURI()
	}
	if _, rest, ok := strings.Cut(whole, "://"); ok && !strings.HasPrefix(whole, "/") {
		whole = behindHost(rest)
	}
	path, query, has := strings.Cut(whole, "?")
	if has {
		query = "?" + query
	}
	return Target{Path: strings.ReplaceAll(path, string([]byte{mark}), "%"), Query: query}
}

// behindHost is what follows the host in an address without its scheme.
func behindHost(address string) string {
	end := strings.IndexAny(address, "/?")
	switch {
	case end < 0:
		return "/"
	case address[end] == '?':
		return "/" + address[end:]
	}
	return address[end:]
}

// Plain is a path without its escapes. What is no escape stays.
func Plain(path string) string {
	var plain strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) {
			text, _ := url.PathUnescape(path[i : i+3])
			plain.WriteString(text)
			i += 2
			continue
		}
		plain.WriteByte(path[i])
	}
	return plain.String()
}

// HasDots reports whether a path has a segment that leads elsewhere for those who follow it.
func HasDots(path string) bool {
	for segment := range strings.SplitSeq(Plain(path), "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// Set has a request to u name a target. It reports whether that is all: if not, the
// connection must be one of FirstLine, of this request alone.
func Set(u *url.URL, t Target) (whole bool) {
	u.Opaque, u.Path, u.RawPath = "", Plain(t.Path), t.Path
	u.RawQuery, u.ForceQuery = strings.TrimPrefix(t.Query, "?"), t.Query == "?"
	if u.EscapedPath() == t.Path {
		return true
	}
	if strings.HasPrefix(t.Path, "//") { // which net/url takes for a host
		return false
	}
	u.Opaque = t.Path
	return true
}

type targetKey struct{}

// With has the connection of a request be one of FirstLine.
func With(ctx context.Context, t Target) context.Context {
	return context.WithValue(ctx, targetKey{}, t)
}

// FirstLine returns conn, or, if ctx is of With, one that puts the target there into the
// first line that is written.
func FirstLine(ctx context.Context, conn net.Conn) net.Conn {
	t, ok := ctx.Value(targetKey{}).(Target)
	if !ok {
		return conn
	}
	return &firstLine{Conn: conn, target: t.Path + t.Query}
}

// firstLine is a connection whose first line is changed.
type firstLine struct {
	net.Conn
	target  string
	written bool
	held    []byte // of the line, until it is whole
}

// Write changes the line when it is whole.
func (f *firstLine) Write(p []byte) (int, error) {
	if f.written {
		return f.Conn.Write(p)
	}
	f.held = append(f.held, p...)
	line, rest, whole := bytes.Cut(f.held, []byte("\r\n"))
	if !whole {
		return len(p), nil
	}
	f.written = true
	parts := strings.Split(string(line), " ")
	if len(parts) == 3 {
		parts[1] = f.target
	}
	if _, err := f.Conn.Write(append([]byte(strings.Join(parts, " ")+"\r\n"), rest...)); err != nil {
		return 0, err
	}
	f.held = nil
	return len(p), nil
}

// Scanner marks percent signs that begin no escape in the path of a request line, as its
// bytes come, so that net/http takes the request. The zero value waits for the beginning of
// a line. Of a request that was sent ahead of the answer to the one before, it may take what
// the server has not read ahead for one, if that begins like "POST /".
type Scanner struct {
	at      place
	refused bool
}

type place uint8

const (
	inMethod place = iota // its first letter may have been read ahead
	atPath
	inPath
	after
)

// Next has the line of another request scanned.
func (s *Scanner) Next() { *s = Scanner{} }

// Refused reports whether a line had a byte that marks would be taken for.
func (s *Scanner) Refused() bool { return s.refused }

// Scan marks bytes of p, which ahead follows, and is the end of all if last is set. Where it
// needs to know more bytes first it returns how many, and is called again with p from done on.
func (s *Scanner) Scan(p, ahead []byte, last bool) (done, need int) {
	for i := 0; i < len(p) && s.at != after; i++ {
		switch c := p[i]; s.at {
		case inMethod:
			s.at = method(c)
		case atPath:
			if s.at = after; c == '/' {
				s.at = inPath
			}
		case inPath:
			switch c {
			case mark:
				s.refused = true
			case ' ', '?', '\r', '\n':
				s.at = after
			case '%':
				next := append(bytes.Clone(p[i+1:min(len(p), i+3)]), ahead...)
				switch {
				case len(next) > 0 && !isHex(next[0]), len(next) > 1 && !isHex(next[1]), len(next) < 2 && last:
					p[i] = mark
				case len(next) < 2:
					return i, 2 - len(next)
				}
			}
		}
	}
	return len(p), 0
}

// method is where the line goes on behind a byte of its method.
func method(c byte) place {
	switch {
	case c == ' ':
		return atPath
	case c >= 'A' && c <= 'Z', c == '-':
		return inMethod
	}
	return after
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// Reader reads a connection for a Scanner.
type Reader struct {
	ahead []byte // read to know what a byte before it is
}

// Read reads from a connection. scan is Scan of a Scanner, which it guards. An error is left
// for the next Read where there are bytes before it.
func (r *Reader) Read(from io.Reader, p []byte, scan func(p, ahead []byte, last bool) (done, need int)) (n int, err error) {
	if n = copy(p, r.ahead); n > 0 {
		r.ahead = r.ahead[n:]
	} else if n, err = from.Read(p); n == 0 {
		return n, err
	}
	for at := 0; ; {
		done, need := scan(p[at:n], r.ahead, err != nil)
		if need == 0 {
			return n, nil
		}
		at += done
		more := make([]byte, need)
		var got int
		if got, err = from.Read(more); got == 0 && err == nil {
			err = io.ErrNoProgress
		}
		r.ahead = append(r.ahead, more[:got]...)
	}
}
