package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// Two stores have the files of one layer, and removing the image from one takes
// nothing from the other.
func TestStoresShareAnImage(t *testing.T) {
	testenv.NeedsRoot(t)
	one, other := Start(t, Options{}), Start(t, Options{})
	if got := one.Output("image", "validate", "base"); !strings.HasPrefix(got, "base: as it was stored") {
		t.Errorf("validate: %s", got)
	}
	one.Output("image", "rm", "base")
	if got := one.Output("image", "ls", "--quiet"); got != "" {
		t.Errorf("one store has %q after its image was removed", got)
	}
	id := other.Output("create", "base")
	if got := other.Output("exec", id, "echo works"); got != "works" {
		t.Errorf("a session of the other store printed %q", got)
	}
	// What is imported again is the same image, in files of its own.
	if err := ImportImage(t.Context(), one.Program, testenv.BaseRootfs(t), "base", one.Env); err != nil {
		t.Fatal(err)
	}
	if a, b := one.Output("image", "ls", "--quiet"), other.Output("image", "ls", "--quiet"); a != b {
		t.Errorf("the images are %q and %q", a, b)
	}
}

// A change of a shared file is noticed, and the next test imports the image anew.
func TestChangedImageIsNoticed(t *testing.T) {
	for what, change := range map[string]func(dir string) error{
		"contents": func(dir string) error { return os.WriteFile(filepath.Join(dir, "file"), []byte("changed"), 0o600) },
		"mode":     func(dir string) error { return os.Chmod(filepath.Join(dir, "file"), 0o640) },
		"new file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "other"), nil, 0o600) },
		"removed":  func(dir string) error { return os.Remove(filepath.Join(dir, "file")) },
	} {
		t.Run(what, func(t *testing.T) {
			data := t.TempDir()
			layers := filepath.Join(data, "images", "layers")
			if err := os.MkdirAll(layers, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(layers, "file"), []byte("imported"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := noteChange(data); err != nil {
				t.Fatal(err)
			}
			t.Setenv(ImagesVar, "")
			if err := checkUnchanged(data); err != nil {
				t.Fatalf("an image that nobody has changed: %v", err)
			}
			waitForTick(t)
			if err := change(layers); err != nil {
				t.Fatal(err)
			}
			if err := checkUnchanged(data); err == nil {
				t.Error("the change was not noticed")
			}
			if _, err := os.Stat(data); !os.IsNotExist(err) {
				t.Errorf("the changed store is still there: %v", err)
			}
		})
	}
}

// waitForTick returns when the clock that the kernel stamps files with has moved: it
// stands still for up to ten milliseconds.
func waitForTick(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	before, err := lastChange(dir)
	for now := before; now == before && err == nil; now, err = lastChange(dir) {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
