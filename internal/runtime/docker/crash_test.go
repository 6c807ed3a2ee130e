package docker

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// testCrash: a daemon that dies at any step leaves nothing that the next one
// does not find and remove.
func testCrash(t *testing.T, d *Driver) {
	for _, c := range []struct{ what, point, left string }{
		{"create", "docker.program.created", ""},
		{"create", "docker.create.created", "crashed"},
		{"create", "docker.create.started", "crashed"},
		{"create", "docker.create.ready", "crashed"},
		{"claim", "docker.claim.renamed", "crashed"},
		{"claim", "docker.claim.limited", "crashed"},
		{"claim", "docker.claim.settled", "crashed"},
		{"fork", "docker.fork.still", "source"},
		{"fork", "docker.fork.committed", "source"},
		{"fork", "docker.fork.created", "crashed source"},
		{"fork", "docker.fork.copied", "crashed other source"},
		{"fork", "docker.fork.ready", "crashed other source"},
	} {
		t.Run(c.point, func(t *testing.T) {
			if c.point == "docker.program.created" { // which is passed only when there is none
				if _, err := d.engine.VolumeRemove(t.Context(), d.programVolume(), client.VolumeRemoveOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			crash(t, d, c.what, c.point)
			again := open(t, d.opts)
			if err := again.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			left := listed(t, again)
			if want := strings.Fields(c.left); !slices.Equal(left, want) {
				t.Errorf("List: %q, want %q", left, want)
			}
			if slices.Contains(left, "source") { // which may stand still
				sandbox, err := again.Open(t.Context(), "source")
				if err != nil {
					t.Fatal(err)
				}
				x := use(again, sandbox)
				if err := sandbox.(runtime.Pauser).Resume(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := x.run(t, "echo fine"); got != "fine" {
					t.Errorf("of the source: %q", got)
				}
				if err := x.client.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, id := range append(left, left...) { // a second time changes nothing
				if err := again.Destroy(t.Context(), runtime.ID(id)); err != nil {
					t.Fatal(err)
				}
			}
			nothingLeft(t, d)
			if got := newBox(t, again, "crashed").run(t, "echo fine"); got != "fine" {
				t.Errorf("with its name: %q", got)
			}
		})
	}
}

// listed are the sandboxes that a driver sees, sorted.
func listed(t *testing.T, d *Driver) []string {
	t.Helper()
	var ids []string
	for s, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(s.ID))
	}
	slices.Sort(ids)
	return ids
}

// nothingLeft: of sandboxes, in the engine.
func nothingLeft(t *testing.T, d *Driver) {
	t.Helper()
	containers, err := d.engine.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil || len(containers.Items) > 0 {
		t.Errorf("containers are left: %+v, %v", containers.Items, err)
	}
	volumes, err := d.engine.VolumeList(t.Context(), client.VolumeListOptions{})
	if err != nil {
		t.Error(err)
	}
	for _, v := range volumes.Items {
		if v.Name != d.programVolume() {
			t.Errorf("a volume is left: %+v", v)
		}
	}
	images, err := d.engine.ImageList(t.Context(), client.ImageListOptions{All: true})
	if err != nil {
		t.Error(err)
	}
	for _, i := range images.Items {
		if i.Labels[labelFork] != "" {
			t.Errorf("an image is left: %+v", i)
		}
	}
}

// crash runs the program that does something with sandboxes and is killed at
// point.
func crash(t *testing.T, d *Driver, what, point string) {
	t.Helper()
	program := testenv.Build(t, "./internal/runtime/docker/testdata/crash", "failpoint")
	cmd := exec.CommandContext(t.Context(), program, what, d.opts.Host, d.opts.Node, testenv.Runner(t), testenv.BaseRootfs(t), testImage)
	cmd.Env = append(os.Environ(), "SANDKASTEN_FAILPOINT="+point+"=kill9")
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("not killed: %v\n%s", err, text)
	}
}
