package stage

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// Inside is a sandbox that has been entered.
type Inside struct {
	Listener  int // a listening socket for operations
	Workspace string
	Env       []string
	Quiet     bool // see Boot
	Parts     Parts
	Changes   int // the open directory that has what was written to the root

	filter   []unix.SockFilter // of the workload; empty without
	thread   cloneThread
	cgroup   int   // of the workload
	tasks    []int // the same, on v1
	oomCount int
	started  atomic.Bool // a process of the workload
}

// RunnerSlack is how late a runner's timers may be. While one of its threads is
// in a system call, as when it waits for a shell, another one of the Go runtime
// wakes up every 20 µs to look at it. That took more time than running a short
// command; with slack it wakes up once. What the runner has to do in time may
// be late by as much.
const RunnerSlack = time.Millisecond

// workloadSlack is the kernel's default.
const workloadSlack = 50 * time.Microsecond

// Enter waits for the Boot, builds the sandbox around the calling process and
// drops its rights. While it waits it has nothing mounted that is the host's. On an
// error the process must end: it may be half inside.
// The caller reports the outcome with Ready or Fail.
func Enter() (*Inside, error) {
	// To the sandbox's root: the runner's other ids are such as the sandbox cannot
	// name, and which could not own a file in it either.
	if err := ownFiles(0, 0); err != nil {
		return nil, err
	}
	left := leaveHost()
	b, fds, err := receive(ControlFD)
	if err != nil {
		return nil, fmt.Errorf("receive boot: %w", err)
	}
	if left != nil { // not sooner: who sends the boot is told why
		return nil, fmt.Errorf("let go of the host's mounts: %w", left)
	}
	mounts, rest := fds[:b.mounts()], fds[b.mounts():]
	changes, err := buildRoot(b, mounts)
	if err != nil {
		return nil, err
	}
	sys.Close(mounts...)
	if err := unix.Sethostname([]byte(b.Hostname)); err != nil {
		return nil, os.NewSyscallError("sethostname", err)
	}
	if err := loopbackUp(); err != nil && !protection.Off(protection.NetworkNS) {
		return nil, fmt.Errorf("bring loopback up: %w", err)
	}
	in := &Inside{
		Listener: rest[0], Workspace: b.Workspace, Env: b.Env.Vars(), Quiet: b.Quiet, Changes: changes,
		filter: b.WorkloadFilter.program(), oomCount: rest[1], cgroup: rest[2], tasks: rest[3:],
	}
	in.Parts.parent = in.cgroup
	if in.thread, err = cloner(b); err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	if err := drop(b); err != nil {
		return nil, fmt.Errorf("drop rights: %w", err)
	}
	if err := in.thread.watchNetlink(b.NetlinkFilter); err != nil {
		return nil, fmt.Errorf("watch netlink sockets: %w", err)
	}
	if b.ReadonlyRoot { // nothing can be put into it
		return in, nil
	}
	return in, writeNames(b.Hostname, b.HostsFile, b.MachineID)
}

// Rename gives a sandbox that has been entered another name.
func Rename(hostname, hostsFile string) error {
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return os.NewSyscallError("sethostname", err)
	}
	return writeNames(hostname, hostsFile, "")
}

// writeNames puts into /etc what is this sandbox's own and not the disk's, as
// far as it is given. A file that is not there, or no plain one any more, stays
// as it is: what runs in the sandbox wanted it so.
func writeNames(hostname, hostsFile, machineID string) error {
	files := map[string]string{}
	if hostsFile != "" {
		files["/etc/hosts"], files["/etc/hostname"] = hostsFile, hostname+"\n"
	}
	if machineID != "" {
		files["/etc/machine-id"] = machineID + "\n"
	}
	for path, text := range files {
		fi, err := os.Lstat(path)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() == 0 {
			continue
		}
		// Another file under its name: this one may have more names.
		if err := errors.Join(os.Remove(path), writeNew(path, text)); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// writeNew makes a file. What a program put under its name meanwhile, a link or
// a pipe, is not opened.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Ready tells the daemon that operations are accepted.
func Ready() error { return answer(ready) }

// Fail tells the daemon why the sandbox cannot be entered.
func Fail(err error) error { return answer(err.Error()) }

func answer(text string) error {
	if err := sys.Write(ControlFD, text); err != nil {
		return fmt.Errorf("answer the daemon: %w", err)
	}
	return os.NewSyscallError("close", unix.Close(ControlFD))
}

// Clone clones c as a process of the workload, in the cgroup that c names if
// it names one.
func (in *Inside) Clone(c *spawn.Cmd) (*spawn.Process, error) {
	if first := in.prepare(c); !first {
		return in.thread.clone(c)
	}
	p, err := in.thread.clone(c)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(); err != nil {
		return nil, errors.Join(err, os.NewSyscallError("close", unix.Close(p.PidFD)))
	}
	// What it asked for itself in our memory is ours as well.
	return p, noHugePages()
}

// noHugePages keeps the heap small, as spawn.HugePages does.
func noHugePages() error {
	err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	if err == unix.EINVAL { // a kernel without them
		return nil
	}
	return os.NewSyscallError("prctl PR_SET_THP_DISABLE", err)
}

// prepare puts c in the workload's cgroups, makes it the sandbox's root with
// the few capabilities left in the bounding set, and loads its filter. It
// reports whether c is the first, which begins in our memory.
func (in *Inside) prepare(c *spawn.Cmd) (first bool) {
	var steps []spawn.Step
	// From the moment it is in the cgroup the kernel may kill it for want of
	// memory, and from the moment it has its ids others may stop it. Only to the
	// first there are no others.
	first = !in.started.Swap(true)
	if !first {
		c.Memory = spawn.Copied
	}
	if c.CgroupFD == 0 { // else it is one of the parts
		c.CgroupFD = in.cgroup
	}
	// From inside: the kernel takes a slow global lock for anyone else.
	for _, fd := range in.tasks {
		steps = append(steps, spawn.Write("join cgroup", fd, "0"))
	}
	// Only now, when it is where it belongs: the namespace's root is the
	// cgroup that the process is in.
	if !protection.Off(protection.CgroupNS) {
		steps = append(steps, spawn.Unshare(unix.CLONE_NEWCGROUP))
	}
	steps = append(steps, spawn.TimerSlack(workloadSlack), spawn.HugePages(true))
	steps = append(steps, spawn.SetIDs(0, 0)...)
	prepend(c, steps)
	if protection.Off(protection.CloseOnExec) {
		for fd := uintptr(3); fd < 32; fd++ {
			c.Final = append(c.Final, spawn.Step{Name: "keep open", Nr: unix.SYS_FCNTL, Args: [6]uintptr{fd, unix.F_SETFD, 0}}.Optional())
		}
	}
	if len(in.filter) > 0 {
		c.Final = append(c.Final, spawn.Seccomp(in.filter))
	}
	return first
}

// OOMKills counts the processes that the memory limit has killed.
func (in *Inside) OOMKills() int64 { return oomKills(in.oomCount) }

// prepend puts steps before those that c has.
func prepend(c *spawn.Cmd, steps []spawn.Step) {
	for i := range c.Steps { // their own references move with them
		for j := range c.Steps[i].Save {
			c.Steps[i].Save[j].Step += len(steps)
		}
	}
	c.Steps = append(steps, c.Steps...)
}

// oomKills reads the open file that counts them.
func oomKills(fd int) int64 {
	buf := make([]byte, 512)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil {
		return 0
	}
	return counter(string(buf[:n]), "oom_kill")
}

// loopbackUp brings lo up in the sandbox's own network namespace.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer sys.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("ioctl SIOCSIFFLAGS", unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr))
}
