package docker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// testCrash: a daemon that dies at any step of Create leaves nothing that the
// next one does not find and remove.
func testCrash(t *testing.T, d *Driver) {
	for _, point := range []string{"docker.program.created", "docker.create.created", "docker.create.started", "docker.create.ready"} {
		t.Run(point, func(t *testing.T) {
			if point == "docker.program.created" { // which is passed only when there is none
				if _, err := d.engine.VolumeRemove(t.Context(), d.programVolume(), client.VolumeRemoveOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			crash(t, d, point)
			again := open(t, d.opts)
			if err := again.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			var seen []runtime.Status
			for s, err := range again.List(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				seen = append(seen, s)
			}
			if want := point != "docker.program.created"; (len(seen) == 1) != want || want && seen[0].ID != "crashed" {
				t.Errorf("List: %+v", seen)
			}
			for range 2 { // a second time changes nothing
				if err := again.Destroy(t.Context(), "crashed"); err != nil {
					t.Fatal(err)
				}
			}
			left, err := d.engine.ContainerList(t.Context(), client.ContainerListOptions{All: true})
			if err != nil || len(left.Items) > 0 {
				t.Errorf("containers are left: %+v, %v", left.Items, err)
			}
			if got := newBox(t, again, "crashed").run(t, "echo fine"); got != "fine" {
				t.Errorf("with its name: %q", got)
			}
		})
	}
}

// crash runs the program that makes a sandbox and is killed at point.
func crash(t *testing.T, d *Driver, point string) {
	t.Helper()
	program := testenv.Build(t, "./internal/runtime/docker/testdata/crash", "failpoint")
	cmd := exec.CommandContext(t.Context(), program, d.opts.Host, d.opts.Node, testenv.Runner(t), testenv.BaseRootfs(t), testImage)
	cmd.Env = append(os.Environ(), "SANDKASTEN_FAILPOINT="+point+"=kill9")
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("not killed: %v\n%s", err, text)
	}
}
