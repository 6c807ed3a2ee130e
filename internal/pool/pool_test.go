package pool_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHitsAndMisses(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 2}}, func(h *harness) {
		synctest.Wait()
		if h.create(spec("a")) {
			t.Error("a hit before anything was made")
		}
		h.settle(time.Second)
		h.wantReady(2)
		other := spec("a")
		other.Limits.CPU, other.Limits.MemoryMB, other.Limits.Pids = 2, 64, 32
		other.Env, other.Hostname, other.Workspace = map[string]string{"A": "b"}, "box", "w"
		if !h.create(other) {
			t.Error("what is a session's own made it miss")
		}
		for name, change := range map[string]func(*runtime.Spec){
			"image":   func(s *runtime.Spec) { s.Image = "b" },
			"disk":    func(s *runtime.Spec) { s.Limits.DiskMB *= 2 },
			"root":    func(s *runtime.Spec) { s.ReadonlyRoot = true },
			"seccomp": func(s *runtime.Spec) { s.Seccomp = runtime.SeccompOff },
		} {
			s := spec("a")
			change(&s)
			if h.create(s) {
				t.Errorf("a hit with another %s", name)
			}
		}
		if !h.create(spec("a")) || h.create(spec("a")) {
			t.Error("the second hit, or a miss behind it")
		}
		h.settle(time.Second)
		if sandbox, err := h.Create(h.t.Context(), runtime.ID("a").In("other"), spec("a")); err != nil || sandbox.ID() != "other_a" {
			t.Errorf("of another driver: %v, %v", sandbox, err)
		}
		h.wantReady(2)
		st := h.Status()
		if one := st.Images[0]; one.Hits != 2 || one.Misses != 2 || st.Unmatched != 4 || one.MakeTime != 10*time.Millisecond {
			t.Errorf("%+v", st)
		}
	})
}

// Many come at once: each gets a sandbox of its own, and what is ready is given
// out to the last.
func TestCreateAtOnce(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 100}, MaxReady: 200}, func(h *harness) {
		h.settle(time.Minute)
		h.wantReady(100)
		var all sync.WaitGroup
		for i := range 120 {
			all.Go(func() {
				if _, err := h.Create(h.t.Context(), runtime.ID(fmt.Sprint("session-", i)), spec("a")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if one := h.Status().Images[0]; one.Hits != 100 || one.Misses != 20 {
			t.Errorf("%+v", one)
		}
		if n := len(h.fake.ids("session-")); n != 120 {
			t.Errorf("%d sandboxes", n)
		}
		h.settle(time.Minute)
		h.wantReady(100)
	})
}

// What has died, or cannot be used, costs nobody a session.
func TestUnusable(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 3}}, func(h *harness) {
		h.settle(time.Second)
		dead := h.fake.ids("pool-")
		h.fake.set(func() { h.fake.dead[dead[0]], h.fake.dead[dead[1]] = true, true })
		if !h.create(spec("a")) {
			t.Error("one was left, and it missed")
		}
		h.settle(time.Second)
		h.wantReady(3)

		// Nobody comes: it is noticed all the same.
		dead = h.fake.ids("pool-")
		h.fake.set(func() { h.fake.dead[dead[0]] = true })
		h.settle(10 * time.Second)
		h.wantReady(3)
		if now := h.fake.ids("pool-"); now[0] == dead[0] && now[1] == dead[1] && now[2] == dead[2] {
			t.Error("the dead one is still there")
		}

		for _, code := range []errdefs.Code{errdefs.Internal, errdefs.Unavailable, errdefs.Unimplemented, errdefs.NotFound} {
			h.fake.claiming = func(runtime.ID, runtime.ID, runtime.Spec) error { return errdefs.New(code, "for the test") }
			if h.create(spec("a")) {
				t.Errorf("a hit with %s", code)
			}
			h.fake.claiming = nil
			h.settle(time.Second)
			h.wantReady(3)
		}
	})
}

// A session whose client has gone away takes one sandbox with it, not all.
func TestCanceled(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 3}, Every: time.Hour}, func(h *harness) {
		h.settle(time.Second)
		ctx, cancel := context.WithCancel(h.t.Context())
		var claims atomic.Int64
		h.fake.claiming = func(runtime.ID, runtime.ID, runtime.Spec) error {
			claims.Add(1)
			cancel()
			return ctx.Err()
		}
		if _, err := h.Create(ctx, "session-x", spec("a")); err == nil {
			t.Error("created")
		}
		if claims.Load() != 1 {
			t.Errorf("%d claims", claims.Load())
		}
		h.settle(time.Second)
		h.wantReady(3)
		if left := h.fake.ids("session-"); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// The daemon restarts: what is ready stays ready, if it answers and is still
// what is wanted.
func TestAdopt(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 3, "b": 1, "c": 1}, Build: "1"}, func(h *harness) {
		h.settle(time.Second)
		h.wantReady(5)
		h.stop()
		before := h.fake.ids("pool-")
		h.fake.set(func() { h.fake.boxes["session-of-somebody"] = spec("a"); h.fake.creates = 0 })
		for _, id := range before { // one of a's does not answer
			if h.fake.boxes[id].Image == "a" {
				h.fake.deaf[id] = true
				break
			}
		}
		h.start(pool.Options{Images: map[string]int{"a": 3, "b": 2}, Build: "1"})
		h.settle(10 * time.Second)
		h.wantReady(5)
		if h.fake.creates != 2 { // the deaf one's successor and b's second
			t.Errorf("%d were made", h.fake.creates)
		}
		if left := h.fake.ids("session-"); len(left) != 1 {
			t.Errorf("what is a session's was touched: %v", left)
		}

		h.stop()
		h.fake.set(func() { h.fake.creates = 0 })
		h.start(pool.Options{Images: map[string]int{"a": 3}, Build: "2"})
		h.settle(10 * time.Second)
		h.wantReady(3)
		if h.fake.creates != 3 {
			t.Errorf("%d were made, and the others are of another build", h.fake.creates)
		}
	})
}

func TestImageChanges(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"python": 2}}, func(h *harness) {
		h.tags.Store("python", "")
		h.settle(10 * time.Second)
		h.wantReady(0)
		if one := h.Status().Images[0]; one.Err != "no image python" || one.Digest != "" {
			t.Errorf("%+v", one)
		}
		for _, digest := range []string{"sha256:1", "sha256:2"} {
			h.tags.Store("python", digest)
			h.settle(10 * time.Second)
			h.wantReady(2)
			if one := h.Status().Images[0]; one.Err != "" || one.Digest != digest {
				t.Errorf("%+v", one)
			}
			if !h.create(spec(digest)) {
				t.Error("a miss")
			}
			h.settle(time.Second)
		}
		if h.create(spec("sha256:1")) {
			t.Error("a hit of what the name stood for")
		}
		h.tags.Store("python", "")
		h.settle(10 * time.Second)
		h.wantReady(0)
	})
}

// An image that changes while one of the old is being made or handed out.
func TestImageChangesMeanwhile(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"python": 2}}, func(h *harness) {
		h.tags.Store("python", "sha256:1")
		h.settle(10 * time.Second)
		h.fake.claiming = func(runtime.ID, runtime.ID, runtime.Spec) error {
			h.tags.Store("python", "sha256:2")
			h.settle(10 * time.Second)
			return errdefs.New(errdefs.Unimplemented, "for the test")
		}
		if h.create(spec("sha256:1")) {
			t.Error("a hit")
		}
		h.settle(10 * time.Second)
		h.wantReady(2)
		for id, s := range h.fake.boxes {
			if pool.Owns(id) && s.Image != "sha256:2" {
				t.Errorf("%s is of %s", id, s.Image)
			}
		}
	})
}

// Names of one image share what is ready.
func TestTwoNames(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"one": 1, "two": 2}}, func(h *harness) {
		h.tags.Store("one", "sha256:1")
		h.tags.Store("two", "sha256:1")
		h.settle(10 * time.Second)
		for range 3 {
			if !h.create(spec("sha256:1")) {
				t.Error("a miss")
			}
		}
	})
}

func TestAuto(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": pool.Auto}, MaxReady: 8}, func(h *harness) {
		h.settle(time.Minute)
		h.wantReady(0)
		for range 3 {
			h.create(spec("a"))
		}
		h.settle(time.Second)
		h.wantReady(3)
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second))) // another window
		for range 5 {
			if !h.create(spec("a")) {
				h.settle(time.Second)
			}
		}
		h.settle(time.Second)
		h.wantReady(5)
		for range 12 {
			h.create(spec("a"))
		}
		h.settle(time.Minute)
		h.wantReady(8) // the most of all
		h.settle(8 * time.Minute)
		h.wantReady(8)
		h.settle(3 * time.Minute)
		h.wantReady(0) // nobody has come for ten minutes
		if h.create(spec("a")) {
			t.Error("a hit")
		}
		h.settle(time.Second)
		h.wantReady(1)
	})
}

// The host is short: the pool gives back, and waits for a while before it takes
// again.
func TestShrinks(t *testing.T) {
	var short atomic.Bool
	room := func(context.Context) error {
		if short.Load() {
			return errdefs.New(errdefs.Unavailable, "memory is short")
		}
		return nil
	}
	inBubble(t, pool.Options{Images: map[string]int{"a": 4, "b": 2}, Room: room}, func(h *harness) {
		h.settle(time.Second)
		h.wantReady(6)
		short.Store(true)
		h.settle(10 * time.Second)
		h.wantReady(0)
		if h.Status().Short != "memory is short" {
			t.Errorf("%+v", h.Status())
		}
		if h.create(spec("a")) {
			t.Error("a hit")
		}
		short.Store(false)
		h.settle(20 * time.Second)
		h.wantReady(0)
		h.settle(20 * time.Second)
		h.wantReady(6)
		if h.Status().Short != "" {
			t.Errorf("%+v", h.Status())
		}
	})
}

// A host on which nothing can be made is not worn out by trying.
func TestFailures(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 2}}, func(h *harness) {
		h.fake.set(func() { h.fake.broken = errdefs.Wrap(errBroken, errdefs.InsufficientSpace, "the disk is full") })
		h.settle(10 * time.Minute)
		if n := h.fake.creates; n < 5 || n > 20 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if one := h.Status().Images[0]; one.Err != "the disk is full" {
			t.Errorf("%+v", one)
		}
		h.fake.set(func() { h.fake.broken = nil })
		h.settle(2 * time.Minute)
		h.wantReady(2)
		if one := h.Status().Images[0]; one.Err != "" {
			t.Errorf("%+v", one)
		}
		// What cannot be removed is tried again, too.
		h.fake.set(func() { h.fake.stuck = errBroken })
		h.tags.Store("a", "")
		h.settle(time.Minute)
		h.fake.set(func() { h.fake.stuck = nil })
		h.settle(2 * time.Minute)
		h.wantReady(0)
	})
}

// Making sandboxes takes half of a processor at most, and none while sessions
// come.
func TestGentle(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 100}, CPU: 0.25}, func(h *harness) {
		h.settle(time.Second)
		if n := h.Status().Ready; n < 20 || n > 30 { // of ten milliseconds each
			t.Errorf("%d in a second of a quarter of a processor", n)
		}
		h.settle(time.Minute)
		for range 10 {
			h.create(spec("a"))
			h.settle(20 * time.Millisecond)
		}
		if n := h.Status().Ready; n != 90 {
			t.Errorf("%d are ready while sessions come", n)
		}
		for range 200 { // at 50 a second: it holds out for as long as it can
			h.create(spec("a"))
			h.settle(20 * time.Millisecond)
		}
		s := h.Status().Images[0]
		if made := s.Hits + int64(s.Ready) - 100; made < 20 || made > 60 {
			t.Errorf("%d were made meanwhile: it makes none, or pays no heed to sessions that do not cease to come", made)
		}
	})
}

func TestOwns(t *testing.T) {
	for id, want := range map[runtime.ID]bool{
		"pool-0-x": true, "docker_pool-0-x": true, "abcdefghijklmnopqrstuvwxyz": false, "docker_abcdefghijklmnopqrstuvwxyz": false, "": false,
	} {
		if pool.Owns(id) != want {
			t.Errorf("Owns(%q)", id)
		}
	}
}

func TestMetrics(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 2, "b": 1}}, func(h *harness) {
		h.settle(time.Second)
		h.create(spec("a"))
		h.create(spec("c"))
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(h.Pool)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name := f.GetName()
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		want := map[string]float64{
			"sandkasten_pool_ready a": 1, "sandkasten_pool_ready b": 1, "sandkasten_pool_wanted a": 2, "sandkasten_pool_wanted b": 1,
			"sandkasten_pool_hits_total a": 1, "sandkasten_pool_hits_total b": 0, "sandkasten_pool_misses_total a": 0, "sandkasten_pool_misses_total b": 0,
			"sandkasten_pool_unmatched_total": 1, "sandkasten_pool_refill_duration_seconds": 3,
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v", got)
		}
	})
}

// A sandbox that does not answer right after it was made is not handed out.
func TestMadeDeaf(t *testing.T) {
	inBubble(t, pool.Options{Images: map[string]int{"a": 1}}, func(h *harness) {
		h.fake.set(func() { h.fake.mute = true })
		h.settle(20 * time.Second)
		if st := h.Status(); st.Ready != 0 || st.Images[0].Err == "" {
			t.Errorf("%+v", st)
		}
		h.fake.set(func() { h.fake.mute = false })
		h.settle(2 * time.Minute)
		h.wantReady(1)
	})
}
