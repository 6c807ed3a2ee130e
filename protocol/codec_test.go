package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandkasten/sandkasten/protocol"
)

func TestRoundTrip(t *testing.T) {
	var wire bytes.Buffer
	w := protocol.NewWriter(&wire)
	exec := protocol.Exec{ID: "e1", Shell: "build", CommandBytes: 4, TimeoutMS: 5, GraceMS: 6, OutputLimit: 7}
	for _, err := range []error{
		w.Send(protocol.TypePing, nil, nil),
		w.Send(protocol.TypeExec, exec, []byte("true\n\x00stdin")),
		w.SendFrom(protocol.TypeWrite, protocol.Write{Path: "a\nb"}, 100_000, strings.NewReader(strings.Repeat("x", 100_001))),
		w.Send(protocol.TypeStdin, nil, bytes.Repeat([]byte("\n"), protocol.MaxPayload)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, transport := range map[string]io.Reader{
		"whole":     bytes.NewReader(wire.Bytes()),
		"byte wise": iotest.OneByteReader(bytes.NewReader(wire.Bytes())),
		"half":      iotest.HalfReader(bytes.NewReader(wire.Bytes())),
	} {
		r := protocol.NewReader(transport, protocol.Daemon)
		next := func(want protocol.Type, body any) []byte {
			h, err := r.Next()
			if err != nil || h.Type != want {
				t.Fatalf("%s: got %q, %v; want %s", name, h.Type, err, want)
			}
			if err := h.Decode(body); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(r)
			if err != nil || int64(len(b)) != h.Bytes {
				t.Fatalf("%s: %d bytes of %d, %v", name, len(b), h.Bytes, err)
			}
			return b
		}
		var gotExec protocol.Exec
		var gotWrite protocol.Write
		next(protocol.TypePing, &struct{}{})
		if b := next(protocol.TypeExec, &gotExec); gotExec != exec || string(b) != "true\n\x00stdin" {
			t.Errorf("%s: %+v %q", name, gotExec, b)
		}
		if b := next(protocol.TypeWrite, &gotWrite); gotWrite.Path != "a\nb" || len(b) != 100_000 {
			t.Errorf("%s: %+v, %d bytes", name, gotWrite, len(b))
		}
		next(protocol.TypeStdin, &struct{}{})
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: at the end: %v, want io.EOF", name, err)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	long := `{"type":"read","body":{"path":"` + strings.Repeat("x", protocol.MaxHeader) + `"}}` + "\n"
	for _, tc := range []struct {
		name, wire string
		want       error
	}{
		{"nothing", "", io.EOF},
		{"no newline", `{"type":"ping"}`, io.ErrUnexpectedEOF},
		{"half a header", `{"typ`, io.ErrUnexpectedEOF},
		{"an empty line", "\n", protocol.ErrMalformed},
		{"not JSON", "GET / HTTP/1.1\r\n", protocol.ErrMalformed},
		{"two values", `{"type":"ping"}{"type":"ping"}` + "\n", protocol.ErrMalformed},
		{"an array", "[]\n", protocol.ErrMalformed},
		{"deep", strings.Repeat("[", 100_000) + "\n", protocol.ErrMalformed},
		{"no type", "{}\n", protocol.ErrUnexpectedType},
		{"unknown type", `{"type":"gossip"}` + "\n", protocol.ErrUnexpectedType},
		{"the other side's type", `{"type":"done"}` + "\n", protocol.ErrUnexpectedType},
		{"a type of the wrong type", `{"type":7}` + "\n", protocol.ErrMalformed},
		{"negative size", `{"type":"exec","bytes":-1}` + "\n", protocol.ErrPayloadSize},
		{"fractional size", `{"type":"exec","bytes":1.5}` + "\n", protocol.ErrMalformed},
		{"size beyond int64", `{"type":"write","bytes":9223372036854775808}` + "\n", protocol.ErrMalformed},
		{"size over the type's limit", fmt.Sprintf(`{"type":"exec","bytes":%d}`+"\n", 2*protocol.MaxCommand+1), protocol.ErrPayloadSize},
		{"a payload where none belongs", `{"type":"ping","bytes":1}` + "\nx", protocol.ErrPayloadSize},
		{"a long header", long, protocol.ErrHeaderTooLong},
		{"an endless header", strings.Repeat("x", 10*protocol.MaxHeader), protocol.ErrHeaderTooLong},
	} {
		r := protocol.NewReader(strings.NewReader(tc.wire), protocol.Daemon)
		if _, err := r.Next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestHeaderAtTheLimit(t *testing.T) {
	frame := func(n int) string {
		const start, end = `{"type":"ping","x":"`, `"}` + "\n"
		return start + strings.Repeat("x", n-len(start)-len(end)) + end
	}
	for n, want := range map[int]error{4095: nil, 4096: nil, 4097: nil, protocol.MaxHeader: nil, protocol.MaxHeader + 1: protocol.ErrHeaderTooLong} {
		r := protocol.NewReader(strings.NewReader(frame(n)+`{"type":"execs"}`+"\n"), protocol.Daemon)
		if _, err := r.Next(); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
		if want != nil {
			continue
		}
		if h, err := r.Next(); err != nil || h.Type != protocol.TypeExecs {
			t.Errorf("the frame after one of %d bytes: %v, %v", n, h.Type, err)
		}
	}
}

func TestPayloadMustBeRead(t *testing.T) {
	r := protocol.NewReader(strings.NewReader(`{"type":"stdin","bytes":10}`+"\n0123456789"+`{"type":"ping"}`+"\n"), protocol.Daemon)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, protocol.ErrPayloadUnread) {
		t.Errorf("%v, want ErrPayloadUnread", err)
	}
	if err := r.Discard(); err != nil {
		t.Fatal(err)
	}
	if h, err := r.Next(); err != nil || h.Type != protocol.TypePing {
		t.Errorf("%v, %v", h.Type, err)
	}

	r = protocol.NewReader(strings.NewReader(`{"type":"stdin","bytes":10}`+"\n0123"), protocol.Daemon)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); !errors.Is(err, io.ErrUnexpectedEOF) || string(b) != "0123" {
		t.Errorf("a cut payload: %q, %v", b, err)
	}
}

func TestDecode(t *testing.T) {
	read := func(line string) protocol.Header {
		h, err := protocol.NewReader(strings.NewReader(line+"\n"), protocol.Daemon).Next()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	var l protocol.List
	if err := read(`{"type":"list","body":{"path":"x","max":3,"later":{"field":1}}}`).Decode(&l); err != nil || l.Max != 3 {
		t.Errorf("a newer peer's field: %+v, %v", l, err)
	}
	if err := read(`{"type":"list","body":{"path":7}}`).Decode(&l); !errors.Is(err, protocol.ErrMalformed) {
		t.Errorf("a wrong type: %v", err)
	}
	if err := read(`{"type":"list"}`).Decode(&l); err != nil {
		t.Errorf("no body: %v", err)
	}
}

// writes counts the calls that reach the transport.
type writes struct{ n int }

func (w *writes) Write(p []byte) (int, error) { w.n++; return len(p), nil }

func TestWriterBatches(t *testing.T) {
	var calls writes
	w := protocol.NewWriter(&calls)
	for range 3 {
		if err := w.Put(protocol.TypeOutput, protocol.Output{}, []byte("small")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Send(protocol.TypeDone, protocol.Record{}, nil); err != nil || calls.n != 1 {
		t.Errorf("%d writes, %v; want one for all", calls.n, err)
	}
	if err := w.Flush(); err != nil || calls.n != 1 {
		t.Errorf("an empty flush wrote")
	}
}

func TestWriterRefuses(t *testing.T) {
	var wire bytes.Buffer
	w := protocol.NewWriter(&wire)
	for _, tc := range []struct {
		err, want error
	}{
		{w.Send("gossip", nil, nil), protocol.ErrUnexpectedType},
		{w.Send(protocol.TypePing, nil, []byte("x")), protocol.ErrPayloadSize},
		{w.Send(protocol.TypeOutput, nil, make([]byte, protocol.MaxPayload+1)), protocol.ErrPayloadSize},
		{w.SendFrom(protocol.TypeWrite, nil, -1, nil), protocol.ErrPayloadSize},
		{w.Send(protocol.TypeError, protocol.Error{Message: strings.Repeat("x", protocol.MaxHeader)}, nil), protocol.ErrHeaderTooLong},
	} {
		if !errors.Is(tc.err, tc.want) {
			t.Errorf("%v, want %v", tc.err, tc.want)
		}
	}
	if err := w.Send(protocol.TypePong, math.Inf(1), nil); err == nil {
		t.Error("a body that JSON cannot hold was sent")
	}
	if wire.Len() > 0 {
		t.Errorf("refused frames left %q on the wire", wire.String())
	}
	if err := w.SendFrom(protocol.TypeWrite, nil, 10, strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a source that ends early: %v", err)
	}
}

// FuzzReader feeds a reader what a hostile peer may send: it must come to an
// end, without more memory than a header's, and agree with the writer.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"type":"ping"}` + "\n"))
	f.Add([]byte(`{"type":"exec","body":{"id":"a","command_bytes":4},"bytes":4}` + "\ntrue" + `{"type":"execs"}` + "\n"))
	f.Add([]byte(`{"type":"write","bytes":9223372036854775807}` + "\n"))
	f.Add([]byte(`{"type":"data","bytes":-0}` + "\n{}\n"))
	f.Add([]byte("\n\n\x00\xff"))
	f.Add(bytes.Repeat([]byte(`[`), 5000))
	f.Fuzz(func(t *testing.T, wire []byte) {
		for _, side := range []protocol.Side{protocol.Daemon, protocol.Runner} {
			r := protocol.NewReader(bytes.NewReader(wire), side)
			for range len(wire) + 1 {
				h, err := r.Next()
				if err != nil {
					break
				}
				var body map[string]any
				if h.Decode(&body) != nil {
					body = nil
				}
				payload, err := io.ReadAll(r)
				if err != nil {
					break
				}
				if int64(len(payload)) != h.Bytes {
					t.Fatalf("%d bytes of payload, %d announced", len(payload), h.Bytes)
				}
				if err := protocol.NewWriter(io.Discard).Send(h.Type, body, payload); err != nil && !errors.Is(err, protocol.ErrHeaderTooLong) {
					t.Fatalf("what was read cannot be written: %v", err)
				}
			}
		}
	})
}
