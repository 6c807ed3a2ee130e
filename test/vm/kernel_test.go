package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestParseDepends(t *testing.T) {
	const bookworm = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n"
	got, err := parseDepends(bookworm)
	if err != nil || got != "linux-image-6.1.0-56-cloud-amd64" {
		t.Errorf("parseDepends: %q, %v", got, err)
	}
	if got, err := parseDepends("linux-image-cloud-amd64\n  Recommends: apparmor\n"); err == nil {
		t.Errorf("without a kernel: %q", got)
	}
}

func TestOpenKernel(t *testing.T) {
	dir := t.TempDir()
	if _, err := openKernel(dir); err == nil {
		t.Error("an empty package has a kernel")
	}
	writeFile(t, filepath.Join(dir, "boot", "vmlinuz-6.12.1"), "", 0o644)
	// A merged /usr, as of Debian 13.
	writeFile(t, filepath.Join(dir, "usr", "lib", "modules", "6.12.1", "modules.builtin"), "", 0o644)
	k, err := openKernel(dir)
	if err != nil || filepath.Base(k.Image) != "vmlinuz-6.12.1" || filepath.Base(k.Modules) != "6.12.1" {
		t.Errorf("openKernel: %+v, %v", k, err)
	}
}

func TestModuleName(t *testing.T) {
	for file, want := range map[string]string{
		"kernel/drivers/virtio/virtio_pci.ko":     "virtio_pci",
		"/x/arch/x86/crypto/crc32c-intel.ko.xz":   "crc32c_intel",
		"kernel/fs/overlayfs/overlay.ko.zst":      "overlay",
		"kernel/drivers/char/virtio_console.ko\n": "virtio_console",
	} {
		if got := moduleName(file); got != want {
			t.Errorf("moduleName(%q) = %q, want %q", file, got, want)
		}
	}
}

func TestParseModinfo(t *testing.T) {
	got := parseModinfo([]byte("license=GPL\x00depends=virtio-ring,virtio\x00name=virtio_pci\x00"))
	if !slices.Equal(got, []string{"virtio_ring", "virtio"}) {
		t.Errorf("depends: %q", got)
	}
	if got := parseModinfo([]byte("depends=\x00")); len(got) != 0 {
		t.Errorf("no dependencies: %q", got)
	}
}

func TestLoadOrderSkipsBuiltinAndNamesMissing(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "modules.builtin"), "kernel/fs/ext4/ext4.ko\n", 0o644)
	k := Kernel{Modules: dir}
	order, err := k.loadOrder(t.Context(), "ext4")
	if err != nil || len(order) != 0 {
		t.Errorf("a built-in module: %v, %v", order, err)
	}
	if _, err := k.loadOrder(t.Context(), "overlay"); err == nil || !strings.Contains(err.Error(), "module overlay") {
		t.Errorf("a missing module: %v", err)
	}
}

func TestDownloadedKernelLoadsDependenciesFirst(t *testing.T) {
	k := fetchedKernel(t)
	order, err := k.loadOrder(t.Context(), machineModules...)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range order {
		names = append(names, m.name)
	}
	for _, pair := range [][2]string{{"virtio_ring", "virtio_pci"}, {"virtio", "virtio_blk"}} {
		if first, second := slices.Index(names, pair[0]), slices.Index(names, pair[1]); first > second {
			t.Errorf("%s comes after %s: %q", pair[0], pair[1], names)
		}
	}
	if !slices.Contains(names, "overlay") {
		t.Errorf("overlay is missing: %q", names)
	}
}

// fetchedKernel returns the kernel that machines boot, which may have to be
// downloaded.
func fetchedKernel(t *testing.T) Kernel {
	t.Helper()
	testenv.NeedsRoot(t) // like the machines' tests, which share the download
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	k, err := FetchKernel(t.Context(), filepath.Join(cache, "sandkasten", "kernels"))
	if err != nil {
		testenv.Unsupported(t, "no kernel for test machines: %v", err)
	}
	return k
}
