package linux

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
)

// restEvery is for how long a span of ids is kept at least that no sandbox has an id of.
const restEvery = 10 * time.Second

// openIDs takes up the blocks of sandboxes that exist, and what these see.
func (d *Driver) openIDs() (err error) {
	if d.ids, err = ids.Open(d.leaseDir(), d.opts.Node, d.usesIDs); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.sandboxes)
	for _, e := range entries {
		s, err := d.readState(runtime.ID(e.Name()))
		if err != nil {
			continue // it has no runner yet
		}
		if s.Stopped {
			continue
		}
		if err := d.ids.Hold(s.IDs); err != nil {
			d.opts.Log.Warn("take up the ids of a sandbox", "sandbox", s.ID, "err", err)
		}
		d.views.track(s, d.group(s), s.CreatedAt)
	}
	// Of those that another daemon must not have meanwhile nothing was lost if this fails.
	if err := d.ids.Settle(); err != nil {
		d.opts.Log.Warn("give up ids that no sandbox has", "err", err)
	}
	return err
}

// restIDs gives spans of ids back that are not needed any more, as after a peak: the other
// installations of the host have no more of them than we leave.
func (d *Driver) restIDs(quit <-chan struct{}) {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		if err := d.ids.Rest(); err != nil {
			d.opts.Log.Warn("give back ids that no sandbox has", "err", err)
		}
	}
}

// usesIDs implements ids.InUse. An installation that is gone uses none. Of one that is
// there, with its daemon running or not, the groups of sandboxes belong to their ids, also
// where its processes are not to be seen from here.
func (d *Driver) usesIDs(owner string, of func(id int) bool) bool {
	if owner != d.opts.Node && d.cgroups.Deserted(owner) {
		return false
	}
	given, runners, err := d.cgroups.Used(owner)
	if err != nil || inspect.Act("/proc", runners, of) {
		return true // or it cannot be told
	}
	return slices.ContainsFunc(given, func(id int) bool {
		_, known := ids.Span(id)
		return of(id) || !known && id > 0 // of another user namespace: it may be any
	})
}

// errNoIDs is for the client who asked for a sandbox, to whom installations have no names.
func errNoIDs(e *ids.ExhaustedError, err error) error {
	ours := fmt.Sprintf("this installation uses those of %d", e.Used)
	if n := e.Elsewhere(); n > 0 {
		return errdefs.Wrap(err, errdefs.Unavailable,
			"the host has no user ids left for another sandbox: it has them for %d, in %d spans; %s, and other installations of Sandkasten hold %d spans; try again later, or have the host's operator end sandboxes there",
			MaxSandboxes, ids.Spans, ours, n)
	}
	return errdefs.Wrap(err, errdefs.Unavailable, "the host has no user ids left for another sandbox: it has them for %d, and %s; destroy or stop sessions, or try again later", MaxSandboxes, ours)
}
