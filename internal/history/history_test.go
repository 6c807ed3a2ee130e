package history_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// memory is a store of rows. It fails while err is set.
type memory struct {
	rows []history.Row
	host []history.HostRow
	err  error
}

func (m *memory) AddHostHistory(_ context.Context, rows []history.HostRow, before map[history.Step]time.Time) error {
	if m.err != nil {
		return m.err
	}
	m.host = slices.DeleteFunc(append(m.host, rows...), func(r history.HostRow) bool { return r.At.Before(before[r.Step]) })
	return nil
}

func (m *memory) HostHistory(_ context.Context, step history.Step, since time.Time) (found []history.HostSample, err error) {
	for _, r := range m.host {
		if r.Step == step && !r.At.Before(since) {
			found = append(found, r.HostSample)
		}
	}
	return found, nil
}

func (m *memory) AddHistory(_ context.Context, rows []history.Row, before map[history.Step]time.Time, gone []session.ID) error {
	if m.err != nil {
		return m.err
	}
	m.rows = slices.DeleteFunc(append(m.rows, rows...), func(r history.Row) bool {
		return r.At.Before(before[r.Step]) || slices.Contains(gone, r.Session)
	})
	return nil
}

func (m *memory) History(_ context.Context, id session.ID, step history.Step, since time.Time) (found []history.Sample, err error) {
	for _, r := range m.rows {
		if r.Session == id && r.Step == step && !r.At.Before(since) {
			found = append(found, r.Sample)
		}
	}
	return found, nil
}

func (m *memory) HistorySessions(context.Context) (ids []session.ID, err error) {
	for _, r := range m.rows {
		ids = append(ids, r.Session)
	}
	return ids, nil
}

// world is a recorder with a clock of its own.
type world struct {
	*history.Recorder
	store *memory
	now   time.Time
	use   map[session.ID]history.Sample
	kept  map[session.ID]bool
	host  history.HostReading

	lists    int   // how often sessions were listed
	unlisted error // of listing them
	broken   error // of reading the host
}

func newWorld() *world {
	w := &world{store: &memory{}, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), use: map[session.ID]history.Sample{}, kept: map[session.ID]bool{"a": true}}
	w.restart()
	return w
}

func (w *world) restart() {
	w.Recorder = history.New(history.Options{
		Store: w.store, Now: func() time.Time { return w.now },
		List: func(context.Context) (all []session.Session, err error) {
			w.lists++
			for id, there := range w.kept {
				if there {
					all = append(all, session.Session{ID: id})
				}
			}
			return all, w.unlisted
		},
		Read: func(context.Context, []session.Session) map[session.ID]history.Sample {
			read := map[session.ID]history.Sample{}
			for id, s := range w.use {
				if s.At.IsZero() {
					s.At = w.now
				}
				read[id] = s
			}
			return read
		},
		Host: func(context.Context, []session.Session) (history.HostReading, error) {
			w.host.At = w.now
			return w.host, w.broken
		},
	})
}

// pass takes samples until so much time has passed.
func (w *world) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(10 * time.Second)
		w.Take(t.Context())
	}
}

func (w *world) of(t *testing.T, id session.ID, step history.Step) []history.Sample {
	t.Helper()
	samples, _, err := w.Of(t.Context(), id, step, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func TestStepsAreKeptForTheirTime(t *testing.T) {
	w := newWorld()
	w.use["a"] = history.Sample{MemoryBytes: 1}
	w.pass(t, 30*time.Hour)
	fine, coarse := w.of(t, "a", history.Fine), w.of(t, "a", history.Coarse)
	if n := len(fine); n < 360 || n > 366 {
		t.Errorf("%d fine samples", n)
	}
	if n := len(coarse); n < 1440 || n > 1441 {
		t.Errorf("%d coarse samples", n)
	}
	if gap := fine[1].At.Sub(fine[0].At); gap != 10*time.Second {
		t.Errorf("fine ones are %v apart", gap)
	}
	if gap := coarse[1].At.Sub(coarse[0].At); gap != time.Minute {
		t.Errorf("coarse ones are %v apart", gap)
	}
}

func TestTheFinestStepThatThereIs(t *testing.T) {
	w := newWorld()
	for ago, want := range map[time.Duration]history.Step{time.Minute: history.Fine, time.Hour: history.Fine, 2 * time.Hour: history.Coarse} {
		if _, step, err := w.Of(t.Context(), "a", 0, w.now.Add(-ago)); err != nil || step != want {
			t.Errorf("since %v ago: %v, %v", ago, time.Duration(step), err)
		}
	}
}

func TestOtherStepsAreRefused(t *testing.T) {
	w := newWorld()
	for _, step := range []history.Step{1, -1, history.Step(7 * time.Second), history.Coarse + 1} {
		if _, _, err := w.Of(t.Context(), "a", step, w.now); errdefs.CodeOf(err) != errdefs.InvalidArgument {
			t.Errorf("step %v of a session: %v", time.Duration(step), err)
		}
		if _, _, err := w.OfHost(t.Context(), step, w.now); errdefs.CodeOf(err) != errdefs.InvalidArgument {
			t.Errorf("step %v of the host: %v", time.Duration(step), err)
		}
	}
}

// The sessions are listed once for the samples of the host and of them, and for what is
// written then.
func TestOneListForASample(t *testing.T) {
	w := newWorld()
	w.use["a"] = history.Sample{}
	w.pass(t, 2*time.Minute)
	if len(w.store.rows) == 0 || len(w.store.host) == 0 {
		t.Errorf("%d and %d are written", len(w.store.rows), len(w.store.host))
	}
	if w.lists != 12 {
		t.Errorf("%d lists for 12 samples", w.lists)
	}
	before := len(w.of(t, "a", history.Fine))
	w.unlisted = errors.New("the disk is full")
	w.pass(t, time.Minute)
	w.unlisted = nil
	w.pass(t, time.Minute)
	if n := len(w.of(t, "a", history.Fine)); n != before+6 {
		t.Errorf("%d samples, and %d before", n, before)
	}
}

func TestAMinuteHasItsMostMemory(t *testing.T) {
	w := newWorld()
	for _, memory := range []int64{5, 9, 3, 3, 3, 3, 3} {
		w.use["a"] = history.Sample{MemoryBytes: memory, CPUUsageUsec: memory}
		w.pass(t, 10*time.Second)
	}
	got := w.of(t, "a", history.Coarse)
	if len(got) != 1 || got[0].MemoryBytes != 9 || got[0].CPUUsageUsec != 3 {
		t.Errorf("%+v", got)
	}
}

func TestWhatWaitsIsThereAndWrittenOnce(t *testing.T) {
	w := newWorld()
	w.use["a"] = history.Sample{}
	w.pass(t, 30*time.Second)
	if n := len(w.of(t, "a", history.Fine)); n != 3 || len(w.store.rows) != 0 {
		t.Errorf("%d samples, %d written", n, len(w.store.rows))
	}
	w.store.err = errors.New("the disk is full")
	w.pass(t, 2*time.Minute)
	w.store.err = nil
	w.pass(t, time.Minute)
	samples := w.of(t, "a", history.Fine)
	if len(samples) != 21 || len(slices.CompactFunc(samples, func(a, b history.Sample) bool { return a.At.Equal(b.At) })) != 21 {
		t.Errorf("%d samples", len(samples))
	}
	w.restart()
	if n := len(w.of(t, "a", history.Fine)); n < 18 {
		t.Errorf("%d samples after a restart", n)
	}
}

func TestAReadingThatIsOldIsNoNewSample(t *testing.T) {
	w := newWorld()
	w.use["a"] = history.Sample{At: w.now, MemoryBytes: 1}
	w.pass(t, time.Minute)
	if n := len(w.of(t, "a", history.Fine)); n != 1 {
		t.Errorf("%d samples of one reading", n)
	}
}

func TestHistoryGoesWithItsSession(t *testing.T) {
	w := newWorld()
	w.kept["b"] = true
	w.use["a"], w.use["b"] = history.Sample{}, history.Sample{}
	w.pass(t, 2*time.Minute)
	delete(w.use, "b")
	delete(w.kept, "b")
	w.pass(t, 2*time.Minute)
	if n := len(w.of(t, "b", history.Fine)) + len(w.of(t, "b", history.Coarse)); n != 0 {
		t.Errorf("%d samples of a session that has ended", n)
	}
	if len(w.of(t, "a", history.Fine)) == 0 {
		t.Error("the other's are gone too")
	}
}

// However many sessions there are, the store has a bound.
func TestManySessionsAreKeptShorter(t *testing.T) {
	w := newWorld()
	const sessions = 2000
	for i := range sessions {
		id := session.ID(rune('A'+i%26)) + session.ID(time.Duration(i).String())
		w.use[id], w.kept[id] = history.Sample{}, true
	}
	w.pass(t, 30*time.Minute)
	fine := 0
	for _, r := range w.store.rows {
		if r.Step == history.Fine {
			fine++
		}
	}
	if fine > 500*360*11/10+sessions*6 {
		t.Errorf("%d fine samples", fine)
	}
}
