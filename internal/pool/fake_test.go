package pool_test

import (
	"context"
	"errors"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// fake is a driver whose sandboxes are names in memory.
type fake struct {
	t        *testing.T
	making   time.Duration // that a Create takes
	claiming func(ready, id runtime.ID, spec runtime.Spec) error

	mu      sync.Mutex
	boxes   map[runtime.ID]runtime.Spec // guarded by mu
	deaf    map[runtime.ID]bool         // guarded by mu; their runners do not answer
	mute    bool                        // guarded by mu; none answers
	dead    map[runtime.ID]bool         // guarded by mu
	broken  error                       // guarded by mu; of Create
	stuck   error                       // guarded by mu; of Destroy
	creates int                         // guarded by mu
}

func newFake(t *testing.T) *fake {
	return &fake{
		t: t, making: 10 * time.Millisecond,
		boxes: map[runtime.ID]runtime.Spec{}, deaf: map[runtime.ID]bool{}, dead: map[runtime.ID]bool{},
	}
}

func (f *fake) Check(context.Context) error { return nil }

func (f *fake) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	select {
	case <-time.After(f.making):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.creates++
	if f.broken != nil {
		return nil, f.broken
	}
	if _, taken := f.boxes[id]; taken {
		f.t.Errorf("%s is made twice", id)
	}
	f.boxes[id] = spec
	return box{f, id}, nil
}

func (f *fake) Claim(ctx context.Context, ready, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if f.claiming != nil {
		if err := f.claiming(ready, id, spec); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.boxes[ready]; !ok || f.dead[ready] {
		return nil, errdefs.New(errdefs.Conflict, "%s does not run", ready)
	}
	delete(f.boxes, ready)
	f.boxes[id] = spec
	return box{f, id}, ctx.Err()
}

func (f *fake) Open(_ context.Context, id runtime.ID) (runtime.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.boxes[id]; !ok || f.dead[id] {
		return nil, errdefs.New(errdefs.NotFound, "%s does not run", id)
	}
	return box{f, id}, nil
}

func (f *fake) List(context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		for _, id := range f.ids("") {
			if !yield(runtime.Status{ID: id}, nil) {
				return
			}
		}
	}
}

func (f *fake) Destroy(_ context.Context, id runtime.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck != nil {
		return f.stuck
	}
	delete(f.boxes, id)
	return nil
}

// ids returns the sandboxes whose ids begin so, sorted.
func (f *fake) ids(prefix string) []runtime.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []runtime.ID
	for id := range f.boxes {
		if strings.HasPrefix(string(id), prefix) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// set changes what is guarded by mu.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// box is a sandbox of a fake, whose runner knows ping.
type box struct {
	f  *fake
	id runtime.ID
}

func (b box) ID() runtime.ID { return b.id }

func (b box) Stats(context.Context) (runtime.Stats, error) { return runtime.Stats{}, nil }

func (b box) DialRunner(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	b.f.mu.Lock()
	deaf := b.f.deaf[b.id] || b.f.mute
	b.f.mu.Unlock()
	go func() {
		in, out := protocol.NewReader(theirs, protocol.Daemon), protocol.NewWriter(theirs)
		for {
			if _, err := in.Next(); err != nil {
				theirs.Close()
				return
			}
			if deaf {
				continue
			}
			if err := out.Send(protocol.TypePong, protocol.Pong{Version: protocol.Version}, nil); err != nil {
				theirs.Close()
				return
			}
		}
	}()
	return ours, nil
}

// spec is what sessions of the tests want.
func spec(digest string) runtime.Spec {
	return runtime.Spec{Image: digest, Limits: runtime.Limits{CPU: 1, MemoryMB: 512, Pids: 256, DiskMB: 1024}, Network: runtime.Network{Mode: runtime.NetworkNone}}
}

// harness is a pool that runs in a bubble of synctest.
type harness struct {
	*pool.Pool
	t    *testing.T
	fake *fake
	stop func()
	n    int
	tags sync.Map // image name to digest
}

// inBubble runs a test with a pool of these options, on a driver that may have
// sandboxes already.
func inBubble(t *testing.T, o pool.Options, test func(*harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { //nolint:thelper // it is the test
		h := &harness{t: t, fake: newFake(t)}
		h.start(o)
		defer func() { h.stop() }()
		test(h)
	})
}

// start starts a pool on the harness's driver, as a daemon does that restarted.
func (h *harness) start(o pool.Options) {
	o.Driver, o.Spec = h.fake, spec("")
	if o.Resolve == nil {
		o.Resolve = h.resolve
	}
	h.Pool = pool.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	run := h.Pool
	go func() { done <- run.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
}

// resolve knows every image, under its own name unless tags has another.
func (h *harness) resolve(_ context.Context, image string) (string, error) {
	if digest, ok := h.tags.Load(image); ok {
		if digest == "" {
			return "", errdefs.New(errdefs.NotFound, "no image %s", image)
		}
		return digest.(string), nil
	}
	return image, nil
}

// settle lets the pool do what it has to, which takes it less than d.
func (h *harness) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// create makes a session's sandbox and reports whether it was ready.
func (h *harness) create(s runtime.Spec) (hit bool) {
	h.t.Helper()
	h.n++
	id := runtime.ID("session-" + string(rune('a'+h.n/26)) + string(rune('a'+h.n%26)))
	before := h.hits()
	sandbox, err := h.Create(h.t.Context(), id, s)
	if err != nil {
		h.t.Fatal(err)
	}
	if sandbox.ID() != id {
		h.t.Errorf("made %s, not %s", sandbox.ID(), id)
	}
	return h.hits() > before
}

func (h *harness) hits() (n int64) {
	for _, s := range h.Status().Images {
		n += s.Hits
	}
	return n
}

// wantReady compares the number of ready sandboxes, as the pool and as the
// driver know it.
func (h *harness) wantReady(want int) {
	h.t.Helper()
	if got := h.Status().Ready; got != want {
		h.t.Errorf("%d are ready, want %d: %+v", got, want, h.Status())
	}
	if got := len(h.fake.ids("pool-")); got != want {
		h.t.Errorf("the driver has %d, want %d", got, want)
	}
}

var errBroken = errors.New("broken for the test")
