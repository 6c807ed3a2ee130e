package history_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/history"
)

// counted puts times, in seconds, into the buckets of a schema, as Prometheus does.
func counted(schema int, times ...float64) history.Durations {
	d := history.Durations{Schema: schema, Counts: map[int]int64{}}
	for _, seconds := range times {
		d.Counts[int(math.Ceil(math.Log2(seconds)*math.Exp2(float64(schema))))]++
	}
	return d
}

func TestPercentilesAreAsExactAsTheBuckets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	times := make([]float64, 5000)
	for i := range times {
		times[i] = math.Exp(random.NormFloat64()) / 100
	}
	sorted := slices.Sorted(slices.Values(times))
	for schema, off := range map[int]float64{3: 0.045, 2: 0.091} {
		for _, p := range []float64{0.5, 0.9, 0.99, 1} {
			want := sorted[int(math.Ceil(p*5000))-1]
			if got := counted(schema, times...).Percentile(p); math.Abs(got/want-1) > off {
				t.Errorf("schema %d: p%v is %v, want %v", schema, 100*p, got, want)
			}
		}
	}
	if got := (history.Durations{}).Percentile(0.5); got != 0 {
		t.Errorf("of none it is %v", got)
	}
	if got := (history.Durations{Schema: 3, Short: 3, Counts: map[int]int64{0: 1}}).Percentile(0.5); got != 0 {
		t.Errorf("of mostly none too short it is %v", got)
	}
}

func (w *world) ofHost(t *testing.T, step history.Step) []history.HostSample {
	t.Helper()
	samples, _, err := w.OfHost(t.Context(), step, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// A sample has what happened in its own interval.
func TestHostSample(t *testing.T) {
	w := newWorld()
	w.host.CPULimit = 4
	w.host.BusyTicks, w.host.TotalTicks = 1_000_000, 9_000_000
	w.host.Created = map[string]history.Durations{"ok": counted(3, 9, 9, 9)}
	w.host.Answered = 100
	w.Take(t.Context())
	if got := w.ofHost(t, history.Fine); len(got) != 0 {
		t.Fatalf("a sample of one reading: %+v", got)
	}
	w.host.BusyTicks, w.host.TotalTicks = 1_001_000, 9_004_000
	w.host.Created = map[string]history.Durations{"ok": counted(3, 9, 9, 9, 0.01, 0.01, 0.02)}
	w.host.Ran = map[string]history.Durations{"exited": counted(3, 1), "timeout": counted(2, 2, 2)}
	w.host.FailedCreates, w.host.Killed, w.host.Answered, w.host.Failed = 2, 1, 107, 1
	w.host.Sessions = map[string]int{"running": 3}
	w.pass(t, 10*time.Second)
	got := w.ofHost(t, history.Fine)
	if len(got) != 1 {
		t.Fatalf("%d samples", len(got))
	}
	s := got[0]
	if s.Seconds != 10 || s.CPUUsed != 1 || s.Creates != 3 || s.CreateErrors != 2 || s.Execs != 3 || s.ExecOOMKills != 1 || s.Requests != 7 || s.RequestErrors != 1 || s.Sessions["running"] != 3 {
		t.Errorf("%+v", s)
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"create p50": {s.CreateP50MS, 10}, "create p99": {s.CreateP99MS, 20}, "exec p50": {s.ExecP50MS, 2000},
	} {
		if math.Abs(c.got/c.want-1) > 0.1 {
			t.Errorf("%s is %v, want about %v", name, c.got, c.want)
		}
	}
	// A histogram that began anew has less than before; all of it is new.
	w.host.Created, w.host.Answered = map[string]history.Durations{"ok": counted(3, 0.04)}, 5
	w.pass(t, 10*time.Second)
	if s := w.ofHost(t, history.Fine)[1]; s.Creates != 1 || math.Abs(s.CreateP50MS/40-1) > 0.05 || s.Requests != 5 || s.Execs != 0 || s.ExecP50MS != 0 {
		t.Errorf("after it began anew: %+v", s)
	}
}

func TestHostStepsAreKeptForTheirTime(t *testing.T) {
	w := newWorld()
	for range 25 * 60 {
		for i := range 6 {
			w.host.Answered++
			w.host.MemoryBytes = int64(i % 3)
			w.pass(t, 10*time.Second)
		}
	}
	fine, coarse := w.ofHost(t, history.Fine), w.ofHost(t, history.Coarse)
	if n := len(fine); n < 360 || n > 367 {
		t.Errorf("%d fine samples", n)
	}
	if n := len(coarse); n < 1440 || n > 1441 {
		t.Errorf("%d coarse samples", n)
	}
	for _, s := range coarse[1:] {
		if s.Seconds != 60 || s.Requests != 6 || s.MemoryBytes != 2 {
			t.Fatalf("a minute is %+v", s)
		}
	}
	w.restart()
	if n := len(w.ofHost(t, history.Coarse)); n < 1439 {
		t.Errorf("%d coarse samples after a restart", n)
	}
}

func TestHostSamplesThatWait(t *testing.T) {
	w := newWorld()
	w.pass(t, 30*time.Second)
	if n := len(w.ofHost(t, history.Fine)); n != 2 || len(w.store.host) != 0 {
		t.Errorf("%d samples, %d written", n, len(w.store.host))
	}
	w.store.err = errors.New("the disk is full")
	w.pass(t, 3*time.Hour)
	w.store.err = nil
	if n := len(w.ofHost(t, history.Fine)) + len(w.ofHost(t, history.Coarse)); n != 420 {
		t.Errorf("%d samples wait", n)
	}
	w.pass(t, 2*time.Minute)
	samples := w.ofHost(t, history.Fine)
	if len(slices.CompactFunc(slices.Clone(samples), func(a, b history.HostSample) bool { return a.At.Equal(b.At) })) != len(samples) {
		t.Error("samples were written twice")
	}
	w.broken = errors.New("no /proc")
	w.pass(t, time.Minute)
	if got := w.ofHost(t, history.Fine); !got[len(got)-1].At.Equal(samples[len(samples)-1].At) {
		t.Error("a sample of a host that could not be read")
	}
}

// A clock that is set back begins a new interval and makes none of a negative length.
func TestHostClockSetBack(t *testing.T) {
	w := newWorld()
	w.pass(t, time.Minute)
	w.now = w.now.Add(-time.Hour)
	w.pass(t, 2*time.Minute)
	for _, s := range w.ofHost(t, history.Fine) {
		if s.Seconds != 10 {
			t.Errorf("an interval of %v s", s.Seconds)
		}
	}
}

func BenchmarkPercentiles(b *testing.B) {
	times := make([]float64, 200)
	for i := range times {
		times[i] = math.Exp2(float64(i)/16 - 10)
	}
	d := counted(3, times...)
	for b.Loop() {
		d.Percentile(0.99)
	}
}
