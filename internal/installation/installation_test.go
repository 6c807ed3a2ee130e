package installation_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandkasten/sandkasten/internal/installation"
)

func unused() (string, error) { return "", nil }

func inUse() (string, error) { return "2 of its sandboxes run", nil }

func open(t *testing.T, file, boot string, uses func() (string, error)) (installation.ID, bool) {
	t.Helper()
	id, copied, err := installation.Open(file, boot, uses)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := installation.Read(file); err != nil || read != id {
		t.Errorf("read %q, %v; opened %q", read, err, id)
	}
	return id, copied
}

// copyDir copies the files of a directory to another one, as cp -a does.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "node.place"} {
		if err := os.Chmod(filepath.Join(to, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(to, "node")
}

func TestIdentityIsMadeOnceAndStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node")
	id, _ := open(t, file, "boot", inUse)
	if len(id) != 12 {
		t.Errorf("%q", id)
	}
	for _, boot := range []string{"boot", "another boot"} {
		if again, copied := open(t, file, boot, inUse); again != id || copied {
			t.Errorf("in %s it is %q, copied %v; was %q", boot, again, copied, id)
		}
	}
	moved := filepath.Join(t.TempDir(), "node")
	if err := errors.Join(os.Rename(file, moved), os.Rename(installation.PlaceFile(file), installation.PlaceFile(moved))); err != nil {
		t.Fatal(err)
	}
	if again, copied := open(t, moved, "boot", inUse); again != id || copied {
		t.Errorf("under another name it is %q, copied %v", again, copied)
	}
}

func TestCopyGetsAnIdentityOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	id, _ := open(t, filepath.Join(dir, "node"), "boot", unused)
	file := copyDir(t, dir)
	other, copied := open(t, file, "boot", unused)
	if other == id || !copied {
		t.Errorf("the copy is %q, copied %v; the original %q", other, copied, id)
	}
	if again, copied := open(t, file, "boot", inUse); again != other || copied {
		t.Errorf("later it is %q, copied %v", again, copied)
	}
}

func TestCopyIsRefusedWhileTheOriginalIsInUse(t *testing.T) {
	dir := t.TempDir()
	id, _ := open(t, filepath.Join(dir, "node"), "boot", unused)
	for name, remedy := range map[string]struct {
		remove []string
		same   bool
	}{
		"go on as the original": {[]string{"node.place"}, true},
		"become another one":    {[]string{"node.place", "node"}, false},
	} {
		file := copyDir(t, dir)
		if _, _, err := installation.Open(file, "boot", inUse); !errors.As(err, new(*installation.MovedError)) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, part := range remedy.remove {
			if err := os.Remove(filepath.Join(filepath.Dir(file), part)); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := open(t, file, "boot", inUse); (got == id) != remedy.same {
			t.Errorf("%s: it is %q, the original %q", name, got, id)
		}
	}
}

func TestDirectoryOfAnEarlierVersionKeepsItsIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node")
	id, _ := open(t, file, "boot", unused)
	if err := os.Remove(installation.PlaceFile(file)); err != nil {
		t.Fatal(err)
	}
	if again, copied := open(t, file, "boot", inUse); again != id || copied {
		t.Errorf("%q, copied %v; was %q", again, copied, id)
	}
}
