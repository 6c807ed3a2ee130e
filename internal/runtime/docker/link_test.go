package docker

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func frame(stream byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))) + text
}

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct{ in, out, rest string }{
		"none":      {"", "", ""},
		"one":       {frame(1, "hello"), "hello", ""},
		"several":   {frame(1, "hel") + frame(1, "lo"), "hello", ""},
		"of both":   {frame(1, "a") + frame(2, "err") + frame(1, "b") + frame(2, "or"), "ab", "error"},
		"empty":     {frame(1, "") + frame(2, "") + frame(1, "x"), "x", ""},
		"long":      {frame(1, strings.Repeat("x", 100_000)), strings.Repeat("x", 100_000), ""},
		"cut short": {frame(1, "hello")[:10], "he", ""},
		"no head":   {"abc", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
				var rest bytes.Buffer
				out, err := io.ReadAll(&frames{from: in, only: stdoutStream, rest: &rest})
				if err != nil && name != "no head" || string(out) != c.out || rest.String() != c.rest {
					t.Errorf("%.100q, rest %q, %v", out, rest.String(), err)
				}
			}
			// Without anybody for the rest, it is left out.
			if out, err := io.ReadAll(&frames{from: strings.NewReader(c.in), only: stdoutStream}); err != nil && name != "no head" || string(out) != c.out {
				t.Errorf("%.100q, %v", out, err)
			}
		})
	}
}

func TestLastWordsAreBounded(t *testing.T) {
	var w lastWords
	for range 100 {
		if n, err := w.Write(make([]byte, 100)); n != 100 || err != nil {
			t.Fatal(n, err)
		}
	}
	if w.text.Len() != 1<<10 {
		t.Errorf("%d bytes are kept", w.text.Len())
	}
}

func TestProgressError(t *testing.T) {
	for in, want := range map[string]string{
		"":                                    "",
		`{"status":"Importing"}`:              "",
		`{"status":"a"} {"error":"no room"} `: "no room",
		`nonsense`:                            "invalid character",
	} {
		err := progressError(strings.NewReader(in))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}
