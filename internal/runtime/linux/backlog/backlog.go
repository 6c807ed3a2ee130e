// Package backlog ends sandboxes' programs that fill the kernel's memory through
// connections which nobody accepts. What has arrived on one of those belongs to
// no control group before accept, on cgroup v2 neither, and the one bound that the
// kernel has is the whole host's. A connection that is accepted, and any other
// socket, is counted and no business of this package.
package backlog

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
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
	// turn is how long sandboxes are asked without a pause. The next look goes on with
	// those that have not been.
	turn = 250 * time.Millisecond
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
	round  *round               // that is under way, or nil
	kernel kernel
}

// round asks each sandbox once, in turns.
type round struct {
	left []string // who has not been asked
	used int64    // bytes that TCP took at its begin
	took time.Duration
}

// New returns a Watcher that has not looked yet.
func New(groups *cgroup.Manager, log *slog.Logger) *Watcher {
	return &Watcher{groups: groups, log: log, ended: map[string]time.Time{}}
}

// Run looks until quit is closed. It then returns when the sandbox that it is at has
// been asked, or sooner.
func (w *Watcher) Run(quit <-chan struct{}) {
	wait := interval
	for {
		select {
		case <-quit:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		if err := w.look(quit); err != nil {
			w.log.Debug("look for connections that nobody accepts", "err", err)
		}
		wait = max(interval, time.Since(began)) // at most half a processor
	}
}

// look asks whose TCP's memory is if it has grown, or after a while.
func (w *Watcher) look(quit <-chan struct{}) error {
	text, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return err
	}
	used, err := tcpMemory(text)
	if err != nil || used < calm {
		w.asked, w.round = 0, nil
		return err
	}
	w.asked = min(w.asked, used)
	if w.round == nil {
		if used < w.asked+growth && time.Now().Before(w.next) {
			return nil
		}
		ids, err := w.groups.List()
		if err != nil {
			return err
		}
		w.round = &round{left: ids, used: used}
	}
	err = w.ask(quit)
	if len(w.round.left) == 0 {
		w.asked, w.next = w.round.used, time.Now().Add(askShare*w.round.took)
		w.round = nil
	}
	return err
}

// ask ends the programs of each sandbox that has too much, for as long as a turn.
func (w *Watcher) ask(quit <-chan struct{}) error {
	maps.DeleteFunc(w.ended, func(_ string, when time.Time) bool { return time.Since(when) > grace })
	began := time.Now()
	done := make(chan error)
	// It goes from one network namespace to the next, and ends in the last.
	go sys.OnOtherThread(func() { done <- w.askHere(quit, began.Add(turn)) })
	err := <-done
	w.round.took += time.Since(began)
	return err
}

// askHere leaves the calling thread in the network namespace of a sandbox.
func (w *Watcher) askHere(quit <-chan struct{}, until time.Time) error {
	if err := w.kernel.begin(); err != nil {
		return err
	}
	var errs []error
	for len(w.round.left) > 0 && time.Now().Before(until) {
		select {
		case <-quit:
			return errors.Join(errs...)
		default:
		}
		id := w.round.left[0]
		w.round.left = w.round.left[1:]
		if _, closing := w.ended[id]; closing {
			continue
		}
		errs = append(errs, w.inspect(quit, id))
	}
	return errors.Join(errs...)
}

func (w *Watcher) inspect(quit <-chan struct{}, id string) error {
	group := w.groups.Group(id)
	pids, err := group.Members()
	if err != nil || len(pids) == 0 {
		return err
	}
	waiting, err := w.kernel.waitingOf(quit, pids)
	if err != nil || waiting <= most {
		return err
	}
	w.log.Warn("ended the programs of a sandbox: too much waits in connections that nobody accepts", "sandbox", id, "bytes", waiting)
	w.ended[id] = time.Now()
	return group.EndAll()
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
