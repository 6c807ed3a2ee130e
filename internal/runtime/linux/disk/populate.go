package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// What every disk starts with. The directories in upper cover whatever the
// image has under these names, so that mount points are real directories even
// in an image that has links there (CVE-2026-41579), and none has to be made
// while a sandbox is being created.
var (
	directories = []struct {
		path string
		mode uint32
	}{
		{Upper, 0o755},
		{Work, 0o755},
		{Workspace, 0o755},
		{Upper + "/proc", 0o555},
		{Upper + "/sys", 0o555},
		{Upper + "/dev", 0o755},
		{Upper + "/tmp", 0o1777},
		{Upper + "/run", 0o755},
		{Upper + "/workspace", 0o755},
		{Upper + "/etc", 0o755},
	}
	files = []struct{ path, text string }{
		{Upper + "/etc/hostname", DefaultHostname + "\n"},
		{Upper + "/etc/hosts", HostsFile(DefaultHostname)},
		{Upper + "/etc/resolv.conf", netns.ResolvConf()},
	}
)

// DefaultHostname is what a fresh disk's /etc names the sandbox.
const DefaultHostname = "sandbox"

// HostsFile is the content of /etc/hosts in a sandbox.
func HostsFile(hostname string) string {
	return "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t" + hostname + "\n"
}

// populate fills a new, empty file system.
func populate(mnt int, l layout) error {
	if l.volume {
		// Below the root, where fsck's lost+found is not seen.
		return makeDirectory(mnt, Workspace, 0o755)
	}
	// mkfs makes it; a sandbox should not see it in a listing, nor fsck use it.
	if err := unix.Unlinkat(mnt, "lost+found", unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("remove lost+found: %w", err)
	}
	for _, d := range directories {
		if err := makeDirectory(mnt, d.path, d.mode); err != nil {
			return err
		}
	}
	for _, f := range files {
		fd, err := sys.Open(mnt, f.path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte(f.text))
		sys.Close(fd)
		if err != nil {
			return os.NewSyscallError("write", err)
		}
	}
	return nil
}

func makeDirectory(mnt int, path string, mode uint32) error {
	if err := sys.Mkdirat(mnt, path, mode); err != nil {
		return err
	}
	// The process's umask had its say at mkdirat.
	if err := unix.Fchmodat(mnt, path, mode, 0); err != nil {
		return fmt.Errorf("chmod %s: %w", path, err)
	}
	return nil
}
