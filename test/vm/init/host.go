//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/vm/guest"
	"golang.org/x/sys/unix"
)

// deviceTimeout bounds the wait for a device whose driver has been loaded.
const deviceTimeout = 30 * time.Second

// controllers are what a distribution's init enables for its slices.
const controllers = "+cpu +cpuset +io +memory +pids"

type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// hostMounts is what systemd mounts on such a host, as far as tests can tell.
var hostMounts = []mount{
	{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=755"},
	{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "gid=5,mode=620,ptmxmode=000"},
	{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, ""},
	{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	{"cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "nsdelegate,memory_recursiveprot"},
}

// openPort loads the drivers and opens the port to the harness. It runs in
// the initramfs.
func openPort() (*os.File, error) {
	for _, m := range []mount{
		{"sysfs", "/sys", "sysfs", 0, ""},
		{"devtmpfs", "/dev", "devtmpfs", 0, ""},
	} {
		if err := m.apply(""); err != nil {
			return nil, err
		}
	}
	modules, err := filepath.Glob(filepath.Join(guest.ModulesDir, "*.ko"))
	if err != nil {
		return nil, err
	}
	for _, file := range modules {
		if err := loadModule(file); err != nil {
			return nil, fmt.Errorf("load %s: %w", file, err)
		}
	}
	device, err := await(findPort)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(device, os.O_RDWR, 0)
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("finit_module", unix.FinitModule(int(f.Fd()), "", 0))
}

// findPort finds the device of the harness's port by its name.
func findPort() (string, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return "", err
	}
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(name)) == guest.PortName {
			return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
		}
	}
	return "", fmt.Errorf("no virtio port %s: %w", guest.PortName, fs.ErrNotExist)
}

// await calls find until it succeeds: a driver that has been loaded finds its
// devices a little later.
func await(find func() (string, error)) (string, error) {
	for end := time.Now().Add(deviceTimeout); ; time.Sleep(10 * time.Millisecond) {
		found, err := find()
		if err == nil || time.Now().After(end) {
			return found, err
		}
	}
}

// becomeHost turns the initramfs into a host that has booted from its disk.
func becomeHost() error {
	for _, device := range []string{guest.RootDisk, guest.ImageDisk} {
		if _, err := await(func() (string, error) { _, err := os.Stat(device); return device, err }); err != nil {
			return err
		}
	}
	const root = "/newroot"
	if err := (mount{guest.RootDisk, root, "ext4", 0, ""}).apply(""); err != nil {
		return err
	}
	if err := copyTree(guest.FilesDir, root); err != nil {
		return fmt.Errorf("copy files: %w", err)
	}
	for _, m := range hostMounts {
		if err := m.apply(root); err != nil {
			return err
		}
	}
	if err := (mount{guest.ImageDisk, guest.ImageMount, "ext4", unix.MS_RDONLY, ""}).apply(root); err != nil {
		return err
	}
	if err := switchRoot(root); err != nil {
		return err
	}
	if err := configure(); err != nil {
		return err
	}
	return loopbackUp()
}

func (m mount) apply(root string) error {
	target := filepath.Join(root, m.target)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, target, err)
	}
	return nil
}

// switchRoot makes root the machine's real root. Moving the mount, not
// changing the directory alone, is what lets processes use pivot_root later:
// it is refused below an initramfs.
func switchRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move %s to /: %w", root, err)
	}
	if err := unix.Chroot("."); err != nil {
		return os.NewSyscallError("chroot", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// systemd does the same: an ordinary host's mounts are shared.
	return os.NewSyscallError("mount", unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""))
}

// configure does what a distribution's init does to a host and its own
// environment.
func configure() error {
	for _, file := range []struct{ path, content string }{
		{"/sys/fs/cgroup/cgroup.subtree_control", controllers},
		{"/proc/sys/kernel/hostname", "sandkasten-vm"},
	} {
		if err := os.WriteFile(file.path, []byte(file.content), 0o644); err != nil {
			return err
		}
	}
	for name, value := range map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME": "/root", "LANG": "C.UTF-8", "USER": "root",
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	links := map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
	for name, target := range links {
		err := os.Symlink(target, filepath.Join("/dev", name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("ioctl SIOCSIFFLAGS", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req))
}

// copyTree copies the regular files below from to the same names below to.
func copyTree(from, to string) error {
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		return copyFile(p, filepath.Join(to, rel))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a machine without files
	}
	return err
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		return err
	}
	// Memory for the copy and the original is scarce in a small machine.
	return errors.Join(dst.Close(), os.Remove(from))
}
