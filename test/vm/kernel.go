package vm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kernelPackage is the metapackage whose kernel the machines boot: Debian's
// own build, with the configuration that its users run.
const kernelPackage = "linux-image-cloud-amd64"

// Kernel is an unpacked distribution kernel.
type Kernel struct {
	Image   string // the compressed kernel that a boot loader would load
	Modules string // the directory /lib/modules/<release> of the package
}

// FetchKernel downloads the distribution's kernel with apt and unpacks it
// below cacheDir, without installing it. A kernel that is already there is
// not downloaded again. The files stay until the caller removes cacheDir.
func FetchKernel(ctx context.Context, cacheDir string) (Kernel, error) {
	pkg, err := resolveKernelPackage(ctx)
	if err != nil {
		return Kernel{}, err
	}
	dir := filepath.Join(cacheDir, pkg)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := downloadPackage(ctx, pkg, dir); err != nil {
			return Kernel{}, err
		}
	}
	return openKernel(dir)
}

// openKernel finds the kernel in an unpacked package.
func openKernel(dir string) (Kernel, error) {
	image, err := one(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return Kernel{}, err
	}
	modules, err := one(filepath.Join(dir, "lib", "modules", "*"))
	if err != nil {
		modules, err = one(filepath.Join(dir, "usr", "lib", "modules", "*"))
	}
	return Kernel{Image: image, Modules: modules}, err
}

func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: want one match, found %d", pattern, len(found))
	}
	return found[0], nil
}

// resolveKernelPackage names the package that kernelPackage stands for now.
func resolveKernelPackage(ctx context.Context) (string, error) {
	list, err := output(ctx, "", "apt-cache", "depends", "--important", kernelPackage)
	if err != nil {
		if _, err := output(ctx, "", "apt-get", "update"); err != nil {
			return "", err
		}
		if list, err = output(ctx, "", "apt-cache", "depends", "--important", kernelPackage); err != nil {
			return "", err
		}
	}
	return parseDepends(list)
}

// parseDepends reads the answer of "apt-cache depends" for a kernel
// metapackage.
func parseDepends(list string) (string, error) {
	for line := range strings.Lines(list) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: ")
		if ok && strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("no linux-image-* among the dependencies of %s", kernelPackage)
}

// downloadPackage unpacks pkg at dir. It unpacks beside dir and renames, so
// that dir is whole or absent.
func downloadPackage(ctx context.Context, pkg, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if _, err := output(ctx, tmp, "apt-get", "download", "-qq", pkg); err != nil {
		return err
	}
	deb, err := one(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	root := filepath.Join(tmp, "root")
	if _, err := output(ctx, tmp, "dpkg-deb", "-x", deb, root); err != nil {
		return err
	}
	return os.Rename(root, dir)
}

// output runs a command and returns what it printed; what it complained about
// is in the error.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
