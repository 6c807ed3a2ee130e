package runnerclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestRead(t *testing.T) {
	c, p := newClient(t, func(l *link) {
		for range 2 {
			l.expect(protocol.TypeRead)
			l.send(protocol.TypeFile, protocol.FileInfo{Name: "../../etc", Type: "file", Size: 9, Mode: 0o100644}, "hello")
		}
		l.hold()
	})
	for range 2 {
		info, r, err := c.Read(t.Context(), protocol.Read{Path: "f", MaxBytes: 5})
		if err != nil {
			t.Fatal(err)
		}
		if info.Name != "f" || info.Size != 9 || info.Mode != 0o644 {
			t.Errorf("%+v", info)
		}
		got, err := io.ReadAll(iotest.OneByteReader(r))
		if err := errors.Join(err, r.Close()); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if p.dials.Load() != 1 {
		t.Error("a file that was read to its end cost its connection")
	}
}

// What has had a connection in the sandbox gets no other request on it.
func TestLentConnection(t *testing.T) {
	lends := func(l *link) {
		l.expect(protocol.TypeRead)
		l.send(protocol.TypeLent, nil, "")
		l.send(protocol.TypeFile, protocol.FileInfo{Type: "file", Size: 5}, "hello")
		if _, err := l.r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection was used again: %v", err)
		}
	}
	refuses := func(l *link) {
		l.expect(protocol.TypeCopy)
		l.send(protocol.TypeLent, nil, "")
		l.send(protocol.TypeError, protocol.Error{Code: "not_found"}, "")
		if _, err := l.r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection was used again: %v", err)
		}
	}
	twice := func(l *link) {
		l.expect(protocol.TypeStat)
		l.send(protocol.TypeLent, nil, "")
		l.send(protocol.TypeLent, nil, "")
		l.hold()
	}
	c, p := newClient(t, lends, refuses, twice)
	_, r, err := c.Read(t.Context(), protocol.Read{Path: "f"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if err := c.Copy(t.Context(), protocol.Copy{From: "a", To: "b"}); !errdefs.Is(err, errdefs.NotFound) {
		t.Error(err)
	}
	if _, err := c.Stat(t.Context(), protocol.Stat{Path: "f"}); !errors.Is(err, runnerclient.ErrProtocol) {
		t.Errorf("lent twice: %v", err)
	}
	if n := p.dials.Load(); n != 3 {
		t.Errorf("%d dials", n)
	}
}

func TestReadCutShort(t *testing.T) {
	t.Run("by the caller", func(t *testing.T) {
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeRead)
			l.send(protocol.TypeFile, protocol.FileInfo{Type: "file", Size: 1 << 20}, strings.Repeat("x", 1<<20))
		}, func(l *link) { pingOnce(l); l.hold() })
		_, r, err := c.Read(t.Context(), protocol.Read{Path: "f"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("read after Close: %v", err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("by the runner", func(t *testing.T) {
		read := make(chan struct{})
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeRead)
			l.raw(`{"type":"file","body":{"type":"file","size":10},"bytes":10}` + "\nhello")
			<-read
		})
		_, r, err := c.Read(t.Context(), protocol.Read{Path: "f"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 5)); err != nil {
			t.Error(err)
		}
		close(read)
		if got, err := io.ReadAll(r); !errors.Is(err, runnerclient.ErrLost) || len(got) != 0 {
			t.Errorf("a half file looks whole: %q, %v", got, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("by ctx", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeRead)
			l.raw(`{"type":"file","body":{"type":"file","size":10},"bytes":10}` + "\nhello")
			cancel()
			l.hold()
		})
		_, r, err := c.Read(ctx, protocol.Read{Path: "f"})
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestHostileFiles(t *testing.T) {
	for name, answer := range map[string]string{
		"more than asked for":  `{"type":"file","body":{"type":"file","size":9},"bytes":9}` + "\nxxxxxxxxx",
		"negative size":        `{"type":"file","body":{"type":"file","size":-9},"bytes":1}` + "\nx",
		"unknown type of file": `{"type":"file","body":{"type":"black hole","size":1},"bytes":1}` + "\nx",
		"another answer":       `{"type":"ok"}` + "\n",
	} {
		c, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeRead)
			l.raw(answer)
			l.hold()
		})
		if _, _, err := c.Read(t.Context(), protocol.Read{Path: "f", MaxBytes: 5}); !errors.Is(err, runnerclient.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrite(t *testing.T) {
	content := strings.Repeat("content ", 100_000)
	c, _ := newClient(t, func(l *link) {
		h, err := l.r.Next()
		var w protocol.Write
		if err := errors.Join(err, h.Decode(&w)); err != nil || w.Path != "f" || w.Mode != 0o600 || h.Bytes != int64(len(content)) {
			t.Errorf("%+v with %d bytes, %v", w, h.Bytes, err)
		}
		got, err := io.ReadAll(l.r)
		if err != nil || string(got) != content {
			t.Errorf("received %d bytes, %v", len(got), err)
		}
		l.send(protocol.TypeOK, nil, "")
		l.expect(protocol.TypeWrite)
		l.send(protocol.TypeOK, nil, "")
		l.hold()
	})
	if err := c.Write(t.Context(), protocol.Write{Path: "f", Mode: 0o600}, int64(len(content)), strings.NewReader(content+"more")); err != nil {
		t.Error(err)
	}
	if err := c.Write(t.Context(), protocol.Write{Path: "empty"}, 0, strings.NewReader("")); err != nil {
		t.Error(err)
	}
}

func TestWriteTagged(t *testing.T) {
	for name, c := range map[string]struct {
		tag  string
		fine bool
	}{
		"strong":              {`"a-1-2-f"`, true},
		"weak":                {`W/"a"`, true},
		"a header of its own": {"\"a\"\r\nSet-Cookie: x", false},
		"no tag":              {"a", false},
	} {
		client, _ := newClient(t, func(l *link) {
			h, err := l.r.Next()
			var w protocol.Write
			if err := errors.Join(err, h.Decode(&w)); err != nil || !w.Tag || len(w.IfMatch) != 1 {
				t.Errorf("%s: %+v, %v", name, w, err)
			}
			if _, err := io.ReadAll(l.r); err != nil {
				t.Error(err)
			}
			l.send(protocol.TypeInfo, protocol.FileInfo{Name: "f", Type: "file", Size: 1, Tag: c.tag}, "")
			l.hold()
		})
		info, err := client.WriteTagged(t.Context(), protocol.Write{Path: "f", IfMatch: []string{"*"}}, 1, strings.NewReader("x"))
		if c.fine && (err != nil || info.Tag != c.tag) || !c.fine && !errors.Is(err, runnerclient.ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
}

func TestWriteOfABadSource(t *testing.T) {
	errSource := errors.New("the upload broke")
	for name, c := range map[string]struct {
		src  io.Reader
		want error
	}{
		"fails":      {io.MultiReader(strings.NewReader("some"), iotest.ErrReader(errSource)), errSource},
		"ends early": {strings.NewReader("some"), io.ErrUnexpectedEOF},
	} {
		client, _ := newClient(t, func(l *link) {
			if _, err := l.r.Next(); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadAll(l.r); err == nil {
				t.Errorf("%s: the runner saw a whole file", name)
			}
		})
		err := client.Write(t.Context(), protocol.Write{Path: "f"}, 100, c.src)
		if !errors.Is(err, c.want) || errors.Is(err, runnerclient.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWriteRefused lets the runner refuse and hang up while the file is still
// being sent. That needs a socket with buffers.
func TestWriteRefused(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			served <- err
			return
		}
		_, err = protocol.NewReader(conn, protocol.Daemon).Next()
		refusal := protocol.Error{Code: "insufficient_space", Message: "full"}
		served <- errors.Join(err, protocol.NewWriter(conn).Send(protocol.TypeError, refusal, nil), conn.Close(), l.Close())
	}()
	c := &runnerclient.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", l.Addr().String())
	}}
	err = c.Write(t.Context(), protocol.Write{Path: "f"}, 8<<20, bytes.NewReader(make([]byte, 8<<20)))
	if !errdefs.Is(err, errdefs.InsufficientSpace) {
		t.Error(err)
	}
	if err := errors.Join(<-served, c.Close()); err != nil {
		t.Error(err)
	}
}

func TestWriteOnADeadIdleConnection(t *testing.T) {
	c, p := newClient(t, pingOnce, func(l *link) {
		l.expect(protocol.TypeWrite)
		l.send(protocol.TypeOK, nil, "")
		l.hold()
	})
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.running.Wait()
	if err := c.Write(t.Context(), protocol.Write{Path: "f"}, 5, strings.NewReader("hello")); err != nil {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	entry := func(name string) protocol.FileInfo { return protocol.FileInfo{Name: name, Type: "file"} }
	many := make([]protocol.FileInfo, 11)
	for i := range many {
		many[i] = entry(fmt.Sprint(i))
	}
	for _, c := range []struct {
		name    string
		entries []protocol.FileInfo
		ok      bool
	}{
		{"two", []protocol.FileInfo{entry("a"), entry("..b")}, true},
		{"none", nil, true},
		{"more than asked for", many, false},
		{"a path", []protocol.FileInfo{entry("a/b")}, false},
		{"the parent", []protocol.FileInfo{entry("..")}, false},
		{"no name", []protocol.FileInfo{entry("")}, false},
		{"no type", []protocol.FileInfo{{Name: "a"}}, false},
	} {
		client, _ := newClient(t, func(l *link) {
			l.expect(protocol.TypeList)
			l.send(protocol.TypeEntries, protocol.Entries{Entries: c.entries, Truncated: true}, "")
			l.hold()
		})
		list, err := client.List(t.Context(), protocol.List{Path: ".", Max: 10})
		if c.ok && (err != nil || len(list.Entries) != len(c.entries) || !list.Truncated) || !c.ok && !errors.Is(err, runnerclient.ErrProtocol) {
			t.Errorf("%s: %+v, %v", c.name, list, err)
		}
	}
}
