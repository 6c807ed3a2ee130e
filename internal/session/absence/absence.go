// Package absence remembers which of several drivers did not answer when they were
// last asked.
package absence

import (
	"slices"
	"sync"
)

// Drivers are those that did not answer. The zero value is none. Its methods may be
// called concurrently.
type Drivers struct {
	mu    sync.Mutex
	names []string // guarded by mu; sorted
}

// Note replaces the names, and returns those that are new and those that went.
func (d *Drivers) Note(names []string) (gone, back []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	without := func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
	}
	gone, back = without(names, d.names), without(d.names, names)
	d.names = names
	return gone, back
}

// Names are the drivers, sorted.
func (d *Drivers) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.names)
}
