package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// ContainerBoot is what a runner is told that an engine has started as the
// first process of a container: all that is to be mounted is, the rights are
// the engine's gift, and nothing but its environment comes with it.
type ContainerBoot struct {
	Socket         string `json:"socket"` // abstract, to listen on
	Workspace      string `json:"workspace"`
	Env            Env    `json:"env"`
	WorkloadFilter Filter `json:"workload_filter,omitempty"`
	Baseline       string `json:"baseline,omitempty"`   // path of a list of package baseline
	MachineID      string `json:"machine_id,omitempty"` // content of /etc/machine-id, if that is there
	User           *User  `json:"user,omitempty"`       // whom the programs are; nil is root
}

// User is whom a sandbox's programs are.
type User struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"` // supplementary
}

// ContainerBootVar is the environment variable with a ContainerBoot in JSON.
const ContainerBootVar = "SANDKASTEN_BOOT"

// ContainerCommand is the argument that makes a runner one of a container.
const ContainerCommand = "contained"

// CopyCommand is the argument that makes a runner's program copy the directory
// that follows to the others.
const CopyCommand = "copy"

// ContainerCaps is what a container needs to have, for its runner: beside what
// it hands on, the right to end processes of any user.
const ContainerCaps = WorkloadCaps | 1<<unix.CAP_KILL

// Contained is a container that its runner has taken over.
type Contained struct {
	Listener  int
	Workspace string
	Env       []string
	Baseline  string
	User      *User // as in ContainerBoot

	filter   []unix.SockFilter
	thread   cloneThread
	oomCount int // -1 where it cannot be seen
}

// EnterContainer makes the calling process a container's runner: out of the
// workload's reach, and without rights to pass on that the workload must not
// have. On an error the process must end, which ends the container.
func EnterContainer() (*Contained, error) {
	var b ContainerBoot
	if err := json.Unmarshal([]byte(os.Getenv(ContainerBootVar)), &b); err != nil {
		return nil, fmt.Errorf("decode %s: %w", ContainerBootVar, err)
	}
	if err := HideProcess(); err != nil {
		return nil, err
	}
	if err := KeepForItself(); err != nil {
		return nil, err
	}
	if err := errors.Join(writeNames("", "", b.MachineID), makeDir(b.Workspace)); err != nil {
		return nil, err
	}
	c := &Contained{
		Workspace: b.Workspace, Env: b.Env.Vars(), Baseline: b.Baseline, User: b.User,
		filter: b.WorkloadFilter.program(), oomCount: openOOMCount(),
	}
	if err := actAs(b.User, b.Workspace); err != nil {
		return nil, fmt.Errorf("act as the user of the sandbox: %w", err)
	}
	var err error
	if c.thread, err = cloner(&Boot{Landlock: true}); err != nil {
		return nil, fmt.Errorf("landlock: %w", err)
	}
	c.Listener, err = listenAbstract(b.Socket)
	return c, err
}

// makeDir makes an empty directory at path unless there is one. Where the
// workspace is none of its own volumes, the programs of an earlier start may have
// removed it, or put something else there.
func makeDir(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err == nil {
		if err := unix.Unlink(path); err != nil {
			return os.NewSyscallError("unlink", err)
		}
	}
	return os.NewSyscallError("mkdir", unix.Mkdir(path, 0o755))
}

// KeepForItself leaves what the workload must not have out of what the process
// can hand on: what is in no bounding set comes back by no exec. The process keeps
// what it has, which is more than what the workload has, and so none of that can
// trace it.
func KeepForItself() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if WorkloadCaps&(1<<c) == 0 {
			err := allThreads("prctl", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
			if err != nil && !errors.Is(err, unix.EINVAL) { // a kernel that does not know it
				return err
			}
		}
	}
	return nil
}

// actAs makes the process reach files as u does, and what it creates u's. The
// process stays root in all else, and can be root for files again, which its
// programs cannot. The workspace is u's, whoever had it.
func actAs(u *User, workspace string) error {
	if u == nil {
		return nil
	}
	if err := os.Lchown(workspace, u.UID, u.GID); err != nil {
		return err
	}
	groups := make([]uint32, len(u.Groups)+1) // one more, so that there is an address
	for i, g := range u.Groups {
		groups[i] = uint32(g)
	}
	err := allThreads("setgroups", unix.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(unsafe.Pointer(&groups[0])))
	runtime.KeepAlive(groups)
	return errors.Join(err, ownFiles(u.UID, u.GID))
}

// HideProcess keeps the memory, environment and descriptors of the calling
// process from others, of its user too.
func HideProcess() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// SpareThreads makes threads that the Go runtime takes when it needs one. In a
// container the workload can leave no room for new ones, and the runtime ends
// the process when it cannot make one.
func SpareThreads(n int) {
	made, enough := make(chan struct{}, n), make(chan struct{})
	var all guard.Group
	for range n {
		all.Go(func() {
			runtime.LockOSThread() // so that the next gets another
			defer runtime.UnlockOSThread()
			made <- struct{}{}
			<-enough
		}, func(error) { made <- struct{}{} })
	}
	for range n {
		<-made
	}
	close(enough)
	all.Wait()
}

// Stdio takes the stream that the engine gives a process. In its place the process
// has /dev/null, so that its end leaves no standard descriptor to something else.
func Stdio() (io.ReadWriteCloser, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	in, inErr := takeOver(unix.Stdin, null)
	out, outErr := takeOver(unix.Stdout, null)
	return &stdio{in, out}, errors.Join(inErr, outErr)
}

// takeOver returns a file of a standard descriptor, which becomes one of null.
func takeOver(fd int, null *os.File) (*os.File, error) {
	taken, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, unix.Stderr+1)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	// Nobody else reads or writes at this end of the pipe. To wait for the other
	// takes no thread then.
	err = errors.Join(unix.SetNonblock(taken, true), unix.Dup3(int(null.Fd()), fd, 0))
	return os.NewFile(uintptr(taken), "stdio"), err
}

type stdio struct{ in, out *os.File }

func (s *stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// openOOMCount opens the file of the container's own cgroup that counts OOM
// kills, of cgroup v2 or v1.
func openOOMCount() int {
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		if fd, err := sys.Open(unix.AT_FDCWD, path, unix.O_RDONLY, 0); err == nil {
			return fd
		}
	}
	return -1
}

func listenAbstract(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return -1, os.NewSyscallError("bind", err)
	}
	return fd, os.NewSyscallError("listen", unix.Listen(fd, 128))
}

// Admit reports whether a connection comes from outside of the container: from
// a process that the engine has started in it, the runner included, which has no
// parent there. What started inside has one, also when it was orphaned.
func (c *Contained) Admit(fd int) bool {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || cred.Pid < 1 {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(int(cred.Pid)) + "/stat")
	if err != nil {
		return false
	}
	// The program chooses its name, which ends at the last parenthesis; its
	// state and its parent follow.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return len(fields) > 1 && fields[1] == "0"
}

// Clone clones c as a process of the workload.
func (c *Contained) Clone(cmd *spawn.Cmd) (*spawn.Process, error) {
	// Others may stop the child or have it killed for want of memory; only to the
	// first there are no others, but what it writes below is its memory's.
	cmd.Memory = spawn.Copied
	// The kernel takes the workload before the runner when memory is short. That
	// file is root's, also where the runner reaches files as another.
	steps := spawn.SetIDs(0, 0)
	prepend(cmd, append(steps, spawn.WriteFile(len(steps), "/proc/self/oom_score_adj", "500")...))
	if len(c.filter) > 0 {
		cmd.Final = append(cmd.Final, spawn.Seccomp(c.filter))
	}
	return c.thread.clone(cmd)
}

// OOMKills counts the processes that the memory limit has killed.
func (c *Contained) OOMKills() int64 {
	if c.oomCount < 0 {
		return 0
	}
	return oomKills(c.oomCount)
}
