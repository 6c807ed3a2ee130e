// Package proc reads the process table and ends what it finds there. What processes say of themselves there
// may be made up, so it is parsed with care and believed only as far as it
// concerns them.
package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/fds"
)

// Table is the process table of one procfs.
type Table struct {
	dir  string
	load int // open loadavg, or -1
}

// Process is one line of the table.
type Process struct {
	PID, Parent int
	Session     int
	Name        string        // as it calls itself, 15 bytes of anything
	Alive       bool          // not a zombie
	Stopped     bool          // by a signal or a tracer
	Runnable    bool          // has a processor, or waits for one or for a disk
	Start       uint64        // in ticks since boot: with the pid it names a process for good
	CPU         time.Duration // with that of its children that have ended
	Memory      int64         // resident, in bytes
}

// tick is the unit of a process's start time: USER_HZ is 100 on every
// architecture that we build for.
const tick = 10 * time.Millisecond

// Open returns the table of the procfs that is mounted at dir. The caller
// closes it.
func Open(dir string) Table {
	fd, err := unix.Open(dir+"/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return Table{dir: dir, load: fd}
}

// Close frees what the Table holds.
func (p Table) Close() error {
	if p.load < 0 {
		return nil
	}
	return unix.Close(p.load)
}

// Moment is a point in the order in which processes are started.
type Moment struct {
	tick    uint64
	lastPID int // the last one given out before it; 0 if unknown
}

// Now returns a moment that lies after the start of every existing process
// and before that of every later one.
func (p Table) Now() Moment {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return Moment{}
	}
	return Moment{tick: uint64(ts.Nano()) / uint64(tick), lastPID: p.lastPID()}
}

// lastPID reads the last field of loadavg: the pid most recently given out.
func (p Table) lastPID() int {
	if p.load < 0 {
		return 0
	}
	var buf [128]byte
	n, err := unix.Pread(p.load, buf[:], 0)
	if err != nil {
		return 0
	}
	line := bytes.TrimSpace(buf[:n])
	pid, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
	if err != nil {
		return 0
	}
	return pid
}

// After reports whether pr was started after m. Within the tick of m, which
// start times cannot split, the order of pids decides.
func (pr Process) After(m Moment) bool {
	return pr.Start > m.tick || pr.Start == m.tick && pr.PID > m.lastPID
}

// List returns all living processes.
func (p Table) List() ([]Process, error) {
	d, err := os.Open(p.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]Process, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if pr, ok := p.Read(name); ok && pr.Alive {
			list = append(list, pr)
		}
	}
	return list, nil
}

// Pick returns those of the processes that live.
func (p Table) Pick(pids []int) []Process {
	list := make([]Process, 0, len(pids))
	for _, pid := range pids {
		if pr, ok := p.Read(strconv.Itoa(pid)); ok && pr.Alive {
			list = append(list, pr)
		}
	}
	return list
}

// Read reads the stat file of one process.
func (p Table) Read(pid string) (Process, bool) {
	fd, err := unix.Open(p.dir+"/"+pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Process{}, false
	}
	var buf [512]byte
	n, err := unix.Read(fd, buf[:])
	fds.Close(fd)
	if err != nil {
		return Process{}, false
	}
	return parseStat(buf[:n])
}

// parseStat reads a line of /proc/PID/stat. The second field is the program's
// name in parentheses, chosen by the program: it may hold spaces, newlines and
// parentheses, so the fields behind it are counted from the last one.
func parseStat(line []byte) (Process, bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return Process{}, false
	}
	const (
		state   = 0
		parent  = 1
		session = 3
		cpu     = 11 // four of them: its own and its children's, user and system
		threads = 17
		start   = 19
		memory  = 21
	)
	f := bytes.Fields(line[end+1:])
	if len(f) <= memory || len(f[state]) != 1 {
		return Process{}, false
	}
	// A program whose first thread has ended looks like a zombie, but runs.
	dead := f[state][0] == 'X' || f[state][0] == 'Z' && (string(f[threads]) == "0" || string(f[threads]) == "1")
	pr := Process{Name: string(line[open+1 : end]), Alive: !dead, Stopped: f[state][0] == 'T' || f[state][0] == 't', Runnable: f[state][0] == 'R' || f[state][0] == 'D'}
	var ticks int64
	for _, field := range f[cpu : cpu+4] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return Process{}, false
		}
		ticks += n
	}
	var err [5]error
	pr.PID, err[0] = strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	pr.Parent, err[1] = strconv.Atoi(string(f[parent]))
	pr.Session, err[2] = strconv.Atoi(string(f[session]))
	pr.Start, err[3] = strconv.ParseUint(string(f[start]), 10, 64)
	pr.Memory, err[4] = strconv.ParseInt(string(f[memory]), 10, 64)
	pr.Memory *= int64(os.Getpagesize())
	pr.CPU = time.Duration(ticks) * tick
	return pr, errors.Join(err[:]...) == nil
}

// OwnCPU is what all threads of a process have had of processors, without its children.
func OwnCPU(pid int) (time.Duration, error) {
	// A clock of a process, as clock_getcpuclockid makes it: the complement of the
	// process above three bits, which say that it is the scheduler's clock.
	const scheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(t.Nano()), nil
}

// Signal sends sig to pr, and to no later process with the same pid.
func (p Table) Signal(pr Process, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pr.PID, 0)
	if err != nil {
		return // it is gone
	}
	defer fds.Close(fd)
	// Only now is it certain which process the descriptor is about.
	if now, ok := p.Read(strconv.Itoa(pr.PID)); ok && now.Start == pr.Start {
		SendSignal(fd, sig)
	}
}

// SendSignal sends sig to the process of a pidfd. That process may be gone,
// which is the only way in which this fails.
func SendSignal(pidfd int, sig unix.Signal) {
	if err := unix.PidfdSendSignal(pidfd, sig, nil, 0); err != nil {
		return
	}
}
