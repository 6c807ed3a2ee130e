package fault

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// moments are a time of which a client knows only that it was not before the first
// and not after the second: when it called, and when it had the answer.
type moments [2]time.Time

// during calls do, in which something happens at one moment.
func during(do func()) moments {
	before := time.Now()
	do()
	return moments{before, time.Now()}
}

// lives is how long sessions lived at least and at most, as their client saw it.
type lives struct {
	least, most time.Duration
	made        int64
}

// add adds a life that began and ended.
func (l *lives) add(began, ended moments) {
	l.least += ended[0].Sub(began[1])
	l.most += ended[1].Sub(began[0])
}

// off is how far a meter is off, as a part of what it should show.
func (l lives) off(seconds float64) float64 {
	return max(l.least.Seconds()/seconds-1, seconds/l.most.Seconds()-1, 0)
}

// What is metered is right within one part in a hundred, over a restart and kills of
// the daemon: sessions go on meanwhile.
func TestUsageOverRestartAndKills(t *testing.T) {
	h := start(t, "max_sessions: 100")
	client := h.Client("")
	var seen lives
	living := map[*sandkasten.Session]moments{} // when they began to live
	birth := func(s *sandkasten.Session) moments {
		at := h.wantStatus(s, "running", settle).CreatedAt
		return moments{at, at}
	}
	create := func(n int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				s := h.create(nil)
				at := birth(s)
				mu.Lock()
				defer mu.Unlock()
				seen.made++
				living[s] = at
			})
		}
		all.Wait()
	}
	finish := func(n int, how func(s *sandkasten.Session) error, first ...*sandkasten.Session) (ended []*sandkasten.Session) {
		for _, s := range append(first, slices.Collect(maps.Keys(living))...) {
			began, ok := living[s]
			if !ok {
				continue
			}
			if n--; n < 0 {
				break
			}
			seen.add(began, during(func() {
				if err := how(s); err != nil {
					t.Error(err)
				}
			}))
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
	busySince := birth(busy)
	h.sh(busy, "(while :; do :; done) & sleep 3; kill $!")
	var started []*sandkasten.Session // in the last round
	for round, interrupt := range []func(){h.Kill, h.Stop, h.Kill, h.Kill} {
		create(3)
		stopped := append(finish(1, stop, started...), finish(2, stop)...)
		if round != 3 { // in which all happens between two writes of the meter
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
		}
		finish(2, destroy)
		started = stopped[:2]
		for _, s := range started {
			living[s] = during(func() {
				if _, err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
		interrupt()
		time.Sleep(2 * time.Second) // nobody meters
		h.Start()
		time.Sleep(time.Second)
		var used *sandkasten.OwnerUsage
		now := during(func() {
			var err error
			if used, err = client.MyUsage(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		})
		want := seen
		want.add(busySince, now)
		for _, began := range living {
			want.add(began, now)
		}
		metered := fmt.Sprintf("round %d: %.2f s and %d sessions are metered, and %.2f s to %.2f s and %d were seen",
			round, used.SessionSeconds, used.SessionsCreated, want.least.Seconds(), want.most.Seconds(), want.made)
		if want.off(used.SessionSeconds) > 0.01 || used.SessionsCreated != want.made {
			t.Error(metered)
		} else {
			t.Log(metered)
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
	if seen.off(used.SessionSeconds) > 0.01 {
		t.Errorf("%.2f s are metered, and %.2f s to %.2f s were seen", used.SessionSeconds, seen.least.Seconds(), seen.most.Seconds())
	}
	if spent := float64(stats.CPUUsageUsec) / 1e6; used.CPUSeconds < spent || used.CPUSeconds > spent+5 {
		t.Errorf("%.2f s of processor time are metered, and one session alone used %.2f s", used.CPUSeconds, spent)
	}
	h.oracle()
}
