package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// RootfsVar is the environment variable that names a root file system to use
// instead of the one that BaseRootfs makes, with MachineID or another in it.
const RootfsVar = "SANDKASTEN_TEST_ROOTFS"

// MachineID is what the /etc/machine-id of Rootfs says: that of a sandbox is to be
// another.
const MachineID = "0123456789abcdef0123456789abcdef"

// debian is a root file system for tests. Its name changes when what is made
// does, so that an old fixture is not taken for the new one.
type debian struct {
	name     string
	packages string
	without  []string // below /usr/share, for speed
}

// base has what tests call: bash, coreutils, ps and python3 with its library,
// which agent frameworks run code in, and mkfs.xfs where it is a host's root
// (test/vm).
var base = debian{"rootfs-bookworm-4", "procps,python3,python-is-python3,xfsprogs", []string{"doc", "man", "locale"}}

// systemd has what the package of a service needs of a host beside that.
var systemd = debian{"rootfs-systemd-1", base.packages + ",systemd,e2fsprogs,ca-certificates", base.without}

// programs has the servers, runtimes and tools of docs/programs.md beside that.
// Packages of Java and PostgreSQL want the manual's directories.
var programs = debian{
	"rootfs-programs-3", base.packages + ",sudo,cron,openssh-server,openssh-client,postgresql,mariadb-server,redis-server,nginx-light,nodejs," +
		"default-jre-headless,luajit,gdb,strace,docker.io,systemd-standalone-tmpfiles,iproute2,iputils-ping,git,curl,ca-certificates,cargo,golang-go,ruby",
	[]string{"doc", "locale"},
}

// mmdebstrap is the arguments that make a root file system in dir.
func (d debian) mmdebstrap(dir string) []string {
	args := []string{"--quiet", "--mode=root", "--format=directory", "--variant=minbase", "--include=" + d.packages}
	for _, name := range d.without {
		args = append(args, fmt.Sprintf("--dpkgopt=path-exclude=/usr/share/%s/*", name))
	}
	return append(args, "bookworm", dir)
}

// BaseRootfs returns the directory of Rootfs. The test must have called
// NeedsRoot.
func BaseRootfs(t testing.TB) string {
	t.Helper()
	dir, err := Rootfs()
	if errors.Is(err, exec.ErrNotFound) {
		Unsupported(t, "%v, and %s is not set", err, RootfsVar)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// ProgramsRootfs returns the directory of a Debian root file system with servers,
// language runtimes and debuggers, for the long tier: it is some 2 GB. The
// test must have called NeedsRoot.
func ProgramsRootfs(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		Unsupported(t, "make a root file system with programs: %v", err)
	}
	dir, err := programs.make()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// SystemdRootfs returns the directory of a Debian root file system that systemd can
// boot, with all that BaseRootfs has. The test must have called NeedsRoot.
func SystemdRootfs(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		Unsupported(t, "make a root file system with systemd: %v", err)
	}
	dir, err := systemd.make()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Rootfs returns the directory of a Debian root file system with bash, ps and
// python3, owned by the ids of the distribution (root is 0). It is shared by all
// tests and must not be written to. Without one in the cache it is made with
// mmdebstrap, by root, in about half a minute.
func Rootfs() (string, error) {
	if dir := os.Getenv(RootfsVar); dir != "" {
		return dir, nil
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return "", fmt.Errorf("make a root file system for tests: %w", err)
	}
	return makeBase()
}

var makeBase = sync.OnceValues(base.make)

func (d debian) make() (string, error) {
	return Fixture(d.name, func(dir string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		if text, err := exec.CommandContext(ctx, "mmdebstrap", d.mmdebstrap(dir)...).CombinedOutput(); err != nil {
			return fmt.Errorf("mmdebstrap: %w\n%s", err, text)
		}
		id := filepath.Join(dir, "etc/machine-id") // which mmdebstrap makes empty
		return os.WriteFile(id, []byte(MachineID+"\n"), 0o444)
	})
}
