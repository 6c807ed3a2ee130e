package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/protocol"
)

// forkBoxes makes forks that are destroyed when the test ends.
func forkBoxes(t *testing.T, d *Driver, from runtime.ID, spec runtime.Spec, ids ...runtime.ID) []*box {
	t.Helper()
	var branches []runtime.Branch
	for _, id := range ids {
		branches = append(branches, runtime.Branch{ID: id, Hostname: string(id)})
	}
	made, err := d.Fork(t.Context(), from, branches, spec)
	if err != nil {
		t.Fatalf("Fork: %v", err)
	}
	var boxes []*box
	for _, sandbox := range made.Sandboxes {
		x := use(d, sandbox)
		t.Cleanup(func() {
			if err := x.destroy(); err != nil {
				t.Errorf("Destroy at the end: %v", err)
			}
		})
		boxes = append(boxes, x)
	}
	return boxes
}

// forkImages counts the images that forks are made of.
func forkImages(t *testing.T, d *Driver) int {
	t.Helper()
	all, err := d.engine.ImageList(t.Context(), client.ImageListOptions{All: true, Filters: d.own(labelFork)})
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Items)
}

// testForks: what a fork has on an engine and what it has not; its image goes
// with the last that is made of it, whichever that is.
func testForks(t *testing.T, d *Driver) {
	secret := func(s *runtime.Spec) { s.Env = map[string]string{"TOKEN": "secret"} }
	source := newBox(t, d, "source", secret)
	source.run(t, `echo 0123456789abcdef0123456789abcdef > /etc/machine-id; echo root > /opt/root; rm /etc/issue; chown 5:6 /workspace; chmod 1770 /workspace; cd /workspace
		echo mine > file; chown 7:8 file; chmod 640 file; ln -s file link; mkdir d; chmod 2750 d; truncate -s 1G holes`)
	spec := testSpec()
	spec.Env = map[string]string{}
	forks := forkBoxes(t, d, source.ID(), spec, "one", "two", "three")
	ids := map[string]bool{source.run(t, "cat /etc/machine-id"): true}
	for _, x := range forks {
		const look = "stat -c '%n %F %a %u %g %s' /workspace /workspace/*; cat /opt/root /workspace/link; test ! -e /etc/issue && du -sm /workspace | cut -f1"
		if got, want := x.run(t, look), source.run(t, look); got != want {
			t.Errorf("%s has\n%s\nwant\n%s", x.ID(), got, want)
		}
		if got, want := x.run(t, "hostname; cat /etc/hostname; echo $TOKEN"), string(x.ID()); got != want+"\n"+want+"\n" {
			t.Errorf("%s: %q", x.ID(), got)
		}
		ids[x.run(t, "cat /etc/machine-id")] = true
		got, err := d.inspect(t.Context(), x.ID())
		if err != nil {
			t.Fatal(err)
		}
		want := testSpec()
		want.Hostname = string(x.ID())
		checkHardened(t, d, want, got.Config, got.HostConfig)
		image, err := d.engine.ImageInspect(t.Context(), got.Config.Image)
		if err != nil || strings.Contains(strings.Join(image.Config.Env, " "), "secret") {
			t.Errorf("the image of the forks: %+v, %v", image.Config, err)
		}
	}
	if len(ids) != 4 {
		t.Errorf("machine ids: %v", ids)
	}
	child := forkBoxes(t, d, "two", spec, "child")[0]
	if got := child.run(t, "cat /opt/root link"); got != "root\nmine" {
		t.Errorf("a fork of a fork: %q", got)
	}
	for i, x := range []*box{source, forks[0], forks[2], forks[1]} {
		if n := forkImages(t, d); n != 2 {
			t.Errorf("%d images when %d were destroyed", n, i)
		}
		if err := x.destroy(); err != nil {
			t.Fatal(err)
		}
	}
	if got := child.run(t, "cat /opt/root"); got != "root" {
		t.Errorf("what is left says %q", got)
	}
	if err := child.destroy(); err != nil {
		t.Fatal(err)
	}
	if n := forkImages(t, d); n != 0 {
		t.Errorf("%d images without a fork", n)
	}
}

// testForkShares: of a workspace that outlives its sandbox a fork has no copy.
func testForkShares(t *testing.T, d *Driver) {
	if err := d.CreateWorkspace(t.Context(), "shared", 64); err != nil {
		t.Fatal(err)
	}
	spec := testSpec()
	spec.Workspace = "shared"
	source := newBox(t, d, "source", func(s *runtime.Spec) { s.Workspace = "shared" })
	fork := forkBoxes(t, d, source.ID(), spec, "fork")[0]
	fork.run(t, "echo x > /workspace/file")
	if got := source.run(t, "cat /workspace/file"); got != "x" {
		t.Errorf("%q", got)
	}
	if err := errors.Join(fork.destroy(), source.destroy(), d.DestroyWorkspace(t.Context(), "shared")); err != nil {
		t.Error(err)
	}
}

// testForkFails: a workspace that cannot be copied makes no fork, and leaves the
// source as it was.
func testForkFails(t *testing.T, d *Driver) {
	source := newBox(t, d, "source")
	source.run(t, "d=/workspace; for i in $(seq 140); do mkdir $d/d; d=$d/d; done") // deeper than an archive may be
	_, err := d.Fork(t.Context(), source.ID(), []runtime.Branch{{ID: "one"}, {ID: "two"}}, testSpec())
	if err == nil || !strings.Contains(err.Error(), "directories deep") {
		t.Errorf("%v", err)
	}
	if left := listed(t, d); len(left) != 1 || forkImages(t, d) != 0 {
		t.Errorf("left: %q", left)
	}
	if paused, err := source.Sandbox.(runtime.Pauser).Paused(); err != nil || paused {
		t.Errorf("paused %v, %v", paused, err)
	}
	if _, err := d.Fork(t.Context(), "no-such", []runtime.Branch{{ID: "one"}}, testSpec()); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("%v", err)
	}
}

// testClaimEnv: what a sandbox was claimed with goes with it, and a fork has it.
func testClaimEnv(t *testing.T, d *Driver) {
	newBox(t, d, "ready")
	spec := testSpec()
	spec.Env = map[string]string{"GREETING": "hi"}
	sandbox, err := d.Claim(t.Context(), "ready", "claimed", spec)
	if err != nil {
		t.Fatal(err)
	}
	x := use(d, sandbox)
	spec.Env = nil
	fork := forkBoxes(t, d, "claimed", spec, "fork")[0]
	if got := fork.run(t, "echo $GREETING"); got != "hi" {
		t.Errorf("a fork: %q", got)
	}
	if err := errors.Join(fork.destroy(), x.destroy()); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, d)
	// One that was removed behind our back leaves it to Sweep.
	if err := errors.Join(d.keepEnv(t.Context(), "lost", map[string]string{"A": "b"}), d.Sweep(t.Context())); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, d)
}

// testHostileRoot is H10 and T04: a root that is hostile makes no layer that
// reaches anything, and takes the runner no memory.
func testHostileRoot(t *testing.T, d *Driver) {
	x := newBox(t, d, "hostile")
	x.run(t, runtimetest.HostileRoot)
	memory := func() int64 {
		t.Helper()
		var kb int64
		for line := range strings.Lines(inEngine(t, d, x.ID(), "cat", "/proc/1/status")) {
			if n, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				for _, digit := range strings.Fields(n)[0] {
					kb = kb*10 + int64(digit-'0')
				}
			}
		}
		return kb << 10
	}
	packed, err := x.client.Pack(context.WithoutCancel(t.Context()), protocol.Pack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotLayer})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	found, err := extract.Scan(t.Context(), bytes.NewReader(data), extract.Options{Kind: extract.Layer, Limits: extract.DefaultLimits()})
	if err != nil || found.Entries < 3000 || found.Entries > 4000 {
		t.Errorf("%+v, %v", found, err)
	}
	if n := memory(); n == 0 || n > 64<<20 {
		t.Errorf("the runner has %d bytes", n)
	}
}
