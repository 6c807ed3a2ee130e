// Package sys is where the native driver meets the kernel's mount, identity
// and socket calls: one call per function, EINTR retried, the error typed and
// naming the call. Anything cleverer than that belongs to a caller.
package sys

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func retry(name string, call func() error) error {
	for {
		err := call()
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError(name, err)
		}
	}
}

func retryFD(name string, call func() (int, error)) (int, error) {
	fd := -1
	err := retry(name, func() (err error) {
		fd, err = call()
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// OpenTree wraps open_tree(2) with OPEN_TREE_CLONE: a detached copy of the
// mount at path, without what is mounted below it.
func OpenTree(dirfd int, path string) (int, error) {
	return retryFD("open_tree", func() (int, error) {
		flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
		if path == "" {
			flags |= unix.AT_EMPTY_PATH
		}
		return unix.OpenTree(dirfd, path, flags)
	})
}

// MoveMount wraps move_mount(2): it attaches the mount fd on the directory or
// file that target refers to.
func MoveMount(fd, target int) error {
	return retry("move_mount", func() error {
		return unix.MoveMount(fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// MountSetattr wraps mount_setattr(2) on the mount that fd refers to.
func MountSetattr(fd int, attr *unix.MountAttr) error {
	return retry("mount_setattr", func() error {
		return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr)
	})
}

// Fsopen wraps fsopen(2).
func Fsopen(fstype string) (int, error) {
	return retryFD("fsopen "+fstype, func() (int, error) { return unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC) })
}

// FsconfigString wraps fsconfig(2) with FSCONFIG_SET_STRING.
func FsconfigString(fd int, key, value string) error {
	return retry("fsconfig "+key, func() error { return unix.FsconfigSetString(fd, key, value) })
}

// FsconfigFlag wraps fsconfig(2) with FSCONFIG_SET_FLAG.
func FsconfigFlag(fd int, key string) error {
	return retry("fsconfig "+key, func() error { return unix.FsconfigSetFlag(fd, key) })
}

// FsconfigCreate wraps fsconfig(2) with FSCONFIG_CMD_CREATE.
func FsconfigCreate(fd int) error {
	return retry("fsconfig create", func() error { return unix.FsconfigCreate(fd) })
}

// Fsmount wraps fsmount(2). attrs are MOUNT_ATTR_*.
func Fsmount(fd, attrs int) (int, error) {
	return retryFD("fsmount", func() (int, error) { return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attrs) })
}

// FsconfigReconfigure wraps fsconfig(2) with FSCONFIG_CMD_RECONFIGURE.
func FsconfigReconfigure(fd int) error {
	return retry("fsconfig reconfigure", func() error { return unix.FsconfigReconfigure(fd) })
}

// Fspick wraps fspick(2) on the mount that fd refers to.
func Fspick(fd int) (int, error) {
	return retryFD("fspick", func() (int, error) { return unix.Fspick(fd, "", unix.FSPICK_EMPTY_PATH|unix.FSPICK_CLOEXEC) })
}

// Mount wraps mount(2).
func Mount(source, target, fstype string, flags uintptr, data string) error {
	return retry("mount", func() error { return unix.Mount(source, target, fstype, flags, data) })
}

// PivotRoot wraps pivot_root(2).
func PivotRoot(newRoot, putOld string) error {
	return retry("pivot_root", func() error { return unix.PivotRoot(newRoot, putOld) })
}

// Unmount wraps umount2(2).
func Unmount(target string, flags int) error {
	return retry("umount2", func() error { return unix.Unmount(target, flags) })
}

// Setns wraps setns(2): it moves the calling thread into the namespace of type
// nstype that fd refers to.
func Setns(fd, nstype int) error {
	return retry("setns", func() error { return unix.Setns(fd, nstype) })
}

// Unshare wraps unshare(2), for the calling thread.
func Unshare(flags int) error {
	return retry("unshare", func() error { return unix.Unshare(flags) })
}

// Openat2 wraps openat2(2). O_CLOEXEC is always added: leaving it out is how
// descriptors of the host have leaked into containers (CVE-2024-21626).
func Openat2(dirfd int, path string, flags int, mode, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: mode, Resolve: resolve}
	return openRetry("openat2", path, func() (int, error) { return unix.Openat2(dirfd, path, how) })
}

// Open wraps openat(2) with O_CLOEXEC.
func Open(dirfd int, path string, flags int, mode uint32) (int, error) {
	return openRetry("openat", path, func() (int, error) { return unix.Openat(dirfd, path, flags|unix.O_CLOEXEC, mode) })
}

// openRetry is retryFD with the path in the error.
func openRetry(name, path string, call func() (int, error)) (int, error) {
	for {
		fd, err := call()
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &os.PathError{Op: name, Path: path, Err: err}
		}
	}
}

// Mkdirat wraps mkdirat(2).
func Mkdirat(dirfd int, path string, mode uint32) error {
	return retry("mkdirat "+path, func() error { return unix.Mkdirat(dirfd, path, mode) })
}

// Write wraps write(2) of a text so short that it is written whole or not.
func Write(fd int, text string) error {
	return retry("write", func() error {
		_, err := unix.Write(fd, []byte(text))
		return err
	})
}

// Read wraps read(2). A socket with a timeout does not go on by itself after a
// signal, whatever the handler's flags say.
func Read(fd int, buf []byte) (n int, err error) {
	err = retry("read", func() (err error) {
		n, err = unix.Read(fd, buf)
		return err
	})
	return n, err
}

// Send wraps sendmsg(2) of a message with descriptors.
func Send(fd int, msg []byte, fds []int) error {
	rights := unix.UnixRights(fds...)
	return retry("sendmsg", func() error { return unix.Sendmsg(fd, msg, rights, nil, unix.MSG_NOSIGNAL) })
}

// Receive wraps recvmsg(2). Descriptors that come with it are close-on-exec.
func Receive(fd int, msg, control []byte) (n, controlled int, err error) {
	err = retry("recvmsg", func() (err error) {
		n, controlled, _, _, err = unix.Recvmsg(fd, msg, control, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	return n, controlled, err
}

// Socketpair wraps socketpair(2) for a message socket.
func Socketpair() (a, b int, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("socketpair", err)
	}
	return p[0], p[1], nil
}

// Close closes descriptors that were only read from or passed on, for which
// close(2) has nothing to report that anyone could act on.
func Close(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// CreateRuleset wraps landlock_create_ruleset(2).
func CreateRuleset(attr *unix.LandlockRulesetAttr, size uintptr) (int, error) {
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, 0)
	if e != 0 {
		return -1, os.NewSyscallError("landlock_create_ruleset", e)
	}
	return int(fd), nil
}

// LandlockABI is the kernel's landlock version, 0 without landlock.
func LandlockABI() int {
	const version = 1 << 0 // LANDLOCK_CREATE_RULESET_VERSION
	n, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	if e != 0 {
		return 0
	}
	return int(n)
}

// AddPathRule wraps landlock_add_rule(2) for what lies below a directory.
func AddPathRule(ruleset int, attr *unix.LandlockPathBeneathAttr) error {
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(attr)), 0, 0, 0)
	if e != 0 {
		return os.NewSyscallError("landlock_add_rule", e)
	}
	return nil
}

// RestrictSelf wraps landlock_restrict_self(2): it confines the calling thread.
func RestrictSelf(ruleset int) error {
	_, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
	if e != 0 {
		return os.NewSyscallError("landlock_restrict_self", e)
	}
	return nil
}
