package linux

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// packRoot packs what was changed of a sandbox's root, while it is paused.
func packRoot(t *testing.T, sb runtime.Sandbox) []byte {
	t.Helper()
	p := sb.(runtime.Pauser)
	if err := p.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	packed, err := c.Pack(t.Context(), protocol.Pack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotLayer})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func() error{packed.Close, c.Close, func() error { return p.Resume(context.WithoutCancel(t.Context())) }} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	return data
}

// What a sandbox has changed of its root is the same in another one where it is
// unpacked, and in one whose image it has become a layer of: owners, links and
// what is gone.
func TestSnapshotOfTheRoot(t *testing.T) {
	d := root(t)
	base := testenv.BaseRootfs(t)
	d.opts.Images = layers{base}
	first := create(t, d, "first", runtime.Spec{})
	if out := first(runtimetest.ChangeRoot); out != "" {
		t.Fatal(out)
	}
	want := runtimetest.SavedOfRoot(first(runtimetest.LookAtRoot))
	sb, err := d.Open(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	layer := packRoot(t, sb)

	second := create(t, d, "second", runtime.Spec{Hostname: "second"})
	sb, err = d.Open(t.Context(), "second")
	if err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	defer c.Close()
	u := protocol.Unpack{Path: "/", Format: "tar.zst", Snapshot: protocol.SnapshotLayer, AllowOutside: true}
	if _, err := c.Unpack(t.Context(), u, int64(len(layer)), bytes.NewReader(layer)); err != nil {
		t.Fatal(err)
	}
	if got := runtimetest.SavedOfRoot(second(runtimetest.LookAtRoot)); got != want {
		t.Errorf("unpacked:\n%s\nwant:\n%s", got, want)
	}
	if out := second("cat /etc/hosts"); !strings.Contains(out, "second") || strings.Contains(out, "other") {
		t.Errorf("the hosts file is not the second's: %q", out)
	}

	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := extract.Tree(t.Context(), dir, bytes.NewReader(layer), extract.Options{
		Kind: extract.Layer, Limits: extract.DefaultLimits(), Lowers: []string{base},
	}); err != nil {
		t.Fatal(err)
	}
	d.opts.Images = layers{dir, base}
	third := create(t, d, "third", runtime.Spec{})
	if got := runtimetest.SavedOfRoot(third(runtimetest.LookAtRoot)); got != want {
		t.Errorf("as an image:\n%s\nwant:\n%s", got, want)
	}
}

// L10: a root that is hostile makes no layer that reaches anything, and
// takes the runner no memory.
func TestL10_HostileRootInSnapshot(t *testing.T) {
	d := root(t)
	d.opts.Images = layers{testenv.BaseRootfs(t)}
	sh := create(t, d, "hostile", runtime.Spec{})
	sh(runtimetest.HostileRoot)
	sb, err := d.Open(t.Context(), "hostile")
	if err != nil {
		t.Fatal(err)
	}
	found, err := extract.Scan(t.Context(), bytes.NewReader(packRoot(t, sb)), extract.Options{Kind: extract.Layer, Limits: extract.DefaultLimits()})
	if err != nil || found.Entries < 3000 || found.Entries > 4000 {
		t.Errorf("%+v, %v", found, err)
	}
	memory := runnerMemory(t, sb.(*sandbox).state.Process.PID)
	if memory > 64<<20 {
		t.Errorf("the runner has %d bytes", memory)
	}
}

func runnerMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}
