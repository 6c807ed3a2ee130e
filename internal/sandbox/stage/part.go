package stage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Parts are the cgroups below the workload's that single programs run in, so
// that one can be ended with everything that it started. They have no limits
// of their own and are used again when they are empty. The daemon bounds how
// many there can be.
type Parts struct {
	parent int // the workload's

	mu    sync.Mutex
	idle  []string // guarded by mu; given back, perhaps with processes left in them
	spent []string // guarded by mu; to be removed when they are empty
	made  int      // guarded by mu
}

// Part is one of them in use.
type Part struct {
	parts   *Parts
	name    string
	dir     int
	usedCPU int64 // before it was taken

	// killed says that the part is spent: kernels since 6.14 kill whatever is
	// cloned into a cgroup that was killed more often than the caller's.
	killed atomic.Bool
}

// Part takes an empty one. The caller closes it.
func (p *Parts) Part() (*Part, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	for i, name := range p.idle {
		part, err := p.open(name)
		if err != nil {
			return nil, err
		}
		if pids, err := part.PIDs(); err != nil || len(pids) > 0 {
			sys.Close(part.dir)
			continue
		}
		p.idle = append(p.idle[:i], p.idle[i+1:]...)
		return part, nil
	}
	name := "part-" + strconv.Itoa(p.made)
	if err := sys.Mkdirat(p.parent, name, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	p.made++
	return p.open(name)
}

// clear removes what is spent and empty. p.mu is held.
func (p *Parts) clear() {
	p.spent = slices.DeleteFunc(p.spent, func(name string) bool {
		return unix.Unlinkat(p.parent, name, unix.AT_REMOVEDIR) == nil
	})
}

func (p *Parts) open(name string) (*Part, error) {
	dir, err := sys.Open(p.parent, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open a cgroup: %w", err)
	}
	part := &Part{parts: p, name: name, dir: dir}
	part.usedCPU = part.totalCPU()
	return part, nil
}

// FD is the directory to clone a process into, until Close.
func (p *Part) FD() int { return p.dir }

// PIDs names the processes, as the caller's pid namespace does.
func (p *Part) PIDs() ([]int, error) {
	text, err := p.read("cgroup.procs")
	if err != nil {
		return nil, err
	}
	var pids []int
	for line := range strings.Lines(text) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		if pid > 0 { // 0 is of another namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Kill sends KILL to all processes at once, also while they fork. Kernels
// before 5.14 cannot do that, and return an error.
func (p *Part) Kill() error {
	fd, err := sys.Open(p.dir, "cgroup.kill", unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	p.killed.Store(true)
	return sys.Write(fd, "1")
}

// CPUUsec is the processor time that was used in the part since it was taken.
func (p *Part) CPUUsec() int64 { return p.totalCPU() - p.usedCPU }

func (p *Part) totalCPU() int64 {
	text, err := p.read("cpu.stat")
	if err != nil {
		return 0
	}
	return counter(text, "usage_usec")
}

// Close gives the part back. What still runs in it is left alone.
func (p *Part) Close() error {
	p.parts.mu.Lock()
	defer p.parts.mu.Unlock()
	if p.killed.Load() {
		p.parts.spent = append(p.parts.spent, p.name)
		p.parts.clear()
	} else {
		p.parts.idle = append(p.parts.idle, p.name)
	}
	return unix.Close(p.dir)
}

// read returns a whole control file.
func (p *Part) read(name string) (string, error) {
	fd, err := sys.Open(p.dir, name, unix.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer sys.Close(fd)
	var text []byte
	buf := make([]byte, 4096)
	for {
		n, err := sys.Read(fd, buf)
		if err != nil {
			return "", err
		}
		if n == 0 {
			return string(text), nil
		}
		if text = append(text, buf[:n]...); len(text) > maxControlFile {
			return "", errors.New("a control file is too long")
		}
	}
}

// maxControlFile is room for the ids of more processes than a sandbox can have.
const maxControlFile = 1 << 20

// counter returns the number behind key in lines of keys and numbers, or 0.
func counter(text, key string) int64 {
	_, rest, ok := strings.Cut("\n"+text, "\n"+key+" ")
	if !ok {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
