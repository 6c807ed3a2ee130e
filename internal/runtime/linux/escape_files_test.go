package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// Files are served from inside the sandbox, so that a link leads where it
// leads there: never to the host's file of that name.
func TestEscape_LinksInFileAPI(t *testing.T) {
	escapeTest{control: variant{before: `echo ` + canaryText + ` >l`}, attack: func(b *box) {
		b.sh(`ln -s $CANARY l; ln -s / r; ln -s /proc/1/root pr; ln -s /proc/self/root sr; ln -s /proc/self/cwd/../../.. up
			ln -s . dot; ln -s r rr`)
		canary := b.target.canary
		for _, path := range []string{
			"l", "r" + canary, "pr" + canary, "sr" + canary, "up" + canary, "rr/" + canary, canary, "../../.." + canary,
			"/proc/1/root" + canary, "/proc/self/root" + canary, "/proc/1/cwd/../.." + canary, "dot/../.." + canary,
		} {
			if text, err := b.read(path); err == nil && strings.Contains(text, canaryText) {
				b.got("reads %s", path)
			}
			if b.sandbox != nil {
				b.refusesOrInside(path, b.write(path, "overwritten"))
			}
		}
	}}.run(t)
}

// refusesOrInside fails the test for an error that no client should see.
func (b *box) refusesOrInside(what string, err error) {
	b.t.Helper()
	var refusal *errdefs.Error
	if err == nil || errors.As(err, &refusal) && refusal.Code != errdefs.Internal {
		return
	}
	b.t.Errorf("%.100q: %v", what, err)
}

func (b *box) read(path string) (string, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), longTimeout)
	defer cancel()
	_, r, err := b.client.Read(ctx, protocol.Read{Path: path, MaxBytes: 1 << 16})
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}

func (b *box) write(path, text string) error {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), longTimeout)
	defer cancel()
	return b.client.Write(ctx, protocol.Write{Path: path}, int64(len(text)), strings.NewReader(text))
}

// A path whose directory is exchanged for a link all the while leads to one or
// to the other, both inside.
func TestEscape_LinkRaceInFileAPI(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	dir := b.target.canary[:strings.LastIndexByte(b.target.canary, '/')]
	b.sh(`mkdir d; (while :; do mv d d2; ln -s ` + dir + ` d; rm d; ln -s /proc/1/root` + dir + ` d; rm d; mv d2 d; done) >/dev/null 2>&1 &`)
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		text, err := b.read("d/canary")
		if strings.Contains(text, canaryText) {
			t.Fatal("the host's file was read")
		}
		b.refusesOrInside("read", err)
		b.refusesOrInside("write", b.write("d/canary", "overwritten"))
	}
	b.sh(`kill $(jobs -p)`)
	b.guard()
}

func TestEscape_PathFormsInFileAPI(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	b.sh(`ln -s / r; ln -s loop loop; mkdir dir; echo x >file`)
	for _, path := range []string{
		"", ".", "..", "/", "//", "../", "../../../../etc/shadow", "..%2f..%2fetc/shadow", "%2e%2e/x", "/./etc/../../x", "a/../../..", `..\..\x`,
		"r/", "r//", "r/../..", "file/", "file/x", "dir/", "loop", "x\x00y", "\xff\xfe", strings.Repeat("x", 300), strings.Repeat("x/", 2500),
		strings.Repeat("../", 1300) + "etc/passwd", "-rf", "$(reboot)", "a\nb", "\x1b[2J", "/dev/full", "/proc/self/mem", "/proc/kmsg",
	} {
		text, err := b.read(path)
		if strings.Contains(text, canaryText) {
			t.Errorf("%.50q discloses the host's file", path)
		}
		b.refusesOrInside(path, err)
		if path != "/proc/self/mem" {
			b.refusesOrInside(path, b.write(path, "x"))
		}
		_, err = b.client.List(t.Context(), protocol.List{Path: path, Max: 10})
		b.refusesOrInside(path, err)
	}
	b.guard()
}

// What is not a regular file is refused at once: nothing may hang on a pipe.
func TestEscape_SpecialFilesInFileAPI(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	b.sh(`mkfifo p; ln -s /dev/zero z; ln -s /dev/tty t; ln -s /dev/stdin i; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'`)
	for _, path := range []string{"p", "z", "t", "i", "s", "/dev/zero", "/dev/ptmx", "/dev/random", "/dev"} {
		start := time.Now()
		if text, err := b.read(path); err == nil {
			t.Errorf("reading %s gives %d bytes", path, len(text))
		} else {
			b.refusesOrInside(path, err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("reading %s took %s", path, took)
		}
	}
	for _, path := range []string{"p", "z", "s"} {
		start := time.Now()
		b.refusesOrInside(path, b.write(path, "x"))
		if took := time.Since(start); took > time.Second {
			t.Errorf("writing %s took %s", path, took)
		}
	}
	b.guard()
}

// A file without end is read as far as was asked for, and one that shrinks
// meanwhile ends the transfer cleanly.
func TestEscape_ShiftingFilesInFileAPI(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	b.sh(`truncate -s 15T huge; (while :; do head -c 200000 /dev/urandom >shifting; : >shifting; done) 2>/dev/null &`)
	if text, err := b.read("huge"); err != nil || len(text) != 1<<16 {
		t.Errorf("the huge file: %d bytes, %v", len(text), err)
	}
	for i := range 200 {
		if text, err := b.read("shifting"); err == nil && len(text) > 1<<16 {
			t.Fatalf("read %d: %d bytes", i, len(text))
		}
	}
	b.sh(`kill $(jobs -p)`)
	if err := b.write("after", fmt.Sprint(time.Now())); err != nil {
		t.Error(err)
	}
	b.guard()
}

// What a sandbox has on its disk does not make its end any longer.
func TestEscape_DestroyOfHugeTrees(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	var many struct{ Made int }
	b.decode(`mkdir many; $PROBE flood files 10000 many`, nil, &many)
	out := b.sh(`python3 -c '
import os
for i in range(5000):
    os.mkdir("d"); os.chdir("d")
open("\n\x1b[2J", "w"); os.mkdir("-rf"); os.symlink("/", "$(x)")
print("deep")'; chmod -R 000 many`)
	if many.Made != 10000 || out != "deep\n" {
		t.Fatalf("%d files, %q", many.Made, out)
	}
	b.guard()
	start := time.Now()
	if err := b.d.Destroy(t.Context(), attacker); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if left, err := filepath.Glob(filepath.Join(b.d.opts.DataDir, "*", "attacker*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
