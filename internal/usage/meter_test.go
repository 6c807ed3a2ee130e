package usage_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// memory is a store of sessions and usage that survives its meter.
type memory struct {
	session.Store // for what nothing here calls

	mu     sync.Mutex
	rows   map[session.ID]session.Session
	spans  map[string]usage.Span
	counts map[usage.Key]usage.Amounts
	days   []usage.DayUsage
	seen   time.Time
	writes int
	broken error // AddUsage fails
}

func newMemory() *memory {
	return &memory{rows: map[session.ID]session.Session{}, spans: map[string]usage.Span{}, counts: map[usage.Key]usage.Amounts{}}
}

func (m *memory) Put(_ context.Context, s session.Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[s.ID] = s
	return nil
}

func (m *memory) Get(_ context.Context, id session.ID) (session.Session, error) {
	if s, ok := m.rows[id]; ok {
		return s, nil
	}
	return session.Session{}, errdefs.New(errdefs.NotFound, "none")
}

func (m *memory) List(_ context.Context, f session.ListFilter) (all []session.Session, err error) {
	for _, s := range m.rows {
		if (f.IncludeEnded || !s.State.Ended()) && !s.Helper {
			all = append(all, s)
		}
	}
	return all, nil
}

func (m *memory) UsageState(context.Context) (usage.State, error) {
	state := usage.State{Seen: m.seen}
	for _, s := range m.spans {
		s.Began = s.Began.Round(0) // as read from a file
		state.Spans = append(state.Spans, s)
	}
	return state, nil
}

func (m *memory) UsageOf(_ context.Context, month usage.Month, _ *string) (map[string]usage.Amounts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]usage.Amounts{}
	for k, a := range m.counts {
		if k.Month == month {
			all[k.Owner] = a
		}
	}
	return all, nil
}

func (m *memory) AddUsage(_ context.Context, c usage.Changes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	m.writes++
	m.seen = c.Seen.Round(0)
	for k, a := range c.Amounts {
		sum := m.counts[k]
		sum.SessionTime += a.SessionTime
		sum.CPUTime += a.CPUTime
		sum.Sent += a.Sent
		sum.Received += a.Received
		sum.Sessions += a.Sessions
		sum.SnapshotPeak = max(sum.SnapshotPeak, a.SnapshotPeak)
		m.counts[k] = sum
	}
	for k, a := range c.Days {
		m.days = append(m.days, usage.DayUsage{DayKey: k, Amounts: a})
	}
	for _, id := range c.Closed {
		delete(m.spans, id)
	}
	for _, s := range c.Spans {
		m.spans[s.Session] = s
	}
	return nil
}

func (m *memory) UsageDays(context.Context, usage.Day, usage.Day, *string) ([]usage.DayUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.days), nil
}

func (m *memory) ForgetUsage(_ context.Context, owner string) error {
	maps.DeleteFunc(m.counts, func(k usage.Key, _ usage.Amounts) bool { return k.Owner == owner })
	return nil
}

func (m *memory) WorkspacesHeld(_ context.Context, owner string) (int, int64, error) {
	if owner == "saver" {
		return 2, 300, nil
	}
	return 0, 0, nil
}

func (m *memory) SnapshotBytes(context.Context, *string) (map[string]int64, error) {
	return map[string]int64{"saver": 700}, nil
}

// run is a meter at work and the sessions that it hears of.
type run struct {
	*usage.Meter

	t    *testing.T
	rows session.Store
	stop func()
}

// start starts a meter on what an earlier one left.
func start(t *testing.T, m *memory, o usage.Options) *run {
	t.Helper()
	o.Store, o.Sessions = m, m
	meter := usage.New(o)
	if err := meter.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := meter.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r := &run{Meter: meter, t: t, rows: meter.Sessions(), stop: sync.OnceFunc(func() { cancel(); <-done })}
	t.Cleanup(r.stop)
	return r
}

// kill stops the meter as kill -9 does: what it has not written is lost.
func (r *run) kill(m *memory) {
	m.mu.Lock()
	m.broken = errors.New("the process is dead")
	m.mu.Unlock()
	r.stop()
	m.broken = nil
}

// put has a session be in a state.
func (r *run) put(s *session.Session, state session.State) {
	r.t.Helper()
	s.State = state
	switch {
	case state == session.Creating:
		s.CreatedAt = time.Now()
		s.LastActivity = s.CreatedAt
	case state == session.Stopped:
		s.LastActivity = time.Now()
	case state.Ended():
		s.EndedAt = time.Now()
	}
	if err := r.rows.Put(r.t.Context(), *s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) create(id, owner string) *session.Session {
	r.t.Helper()
	s := &session.Session{ID: session.ID(id), Owner: owner, Sandbox: runtime.ID("box-" + id)}
	r.put(s, session.Creating)
	time.Sleep(20 * time.Millisecond)
	r.put(s, session.Running)
	return s
}

func (r *run) wantTime(owner string, want time.Duration) {
	r.t.Helper()
	if got := r.Used(owner).SessionTime; (got - want).Abs() > want/100 {
		r.t.Errorf("%s used %s, want %s", owner, got, want)
	}
}

func TestTimeOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newMemory(), usage.Options{})
		r.Settled(t.Context())
		s := r.create("a", "alice")
		time.Sleep(100 * time.Second)
		r.wantTime("alice", 100*time.Second)
		r.put(s, session.Paused)
		time.Sleep(100 * time.Second)
		r.wantTime("alice", 200*time.Second) // its memory is held
		r.put(s, session.Stopping)
		r.put(s, session.Stopped)
		time.Sleep(time.Hour)
		r.wantTime("alice", 200*time.Second)
		r.put(s, session.Starting)
		time.Sleep(50 * time.Millisecond)
		r.put(s, session.Running)
		time.Sleep(100 * time.Second)
		r.put(s, session.Destroyed)
		time.Sleep(time.Hour)
		r.wantTime("alice", 300*time.Second)
		if used := r.Used("alice"); used.Sessions != 1 {
			t.Errorf("%d sessions were made", used.Sessions)
		}
		r.wantTime("bob", 0)
	})
}

func TestWhatNeverLivesOrNobodyAskedForIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newMemory(), usage.Options{})
		failed := &session.Session{ID: "f", Owner: "alice"}
		r.put(failed, session.Creating)
		time.Sleep(time.Minute)
		r.put(failed, session.Failed)
		helper := &session.Session{ID: "h", Owner: "alice", Helper: true}
		r.put(helper, session.Creating)
		r.put(helper, session.Running)
		time.Sleep(time.Minute)
		if used := r.Used("alice"); used != (usage.Amounts{}) {
			t.Errorf("used %+v", used)
		}
	})
}

// A meter that dies leaves what it wrote; sessions go on meanwhile.
func TestTimeOverKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		r.create("a", "alice")
		time.Sleep(50 * time.Second)
		ended := r.create("b", "bob")
		stopped := r.create("c", "carol")
		time.Sleep(50 * time.Second)
		// The rows of these are written, and the meter dies before it writes.
		r.put(ended, session.Destroyed)
		r.put(stopped, session.Stopping)
		r.put(stopped, session.Stopped)
		r.create("d", "dora")
		r.kill(m)
		time.Sleep(100 * time.Second) // nobody is there

		r = start(t, m, usage.Options{})
		r.Settled(t.Context())
		time.Sleep(100 * time.Second)
		r.wantTime("alice", 300*time.Second)
		r.wantTime("bob", 50*time.Second)
		r.wantTime("carol", 50*time.Second)
		r.wantTime("dora", 200*time.Second)
		for range 3 { // nothing is counted twice
			r.kill(m)
			r = start(t, m, usage.Options{})
			r.Settled(t.Context())
		}
		r.wantTime("alice", 300*time.Second)
		r.wantTime("bob", 50*time.Second)
		if n := r.Used("dora").Sessions; n != 1 {
			t.Errorf("%d sessions of dora", n)
		}
	})
}

// A create that is under way when the meter writes for the last time counts, and a
// session that is started again does not count twice.
func TestCreateDuringTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		old := r.create("o", "olga")
		time.Sleep(10 * time.Second)
		r.put(old, session.Stopping)
		r.put(old, session.Stopped)
		s := &session.Session{ID: "a", Owner: "alice", Sandbox: "box-a"}
		r.put(s, session.Creating)
		time.Sleep(10 * time.Second) // the meter writes meanwhile
		old.LastActivity = time.Now()
		r.put(old, session.Starting)
		r.put(old, session.Running)
		r.put(s, session.Running)
		r.kill(m)

		r = start(t, m, usage.Options{})
		r.Settled(t.Context())
		if n := r.Used("alice").Sessions; n != 1 {
			t.Errorf("%d sessions of alice, want 1", n)
		}
		r.wantTime("alice", 10*time.Second)
		if n := r.Used("olga").Sessions; n != 1 {
			t.Errorf("%d sessions of olga, want 1", n)
		}
	})
}

// A create that is under way at the last write counts as well if its session stopped or ended
// before the meter died; not if it failed.
func TestShortLivesDuringTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		ends := map[string]session.State{"carl": session.Stopped, "dora": session.Destroyed, "fred": session.Failed}
		made, late := map[string]*session.Session{}, map[string]*session.Session{}
		for owner := range ends {
			made[owner] = &session.Session{ID: session.ID(owner), Owner: owner, Sandbox: "box"}
			r.put(made[owner], session.Creating)
			late[owner] = &session.Session{ID: session.ID("late-" + owner), Owner: owner, Sandbox: "box"}
			r.put(late[owner], session.Creating)
		}
		time.Sleep(11 * time.Second) // the meter writes after ten
		for owner, end := range ends {
			if end != session.Failed {
				r.put(made[owner], session.Running)
			}
			r.put(made[owner], end)
		}
		r.kill(m)
		for range 2 { // nothing is counted twice
			r = start(t, m, usage.Options{})
			for owner, end := range ends {
				if late[owner].State != session.Creating {
					continue
				}
				if end != session.Failed {
					r.put(late[owner], session.Running)
				}
				r.put(late[owner], end)
			}
			r.Settled(t.Context())
			if len(m.spans) != 0 {
				t.Errorf("left spans %v", m.spans)
			}
			for owner, want := range map[string]int64{"carl": 2, "dora": 2, "fred": 0} {
				if n := r.Used(owner).Sessions; n != want {
					t.Errorf("%d sessions of %s, want %d", n, owner, want)
				}
			}
			r.wantTime("fred", 0)
			r.kill(m)
		}
		r.wantTime("dora", 11*time.Second+10*time.Second)
	})
}

// What is taken up is known to the meter after that one: a session that it did not hear of
// before counts in full if it stops at once and this meter dies as well.
func TestTimeOverTwoKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		s := r.create("a", "alice")
		time.Sleep(10 * time.Second)
		r.put(s, session.Stopped)
		time.Sleep(10 * time.Second) // the meter writes
		s.LastActivity = time.Now()
		r.put(s, session.Starting)
		r.put(s, session.Running)
		r.kill(m)
		time.Sleep(20 * time.Second)

		r = start(t, m, usage.Options{})
		r.Settled(t.Context())
		time.Sleep(100 * time.Millisecond)
		r.put(s, session.Stopped)
		r.kill(m)

		r = start(t, m, usage.Options{})
		r.Settled(t.Context())
		r.wantTime("alice", 30*time.Second+100*time.Millisecond)
	})
}

// A session that stops and starts again between two writes did not live in between.
func TestTimeOfAStartAfterTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		known := r.create("known", "alice")
		time.Sleep(10 * time.Second) // the meter writes
		fresh := r.create("b", "bob")
		for _, s := range []*session.Session{known, fresh} {
			r.put(s, session.Stopped)
		}
		time.Sleep(400 * time.Millisecond) // and not again until here
		for _, s := range []*session.Session{known, fresh} {
			s.LastActivity = time.Now()
			r.put(s, session.Starting)
			r.put(s, session.Running)
		}
		time.Sleep(time.Millisecond)
		r.kill(m)

		r = start(t, m, usage.Options{})
		r.Settled(t.Context())
		r.wantTime("alice", 10*time.Second+21*time.Millisecond)
		r.wantTime("bob", 21*time.Millisecond)
	})
}

// A session that was stopped at the last write and starts later lives from its start on,
// not from that write.
func TestTimeOfAStartThatNoMeterWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		s := r.create("a", "alice")
		time.Sleep(10 * time.Second)
		r.put(s, session.Stopped)
		time.Sleep(14 * time.Second) // the meter writes, and not again until the end
		s.LastActivity = time.Now()
		r.put(s, session.Starting)
		r.put(s, session.Running)
		r.kill(m)
		time.Sleep(2 * time.Second)

		r = start(t, m, usage.Options{})
		r.Settled(t.Context())
		r.wantTime("alice", 12*time.Second)
	})
}

// What was made, and stopped or ended again, after the last write counts, and nothing twice.
func TestShortLivesAfterTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		known := r.create("known", "alice")
		time.Sleep(10 * time.Second)
		r.put(known, session.Stopped)
		time.Sleep(10 * time.Second) // the meter writes
		stopped, destroyed := r.create("s", "alice"), r.create("d", "alice")
		time.Sleep(100 * time.Millisecond)
		r.put(stopped, session.Stopped)
		r.put(destroyed, session.Destroyed)
		time.Sleep(100 * time.Millisecond)
		r.kill(m)

		for range 2 {
			r = start(t, m, usage.Options{})
			r.Settled(t.Context())
			if n := r.Used("alice").Sessions; n != 3 {
				t.Errorf("%d sessions, want 3", n)
			}
			r.wantTime("alice", 10*time.Second+200*time.Millisecond)
			time.Sleep(10 * time.Second)
			r.kill(m)
		}
	})
}

// Nobody knows when a session ended that is found dead: it counts until the last sign
// of life of the daemon before.
func TestTimeOfWhatIsFoundDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		s := r.create("a", "alice")
		time.Sleep(500 * time.Second)
		r.kill(m)
		time.Sleep(72 * time.Hour) // the host is off

		r = start(t, m, usage.Options{})
		r.put(s, session.Stopping)
		r.put(s, session.Stopped)
		r.Settled(t.Context())
		r.wantTime("alice", 500*time.Second)
	})
}

func TestTimeOverTheEndOfAMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		month := usage.MonthOf(time.Now())
		time.Sleep(time.Until(month.End()) - 6*time.Hour)
		s := r.create("a", "alice")
		time.Sleep(time.Until(month.End()) + 4*time.Hour)
		check := func(month usage.Month, want time.Duration) {
			t.Helper()
			got, err := r.UsedIn(t.Context(), "alice", month)
			if err != nil || (got.SessionTime-want).Abs() > want/100 {
				t.Errorf("%s: %s, %v; want %s", month, got.SessionTime, err, want)
			}
		}
		next := usage.MonthOf(time.Now())
		check(month, 6*time.Hour)
		check(next, 4*time.Hour)
		r.put(s, session.Destroyed)
		time.Sleep(10 * time.Second)
		check(month, 6*time.Hour)
		check(next, 4*time.Hour)
		r.kill(m)
		r = start(t, m, usage.Options{})
		check(month, 6*time.Hour)
		check(next, 4*time.Hour)
	})
}

func TestAFailedWriteIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		m.mu.Lock()
		m.broken = errors.New("the disk is full")
		m.mu.Unlock()
		s := r.create("a", "alice")
		time.Sleep(60 * time.Second)
		r.put(s, session.Destroyed)
		time.Sleep(60 * time.Second)
		m.mu.Lock()
		m.broken = nil
		m.mu.Unlock()
		time.Sleep(10 * time.Second)
		r.wantTime("alice", 60*time.Second)
		r.kill(m)
		r = start(t, m, usage.Options{})
		r.wantTime("alice", 60*time.Second)
	})
}

func TestProcessorTimeAndTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		spent, carried := time.Second, map[string]usage.Traffic{}
		carry := func(to map[string]usage.Traffic) {
			mu.Lock()
			defer mu.Unlock()
			carried = to
		}
		o := usage.Options{
			Measure: func(_ context.Context, id runtime.ID) (time.Duration, int64, error) {
				mu.Lock()
				defer mu.Unlock()
				if id != "box-a" {
					t.Errorf("asked for %s", id)
				}
				return spent, 64 << 20, nil
			},
			Traffic: func() map[string]usage.Traffic {
				mu.Lock()
				defer mu.Unlock()
				return carried
			},
		}
		m := newMemory()
		r := start(t, m, o)
		r.Settled(t.Context())
		s := r.create("a", "alice")
		carry(map[string]usage.Traffic{"alice": {Sent: 100, Received: 1000}})
		time.Sleep(2 * time.Minute)
		carry(nil) // a network that is being closed
		time.Sleep(10 * time.Second)
		carry(map[string]usage.Traffic{"alice": {Sent: 150, Received: 1000}})
		time.Sleep(10 * time.Second)
		check := func(cpu time.Duration, sent, received int64) {
			t.Helper()
			if used := r.Used("alice"); used.CPUTime != cpu || used.Sent != sent || used.Received != received {
				t.Errorf("used %+v; want %s, %d, %d", used, cpu, sent, received)
			}
		}
		check(time.Second, 150, 1000)
		r.kill(m)
		carry(nil) // a new daemon begins with nothing
		r = start(t, m, o)
		r.Settled(t.Context())
		time.Sleep(2 * time.Minute)
		check(time.Second, 150, 1000)
		mu.Lock()
		spent = 3 * time.Second
		mu.Unlock()
		r.put(s, session.Stopping) // the last chance
		r.put(s, session.Destroyed)
		check(3*time.Second, 150, 1000)
		if used := r.Used("saver"); used.SnapshotPeak != 700 {
			t.Errorf("peak %d", used.SnapshotPeak)
		}
	})
}

// Nothing is written for each session: one write does for all.
func TestWritesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		for i := range 2000 {
			s := &session.Session{ID: session.ID(rune('a' + i)), Owner: "alice"}
			r.put(s, session.Creating)
			r.put(s, session.Running)
		}
		time.Sleep(time.Minute)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.writes > 14 {
			t.Errorf("%d writes in a minute", m.writes)
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{})
		r.Settled(t.Context())
		s := r.create("a", "alice")
		time.Sleep(time.Minute)
		r.put(s, session.Destroyed)
		if err := r.Forget(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if used := r.Used("alice"); used != (usage.Amounts{}) || len(m.spans) != 0 {
			t.Errorf("used %+v, spans %v", used, m.spans)
		}
	})
}

func TestParseMonth(t *testing.T) {
	now := time.Date(2026, 11, 30, 23, 30, 0, 0, time.FixedZone("west", -3600)) // December in UTC
	for text, want := range map[string]usage.Month{"": "2026-12", "2025-01": "2025-01", "2026-13": "", "2026-1": "", "x": "", "2026-11-01": ""} {
		if got, err := usage.ParseMonth(text, now); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if end := usage.Month("2026-12").End(); end.Format(time.RFC3339) != "2027-01-01T00:00:00Z" {
		t.Errorf("ends %s", end)
	}
}

// What was used is told by day: time that goes on over midnight is of both days, and memory is
// what sessions had in use, by the seconds that they had it.
func TestDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r := start(t, m, usage.Options{Measure: func(context.Context, runtime.ID) (time.Duration, int64, error) {
			return time.Minute, 256 << 20, nil
		}})
		r.Settled(t.Context())
		time.Sleep(time.Until(time.Date(2000, 1, 1, 23, 0, 0, 0, time.UTC)))
		r.create("a", "alice")
		s := r.create("b", "bob")
		time.Sleep(2*time.Hour + 30*time.Second)
		r.put(s, session.Destroyed)
		time.Sleep(time.Minute)
		got := map[string]usage.Amounts{}
		days, err := r.Days(t.Context(), "2000-01-01", "2000-01-02", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range days {
			got[d.Owner+" "+string(d.Day)] = d.Amounts
		}
		for key, want := range map[string]time.Duration{"alice 2000-01-01": time.Hour, "alice 2000-01-02": time.Hour + 90*time.Second, "bob 2000-01-01": time.Hour, "bob 2000-01-02": time.Hour + 30*time.Second} {
			if d := got[key].SessionTime - want; d < -time.Second || d > time.Second {
				t.Errorf("%s lived %s, want %s", key, got[key].SessionTime, want)
			}
			if mb := got[key].MemoryTime; mb < 256*3500 || mb > 256*3800 {
				t.Errorf("%s had %d MiB seconds of 256 MiB for an hour", key, mb)
			}
		}
		if got["alice 2000-01-01"].Sessions != 1 || got["alice 2000-01-02"].Sessions != 0 {
			t.Errorf("sessions made: %+v", got)
		}
		one, err := r.Days(t.Context(), "2000-01-02", "2000-01-02", new("bob"))
		if err != nil || len(one) != 1 || one[0].Owner != "bob" {
			t.Errorf("of bob on the second day: %+v, %v", one, err)
		}
	})
}

// What the meter needs of the real store.
func TestStore(t *testing.T) {
	path := storetest.NewDB(t)
	rows, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Truncate(time.Microsecond)
	key := usage.Key{Owner: "alice", Month: "2026-11"}
	day, old := usage.DayKey{Owner: "alice", Day: usage.DayOf(began)}, usage.DayKey{Owner: "alice", Day: usage.DayOf(began.Add(-usage.DaysKept - 48*time.Hour))}
	for range 2 {
		err := rows.AddUsage(t.Context(), usage.Changes{
			Seen: began, Amounts: map[usage.Key]usage.Amounts{key: {SessionTime: time.Second, CPUTime: time.Millisecond, Sent: 1, Received: 2, Sessions: 3, SnapshotPeak: 4}},
			Days:  map[usage.DayKey]usage.Amounts{day: {SessionTime: time.Second, CPUTime: time.Millisecond, Sent: 1, Received: 2, Sessions: 3, MemoryTime: 5}, old: {Sent: 1}},
			Spans: []usage.Span{{Session: "a", Owner: "alice", Began: began, CPUTime: time.Second}, {Session: "b", Owner: "alice", Began: began}}, Closed: []string{"c"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.AddUsage(t.Context(), usage.Changes{Seen: began, Closed: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	if rows, err = store.Open(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	state, err := rows.UsageState(t.Context())
	if err != nil || !state.Seen.Equal(began) || len(state.Spans) != 1 || state.Spans[0].Session != "a" || !state.Spans[0].Began.Equal(began) || state.Spans[0].CPUTime != time.Second {
		t.Errorf("%+v, %v", state, err)
	}
	want := usage.Amounts{SessionTime: 2 * time.Second, CPUTime: 2 * time.Millisecond, Sent: 2, Received: 4, Sessions: 6, SnapshotPeak: 4}
	for _, owner := range []*string{nil, &key.Owner} {
		if all, err := rows.UsageOf(t.Context(), key.Month, owner); err != nil || len(all) != 1 || all["alice"] != want {
			t.Errorf("%+v, %v", all, err)
		}
	}
	wantDay := usage.DayUsage{DayKey: day, Amounts: usage.Amounts{SessionTime: 2 * time.Second, CPUTime: 2 * time.Millisecond, Sent: 2, Received: 4, Sessions: 6, MemoryTime: 10}}
	for _, owner := range []*string{nil, &key.Owner} {
		if all, err := rows.UsageDays(t.Context(), old.Day, day.Day, owner); err != nil || len(all) != 1 || all[0] != wantDay {
			t.Errorf("%+v, %v; want %+v, and nothing of long ago", all, err, wantDay)
		}
	}
	if all, err := rows.UsageDays(t.Context(), day.Day, day.Day, new("bob")); err != nil || len(all) != 0 {
		t.Errorf("of bob: %+v, %v", all, err)
	}
	if err := rows.ForgetUsage(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if all, err := rows.UsageDays(t.Context(), day.Day, day.Day, nil); err != nil || len(all) != 0 {
		t.Errorf("forgotten: %+v, %v", all, err)
	}
	if all, err := rows.UsageOf(t.Context(), key.Month, nil); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := rows.SnapshotBytes(t.Context(), &key.Owner); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}
