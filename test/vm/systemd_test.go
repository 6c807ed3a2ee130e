package vm_test

import (
	"archive/tar"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/vm"
	"github.com/sandkasten/sandkasten/test/vm/guest"
)

// systemdScript installs the package on a Debian with systemd, in testdata/systemd.sh:
// what the unit promises is looked at from its sessions. It needs the files that it
// adds to the machine's, and a machine whose root is testenv.SystemdRootfs.
func systemdScript(ctx context.Context, t *testing.T, files map[string]string) vm.Script {
	t.Helper()
	dir := testenv.DataDir(t)
	files["test/systemd.sh"], files["test/tiny.tar"] = "testdata/systemd.sh", tinyImage(t, dir)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		pack := exec.CommandContext(ctx, "../../tools/package", testenv.Program(t), dir)
		pack.Env = append(os.Environ(), "VERSION="+version)
		if text, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		files["test/"+version+".deb"] = filepath.Join(dir, "sandkasten_"+version+"_amd64.deb")
	}
	return vm.Script{Name: "systemd", Job: guest.Job{Args: []string{"bash", "-eu", "/test/systemd.sh"}, Timeout: 10 * time.Minute}}
}

// tinyImage is a root file system of busybox, since unpacking a Debian takes an
// emulated processor minutes.
func tinyImage(t *testing.T, dir string) string {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		testenv.Unsupported(t, "no busybox; install busybox-static")
	}
	name := filepath.Join(dir, "tiny.tar")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	put := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	put(tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	put(tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox)
	for _, link := range []string{"sh", "cat", "echo", "sleep", "true"} {
		put(tar.Header{Name: "bin/" + link, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// needMachine ends the test where no machine can run, and returns a context that
// ends early enough to report what one did until then.
func needMachine(t *testing.T) context.Context {
	t.Helper()
	testenv.NeedsRoot(t) // to read all of the root file system
	for tool, pkg := range map[string]string{
		"qemu-system-x86_64": "qemu-system-x86", "mkfs.ext4": "e2fsprogs", "apt-get": "apt", "dpkg-deb": "dpkg", "mmdebstrap": "mmdebstrap",
	} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Unsupported(t, "no %s (package %s)", tool, pkg)
		}
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-15*time.Second))
		t.Cleanup(cancel)
	}
	return ctx
}
