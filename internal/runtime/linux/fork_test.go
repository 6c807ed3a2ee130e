package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// fork makes forks that are destroyed at the test's end.
func fork(t *testing.T, d *Driver, from runtime.ID, spec runtime.Spec, ids ...runtime.ID) runtime.Forks {
	t.Helper()
	spec.Image = "test"
	branches := make([]runtime.Branch, len(ids))
	for i, id := range ids {
		branches[i] = runtime.Branch{ID: id, Hostname: spec.Hostname}
	}
	made, err := d.Fork(t.Context(), from, branches, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, id := range ids {
			if err := d.Destroy(context.WithoutCancel(t.Context()), id); err != nil {
				t.Error(err)
			}
		}
	})
	return made
}

// A fork has the root as it was changed, owners included, and names of its own.
func TestForkOfARoot(t *testing.T) {
	d := root(t)
	sh := create(t, d, "a", runtime.Spec{Hostname: "first"})
	sh("rm -rf /usr/share/doc; mkdir /srv/new; chown 33:33 /srv/new; echo x > /tmp/x; echo y > /workspace/y; echo 11111111111111111111111111111111 > /etc/machine-id; cp /etc/machine-id /etc/other")
	made := fork(t, d, "a", runtime.Spec{Hostname: "second"}, "b", "c")
	seen := map[string]bool{"11111111111111111111111111111111": true}
	for _, b := range made.Sandboxes {
		got := command(t, b, "ls /usr/share/doc 2>&1 | grep -c No; stat -c %u:%g /srv/new / /workspace; cat /tmp/x y; hostname; cat /etc/hostname; grep -c first /etc/hosts")
		if got != "1\n33:33\n0:0\n0:0\nx\ny\nsecond\nsecond\n0\n" {
			t.Errorf("in the fork: %q", got)
		}
		id := strings.TrimSpace(command(t, b, "cat /etc/machine-id"))
		if seen[id] || len(id) != 32 {
			t.Errorf("machine-id %q", id)
		}
		seen[id] = true
	}
	if got := sh("hostname; cat /etc/hostname; cmp /etc/machine-id /etc/other"); got != "first\nfirst\n" {
		t.Errorf("in the source: %q", got)
	}
	a, err := d.readState("a")
	b, err2 := d.readState("b")
	if err := errors.Join(err, err2); err != nil || a.IDs == b.IDs {
		t.Errorf("ids %v and %v, %v", a.IDs, b.IDs, err)
	}
}

// What a hostile source makes of the files that are written in its forks.
func TestForkOfHostileNames(t *testing.T) {
	d := root(t)
	sh := create(t, d, "a", runtime.Spec{})
	sh("cd /etc; rm hosts hostname machine-id; mkfifo hosts; ln -s /workspace/target hostname; mkdir machine-id; echo untouched > /workspace/target")
	made := fork(t, d, "a", runtime.Spec{Hostname: "h"}, "b")
	if got := command(t, made.Sandboxes[0], "hostname; cat /workspace/target; test -p /etc/hosts && test -d /etc/machine-id && echo same"); got != "h\nuntouched\nsame\n" {
		t.Errorf("got %q", got)
	}
	sh("rm -rf /etc")
	fork(t, d, "a", runtime.Spec{Hostname: "h"}, "c")
}

func TestForkOfAReadonlyRoot(t *testing.T) {
	d := root(t)
	create(t, d, "a", runtime.Spec{ReadonlyRoot: true})("echo x > /workspace/f")
	made := fork(t, d, "a", runtime.Spec{Hostname: "h"}, "b")
	if got := command(t, made.Sandboxes[0], "hostname; cat f; touch /etc/x 2>&1 | grep -c Read-only"); got != "h\nx\n1\n" {
		t.Errorf("got %q", got)
	}
}

// The workspace that outlives sandboxes is shared; what else was written is not.
func TestForkWithAWorkspace(t *testing.T) {
	d := root(t)
	makeWorkspace(t, d, "w")
	sh := create(t, d, "a", runtime.Spec{Workspace: "w"})
	sh("echo 1 > shared; echo 1 > /etc/own")
	both := fork(t, d, "a", runtime.Spec{Workspace: "w"}, "b").Sandboxes[0]
	sh("echo 2 > shared; echo 2 > /etc/own")
	if got := command(t, both, "cat shared /etc/own; chown 5:5 shared"); got != "2\n1\n" {
		t.Errorf("got %q", got)
	}
	if got := sh("stat -c %u shared"); got != "5\n" {
		t.Errorf("its owner is %q", got)
	}
	alone := fork(t, d, "a", runtime.Spec{}, "c").Sandboxes[0]
	if got := command(t, alone, "ls; cat /etc/own"); got != "2\n" {
		t.Errorf("with a workspace of its own: %q", got)
	}
}

// In a pool forks share what they have not changed.
func TestForksInAPoolShare(t *testing.T) {
	d := pooled(t)
	sh := create(t, d, "a", runtime.Spec{Limits: runtime.Limits{DiskMB: 256}})
	sh("head -c 64000000 /dev/urandom > big; sha256sum big > sum; sync")
	used := func() int64 {
		t.Helper()
		var st unix.Statfs_t
		if err := unix.Statfs(d.pool.Path("."), &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Blocks-st.Bfree) * st.Bsize
	}
	before := used()
	ids := make([]runtime.ID, 8)
	for i := range ids {
		ids[i] = runtime.ID(fmt.Sprint("b", i))
	}
	made := fork(t, d, "a", runtime.Spec{Limits: runtime.Limits{DiskMB: 256}}, ids...)
	if grown := used() - before; made.Copied || grown > 64_000_000 {
		t.Errorf("copied %v; 8 forks take %d bytes", made.Copied, grown)
	}
	if got := command(t, made.Sandboxes[7], "sha256sum -c sum"); got != "big: OK\n" {
		t.Errorf("got %q", got)
	}
}

// Disks made with and without a pool are usable at once, and by a daemon that
// has the other setting.
func TestDisksInsideAndOutsideOfAPool(t *testing.T) {
	d := pooled(t)
	create(t, d, "in", runtime.Spec{})("echo in > f")
	opts := d.opts
	opts.PoolMB = 0
	out, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	}()
	create(t, out, "out", runtime.Spec{})("echo out > f")
	for from, other := range map[runtime.ID]*Driver{"in": out, "out": d} {
		made := fork(t, other, from, runtime.Spec{}, "fork-of-"+from)
		if got := command(t, made.Sandboxes[0], "cat f"); got != string(from)+"\n" || !made.Copied {
			t.Errorf("%s forked across: %q, copied %v", from, got, made.Copied)
		}
		if err := other.Stop(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		started, err := other.Start(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		if got := command(t, started, "cat f"); got != string(from)+"\n" {
			t.Errorf("%s started again: %q", from, got)
		}
	}
	if link, err := os.Readlink(filepath.Join(d.dir("in"), diskFile)); err != nil || filepath.Base(link) != "in.img" {
		t.Errorf("the disk in the pool is named by %q, %v", link, err)
	}
}

// Whoever wants another size or image is told so.
func TestForkRefusals(t *testing.T) {
	d := root(t)
	create(t, d, "a", runtime.Spec{})
	for field, spec := range map[string]runtime.Spec{
		"disk_limit_mb": {Image: "test", Limits: runtime.Limits{DiskMB: 64}},
		"image":         {Image: "another"},
	} {
		_, err := d.Fork(t.Context(), "a", []runtime.Branch{{ID: "b"}}, spec)
		if e, ok := errors.AsType[*errdefs.Error](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Files are counted too.
func TestStatsOfFiles(t *testing.T) {
	d := root(t)
	sh := create(t, d, "a", runtime.Spec{Limits: runtime.Limits{DiskMB: 64}})
	sb, err := d.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	files := func() int64 {
		t.Helper()
		st, err := sb.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.FilesLimit < 64<<20/16384 || st.FilesLimit > 64<<20/4096 {
			t.Errorf("limit %d", st.FilesLimit)
		}
		return st.Files
	}
	before := files()
	sh("cd /workspace; for i in $(seq 100); do : > f$i; done; mkdir /root/d")
	if got := files() - before; got < 101 || got > 110 {
		t.Errorf("101 files more count as %d", got)
	}
}

// Forks are refused before they take what is kept free, those included that
// come after the first.
func TestForkRoom(t *testing.T) {
	d := &Driver{opts: Options{DataDir: t.TempDir()}}
	f := &forking{d: d, claimed: []runtime.ID{"a", "b", "c"}}
	left, err := d.diskSpace()
	if err != nil {
		t.Fatal(err)
	}
	const huge = 1 << 30 // that others may use or free meanwhile
	for _, c := range []struct {
		name         string
		made         int
		bytes        int64
		reserveMB    int64
		insufficient bool
	}{
		{"little", 0, 1, 0, false},
		{"too much for one", 2, left + huge, 0, true},
		{"too much for all", 0, (left + huge) / 3, 0, true},
		{"nothing but the reserve", 2, 1, (left + huge) >> 20, true},
	} {
		d.opts.ReserveMB = c.reserveMB
		if err := f.room(c.made)(c.bytes); errdefs.Is(err, errdefs.InsufficientSpace) != c.insufficient || !c.insufficient && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	d.opts.DataDir += "/missing"
	if err := f.room(0)(0); err == nil {
		t.Error("room where there is no directory")
	}
}

// A pool that is full refuses forks, and harms nothing that is in it.
func TestForksInAFullPool(t *testing.T) {
	d := pooled(t)
	// The forks want more than the spare room, and the source has enough of it.
	const reserve, spare, forks = 512 << 20, 60 << 20, 80
	d.opts.ReserveMB = reserve >> 20
	sh := create(t, d, "a", runtime.Spec{})
	sh("echo before > f; sync")
	var fs unix.Statfs_t
	if err := unix.Statfs(d.PoolDir(), &fs); err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(d.pool.Path("filler"))
	if err != nil {
		t.Fatal(err)
	}
	free := int64(fs.Bavail) * fs.Bsize
	if err := errors.Join(unix.Fallocate(int(filler.Fd()), 0, 0, free-reserve-spare), filler.Close()); err != nil {
		t.Fatal(err)
	}
	branches := make([]runtime.Branch, forks)
	for i := range branches {
		branches[i].ID = runtime.ID(fmt.Sprint("b", i))
	}
	_, err = d.Fork(t.Context(), "a", branches, runtime.Spec{Image: "test"})
	if !errdefs.Is(err, errdefs.InsufficientSpace) {
		t.Errorf("with a full pool: %v", err)
	}
	for s, err := range d.List(t.Context()) {
		if err != nil || s.ID != "a" {
			t.Errorf("left: %+v, %v", s, err)
		}
	}
	if out := sh("cat f; head -c 20000000 /dev/zero > g && sync && echo after"); out != "before\nafter\n" {
		t.Errorf("the source has %q", out)
	}
	if err := os.Truncate(d.pool.Path("filler"), 0); err != nil { // which frees at once, as a removal does not
		t.Fatal(err)
	}
	if made := fork(t, d, "a", runtime.Spec{}, "b"); command(t, made.Sandboxes[0], "cat f") != "before\n" {
		t.Error("the fork has not its source's file")
	}
}
