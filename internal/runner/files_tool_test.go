package runner_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// withTool makes the test's own program the tool of a runner.
func withTool(t *testing.T) func(*runner.Options) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	must(t, err)
	t.Cleanup(func() { must(t, self.Close()) })
	return func(o *runner.Options) { o.Tool = int(self.Fd()) }
}

// fileOp sends a request with its payload and receives the answer and its.
func (p *peer) fileOp(typ protocol.Type, body any, payload []byte, want protocol.Type, answer any) ([]byte, error) {
	p.t.Helper()
	must(p.t, p.out.SendFrom(typ, body, int64(len(payload)), bytes.NewReader(payload)))
	if err := p.reply(want, answer); err != nil {
		return nil, err
	}
	return io.ReadAll(p.in)
}

// pack receives a whole archive.
func (p *peer) pack(req protocol.Pack) ([]byte, error) {
	p.t.Helper()
	must(p.t, p.out.Send(protocol.TypePack, req, nil))
	var got []byte
	for {
		h, err := p.frame()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p.in)
		if err != nil {
			return nil, err
		}
		got = append(got, b...)
		switch h.Type {
		case protocol.TypeBytes:
		case protocol.TypeOK:
			return got, nil
		default:
			var e protocol.Error
			return got, errors.Join(h.Decode(&e), &refused{e})
		}
	}
}

// A file is replaced by its tag as well by the runner itself, which small ones are, as
// by a tool, and by the two at once.
func TestReplaceByTag(t *testing.T) {
	h := newHost(t, withTool(t))
	small, big := []byte("small"), bytes.Repeat([]byte("x"), 2<<20)
	write := func(content []byte, tag string) (protocol.FileInfo, error) {
		var info protocol.FileInfo
		p := h.dial()
		_, err := p.fileOp(protocol.TypeWrite, protocol.Write{Path: "f", IfMatch: []string{tag}, Tag: true}, content, protocol.TypeInfo, &info)
		return info, err
	}
	must(t, h.dial().write(protocol.Write{Path: "f"}, big))
	info, _, err := h.dial().read(protocol.Read{Path: "f", MaxBytes: 1, Tag: true})
	must(t, err)
	for range 10 {
		var after [2]protocol.FileInfo
		var errs [2]error
		var both sync.WaitGroup
		for i, content := range [][]byte{small, big} {
			both.Go(func() { after[i], errs[i] = write(content, info.Tag) })
		}
		both.Wait()
		won, lost := 0, 1
		if errs[0] != nil {
			won, lost = 1, 0
		}
		if e, ok := errors.AsType[*refused](errs[lost]); errs[won] != nil || !ok || e.e.Code != protocol.CodePrecondition || e.e.Reason != protocol.ReasonFileChanged {
			t.Fatalf("%v and %v", errs[0], errs[1])
		}
		if after[won].Tag == info.Tag || after[won].Size != int64(len([][]byte{small, big}[won])) {
			t.Errorf("%+v became %+v", info, after[won])
		}
		info = after[won]
	}
	h.wantNoTemp()
}

// Every operation, by the runner itself and by tools, on one connection.
func TestFileOperations(t *testing.T) {
	for name, change := range map[string][]func(*runner.Options){"runner": nil, "tool": {withTool(t)}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, change...)
			p := h.dial()
			big := bytes.Repeat([]byte("0123456789abcdef\n"), 200_000)
			must(t, p.write(protocol.Write{Path: "big"}, big))
			if _, got, err := p.read(protocol.Read{Path: "big"}); err != nil || !bytes.Equal(got, big) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if _, got, err := p.read(protocol.Read{Path: "big", Offset: 17, MaxBytes: 2 << 20}); err != nil || !bytes.Equal(got, big[17:17+2<<20]) {
				t.Errorf("a part: %d bytes, %v", len(got), err)
			}
			ok := func(typ protocol.Type, body any) {
				t.Helper()
				if _, err := p.fileOp(typ, body, nil, protocol.TypeOK, nil); err != nil {
					t.Errorf("%s: %v", typ, err)
				}
			}
			ok(protocol.TypeMkdir, protocol.Mkdir{Path: "d/e/f", Parents: true})
			must(t, p.write(protocol.Write{Path: "d/e/one"}, []byte("one\n")))
			must(t, p.write(protocol.Write{Path: "d/e/one", Append: true}, []byte("two\n")))
			ok(protocol.TypeCopy, protocol.Copy{From: "d", To: "c", Recursive: true})
			ok(protocol.TypeMove, protocol.Move{From: "c/e/one", To: "c/moved"})
			ok(protocol.TypeChmod, protocol.Chmod{Path: "c", Mode: 0o750, Recursive: true})
			var info protocol.FileInfo
			if _, err := p.fileOp(protocol.TypeStat, protocol.Stat{Path: "c/moved"}, nil, protocol.TypeInfo, &info); err != nil || info.Mode != 0o750 || info.Size != 8 {
				t.Errorf("%+v, %v", info, err)
			}
			var entries protocol.Entries
			if _, err := p.fileOp(protocol.TypeGlob, protocol.Glob{Path: ".", Pattern: "**/mo*"}, nil, protocol.TypeEntries, &entries); err != nil || len(entries.Entries) != 1 || entries.Entries[0].Name != "c/moved" {
				t.Errorf("%+v, %v", entries, err)
			}
			var found protocol.Matches
			if _, err := p.fileOp(protocol.TypeGrep, protocol.Grep{Path: ".", Pattern: "^two"}, nil, protocol.TypeMatches, &found); err != nil || len(found.Matches) != 2 {
				t.Errorf("%+v, %v", found, err)
			}
			var edited protocol.Edited
			diff, err := p.fileOp(protocol.TypeEdit, protocol.Edit{Path: "c/moved", OldBytes: 3, Count: 1}, []byte("twothree"), protocol.TypeEdited, &edited)
			if err != nil || edited.Replaced != 1 || !strings.Contains(string(diff), "\n-two\n+three\n") {
				t.Errorf("%+v %s, %v", edited, diff, err)
			}
			archive, err := p.pack(protocol.Pack{Path: "c", Format: "tar.zst"})
			if err != nil || len(archive) == 0 {
				t.Errorf("%d bytes, %v", len(archive), err)
			}
			var done protocol.Unpacked
			if _, err := p.fileOp(protocol.TypeUnpack, protocol.Unpack{Path: "u/v", Format: "tar.zst"}, archive, protocol.TypeUnpacked, &done); err != nil || done.Files != 1 || done.Bytes != 10 {
				t.Errorf("%+v, %v", done, err)
			}
			if b, err := os.ReadFile(h.workspace + "/u/v/moved"); err != nil || string(b) != "one\nthree\n" {
				t.Errorf("%q, %v", b, err)
			}
			ok(protocol.TypeRemove, protocol.Remove{Path: "u", Recursive: true})
			if _, err := p.fileOp(protocol.TypeRemove, protocol.Remove{Path: "u", Recursive: true}, nil, protocol.TypeOK, nil); codeOf(err) != protocol.CodeNotFound {
				t.Error(err)
			}
			// Refused with its payload unread: the connection is still in order.
			if _, err := p.fileOp(protocol.TypeUnpack, protocol.Unpack{Path: "x", Format: "rar"}, big, protocol.TypeUnpacked, nil); codeOf(err) != protocol.CodeInvalid {
				t.Error(err)
			}
			p.next()
			h.wantNoTemp()
		})
	}
}

// A connection that the daemon closes ends what was done for it, also if the
// tool was stopped by somebody in the sandbox.
func TestToolEndsWithItsConnection(t *testing.T) {
	started := make(chan int, 2)
	h := newHost(t, withTool(t), func(o *runner.Options) {
		o.Clone = func(c *spawn.Cmd) (*spawn.Process, error) {
			p, err := c.Clone()
			if err == nil && c.ExecFD > 0 {
				started <- p.PID
			}
			return p, err
		}
	})
	p := h.dial()
	must(t, p.out.Send(protocol.TypeWatch, protocol.Watch{Path: "."}, nil))
	must(t, p.reply(protocol.TypeChange, nil))
	if len(started) != 1 {
		t.Fatalf("%d tools", len(started))
	}
	tool := <-started
	must(t, unix.Kill(tool, unix.SIGSTOP))
	p.c.Close()
	waitFor(t, func() bool { return unix.Kill(tool, 0) == unix.ESRCH })
	h.dial().next()
}

// Where no process can be started, or it is killed, the answer says so.
func TestToolFails(t *testing.T) {
	var fail error
	kill := false
	h := newHost(t, withTool(t), func(o *runner.Options) {
		o.Clone = func(c *spawn.Cmd) (*spawn.Process, error) {
			if c.ExecFD > 0 && fail != nil {
				return nil, fail
			}
			if c.ExecFD > 0 && kill {
				c.Path, c.ExecFD, c.Args = "/bin/sh", 0, []string{"sh", "-c", "kill -9 $$"}
			}
			return c.Clone()
		}
	})
	p := h.dial()
	fail = unix.EAGAIN
	if err := p.write(protocol.Write{Path: "f"}, make([]byte, 3<<20)); codeOf(err) != protocol.CodeExhausted {
		t.Error(err)
	}
	must(t, p.write(protocol.Write{Path: "f"}, []byte("small ones need none")))
	fail, kill = nil, true
	if _, err := p.fileOp(protocol.TypeCopy, protocol.Copy{From: "f", To: "g"}, nil, protocol.TypeOK, nil); codeOf(err) != protocol.CodeExhausted {
		t.Error(err)
	}
	if err := p.reply(protocol.TypeOK, nil); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want the connection closed", err)
	}
}

func TestWatches(t *testing.T) {
	h := newHost(t)
	var open []*peer
	for range 16 {
		p := h.dial()
		must(t, p.out.Send(protocol.TypeWatch, protocol.Watch{Path: "."}, nil))
		must(t, p.reply(protocol.TypeChange, nil))
		open = append(open, p)
	}
	p := h.dial()
	if _, err := p.fileOp(protocol.TypeWatch, protocol.Watch{Path: "."}, nil, protocol.TypeChange, nil); codeOf(err) != protocol.CodeExhausted {
		t.Error(err)
	}
	open[0].c.Close()
	waitFor(t, func() bool {
		_, err := p.fileOp(protocol.TypeWatch, protocol.Watch{Path: "."}, nil, protocol.TypeChange, nil)
		return err == nil
	})
	must(t, os.WriteFile(h.workspace+"/new", nil, 0o644))
	var c protocol.Change
	if err := p.reply(protocol.TypeChange, &c); err != nil || c.Op != "create" || c.Path != "new" || c.Type != "file" {
		t.Errorf("%+v, %v", c, err)
	}
}

func BenchmarkTool(b *testing.B) {
	runnerProgram := filepath.Join(b.TempDir(), "runner")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", runnerProgram, "../../cmd/runner").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	program, err := os.Open(runnerProgram)
	must(b, err)
	defer program.Close()
	h := newHost(b, func(o *runner.Options) { o.Tool = int(program.Fd()) })
	p := h.dial()
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.fileOp(protocol.TypeGlob, protocol.Glob{Path: ".", Pattern: "x"}, nil, protocol.TypeEntries, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	const size = 256 << 20
	must(b, os.WriteFile(h.workspace+"/f", bytes.Repeat([]byte{1}, size), 0o644))
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			must(b, p.out.Send(protocol.TypeRead, protocol.Read{Path: "f"}, nil))
			must(b, p.reply(protocol.TypeFile, nil))
			if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{p.in}, make([]byte, 256<<10)); err != nil || n != size {
				b.Fatal(n, err)
			}
		}
	})
	content := make([]byte, size)
	b.Run("write", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			must(b, p.write(protocol.Write{Path: "g"}, content))
		}
	})
	b.Run("cp", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if out, err := exec.CommandContext(b.Context(), "cp", "--reflink=never", h.workspace+"/f", h.workspace+"/g").CombinedOutput(); err != nil {
				b.Fatal(string(out), err)
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if _, err := p.fileOp(protocol.TypeCopy, protocol.Copy{From: "f", To: "h", Overwrite: true}, nil, protocol.TypeOK, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
