package events

import (
	"sync"
	"time"
)

// What is told one by one of one session's execs, and as much of the decisions of its
// network, in a second. The others of that second are told by one event at its end.
const (
	MostPerSecond = 40
	burstWindow   = time.Second

	// sweepAt is how many windows there may be before those that are over are removed.
	sweepAt = 512
)

type windowKey struct {
	session string
	kind    Kind
}

// window is the current second of a session's events.
type window struct {
	start  time.Time
	told   int
	owner  string
	more   Burst
	timing bool
}

// bursts tells events that come too fast together.
type bursts struct {
	publish func(Event)

	mu      sync.Mutex
	windows map[windowKey]*window // guarded by mu
}

// admit reports whether an event is to be told by itself. Otherwise it is counted.
func (b *bursts) admit(e Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := windowKey{e.Session, e.Type.Kind()}
	w := b.windows[k]
	now := time.Now()
	switch {
	case w == nil:
		w = &window{start: now, owner: e.Owner}
		b.add(k, w, now)
	case now.Sub(w.start) >= burstWindow && !w.timing:
		w.start, w.told = now, 0
	}
	if w.told < MostPerSecond && !w.timing {
		w.told++
		return true
	}
	w.more.add(e)
	if !w.timing {
		w.timing = true
		time.AfterFunc(burstWindow-min(now.Sub(w.start), burstWindow), func() { b.end(k, w) })
	}
	return false
}

// add enters a window. The caller holds mu.
func (b *bursts) add(k windowKey, w *window, now time.Time) {
	if b.windows == nil {
		b.windows = make(map[windowKey]*window)
	}
	if len(b.windows) >= sweepAt {
		for k, old := range b.windows {
			if !old.timing && now.Sub(old.start) >= burstWindow {
				delete(b.windows, k)
			}
		}
	}
	b.windows[k] = w
}

// forget has nothing told any more of what was counted of an owner's sessions.
func (b *bursts) forget(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, w := range b.windows {
		if w.owner == owner {
			delete(b.windows, k)
		}
	}
}

// end tells what was counted in a window, unless that is forgotten.
func (b *bursts) end(k windowKey, w *window) {
	b.mu.Lock()
	if b.windows[k] != w { // add removes none that is timed
		b.mu.Unlock()
		return
	}
	more, owner := w.more, w.owner
	w.more, w.timing, w.told, w.start = Burst{}, false, 0, time.Now()
	b.mu.Unlock()
	kind := ExecBurst
	if k.kind == Network {
		kind = NetworkBurst
	}
	b.publish(Event{Type: kind, Time: time.Now(), Owner: owner, Session: k.session, Data: more})
}

func (b *Burst) add(e Event) {
	switch e.Type {
	case ExecStarted:
		b.Began++
	case ExecFinished:
		b.Ended++
	default:
		if e.Denied {
			b.Denied++
		} else {
			b.Allowed++
		}
	}
}
