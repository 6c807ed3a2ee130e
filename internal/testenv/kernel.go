package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// KernelPackages returns a directory with the Python packages of the image python's
// recipe that make its Jupyter kernel, for Python 3.11, which Debian 12 has. It is a
// place for PYTHONPATH. Without it in the cache it is made with pip, in some seconds.
func KernelPackages() (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	recipe, err := os.ReadFile(filepath.Join(root, "images", "python", "recipe.yaml"))
	if err != nil {
		return "", err
	}
	_, listed, found := strings.Cut(string(recipe), "ipykernel==")
	pins := regexp.MustCompile(`(?m)^  - (\S+==\S+)$`).FindAllString("  - ipykernel=="+listed, -1)
	if !found || len(pins) < 10 {
		return "", fmt.Errorf("the recipe python pins %q, and no ipykernel with what it needs", pins)
	}
	for i := range pins {
		pins[i] = strings.TrimPrefix(pins[i], "  - ")
	}
	return pythonPackages("kernel", pins)
}

// PlotPackages returns a directory as KernelPackages does, with what draws charts and
// makes data frames.
func PlotPackages() (string, error) {
	return pythonPackages("plots", []string{"matplotlib==3.10.7", "pandas==2.3.3"})
}

// NotebookPackages returns a directory as KernelPackages does, with nbclient, which runs
// notebooks as Jupyter does.
func NotebookPackages() (string, error) {
	return pythonPackages("notebook", []string{"nbclient==0.11.0", "nbformat==5.11.1"})
}

func pythonPackages(name string, pins []string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(pins, " ")))
	return Fixture("python-"+name+"-"+hex.EncodeToString(sum[:4]), func(dir string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		args := append([]string{"-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", "--target", dir, "--only-binary=:all:", "--python-version", "3.11"}, pins...)
		if text, err := exec.CommandContext(ctx, "python3", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("pip install %s: %w\n%s", strings.Join(pins, " "), err, text)
		}
		return nil
	})
}

// KernelPath is the PYTHONPATH of a Python with the kernel, and what draws charts if
// plots is set. A machine without Python 3.11 skips the test.
func KernelPath(t testing.TB, plots ...string) string {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import sys; print(sys.version_info[:2])").Output()
	if err != nil || strings.TrimSpace(string(version)) != "(3, 11)" {
		Unsupported(t, "the kernel's packages are for Python 3.11, and /usr/bin/python3 is %s (%v)", version, err)
	}
	kernel, err := KernelPackages()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append([]string{kernel}, plots...), ":")
}
