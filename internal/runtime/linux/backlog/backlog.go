// Package backlog ends sandboxes' programs that fill the kernel's memory through
// connections which nobody accepts. What has arrived on one of those belongs to
// no control group before accept, on cgroup v2 neither, and the one bound that the
// kernel has is the whole host's. A connection that is accepted, and any other
// socket, is counted and no business of this package.
package backlog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
)

const (
	// interval is between readings of what TCP takes on the whole host, which cost
	// 20 us each. A program fills some 2 GiB in a second.
	interval = 20 * time.Millisecond
	// calm is how much memory TCP may take on the whole host before anybody asks
	// whose it is.
	calm = 64 << 20
	// growth is by how much it grows before anybody asks again at once. Else asking
	// takes a share of 1/askShare of a processor.
	growth   = 16 << 20
	askShare = 10
	// most is how many bytes may wait in connections of one sandbox that nobody
	// has accepted. Their memory is up to twice as much.
	most = 32 << 20
	// grace is how long ended programs have to close what they had open: their
	// connections still count, and the sandbox's next shell is not to end for them.
	grace = time.Second
)

// Watcher looks at the sandboxes of one cgroup.Manager.
type Watcher struct {
	groups *cgroup.Manager
	log    *slog.Logger
	ended  map[string]time.Time // sandboxes whose programs were ended of late
	asked  int64                // bytes that TCP took when it was last asked whose they are
	next   time.Time            // when that is asked again though they have not grown
}

// New returns a Watcher that has not looked yet.
func New(groups *cgroup.Manager, log *slog.Logger) *Watcher {
	return &Watcher{groups: groups, log: log, ended: map[string]time.Time{}}
}

// Run looks until quit is closed.
func (w *Watcher) Run(quit <-chan struct{}) {
	wait := interval
	for {
		select {
		case <-quit:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		if err := w.look(); err != nil {
			w.log.Debug("look for connections that nobody accepts", "err", err)
		}
		wait = max(interval, time.Since(began)) // at most half a processor
	}
}

// look asks whose TCP's memory is if it has grown, or after a while.
func (w *Watcher) look() error {
	text, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return err
	}
	used, err := tcpMemory(text)
	if err != nil || used < calm {
		w.asked = 0
		return err
	}
	w.asked = min(w.asked, used)
	if used < w.asked+growth && time.Now().Before(w.next) {
		return nil
	}
	began := time.Now()
	err = w.ask()
	w.asked, w.next = used, time.Now().Add(askShare*time.Since(began))
	return err
}

// ask ends the programs of each sandbox that has too much.
func (w *Watcher) ask() error {
	ids, err := w.groups.List()
	if err != nil {
		return err
	}
	maps.DeleteFunc(w.ended, func(_ string, when time.Time) bool { return time.Since(when) > grace })
	var errs []error
	for _, id := range ids {
		if _, closing := w.ended[id]; closing {
			continue
		}
		errs = append(errs, w.inspect(id))
	}
	return errors.Join(errs...)
}

func (w *Watcher) inspect(id string) error {
	group := w.groups.Group(id)
	pids, err := group.PIDs()
	if err != nil || len(pids) == 0 {
		return err
	}
	waiting, err := waitingOf(pids)
	if err != nil || waiting <= most {
		return err
	}
	w.log.Warn("ended the programs of a sandbox: too much waits in connections that nobody accepts", "sandbox", id, "bytes", waiting)
	w.ended[id] = time.Now()
	return group.EndAll()
}

// waitingOf is waitingBytes of the first process or thread that can be asked: one
// whose first thread has ended goes on without telling of its network itself.
func waitingOf(pids []int) (int64, error) {
	for _, pid := range pids {
		process := fmt.Sprintf("/proc/%d", pid)
		threads, err := filepath.Glob(process + "/task/*")
		if err != nil {
			return 0, err
		}
		for _, dir := range append([]string{process}, threads...) {
			waiting, err := waitingBytes(dir)
			if !errors.Is(err, fs.ErrNotExist) {
				return waiting, err
			}
		}
	}
	return 0, nil // all have ended
}

// waitingBytes is what has arrived on connections that nobody has accepted, in the
// network namespace of a process or thread, by its directory in /proc: all of it, or
// more than most. The error
// is fs.ErrNotExist if it has ended.
func waitingBytes(dir string) (int64, error) {
	theirs, err := os.Readlink(dir + "/ns/net")
	if err != nil {
		return 0, err
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil || theirs == ours {
		return 0, err // a sandbox without a network of its own, or another process by now
	}
	var sum int64
	for _, file := range []string{"/net/tcp", "/net/tcp6"} {
		waiting, err := unacceptedOf(dir+file, most-sum)
		if errors.Is(err, fs.ErrNotExist) && file == "/net/tcp6" {
			continue // without IPv6
		}
		if err != nil {
			return 0, err
		}
		sum += waiting
	}
	return sum, nil
}

// unacceptedOf is unaccepted of the table in a file.
func unacceptedOf(name string, enough int64) (int64, error) {
	table, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer table.Close()
	return unaccepted(table, enough)
}

// unaccepted adds up the receive queues of sockets without an inode, which they
// get when they are accepted, until there is more than enough: the kernel takes 0.1 s
// for the whole of a large table, in which a program fills 200 MiB. The queues of a
// listener are numbers of connections.
func unaccepted(table io.Reader, enough int64) (sum int64, err error) {
	const state, queues, inode, listening = 3, 4, 9, "0A"
	lines := bufio.NewScanner(table)
	for sum <= enough && lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) <= inode || string(f[inode]) != "0" || string(f[state]) == listening {
			continue
		}
		_, received, _ := bytes.Cut(f[queues], []byte(":"))
		if n, err := strconv.ParseInt(string(received), 16, 64); err == nil {
			sum += n
		}
	}
	return sum, lines.Err()
}

// tcpMemory reads /proc/net/sockstat, which has it in pages.
func tcpMemory(sockstat []byte) (int64, error) {
	for line := range bytes.Lines(sockstat) {
		f := bytes.Fields(line)
		if len(f) > 2 && string(f[0]) == "TCP:" && string(f[len(f)-2]) == "mem" {
			pages, err := strconv.ParseInt(string(f[len(f)-1]), 10, 64)
			return pages * int64(os.Getpagesize()), err
		}
	}
	return 0, errors.New("/proc/net/sockstat has no memory of TCP")
}
