package rawpath_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandkasten/sandkasten/internal/rawpath"
)

// targets are what servers may tell apart.
var targets = []string{
	"/", "/x?flag&style=a;b&import", "/a%2Fb", "/%zz", "/100%", "/100%2", "/%%41", "/a//b", "//a/b", "//a/{b}/%zz?x", "/a/../b/./c", "/%2e%2e/x",
	"/{a}|b^c`\"<d>\\e", "/ä?ö=%zz%", "/x?", "/x??a=?", "/a%20b+c?d=%20+", "/:80/@x;y=1,2", "/#a?#b", "*",
}

// read is what a server gets of a request line, in pieces of n bytes.
func read(line string, n int) (marked string, s rawpath.Scanner, err error) {
	var r rawpath.Reader
	from := io.Reader(strings.NewReader(line))
	if n == 1 {
		from = iotest.OneByteReader(from)
	}
	var out bytes.Buffer
	p := make([]byte, n)
	for {
		got, err := r.Read(from, p, s.Scan)
		out.Write(p[:got])
		if errors.Is(err, io.EOF) {
			return out.String(), s, nil
		}
		if err != nil {
			return "", s, err
		}
	}
}

// TestTargetsPass takes each target through a server's reader and a transport's writer.
func TestTargetsPass(t *testing.T) {
	for _, target := range targets {
		for _, n := range []int{1, 2, 3, 4096} {
			head := "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n%zz /%zz"
			marked, s, err := read(head, n)
			if err != nil || s.Refused() || len(marked) != len(head) || !strings.HasSuffix(marked, "\r\nHost: a\r\n\r\n%zz /%zz") {
				t.Errorf("%q in pieces of %d: %q, %v", target, n, marked, err)
				continue
			}
			in, err := http.ReadRequest(bufio.NewReader(strings.NewReader(marked)))
			if err != nil {
				t.Errorf("%q: %v", target, err)
				continue
			}
			if got := written(t, in); got != "GET "+target+" HTTP/1.1" {
				t.Errorf("%q arrives as %q", target, got)
			}
		}
	}
}

// written is the request line that a transport sends for a request.
func written(t *testing.T, in *http.Request) string {
	t.Helper()
	var line string
	ctx := t.Context()
	out := in.Clone(ctx)
	out.URL.Scheme, out.URL.Host = "http", "b"
	if !rawpath.Set(out.URL, rawpath.Of(in)) {
		ctx = rawpath.With(ctx, rawpath.Of(in))
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			from := bufio.NewReader(theirs)
			line, _ = from.ReadString('\n')
			for text := "x"; text != "" && text != "\r\n"; {
				text, _ = from.ReadString('\n')
			}
			_, _ = io.WriteString(theirs, "HTTP/1.1 204 No Content\r\n\r\n")
		}()
		return rawpath.FirstLine(ctx, ours), nil
	}}
	answer, err := transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return strings.TrimSuffix(line, "\r\n")
}

// TestOnlyPathsAreMarked leaves alone what is no path of a request line.
func TestOnlyPathsAreMarked(t *testing.T) {
	for _, text := range []string{"", "\r\n%zz", "get /%zz", "{\"a\": \"/%zz\"}", "GET http://h/%zz HTTP/1.1\r\n", "GET /?%zz HTTP/1.1\r\n/%zz"} {
		if got, _, err := read(text, 4096); got != text || err != nil {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
	if _, s, _ := read("GET /a\xffb HTTP/1.1\r\n", 4096); !s.Refused() {
		t.Error("a byte that stands for a percent sign is taken")
	}
	// The first letter was read before the connection waited for another line.
	if got, _, _ := read("ET /%zz HTTP/1.1\r\n", 4096); got != "ET /\xffzz HTTP/1.1\r\n" {
		t.Errorf("%q", got)
	}
}

func TestOf(t *testing.T) {
	for uri, want := range map[string]rawpath.Target{
		"/a?b":            {Path: "/a", Query: "?b"},
		"/a?":             {Path: "/a", Query: "?"},
		"http://h/a//b?c": {Path: "/a//b", Query: "?c"},
		"http://h":        {Path: "/"},
		"http://h?c":      {Path: "/", Query: "?c"},
		"/x://h/y":        {Path: "/x://h/y"},
	} {
		if got := rawpath.Of(&http.Request{RequestURI: uri}); got != want {
			t.Errorf("%s is %q, want %q", uri, got, want)
		}
	}
	if got := rawpath.Of(&http.Request{URL: &url.URL{Path: "/a b", RawQuery: "c"}}); got != (rawpath.Target{Path: "/a%20b", Query: "?c"}) {
		t.Errorf("without a line: %q", got)
	}
}

func TestDots(t *testing.T) {
	for path, want := range map[string]bool{"/a/../b": true, "/.": true, "/%2E%2e/": true, "/a/.%2e": true, "/a..b/...": false, "//": false, "/%zz": false} {
		if got := rawpath.HasDots(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
