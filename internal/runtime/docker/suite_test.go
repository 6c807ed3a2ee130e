package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ssh" {
		if err := asSSH(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(255)
		}
		return
	}
	testenv.Main(m)
}

const testImage = "sha256:5017e"

// oneImage is an Images with the tests' root file system.
type oneImage struct{ dir string }

func (o oneImage) Rootfs(_ context.Context, digest string) (Rootfs, error) {
	if digest != testImage {
		return Rootfs{}, errdefs.New(errdefs.NotFound, "no image %s", digest)
	}
	return Rootfs{Layers: []string{o.dir}, Shell: "/bin/bash", User: "www-data"}, nil
}

// options are for a driver on an engine of the test's.
func options(t testing.TB, e *testenv.Engine) Options {
	t.Helper()
	runner, err := os.ReadFile(testenv.Runner(t))
	if err != nil {
		t.Fatal(err)
	}
	return Options{Host: e.Host, Node: "test", Runner: runner, Images: oneImage{testenv.BaseRootfs(t)}}
}

// open makes a driver that is closed when the test ends.
func open(t testing.TB, o Options) *Driver {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestEngine is all that takes a real engine and leaves it running.
func TestEngine(t *testing.T) {
	testenv.NeedsRoot(t)
	o := options(t, testenv.StartEngine(t, runtimeFlags(t)...))
	d := open(t, o)
	t.Run("suite", func(t *testing.T) { // returns when the parallel tests have ended
		kill := func(t *testing.T, id runtime.ID) {
			t.Helper()
			if _, err := d.engine.ContainerKill(t.Context(), d.container(id), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
				t.Fatal(err)
			}
		}
		runtimetest.TestDriver(t, func(t *testing.T) runtime.Driver { return open(t, o) }, runtimetest.Options{
			Image: testImage, Kill: kill, FixedClaims: true,
			Unlimited: true, // in bytes on a disk; the other limits have tests of their own
		})
	})
	for name, test := range map[string]func(*testing.T, *Driver){
		"inspect":   testInspect,
		"rights":    testRights,
		"attacks":   testAttacks,
		"profile":   testProfileOfTheEngine,
		"memory":    testMemory,
		"processes": testProcesses,
		"links":     testLinks,
		"byHand":    testByHand,
		"program":   testProgram,
		"crash":     testCrash,
		"images":    testImages,
		"many":      testMany,

		"user":        testUser,
		"userKept":    testUserKept,
		"noUser":      testNoUser,
		"userAttacks": func(t *testing.T, d *Driver) { testAttacks(t, asUser(t, d, "www-data")) },

		"forks":       testForks,
		"forkShares":  testForkShares,
		"forkFails":   testForkFails,
		"claimEnv":    testClaimEnv,
		"hostileRoot": testHostileRoot,

		"namespace": testNamespace,
		"door":      testDoor,
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
	nothingLeft(t, d)
}
