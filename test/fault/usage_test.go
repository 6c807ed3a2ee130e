package fault

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// lives is how long sessions lived, as their client saw it.
type lives struct {
	mu    sync.Mutex
	total time.Duration
	made  int64
}

// end ends a life that began at began: the daemon's end is somewhere in do.
func (l *lives) end(began time.Time, do func()) {
	before := time.Now()
	do()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total += before.Add(time.Since(before) / 2).Sub(began)
}

// What is metered is right within one part in a hundred, over a restart and kills of
// the daemon: sessions go on meanwhile.
func TestUsageOverRestartAndKills(t *testing.T) {
	h := start(t, "max_sessions: 100")
	client := h.Client("")
	var seen lives
	living := map[*sandkasten.Session]time.Time{}
	create := func(n int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				s := h.create(nil)
				mu.Lock()
				defer mu.Unlock()
				seen.made++
				living[s] = h.wantStatus(s, "running", settle).CreatedAt
			})
		}
		all.Wait()
	}
	finish := func(n int, how func(s *sandkasten.Session) error) (ended []*sandkasten.Session) {
		for s, began := range living {
			if n--; n < 0 {
				break
			}
			seen.end(began, func() {
				if err := how(s); err != nil {
					t.Error(err)
				}
			})
			delete(living, s)
			ended = append(ended, s)
		}
		return ended
	}
	stop := func(s *sandkasten.Session) error {
		_, err := s.Stop(t.Context())
		return err
	}
	destroy := func(s *sandkasten.Session) error { return s.Destroy(t.Context()) }

	create(10)
	busy := h.create(nil)
	seen.made++
	busySince := h.wantStatus(busy, "running", settle).CreatedAt
	h.sh(busy, "(while :; do :; done) & sleep 3; kill $!")
	for round, interrupt := range []func(){h.Kill, h.Stop, h.Kill, h.Kill} {
		create(3)
		stopped := finish(3, stop)
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
		finish(2, destroy)
		for _, s := range stopped[:2] {
			began := time.Now()
			if _, err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			living[s] = began.Add(time.Since(began) / 2)
		}
		interrupt()
		time.Sleep(2 * time.Second) // nobody meters
		h.Start()
		time.Sleep(time.Second)
		used, err := client.MyUsage(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		now, want := time.Now(), seen.total+time.Since(busySince)
		for _, began := range living {
			want += now.Sub(began)
		}
		if off := math.Abs(used.SessionSeconds/want.Seconds() - 1); off > 0.01 || used.SessionsCreated != seen.made {
			t.Errorf("round %d: %.2f s and %d sessions are metered, and %.2f s (%.2f %% off) and %d were seen",
				round, used.SessionSeconds, used.SessionsCreated, want.Seconds(), 100*off, seen.made)
		} else {
			t.Logf("round %d: %.2f s metered, %.2f %% off", round, used.SessionSeconds, 100*off)
		}
	}
	stats, err := busy.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	living[busy] = busySince
	finish(len(living), destroy)
	used, err := client.MyUsage(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if off := math.Abs(used.SessionSeconds/seen.total.Seconds() - 1); off > 0.01 {
		t.Errorf("%.2f s are metered, and %.2f s were seen", used.SessionSeconds, seen.total.Seconds())
	}
	if spent := float64(stats.CPUUsageUsec) / 1e6; used.CPUSeconds < spent || used.CPUSeconds > spent+5 {
		t.Errorf("%.2f s of processor time are metered, and one session alone used %.2f s", used.CPUSeconds, spent)
	}
	h.oracle()
}
