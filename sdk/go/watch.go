package sandkasten

import (
	"context"
	"iter"
)

// Change is something that changed in a directory that is watched.
type Change struct {
	Op   string `json:"op"`             // ready, create, write, remove, rename, chmod, overflow
	Path string `json:"path,omitempty"` // relative to the directory
	From string `json:"from,omitempty"` // the path before, of a rename
	Type string `json:"type,omitempty"` // file, dir, ...
}

// WatchOptions says how deep is watched.
type WatchOptions struct {
	Recursive bool   // also the directories below
	User      string // whose rights hold; empty is the sandbox's own
}

// Watch tells what changes in a directory: first ready, from when on all is told.
// Behind overflow some changes are lost, look again: there were too many, or the
// connection broke and was made anew. It goes on until the caller leaves the
// iteration, or an error, which is the last of it: ctx has ended, or the session.
func (s *Session) Watch(ctx context.Context, path string, o *WatchOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		r := s.Files.get("watch")
		r.set("path", path)
		r.setFlag("recursive", value(o).Recursive)
		r.set("user", value(o).User)
		ready := false
		p := patience{client: s.client}
		for {
			var broken error
			for e, err := range s.client.events(ctx, r) {
				if err != nil {
					broken = err
					break
				}
				change, err := newChange(e)
				if err != nil {
					yield(Change{}, err)
					return
				}
				if ready && change.Op == "ready" { // again, after a gap
					change.Op = "overflow"
				}
				ready = true
				p.progress()
				if !yield(change, nil) {
					return
				}
			}
			if ready {
				broken = p.resume(ctx, broken)
			}
			if broken != nil {
				yield(Change{}, broken)
				return
			}
		}
	}
}

func newChange(e event) (Change, error) {
	if e.name == "error" {
		return Change{}, newAPIError(0, nil, e.data)
	}
	change := Change{Op: e.name}
	err := e.decode(&change)
	return change, err
}
