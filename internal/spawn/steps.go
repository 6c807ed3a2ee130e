package spawn

import (
	"encoding/binary"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Setsid makes the child a session leader without a terminal.
func Setsid() Step { return Step{Name: "setsid", Nr: unix.SYS_SETSID} }

// SetCtty makes fd, a terminal, the controlling one. Setsid must come before.
func SetCtty(fd int) Step {
	return Step{Name: "TIOCSCTTY", Nr: unix.SYS_IOCTL, Args: [6]uintptr{uintptr(fd), unix.TIOCSCTTY, 0}}
}

// Umask makes the modes of new files independent of the umask here.
func Umask(mask uint32) Step {
	return Step{Name: "umask", Nr: unix.SYS_UMASK, Args: [6]uintptr{uintptr(mask)}}
}

// Chdir changes the working directory.
func Chdir(dir string) Step {
	return Step{Name: "chdir " + dir, Nr: unix.SYS_CHDIR}.point(0, cstring(dir))
}

// Barrier waits for one byte on fd, and fails when the other side is gone.
func Barrier(fd int) Step {
	return Step{
		Name: "barrier", Nr: unix.SYS_READ, Args: [6]uintptr{uintptr(fd), 0, 1},
		Want: 1, HasWant: true,
	}.point(1, datumOf(new(byte)))
}

// CloseOthers closes every descriptor but those. A child that waits at a barrier without
// that keeps copies of all that the parent had open: connections, locks, and the other
// sides of other children's barriers, so that two of them would wait for each other for
// ever once the parent is gone. It is for children with shared memory: one with a copy
// says by an open descriptor that it is not done.
func CloseOthers(keep ...int) []Step {
	var steps []Step
	from := 0
	closeUpTo := func(last uintptr) {
		steps = append(steps, Step{Name: "close_range", Nr: unix.SYS_CLOSE_RANGE, Args: [6]uintptr{uintptr(from), last}})
	}
	for _, fd := range slices.Compact(slices.Sorted(slices.Values(keep))) {
		if fd > from {
			closeUpTo(uintptr(fd - 1))
		}
		from = fd + 1
	}
	closeUpTo(uintptr(^uint32(0)))
	return steps
}

// Write writes text to fd.
func Write(name string, fd int, text string) Step {
	return Step{Name: name, Nr: unix.SYS_WRITE, Args: [6]uintptr{uintptr(fd), 0, uintptr(len(text))}}.point(1, cstring(text))
}

// WriteFile is two steps that open path for writing and write text. The
// descriptor is closed when the program starts. at is the position of the
// first of them in its list.
func WriteFile(at int, path, text string) []Step {
	open := Step{
		Name: "open " + path, Nr: unix.SYS_OPENAT,
		Args: [6]uintptr{atFDCWD, 0, unix.O_WRONLY | unix.O_CLOEXEC},
		Save: []Arg{{Step: at + 1, Arg: 0}},
	}
	return []Step{open.point(1, cstring(path)), Write("write "+path, 0, text)}
}

// SetIDs takes the group, then the user: without the user's privileges the
// group could no longer be changed. First the supplementary groups become
// those given, if any.
func SetIDs(uid, gid int, groups ...int) []Step {
	u, g := uintptr(uid), uintptr(gid)
	return []Step{
		Setgroups(groups...),
		{Name: "setresgid", Nr: unix.SYS_SETRESGID, Args: [6]uintptr{g, g, g}},
		{Name: "setresuid", Nr: unix.SYS_SETRESUID, Args: [6]uintptr{u, u, u}},
	}
}

// Setgroups makes groups the supplementary ones; without any it drops all.
func Setgroups(groups ...int) Step {
	s := Step{Name: "setgroups", Nr: unix.SYS_SETGROUPS}
	if len(groups) == 0 {
		return s
	}
	ids := new(datum)
	for _, g := range groups {
		ids.bytes = binary.NativeEndian.AppendUint32(ids.bytes, uint32(g))
	}
	s.Args[0] = uintptr(len(groups))
	return s.point(1, ids)
}

// Unshare leaves the parent's namespaces named by flags.
func Unshare(flags uintptr) Step {
	return Step{Name: "unshare", Nr: unix.SYS_UNSHARE, Args: [6]uintptr{flags}}
}

// Prctl is prctl(2).
func Prctl(name string, args ...uintptr) Step {
	s := Step{Name: "prctl " + name, Nr: unix.SYS_PRCTL}
	copy(s.Args[:], args)
	return s
}

// HugePages says whether the kernel may back the child's memory, and that of
// those it starts, with transparent huge pages unasked. While the child shares
// the caller's memory it says so of the caller, too.
func HugePages(allowed bool) Step {
	disable := uintptr(1)
	if allowed {
		disable = 0
	}
	return Prctl("PR_SET_THP_DISABLE", unix.PR_SET_THP_DISABLE, disable).Optional() // not every kernel has them
}

// TimerSlack says how late the kernel may let timers fire: those of the child's
// thread and of all that it starts.
func TimerSlack(d time.Duration) Step {
	return Prctl("PR_SET_TIMERSLACK", unix.PR_SET_TIMERSLACK, uintptr(d.Nanoseconds()))
}

// Rlimit sets the soft and the hard limit of resource.
func Rlimit(name string, resource int, limit uint64) Step {
	l := &unix.Rlimit{Cur: limit, Max: limit}
	return Step{Name: "prlimit " + name, Nr: unix.SYS_PRLIMIT64, Args: [6]uintptr{0, uintptr(resource)}}.point(2, datumOf(l))
}

// Capset sets the permitted, effective and inheritable capabilities of the
// child to the same two or one masks.
func Capset(permitted, inheritable uint64) Step {
	hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := CapData(permitted, inheritable)
	return Step{Name: "capset", Nr: unix.SYS_CAPSET}.point(0, datumOf(hdr)).point(1, datumOf(data))
}

// CapData is the two words that capset(2) wants, with effective equal to
// permitted.
func CapData(permitted, inheritable uint64) *[2]unix.CapUserData {
	return &[2]unix.CapUserData{
		{Effective: uint32(permitted), Permitted: uint32(permitted), Inheritable: uint32(inheritable)},
		{Effective: uint32(permitted >> 32), Permitted: uint32(permitted >> 32), Inheritable: uint32(inheritable >> 32)},
	}
}

// Seccomp loads a filter. no_new_privs must be set or CAP_SYS_ADMIN held.
// Every step after it is under the filter.
func Seccomp(filter []unix.SockFilter) Step {
	prog := datumOf(&unix.SockFprog{Len: uint16(len(filter))}) // its pointer is a link
	list := unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), len(filter)*unix.SizeofSockFilter)
	prog.links = []pointer{{int(unsafe.Offsetof(unix.SockFprog{}.Filter)), &datum{bytes: list}}}
	return Step{Name: "seccomp", Nr: unix.SYS_SECCOMP, Args: [6]uintptr{unix.SECCOMP_SET_MODE_FILTER}}.point(2, prog)
}

// A variable because the compiler refuses a negative constant as uintptr.
var atFDCWD = func() uintptr { fd := unix.AT_FDCWD; return uintptr(fd) }()

// cstring ends s with a zero byte. Callers pass their own constants and paths
// already checked for zero bytes; one inside would only cut the string short.
func cstring(s string) *datum { return &datum{bytes: append([]byte(s), 0)} }

// Mount mounts, in the child's mount namespace. Empty texts are null pointers.
func Mount(source, target, kind string, flags uintptr, data string) Step {
	s := Step{Name: "mount " + target, Nr: unix.SYS_MOUNT, Args: [6]uintptr{3: flags}}
	for i, text := range map[int]string{0: source, 1: target, 2: kind, 4: data} {
		if text != "" {
			s = s.point(i, cstring(text))
		}
	}
	return s
}

// PivotRoot makes the working directory the root and lets go of the old one.
func PivotRoot() []Step {
	here := func(name string, nr uintptr, args ...uintptr) Step {
		s := Step{Name: name, Nr: nr}
		copy(s.Args[:], args)
		return s.point(0, cstring("."))
	}
	return []Step{
		here("pivot_root", unix.SYS_PIVOT_ROOT).point(1, cstring(".")),
		here("umount the old root", unix.SYS_UMOUNT2, 0, unix.MNT_DETACH),
		Chdir("/"),
	}
}

// Mknod makes a character device.
func Mknod(path string, mode uint32, major, minor uint32) Step {
	return Step{
		Name: "mknod " + path, Nr: unix.SYS_MKNODAT, Args: [6]uintptr{atFDCWD, 0, uintptr(unix.S_IFCHR | mode), uintptr(unix.Mkdev(major, minor))},
	}.point(1, cstring(path))
}

// Symlink makes a symbolic link.
func Symlink(target, path string) Step {
	return Step{Name: "symlink " + path, Nr: unix.SYS_SYMLINKAT, Args: [6]uintptr{1: atFDCWD}}.point(0, cstring(target)).point(2, cstring(path))
}
