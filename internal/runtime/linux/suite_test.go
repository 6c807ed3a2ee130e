package linux

import (
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// oneImage is an Images that tells its image from others.
type oneImage struct {
	digest string
	layers layers
}

func (o oneImage) Rootfs(ctx context.Context, digest string) (Rootfs, error) {
	if digest != o.digest {
		return Rootfs{}, errdefs.New(errdefs.NotFound, "no image %s", digest)
	}
	return o.layers.Rootfs(ctx, digest)
}

func TestDriverSuite(t *testing.T) { testSuite(t, root(t)) }

// The same with the disks in a pool, as far as it has to do with disks.
func TestDriverSuiteInAPool(t *testing.T) {
	testSuite(t, pooled(t), "Lifecycle", "CreateTaken", "CreateCanceled", "CreateAtOnce", "DestroyOverCreate", "Restart", "Stats",
		"Stop", "StopAgain", "StopPaused", "StartFails", "RunnerDies", "Claim", "ClaimStop",
		"Fork", "ForkAsItStands", "ForkOfFork", "ForkFails", "ForkBusy")
}

func testSuite(t *testing.T, d *Driver, only ...string) {
	t.Helper()
	const digest = "sha256:suite"
	d.opts.Images = oneImage{digest, layers{testenv.BaseRootfs(t)}}
	open := func(t *testing.T) runtime.Driver {
		t.Helper()
		again, err := New(d.opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
		return again
	}
	kill := func(t *testing.T, id runtime.ID) {
		t.Helper()
		s, err := d.readState(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(s.Process.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("all", func(t *testing.T) { // returns when the parallel tests have ended
		// With no sandbox at all, Close would remove the directories that others
		// are about to use: in one process at a time there are no others.
		spec := runtime.Spec{Image: digest}
		if _, err := d.Create(t.Context(), "keeper", spec); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Destroy(context.WithoutCancel(t.Context()), "keeper"); err != nil {
				t.Error(err)
			}
		})
		runtimetest.TestDriver(t, open, runtimetest.Options{Image: digest, Kill: kill, Only: only})
	})
	if left, err := filepath.Glob(filepath.Join(d.sandboxes, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
