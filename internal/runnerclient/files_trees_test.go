package runnerclient_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// Each simple operation sends its request and takes its answer.
func TestFileOperations(t *testing.T) {
	for name, tc := range map[string]struct {
		request protocol.Type
		answer  string
		do      func(context.Context, *runnerclient.Client) error
	}{
		"mkdir": {protocol.TypeMkdir, `{"type":"ok"}`, func(ctx context.Context, c *runnerclient.Client) error {
			return c.Mkdir(ctx, protocol.Mkdir{Path: "d"})
		}},
		"move": {protocol.TypeMove, `{"type":"ok"}`, func(ctx context.Context, c *runnerclient.Client) error {
			return c.Move(ctx, protocol.Move{From: "a", To: "b"})
		}},
		"copy": {protocol.TypeCopy, `{"type":"ok"}`, func(ctx context.Context, c *runnerclient.Client) error {
			return c.Copy(ctx, protocol.Copy{From: "a", To: "b"})
		}},
		"remove": {protocol.TypeRemove, `{"type":"ok"}`, func(ctx context.Context, c *runnerclient.Client) error {
			return c.Remove(ctx, protocol.Remove{Path: "a"})
		}},
		"chmod": {protocol.TypeChmod, `{"type":"ok"}`, func(ctx context.Context, c *runnerclient.Client) error {
			return c.Chmod(ctx, protocol.Chmod{Path: "a", Mode: 0o600})
		}},
		"stat": {protocol.TypeStat, `{"type":"info","body":{"name":"../x","type":"fifo","mode":33188,"mod_time_ms":999999999999999999}}`, func(ctx context.Context, c *runnerclient.Client) error {
			info, err := c.Stat(ctx, protocol.Stat{Path: "a"})
			if err == nil && (info.Name != "a" || info.Type != "fifo" || info.Mode != 0o644 || info.ModTimeMS > 1e15) {
				t.Errorf("%+v", info)
			}
			return err
		}},
		"glob": {protocol.TypeGlob, `{"type":"entries","body":{"entries":[{"name":"a/b","type":"file"}]}}`, func(ctx context.Context, c *runnerclient.Client) error {
			found, err := c.Glob(ctx, protocol.Glob{Path: ".", Pattern: "*", Max: 1})
			if err == nil && found.Entries[0].Name != "a/b" {
				t.Errorf("%+v", found)
			}
			return err
		}},
		"edit": {protocol.TypeEdit, `{"type":"edited","body":{"replaced":2},"bytes":4}` + "\ndiff", func(ctx context.Context, c *runnerclient.Client) error {
			edited, diff, err := c.Edit(ctx, protocol.Edit{Path: "a"}, []byte("x"), []byte("y"))
			if err == nil && (edited.Replaced != 2 || string(diff) != "diff") {
				t.Errorf("%+v %s", edited, diff)
			}
			return err
		}},
		"unpack": {protocol.TypeUnpack, `{"type":"unpacked","body":{"files":2,"bytes":3}}`, func(ctx context.Context, c *runnerclient.Client) error {
			done, err := c.Unpack(ctx, protocol.Unpack{Path: "a", Format: "tar"}, 7, strings.NewReader("archive"))
			if err == nil && (done.Files != 2 || done.Bytes != 3) {
				t.Errorf("%+v", done)
			}
			return err
		}},
	} {
		end := "\n"
		if strings.Contains(tc.answer, "bytes\":4}") {
			end = ""
		}
		answers := []string{tc.answer + end, `{"type":"error","body":{"code":"not_found","message":"gone"}}` + "\n", `{"type":"pong"}` + "\n"}
		c, _ := newClient(t, func(l *link) {
			for _, answer := range answers {
				l.expect(tc.request)
				l.raw(answer)
			}
			l.hold()
		})
		if err := tc.do(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := tc.do(t.Context(), c); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%s, refused: %v", name, err)
		}
		if err := tc.do(t.Context(), c); !errors.Is(err, runnerclient.ErrProtocol) {
			t.Errorf("%s, with another answer: %v", name, err)
		}
	}
}

func TestHostileFileAnswers(t *testing.T) {
	list := func(c *runnerclient.Client) error {
		_, err := c.List(t.Context(), protocol.List{Path: ".", Max: 2, Depth: -1})
		return err
	}
	grep := func(c *runnerclient.Client) error {
		_, err := c.Grep(t.Context(), protocol.Grep{Path: ".", Pattern: "x", Max: 1, After: 1})
		return err
	}
	watch := func(c *runnerclient.Client) error {
		w, err := c.Watch(t.Context(), protocol.Watch{Path: "."})
		if err != nil {
			return err
		}
		defer w.Close()
		_, err = w.Next()
		return err
	}
	const ready = `{"type":"change","body":{"op":"ready"}}` + "\n"
	for name, tc := range map[string]struct {
		do     func(*runnerclient.Client) error
		answer string
	}{
		"absolute path":    {list, `{"type":"entries","body":{"entries":[{"name":"/etc","type":"dir"}]}}`},
		"climbing path":    {list, `{"type":"entries","body":{"entries":[{"name":"a/../..","type":"dir"}]}}`},
		"zero byte":        {list, `{"type":"entries","body":{"entries":[{"name":"a\u0000b","type":"dir"}]}}`},
		"very long path":   {list, `{"type":"entries","body":{"entries":[{"name":"` + strings.Repeat("a", 20_000) + `","type":"dir"}]}}`},
		"negative size":    {list, `{"type":"entries","body":{"entries":[{"name":"a","type":"file","size":-1}]}}`},
		"too many matches": {grep, `{"type":"matches","body":{"matches":[{"line":1,"column":1},{"line":2,"column":1}]}}`},
		"line zero":        {grep, `{"type":"matches","body":{"matches":[{"line":0,"column":1}]}}`},
		"climbing match":   {grep, `{"type":"matches","body":{"matches":[{"path":"..","line":1,"column":1}]}}`},
		"too much context": {grep, `{"type":"matches","body":{"matches":[{"line":1,"column":1,"after":["a","b"]}]}}`},
		"not ready":        {watch, `{"type":"change","body":{"op":"create","path":"a"}}`},
		"unknown change":   {watch, ready + `{"type":"change","body":{"op":"explode","path":"a"}}`},
		"climbing change":  {watch, ready + `{"type":"change","body":{"op":"write","path":"../a"}}`},
		"rename from ..":   {watch, ready + `{"type":"change","body":{"op":"rename","path":"a","from":".."}}`},
		"change of a type": {watch, ready + `{"type":"change","body":{"op":"write","path":"a","type":"star"}}`},
		"impossible count": {func(c *runnerclient.Client) error {
			_, _, err := c.Edit(t.Context(), protocol.Edit{Path: "a"}, []byte("x"), []byte("y"))
			return err
		}, `{"type":"edited","body":{"replaced":0}}`},
		"negative files": {func(c *runnerclient.Client) error {
			_, err := c.Unpack(t.Context(), protocol.Unpack{Path: "a"}, 1, strings.NewReader("x"))
			return err
		}, `{"type":"unpacked","body":{"files":-1}}`},
		"no archive": {func(c *runnerclient.Client) error {
			_, err := c.Pack(t.Context(), protocol.Pack{Path: "a"})
			return err
		}, `{"type":"ok"}`},
	} {
		c, _ := newClient(t, func(l *link) {
			if _, err := l.r.Next(); err != nil {
				t.Error(err)
			}
			if err := l.r.Discard(); err != nil {
				t.Error(err)
			}
			l.raw(tc.answer + "\n")
			l.hold()
		})
		if name == "no archive" { // a whole answer: the connection is kept
			if err := tc.do(c); !errors.Is(err, runnerclient.ErrProtocol) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err := tc.do(c); !errors.Is(err, runnerclient.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPack(t *testing.T) {
	c, p := newClient(t, func(l *link) {
		l.expect(protocol.TypePack)
		l.send(protocol.TypeBytes, nil, "one ")
		l.send(protocol.TypeBytes, nil, "")
		l.send(protocol.TypeBytes, nil, "two")
		l.send(protocol.TypeOK, nil, "")
		l.expect(protocol.TypePack)
		l.send(protocol.TypeBytes, nil, "half")
		l.send(protocol.TypeError, protocol.Error{Code: "unavailable", Message: "it shrank"}, "")
		l.expect(protocol.TypePack)
		l.send(protocol.TypeError, protocol.Error{Code: "not_found", Message: "nothing"}, "")
		l.expect(protocol.TypePack)
		l.send(protocol.TypeBytes, nil, "cut")
	})
	pack := func() (string, error) {
		r, err := c.Pack(t.Context(), protocol.Pack{Path: ".", Format: "tar"})
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(r)
		return string(b), errors.Join(err, r.Close())
	}
	if got, err := pack(); got != "one two" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := pack(); got != "half" || !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := pack(); !errdefs.Is(err, errdefs.NotFound) {
		t.Error(err)
	}
	// A pipe whose other end is closed may refuse a deadline before its last bytes are read.
	if got, err := pack(); !errors.Is(err, runnerclient.ErrLost) {
		t.Errorf("%q, %v", got, err)
	}
	if p.dials.Load() != 1 {
		t.Errorf("%d dials", p.dials.Load())
	}
}

func TestWatching(t *testing.T) {
	c, _ := newClient(t, func(l *link) {
		l.expect(protocol.TypeWatch)
		l.send(protocol.TypeChange, protocol.Change{Op: "ready"}, "")
		l.send(protocol.TypeChange, protocol.Change{Op: "rename", Path: "b", From: "a", Type: "file"}, "")
		l.send(protocol.TypeChange, protocol.Change{Op: "overflow", Path: "../x"}, "")
		l.hold()
	}, func(l *link) {
		l.expect(protocol.TypeWatch)
		l.send(protocol.TypeError, protocol.Error{Code: "resource_exhausted", Message: "too many"}, "")
		l.hold()
	})
	w, err := c.Watch(t.Context(), protocol.Watch{Path: "."})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []protocol.Change{{Op: "rename", Path: "b", From: "a", Type: "file"}, {Op: "overflow"}} {
		if got, err := w.Next(); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := w.Next()
		ended <- err
	}()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a change after Close")
	}
	if _, err := c.Watch(t.Context(), protocol.Watch{Path: "."}); !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Error(err)
	}
}
