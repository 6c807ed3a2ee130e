package vm_test

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/vm"
	"github.com/sandkasten/sandkasten/test/vm/guest"
)

// TestSystemd installs the package on a Debian with systemd, in testdata/systemd.sh:
// what the unit promises is looked at from its sessions.
func TestSystemd(t *testing.T) {
	ctx := needMachine(t)
	dir := testenv.DataDir(t)
	rootfs := filepath.Join(dir, "rootfs")
	install := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
		"--include=systemd,e2fsprogs,ca-certificates,procps", "--dpkgopt=path-exclude=/usr/share/doc/*", "bookworm", rootfs)
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m, err := vm.Prepare(ctx, rootfs, dir)
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(dir, "packages")
	if err := os.Mkdir(packages, 0o700); err != nil {
		t.Fatal(err)
	}
	m.Files = map[string]string{"test/systemd.sh": "testdata/systemd.sh", "test/tiny.tar": tinyImage(t, dir)}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		pack := exec.CommandContext(ctx, "../../tools/package", testenv.Program(t), packages)
		pack.Env = append(os.Environ(), "VERSION="+version)
		if text, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		m.Files["test/"+version+".deb"] = filepath.Join(packages, "sandkasten_"+version+"_amd64.deb")
	}
	m.Jobs = []guest.Job{{Args: []string{"bash", "-eu", "/test/systemd.sh"}, Timeout: 10 * time.Minute}}
	var text bytes.Buffer
	var end *guest.End
	err = m.Run(ctx, func(e guest.Event) {
		text.Write(e.Output)
		end = e.End
	})
	if err != nil || end == nil || end.Code != 0 {
		t.Errorf("%v, %+v\n%s", err, end, text.Bytes())
	}
	if t.Failed() {
		return
	}
	for line := range strings.Lines(text.String()) {
		if promise, ok := strings.CutPrefix(line, "== "); ok {
			t.Log(strings.TrimSpace(promise))
		}
	}
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
