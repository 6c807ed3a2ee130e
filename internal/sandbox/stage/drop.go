package stage

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// Capability sets inside the sandbox's user namespace. None of them is worth
// anything on the host.
const (
	// WorkloadCaps is the bounding set: what the sandbox's root can have. It
	// leaves out what would reach the runner (KILL, SYS_PTRACE, SYS_RESOURCE,
	// SYS_NICE) and what opens kernel surface (SYS_ADMIN, NET_ADMIN, NET_RAW,
	// MKNOD, SYS_CHROOT, SETFCAP).
	WorkloadCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
		1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE

	// serveCaps is what the runner keeps: all that it hands on (under
	// no_new_privs a program gets no more than its parent had), what it takes to
	// start processes in a cgroup namespace of their own (SYS_ADMIN), to find
	// them in a /proc that hides others' (SYS_PTRACE) and to end them (KILL).
	serveCaps = WorkloadCaps | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_KILL

	// EnterCaps is what the runner starts with: the above, and what bringing up
	// the loopback interface takes.
	EnterCaps = serveCaps | 1<<unix.CAP_NET_ADMIN
)

// drop gives up what serving does not need, on all threads of the process. The
// filter comes last since it forbids some of the other calls.
func drop(b *Boot) error {
	if !b.KeepCaps {
		hdr := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := spawn.CapData(serveCaps, 0)
		if err := allThreads("capset", unix.SYS_CAPSET, uintptr(unsafe.Pointer(hdr)), uintptr(unsafe.Pointer(data))); err != nil {
			return err
		}
		runtime.KeepAlive(hdr)
		runtime.KeepAlive(data)
	}
	if filter := b.RunnerFilter.program(); len(filter) > 0 {
		prog := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(prog)))
		if e != 0 {
			return os.NewSyscallError("seccomp", e)
		}
	}
	return nil
}

// ownFiles makes what the process creates from here on belong to a user of the
// sandbox, and has it reach files as that user does. Its other ids stay those
// that it has.
func ownFiles(uid, gid int) error {
	return errors.Join(
		allThreads("setfsgid", unix.SYS_SETFSGID, uintptr(gid), 0),
		allThreads("setfsuid", unix.SYS_SETFSUID, uintptr(uid), 0),
	)
}

// allThreads makes the call on every thread; new threads inherit the result.
func allThreads(name string, nr, a, b uintptr) error {
	if _, _, e := syscall.AllThreadsSyscall(nr, a, b, 0); e != 0 {
		return os.NewSyscallError(name, e)
	}
	return nil
}

// cloner returns how processes of the workload are cloned: by one thread that
// landlock confines. A domain belongs to a thread and passes to what it
// clones; were each thread of the runner to enter one, they would be as many
// domains, and processes of the sandbox, depending on who had started them,
// could neither see nor signal each other. The runner itself stays outside,
// where it reaches all of them and none of them reaches it: not with its first
// thread inside, which the kernel takes for the process when it asks who may signal it.
func cloner(b *Boot) (cloneThread, error) {
	work, confined := make(cloneThread), make(chan error)
	guard.Go(func() {
		sys.OnOtherThread(func() { // as long as the process lives
			err := errors.Join(blockSignals(), placeLauncher(b.CPUs))
			if b.Landlock {
				err = errors.Join(err, landlock())
			}
			confined <- err
			for do := range work {
				do()
			}
		})
	}, func(err error) { confined <- err })
	return work, <-confined
}

// cloneThread takes what the one thread is to do.
type cloneThread chan func()

func (t cloneThread) do(f func() error) error {
	done := make(chan error)
	t <- func() { done <- guard.Try(f) }
	return <-done
}

// clone clones c on the thread.
func (t cloneThread) clone(c *spawn.Cmd) (p *spawn.Process, err error) {
	err = t.do(func() (err error) { p, err = c.Clone(); return err })
	return p, err
}

// watchNetlink loads the filter that has the kernel ask the runner for netlink
// sockets. It comes after the runner's own, which all threads take together.
func (t cloneThread) watchNetlink(f Filter) error {
	if len(f) == 0 {
		return nil
	}
	return t.do(func() error { return listenNetlink(f.program()) })
}

// LauncherName is the name of the thread that starts programs, for the daemon to find
// it by.
const LauncherName = "launcher"

// placeLauncher has what the calling thread starts run on some processors only.
func placeLauncher(cpus []int) error {
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(unsafe.StringData(LauncherName+"\x00"))), 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return os.NewSyscallError("sched_setaffinity", unix.SchedSetaffinity(0, &set))
}

// blockSignals keeps signals from the calling thread: those of its own domain
// may be sent to it, and the Go runtime takes one that says it is a fault for
// one. The runtime's own, of which some calls wait for an answer, still arrive.
// What the thread clones begins with none blocked.
func blockSignals() error {
	const libc = 0b111 << (32 - 1) // 32 to 34, of which the runtime uses one for calls on all threads
	set := ^uint64(1<<(unix.SIGURG-1) | libc)
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&set)), 0, unsafe.Sizeof(set), 0, 0)
	if e != 0 {
		return os.NewSyscallError("rt_sigprocmask", e)
	}
	return nil
}

// landlock confines the calling thread once more, without namespaces and
// capabilities in the way: no device files, no signals and no abstract sockets
// beyond the sandbox. The kernel may be too old for parts. Mounting is over
// once it is called.
func landlock() error {
	abi := sys.LandlockABI()
	if abi < 1 {
		return nil
	}
	attr := landlockRights(abi)
	size := unsafe.Sizeof(attr.Handled_access_fs)
	switch {
	case abi >= 6:
		size = unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	case abi >= 4:
		size = unsafe.Offsetof(attr.Handled_access_net) + unsafe.Sizeof(attr.Handled_access_net)
	}
	rules, err := sys.CreateRuleset(&attr, size)
	if err != nil {
		return err
	}
	defer sys.Close(rules)
	const special = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	allow := func(path string, rights uint64) error {
		fd, err := sys.Open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer sys.Close(fd)
		return sys.AddPathRule(rules, &unix.LandlockPathBeneathAttr{Allowed_access: rights & attr.Handled_access_fs, Parent_fd: int32(fd)})
	}
	if err := allow("/", attr.Handled_access_fs&^special); err != nil {
		return err
	}
	if abi >= 5 { // terminals, and the few harmless devices beside them
		if err := allow("/dev", unix.LANDLOCK_ACCESS_FS_IOCTL_DEV); err != nil {
			return err
		}
	}
	return sys.RestrictSelf(rules)
}

// landlockRights is everything that a kernel of this ABI can restrict and we
// want restricted.
func landlockRights(abi int) unix.LandlockRulesetAttr {
	fs := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // ABI 1 ends with MAKE_SYM
	if abi >= 2 {
		fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fs}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}
