package runner

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// procfs reads the process table.
type procfs struct {
	dir  string
	load int // open loadavg, or -1
}

// process is one line of the table.
type process struct {
	pid, ppid int
	alive     bool   // not a zombie
	stopped   bool   // by a signal or a tracer
	start     uint64 // in ticks since boot: with the pid it names a process for good
}

// tick is the unit of a process's start time: USER_HZ is 100 on every
// architecture that we build for.
const tick = 10 * time.Millisecond

func newProcfs(dir string) procfs {
	fd, err := unix.Open(dir+"/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return procfs{dir: dir, load: fd}
}

func (p procfs) close() error {
	if p.load < 0 {
		return nil
	}
	return unix.Close(p.load)
}

// moment is a point in the order in which processes are started.
type moment struct {
	tick    uint64
	lastPID int // the last one given out before it; 0 if unknown
}

// now returns a moment that lies after the start of every existing process
// and before that of every later one.
func (p procfs) now() moment {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return moment{}
	}
	return moment{tick: uint64(ts.Nano()) / uint64(tick), lastPID: p.lastPID()}
}

// lastPID reads the last field of loadavg: the pid most recently given out.
func (p procfs) lastPID() int {
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

// after reports whether pr was started after m. Within the tick of m, which
// start times cannot split, the order of pids decides.
func (pr process) after(m moment) bool {
	return pr.start > m.tick || pr.start == m.tick && pr.pid > m.lastPID
}

// list returns all living processes.
func (p procfs) list() ([]process, error) {
	d, err := os.Open(p.dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]process, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if pr, ok := p.read(name); ok && pr.alive {
			list = append(list, pr)
		}
	}
	return list, nil
}

// read reads the stat file of one process.
func (p procfs) read(pid string) (process, bool) {
	fd, err := unix.Open(p.dir+"/"+pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, false
	}
	var buf [512]byte
	n, err := unix.Read(fd, buf[:])
	closeFD(fd)
	if err != nil {
		return process{}, false
	}
	return parseStat(buf[:n])
}

// parseStat reads a line of /proc/PID/stat. The second field is the program's
// name in parentheses, chosen by the program: it may hold spaces, newlines and
// parentheses, so the fields behind it are counted from the last one.
func parseStat(line []byte) (process, bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return process{}, false
	}
	const (
		state   = 0
		ppid    = 1
		threads = 17
		start   = 19
	)
	f := bytes.Fields(line[end+1:])
	if len(f) <= start || len(f[state]) != 1 {
		return process{}, false
	}
	// A program whose first thread has ended looks like a zombie, but runs.
	dead := f[state][0] == 'X' || f[state][0] == 'Z' && (string(f[threads]) == "0" || string(f[threads]) == "1")
	pr := process{alive: !dead, stopped: f[state][0] == 'T' || f[state][0] == 't'}
	var err1, err2, err3 error
	pr.pid, err1 = strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	pr.ppid, err2 = strconv.Atoi(string(f[ppid]))
	pr.start, err3 = strconv.ParseUint(string(f[start]), 10, 64)
	return pr, err1 == nil && err2 == nil && err3 == nil
}

// signal sends sig to pr, and to no later process with the same pid.
func (p procfs) signal(pr process, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pr.pid, 0)
	if err != nil {
		return // it is gone
	}
	defer closeFD(fd)
	// Only now is it certain which process the descriptor is about.
	if now, ok := p.read(strconv.Itoa(pr.pid)); ok && now.start == pr.start {
		sendSignal(fd, sig)
	}
}

// sendSignal sends sig to the process of a pidfd. That process may be gone,
// which is the only way in which this fails.
func sendSignal(pidfd int, sig unix.Signal) {
	if err := unix.PidfdSendSignal(pidfd, sig, nil, 0); err != nil {
		return
	}
}

// closeFD closes a descriptor on which nothing was written, or whose writes
// were all reported: the error of such a close tells nothing.
func closeFD(fd int) {
	if err := unix.Close(fd); err != nil {
		return
	}
}
