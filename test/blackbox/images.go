package blackbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// ImagesVar is the environment variable that names an image store with the image
// base. Tests take its layers instead of importing the image, for machines on which
// an import takes minutes: those of test/vm.
const ImagesVar = "SANDKASTEN_TEST_IMAGES"

// Images returns a new image store with the image base, which is the root file
// system of testenv, also under these names. It goes with the test; several daemons
// may use it, and may remove its images and add others. Only the files of the layer
// are those of a store that all tests share, and a test that changes them fails.
//
// A test that runs hostile code, or damages layers, uses ImportedImages.
func Images(t testing.TB, names ...string) string {
	t.Helper()
	shared, err := sharedImages(t.Context(), testenv.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(testenv.DataDir(t), "images")
	if err := borrow(shared, dir, sameImage(append(names, "base")...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checkUnchanged(filepath.Dir(shared)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ImportedImages is Images with an import of the test's own, which costs three
// seconds of a processor. Where ImagesVar is set it is Images.
func ImportedImages(t testing.TB) string {
	t.Helper()
	if os.Getenv(ImagesVar) != "" {
		return Images(t)
	}
	data := testenv.DataDir(t)
	if err := ImportImage(t.Context(), testenv.Program(t), testenv.BaseRootfs(t), "base", append(Environ(), "SANDKASTEN_DATA_DIR="+data)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(data, "images")
}

// KernelImages is Images with the image python, too, whose Python has the kernel that
// the recipe of that name has, and the image data, which can draw charts as well.
func KernelImages(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(testenv.DataDir(t), "images")
	if err := BorrowKernelImages(t.Context(), testenv.Program(t), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// BorrowKernelImages makes an image store at dir as KernelImages does.
func BorrowKernelImages(ctx context.Context, program, dir string) error {
	rootfs, err := testenv.Rootfs()
	if err != nil {
		return err
	}
	packages, err := testenv.KernelPackages()
	if err != nil {
		return err
	}
	plots, err := testenv.PlotPackages()
	if err != nil {
		return err
	}
	key, err := importKey(rootfs)
	if err != nil {
		return err
	}
	data, err := testenv.Fixture("images-"+filepath.Base(packages)+"-"+filepath.Base(plots)+"-"+key, func(data string) error {
		if err := os.Mkdir(data, 0o700); err != nil {
			return err
		}
		env := append(Environ(), "SANDKASTEN_DATA_DIR="+data)
		if err := ImportImage(ctx, program, rootfs, "base", env); err != nil {
			return err
		}
		kernel := inDistPackages(packages)
		if err := ImportImage(ctx, program, rootfs, "python", env, kernel...); err != nil {
			return err
		}
		return ImportImage(ctx, program, rootfs, "data", env, append(kernel, inDistPackages(plots)...)...)
	})
	if err != nil {
		return err
	}
	return borrow(filepath.Join(data, "images"), dir, map[string]string{"base": "base", "python": "python", "data": "data"})
}

// inDistPackages returns the options of tar that put Python packages where Debian's Python
// looks for what its own packages do not have.
func inDistPackages(packages string) []string {
	name := filepath.Base(packages)
	return []string{"--transform=flags=r;s,^" + name + ",./usr/local/lib/python3.11/dist-packages,", "-C", filepath.Dir(packages), name}
}

// sameImage is these names for the image base.
func sameImage(names ...string) map[string]string {
	of := map[string]string{}
	for _, name := range names {
		of[name] = "base"
	}
	return of
}

// BorrowImages makes an image store at dir as Images does, with the image base under
// these names.
func BorrowImages(ctx context.Context, program, dir string, names ...string) error {
	shared, err := sharedImages(ctx, program)
	if err != nil {
		return err
	}
	return borrow(shared, dir, sameImage(names...))
}

// changedFile holds, beside a shared store, when its layers last changed.
const changedFile = "changed"

// sharedImages returns the store that all tests of this machine share. The program
// imports the image if the cache does not have it, or if it was changed since.
func sharedImages(ctx context.Context, program string) (string, error) {
	if dir := os.Getenv(ImagesVar); dir != "" {
		return dir, nil
	}
	rootfs, err := testenv.Rootfs()
	if err != nil {
		return "", err
	}
	key, err := importKey(rootfs)
	if err != nil {
		return "", err
	}
	data, err := testenv.Fixture("images-"+key, func(data string) error {
		if err := os.Mkdir(data, 0o700); err != nil {
			return err
		}
		if err := ImportImage(ctx, program, rootfs, "base", append(Environ(), "SANDKASTEN_DATA_DIR="+data)); err != nil {
			return err
		}
		return noteChange(data)
	})
	return filepath.Join(data, "images"), err
}

// importKey sums up what decides the contents of an imported image: the root file
// system and the code that imports it.
func importKey(rootfs string) (string, error) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(rootfs)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, rootfs, info.ModTime().UnixNano())
	err = filepath.WalkDir(filepath.Join(root, "internal", "images"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		fmt.Fprintf(sum, "%d\n%s", len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:16], err
}

// borrow makes a store at dir that has images of shared under these names. Each
// of its layers has a link to the files of the shared one, so that removing a layer
// removes the link.
func borrow(shared, dir string, names map[string]string) error {
	for _, sub := range []string{"names", "layers"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for name, of := range names {
		digest, err := os.ReadFile(filepath.Join(shared, "names", of))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "names", name), digest, 0o600); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "images"), os.DirFS(filepath.Join(shared, "images"))); err != nil {
		return err
	}
	layers, err := os.ReadDir(filepath.Join(shared, "layers"))
	if err != nil {
		return err
	}
	for _, layer := range layers {
		from, to := filepath.Join(shared, "layers", layer.Name()), filepath.Join(dir, "layers", layer.Name())
		description, err := os.ReadFile(filepath.Join(from, "layer.json"))
		if err != nil {
			return err
		}
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, "layer.json"), description, 0o600); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(from, "fs"), filepath.Join(to, "fs")); err != nil {
			return err
		}
	}
	return nil
}

// noteChange writes down what checkUnchanged compares.
func noteChange(data string) error {
	changed, err := lastChange(filepath.Join(data, "images", "layers"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, changedFile), []byte(changed), 0o600)
}

// checkUnchanged is an error if something has changed the files of the shared store in
// a data directory. It removes the directory then, so that the next test imports the
// image anew. A store that ImagesVar names is not looked at.
func checkUnchanged(data string) error {
	if os.Getenv(ImagesVar) != "" {
		return nil
	}
	want, err := os.ReadFile(filepath.Join(data, changedFile))
	if err != nil {
		return err
	}
	got, err := lastChange(filepath.Join(data, "images", "layers"))
	if err != nil {
		return err
	}
	if got == string(want) {
		return nil
	}
	return errors.Join(
		fmt.Errorf("a test has changed the files of the image that all tests share, in %s: the last change was at %s, not at %s", data, got, want),
		os.RemoveAll(data))
}

// lastChange returns the latest change of an inode below dir. The kernel sets that
// time at every write, also of owners and modes, and nobody can set it back.
func lastChange(dir string) (string, error) {
	var last int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			last = max(last, stat.Ctim.Nano())
		}
		return nil
	})
	return strconv.FormatInt(last, 10), err
}

// ImportImage has the program store a root file system as the image name, with what
// further arguments of tar add.
func ImportImage(ctx context.Context, program, rootfs, name string, env []string, more ...string) error {
	pack := exec.CommandContext(ctx, "tar", append([]string{"-C", rootfs, "-c", "."}, more...)...)
	load := exec.CommandContext(ctx, program, "image", "import", "--name", name, "--tar", "-")
	load.Env = env
	var err error
	if load.Stdin, err = pack.StdoutPipe(); err != nil {
		return err
	}
	if err := pack.Start(); err != nil {
		return err
	}
	text, err := load.CombinedOutput()
	if err != nil {
		pack.Process.Kill() // nobody reads what it writes
	}
	if err := errors.Join(err, pack.Wait()); err != nil {
		return fmt.Errorf("import image %s: %w\n%s", name, err, text)
	}
	return nil
}
