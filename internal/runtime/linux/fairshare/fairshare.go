// Package fairshare lets sandboxes that use little of the processors go before those
// that use much. Limits alone do not: five sandboxes within theirs can keep two
// processors busy, and a command of a sixth that needs a millisecond would wait
// for several turns of theirs, at each step that it makes. How much a sandbox may
// use in all stays the business of its limit.
package fairshare

import (
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
)

const (
	// interval is how often sandboxes are looked at, or longer where there are so
	// many that it would cost more than a hundredth of a processor.
	interval    = 250 * time.Millisecond
	perSandbox  = time.Millisecond
	quietBelow  = 0.1  // cores of all together with which nobody waits for anybody
	atWork      = 0.01 // cores of one that counts among those that run
	leastBehind = 0.05 // cores of one with which it does not go behind the others
)

// Keeper watches the sandboxes of one cgroup.Manager.
type Keeper struct {
	groups *cgroup.Manager
	log    *slog.Logger

	last  time.Time     // when look came
	total time.Duration // that all had used then
	fresh bool          // what is known of each sandbox is of then
	known map[string]*sandbox
}

// sandbox is what is known of one.
type sandbox struct {
	used   time.Duration // up to the last look
	cores  float64       // that it uses, the last interval counting half
	behind bool
}

// New returns a Keeper that has not looked yet.
func New(groups *cgroup.Manager, log *slog.Logger) *Keeper {
	return &Keeper{groups: groups, log: log, known: make(map[string]*sandbox)}
}

// Run looks at the sandboxes until quit is closed. What it decided last stays as it
// is, until another Keeper comes.
func (k *Keeper) Run(quit <-chan struct{}) {
	wait := interval
	for {
		select {
		case <-quit:
			return
		case <-time.After(wait):
		}
		if err := k.look(time.Now()); err != nil {
			k.log.Debug("decide whose turn it is", "err", err)
		}
		wait = max(interval, time.Duration(len(k.known))*perSandbox)
	}
}

// look decides anew, unless hardly anything runs and nobody is behind.
func (k *Keeper) look(now time.Time) error {
	total, elapsed := k.groups.CPU(), now.Sub(k.last)
	quiet := cores(total-k.total, elapsed) < quietBelow
	k.total, k.last = total, now
	if quiet && !k.anyBehind() {
		k.fresh = false
		return nil
	}
	ids, err := k.groups.List()
	if err != nil {
		return err
	}
	compare := k.fresh
	k.fresh = true
	seen := make(map[string]*sandbox, len(ids))
	for _, id := range ids {
		group := k.groups.Group(id)
		s := k.known[id]
		used := group.CPU()
		if s == nil {
			s = &sandbox{used: used, behind: group.Yields()} // an earlier daemon may have left it so
		} else if compare {
			s.cores = (s.cores + cores(used-s.used, elapsed)) / 2
		}
		s.used = used
		seen[id] = s
	}
	k.known = seen
	if !compare {
		return nil
	}
	return k.decide()
}

// decide has the sandboxes go behind the others that use more than half of what
// those at work use on average, if there are several, and those come back that use
// less than half of that. What a processor is to each depends on what the host leaves to all.
func (k *Keeper) decide() error {
	total, working := 0.0, 0
	for _, s := range k.known {
		if s.cores > atWork {
			total += s.cores
			working++
		}
	}
	// Behind others means behind the host's own programs, too: who works alone is
	// in nobody's way, and has the weight of a sandbox.
	most := math.Inf(1)
	if working > 1 {
		most = max(leastBehind, total/float64(2*working))
	}
	var errs []error
	for id, s := range k.known {
		if behind := s.cores > most || s.behind && s.cores > most/2; behind != s.behind {
			s.behind = behind
			errs = append(errs, k.groups.Group(id).Yield(behind))
		}
	}
	return errors.Join(errs...)
}

func (k *Keeper) anyBehind() bool {
	for _, s := range k.known {
		if s.behind {
			return true
		}
	}
	return false
}

// cores is how many processors were used on average.
func cores(used, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(used) / float64(elapsed)
}
