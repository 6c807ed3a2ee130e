// Package chroot runs a step of a recipe on an image's layers, as root of the host
// with little of what that may do, and writes down what the step has changed. It
// is no sandbox: it keeps mistakes of a trusted recipe off the host.
package chroot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
)

// Command is one step. All directories are the host's and absolute.
type Command struct {
	Base   string   // of the layers
	Layers []string // below Base, top first
	Dir    string   // empty; for what the step changes and what it needs, on a file system that can be an overlay's upper
	Args   []string // the program and its arguments
	Env    []string
	Line   func(string) // is told each line of output
}

// maxMountData is what the kernel takes of an overlay's options.
const maxMountData = 4000

const maxLine = 4 << 10

// Directories below Command.Dir.
const (
	upperDir = "upper"
	workDir  = "work"
	rootDir  = "root"
	runDir   = "run" // /run of the step, which is no part of the layer
)

// RunFile puts a file where the step finds it, as /run/name.
func (c Command) RunFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Join(c.Dir, runDir), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Dir, runDir, name), data, 0o600)
}

// Run runs the step. The error says what its program ended with.
func (c Command) Run(ctx context.Context) (err error) {
	for _, dir := range []string{upperDir, workDir, rootDir, runDir} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := c.lendNames(); err != nil {
		return err
	}
	data := "userxattr,lowerdir=" + strings.Join(c.Layers, ":") + ",upperdir=" + filepath.Join(c.Dir, upperDir) + ",workdir=" + filepath.Join(c.Dir, workDir)
	if len(data) > maxMountData {
		return fmt.Errorf("%d layers are more than an overlay takes", len(c.Layers))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	p, err := spawn.Start(&spawn.Cmd{
		Path: c.Args[0], Args: c.Args, Env: c.Env,
		CloneFlags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Files:      map[int]int{0: int(null.Fd()), 1: int(w.Fd()), 2: int(w.Fd())},
		Steps:      c.enter(data),
		Final:      dropCapabilities(),
	})
	if err := errors.Join(err, w.Close(), null.Close()); err != nil {
		return fmt.Errorf("start the step: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(p.PidFD)) }()
	// The program is PID 1 of its namespace: nothing of it outlives it.
	stop := context.AfterFunc(ctx, func() { unix.Kill(p.PID, unix.SIGKILL) }) //nolint:errcheck // it has ended then
	defer stop()
	c.follow(r)
	return c.wait(ctx, p)
}

func (c Command) wait(ctx context.Context, p *spawn.Process) error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(p.PID, &status, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("wait4", err)
		}
		break
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Signaled():
		return fmt.Errorf("ended by the signal %s", unix.SignalName(status.Signal()))
	case status.ExitStatus() != 0:
		return fmt.Errorf("ended with exit code %d", status.ExitStatus())
	}
	return nil
}

func (c Command) follow(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if c.Line != nil {
			c.Line(lines.Text())
		}
	}
	// A line too long ends the scan; the program must still be able to write.
	io.Copy(io.Discard, r) //nolint:errcheck // its status tells
}

// lent are files of the host that a step needs to reach others by their names.
var lent = []string{"etc/hosts", "etc/resolv.conf"}

// lendNames puts them on top of the image's; Layer leaves them out.
func (c Command) lendNames() error {
	if err := os.MkdirAll(filepath.Join(c.Dir, upperDir, "etc"), 0o755); err != nil {
		return err
	}
	for _, name := range lent {
		data, err := os.ReadFile("/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(c.Dir, upperDir, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter is the way into the layers. /proc is read-only, for the host's settings
// below it may be changed by root's number alone.
func (c Command) enter(overlay string) []spawn.Step {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	root := filepath.Join(c.Dir, rootDir)
	steps := []spawn.Step{
		spawn.Setsid(),
		spawn.Umask(0o022),
		spawn.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		spawn.Chdir(c.Base), // the kernel finds the layers from here
		spawn.Mount("overlay", root, "overlay", 0, overlay),
		spawn.Mount("proc", root+"/proc", "proc", quiet|unix.MS_NOEXEC|unix.MS_RDONLY, ""),
		spawn.Mount("tmpfs", root+"/tmp", "tmpfs", quiet, "mode=1777"),
		spawn.Mount(filepath.Join(c.Dir, runDir), root+"/run", "", unix.MS_BIND, ""),
		spawn.Mount("tmpfs", root+"/dev", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755"),
	}
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		steps = append(steps, spawn.Mknod(root+"/dev/"+d.name, 0o666, d.major, d.minor))
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		steps = append(steps, spawn.Symlink(target, root+"/dev/"+name))
	}
	steps = append(steps, spawn.Umask(0o022), spawn.Chdir(root))
	return append(steps, spawn.PivotRoot()...)
}

// kept are the capabilities that installers need: files of any owner, other users
// to download as, and ending their children.
const kept = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE

// dropCapabilities takes the others from the child and all that it starts.
func dropCapabilities() []spawn.Step {
	var steps []spawn.Step
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if kept&(1<<c) == 0 {
			steps = append(steps, spawn.Prctl("drop a capability", unix.PR_CAPBSET_DROP, c))
		}
	}
	return append(steps, spawn.Prctl("no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), spawn.Capset(kept, 0))
}
