package pool

import "time"

// The rule by which a pool of size Auto learns: the busiest window of the last
// windows is how many are kept ready.
const (
	window  = 10 * time.Second
	windows = 60
)

// demand counts creates in windows of time.
type demand struct {
	counts [windows]int
	newest int64 // number of the window that was counted in last, since 1970
}

// add counts a create.
func (d *demand) add(now time.Time) {
	d.forget(now)
	d.counts[d.newest%windows]++
}

// peak is the count of the busiest window that is not too long ago.
func (d *demand) peak(now time.Time) int {
	d.forget(now)
	peak := 0
	for _, n := range d.counts {
		peak = max(peak, n)
	}
	return peak
}

// forget empties the windows that have become too old. A clock that was set
// back changes nothing.
func (d *demand) forget(now time.Time) {
	current := now.UnixNano() / int64(window)
	if current-d.newest > windows {
		*d = demand{newest: current}
		return
	}
	for d.newest < current {
		d.newest++
		d.counts[d.newest%windows] = 0
	}
}
