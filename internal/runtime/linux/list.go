package linux

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// listed is what List needs of a state file. The reaper lists all sandboxes
// every few seconds, and of thousands nearly none has changed since: a file
// that is still the same one is not read again.
type listed struct {
	file os.FileInfo

	createdAt time.Time
	process   process
	kept      bool // what the sandbox wrote survives its processes
}

// List yields the sandboxes that have a directory.
func (d *Driver) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		entries, err := os.ReadDir(d.sandboxes)
		if err != nil {
			yield(runtime.Status{}, err)
			return
		}
		var before map[runtime.ID]*listed
		if last := d.listed.Load(); last != nil {
			before = *last
		}
		now := make(map[runtime.ID]*listed, len(entries))
		for _, e := range entries {
			if ctx.Err() != nil {
				yield(runtime.Status{}, ctx.Err())
				return
			}
			id := runtime.ID(e.Name())
			l := d.look(id, before[id])
			if l != nil {
				now[id] = l
			}
			if !yield(d.status(id, l), nil) {
				return
			}
		}
		d.listed.Store(&now)
	}
}

// look reads a sandbox's state file unless it is the one that before was read
// from. It returns nil if there is none that can be read.
func (d *Driver) look(id runtime.ID, before *listed) *listed {
	// Looked at before it is read: what replaces it meanwhile is seen next time.
	file, err := os.Stat(filepath.Join(d.dir(id), stateFile))
	if err != nil {
		return nil
	}
	if before != nil && os.SameFile(before.file, file) && before.file.ModTime().Equal(file.ModTime()) {
		return before
	}
	s, err := d.readState(id)
	if err != nil {
		return nil
	}
	return &listed{file: file, createdAt: s.CreatedAt, process: s.Process, kept: s.kept(d.bootID)}
}

// status of a directory whose files a crash may have left incomplete, of which
// l is nil: it then counts as dead.
func (d *Driver) status(id runtime.ID, l *listed) runtime.Status {
	st := runtime.Status{ID: id}
	if l != nil {
		state, err := l.process.find(d.bootID)
		lives := state.Running() || err != nil
		if state.Halted() {
			d.resumeRunner(id, l.process)
		}
		st.CreatedAt, st.Alive = l.createdAt, lives && d.reachable(id)
		if st.Alive && d.isFailing(l.process) {
			st.Failing = reasonReadOnly
		}
		st.Startable = !st.Alive && (l.kept || lives) // Stop keeps the files of one that is cut off
	} else if fi, err := os.Stat(d.dir(id)); err == nil {
		st.CreatedAt = fi.ModTime()
	}
	return st
}
