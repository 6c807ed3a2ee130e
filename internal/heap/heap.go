// Package heap says how much garbage this process may have in memory before it
// is collected. It belongs here if it is about the collector's pace; what lives,
// and how much of it there may be, is for those who make it.
package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Room is what may lie around, in bytes, beside what lives, or as much as lives
// where that is more. A collection costs by what lives and comes each time that
// this has filled up: a small process has few of them, and a large one does not
// become several times as large.
const Room = 64 << 20

const (
	percent = 1600    // of what lives, by itself: Room comes first
	step    = 8 << 20 // less is not worth the stop of all threads that a change costs
)

// Pace keeps the garbage of this process to Room from now on, and all that it has
// of Go's memory to most bytes if that can be; 0 is no limit. It replaces GOGC and
// GOMEMLIMIT.
//
// It sets the runtime's limit of memory anew after each collection, and not its
// percentage: what lives may have become ten times as much since the last one, and
// the limit still holds until this is called, where a percentage of that would not.
func Pace(most int64) {
	if most <= 0 {
		most = math.MaxInt64
	}
	debug.SetGCPercent(percent)
	set := int64(0)
	afterEach(func() {
		limit := min(limitFor(read()), most)
		if change := limit - set; change >= step || change <= -step {
			set = limit
			debug.SetMemoryLimit(limit)
		}
	})
}

// usage is in bytes.
type usage struct {
	live   int64 // what the last collection has found
	beside int64 // stacks, the runtime's own, and gaps
}

// limitFor is how much memory there may be before the next collection.
func limitFor(u usage) int64 { return u.beside + u.live + max(Room, u.live) }

func read() usage {
	sample := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(sample)
	of := func(i int) int64 { return int64(sample[i].Value.Uint64()) }
	return usage{live: of(0), beside: max(of(1)-of(2)-of(3)-of(4), 0)}
}

// note is what the collector finds dead each time. It is large enough to have a
// place of its own.
type note struct{ _ [32]byte }

// afterEach calls do now and after each collection, for as long as the process
// lives, on the goroutine that the runtime has for such things.
func afterEach(do func()) {
	do()
	var again func(*note)
	again = func(n *note) {
		do()
		runtime.SetFinalizer(n, again)
	}
	runtime.SetFinalizer(new(note), again)
}
