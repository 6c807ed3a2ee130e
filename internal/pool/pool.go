// Package pool keeps sandboxes ready for sessions that are about to come, and
// hands them out in the place of the driver's Create, so that whoever creates
// cannot tell. It decides how many there are, of what, and when they are made;
// how one becomes a session's is the driver's (runtime.Claimer), and so is what
// lasts: a ready sandbox is known by its id, after a restart too.
package pool

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Driver is what a pool is in front of.
type Driver interface {
	runtime.Driver
	runtime.Claimer
}

// Auto is the size of a pool that learns: as many as were created in the
// busiest ten seconds of the last ten minutes.
const Auto = -1

// Options configures a Pool. Driver and Resolve are required.
type Options struct {
	Driver     Driver
	DriverName string // the name of the driver whose sandboxes are kept ready: runtime.Native
	Resolve    func(ctx context.Context, image string) (digest string, err error)
	Images     map[string]int // how many of which image, by name; Auto learns

	// Spec is what a session gets that asks for nothing but an image. Sessions
	// with other cpu, memory or pids, an environment, a host name or a workspace
	// are served too; those with another disk, root, network or seccomp are not.
	Spec runtime.Spec

	// Room returns an error while the host has nothing to spare for sandboxes
	// that nobody uses. The pool then gives back what it has, one by one. There
	// is always room without it.
	Room func(context.Context) error

	MaxReady int           // of all images together: 100
	CPU      float64       // of one processor, that making sandboxes takes at most on average: 0.5
	Every    time.Duration // between looks at images and sandboxes: 5 s
	Build    string        // ready sandboxes of another one are replaced
	Log      *slog.Logger  // silence

	// Changed is called when there are other sandboxes ready than before. It must not
	// block, nor call the pool. Nil is not called.
	Changed func()
}

// Pool hands out ready sandboxes. Its methods may be called concurrently.
type Pool struct {
	opts    Options
	refills prometheus.Histogram
	wake    chan struct{} // there may be something to do

	mu        sync.Mutex
	shelves   []*shelf     // by image; the slice does not change, what is in it is guarded by mu
	discards  []runtime.ID // guarded by mu; to be destroyed
	removals  backoff      // guarded by mu
	claimedAt time.Time    // guarded by mu; the last time one was asked for
	unmatched int64        // guarded by mu; creates that no shelf is for
	short     string       // guarded by mu; what the host is short of, for people
	roomAt    time.Time    // guarded by mu; when sandboxes may be made again
}

// shelf is what the pool has of one image. It is guarded by the pool's mu.
type shelf struct {
	image  string
	size   int // or Auto
	demand demand

	spec  runtime.Spec // with the digest that the name has now
	key   string       // of spec; "" while the image cannot be had
	ready []runtime.ID // the last is the youngest

	hits, misses int64
	made         int64
	making       time.Duration // that those that were made took, all together
	err          string        // why there are none, for people
	retry        backoff
}

// New returns a Pool that does nothing yet: Run starts it.
func New(o Options) *Pool {
	o.DriverName = cmp.Or(o.DriverName, runtime.Native)
	o.MaxReady = cmp.Or(o.MaxReady, 100)
	o.CPU = min(cmp.Or(o.CPU, 0.5), 1)
	o.Every = cmp.Or(o.Every, 5*time.Second)
	if o.Room == nil {
		o.Room = func(context.Context) error { return nil }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{opts: o, refills: newHistogram(), wake: make(chan struct{}, 1)}
	for _, image := range slices.Sorted(maps.Keys(o.Images)) {
		p.shelves = append(p.shelves, &shelf{image: image, size: o.Images[image]})
	}
	return p
}

// prefix begins the id of every ready sandbox, and of no session's.
const prefix = "pool-"

// Owns reports whether id is that of a ready sandbox, of this run or another.
func Owns(id runtime.ID) bool { return keyOf(id) != "" }

// key tells apart what cannot stand in for each other.
func (p *Pool) key(spec runtime.Spec) string {
	spec.Workspace, spec.Env, spec.Hostname, spec.Labels, spec.Owner = "", nil, "", nil, ""
	spec.Limits = runtime.Limits{DiskMB: spec.Limits.DiskMB}
	text, err := json.Marshal(struct {
		Spec  runtime.Spec
		Build string
	}{spec, p.opts.Build})
	if err != nil {
		panic(fmt.Sprintf("pool: a spec has no JSON: %v", err)) // of plain fields
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// newID makes an id that says what the sandbox can be used for.
func (p *Pool) newID(key string) runtime.ID {
	return runtime.ID(prefix + key + "-" + strings.ToLower(rand.Text())).In(p.opts.DriverName)
}

// keyOf is newID's reverse; "" is of no ready sandbox.
func keyOf(id runtime.ID) string {
	_, rest, ours := strings.Cut("_"+string(id), "_"+prefix)
	key, _, _ := strings.Cut(rest, "-")
	if !ours {
		return ""
	}
	return key
}

// Create hands out a ready sandbox under the name id, or makes one. Its errors
// are those of the driver's Create: what goes wrong with a ready one is no
// reason to refuse.
func (p *Pool) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if id.Driver() != p.opts.DriverName { // which the ready ones are of
		return p.opts.Driver.Create(ctx, id, spec)
	}
	s := p.arrived(p.key(spec))
	for s != nil {
		ready, ok := p.take(s)
		if !ok {
			break
		}
		sandbox, err := p.opts.Driver.Claim(ctx, ready, id, spec)
		switch {
		case err == nil:
			p.count(&s.hits)
			return sandbox, nil
		case errdefs.Is(err, errdefs.Unimplemented), errdefs.Is(err, errdefs.NotFound), errdefs.Is(err, errdefs.AlreadyExists):
			p.putBack(s, ready)
			p.count(&s.misses)
			return p.opts.Driver.Create(ctx, id, spec)
		}
		p.opts.Log.WarnContext(ctx, "a ready sandbox cannot be used", "sandbox", ready, "image", s.image, "err", err)
		if clearErr := p.clear(ctx, ready, id); clearErr != nil || ctx.Err() != nil {
			return nil, errors.Join(err, clearErr)
		}
	}
	if s != nil {
		p.count(&s.misses)
	}
	return p.opts.Driver.Create(ctx, id, spec)
}

// clear removes what a claim that failed has left. The session's name has to be
// free for another try.
func (p *Pool) clear(ctx context.Context, ready, id runtime.ID) error {
	p.discard(ready)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()
	return p.opts.Driver.Destroy(ctx, id)
}

// arrived notes a create, and returns the shelf that may serve it, or nil.
func (p *Pool) arrived(key string) *shelf {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claimedAt = time.Now()
	var found *shelf
	for _, s := range p.shelves { // names of one image share a key
		if s.key == key && (found == nil || len(s.ready) > len(found.ready)) {
			found = s
		}
	}
	if found == nil {
		p.unmatched++
		return nil
	}
	found.demand.add(p.claimedAt)
	p.wakeRun()
	return found
}

// wakeRun wakes Run. It never blocks.
func (p *Pool) wakeRun() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// take removes the youngest ready sandbox, whose memory is the least likely to
// have been swapped out.
func (p *Pool) take(s *shelf) (id runtime.ID, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(s.ready)
	if n == 0 {
		return "", false
	}
	defer p.opts.Changed()
	id, s.ready = s.ready[n-1], s.ready[:n-1]
	return id, true
}

// putBack returns an unused sandbox, unless the shelf has changed meanwhile.
func (p *Pool) putBack(s *shelf, id runtime.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.key == keyOf(id) {
		s.ready = append(s.ready, id)
		p.opts.Changed()
		return
	}
	p.discards = append(p.discards, id)
}

func (p *Pool) discard(ids ...runtime.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discards = append(p.discards, ids...)
	p.wakeRun()
}

func (p *Pool) count(n *int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
}
