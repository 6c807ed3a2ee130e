package sessionmetrics

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// What a history reads is what /metrics shows.
func TestTotals(t *testing.T) {
	m := newMetrics()
	for i := range 100 {
		m.Created(time.Duration(i+1)*time.Millisecond, nil)
	}
	m.Created(time.Hour, errdefs.New(errdefs.Unavailable, "no room"))
	m.Created(time.Hour, errors.New("broken"))
	m.Created(time.Hour, errdefs.Invalid("image", "must be one that there is")) // which is no fault of the daemon's
	m.Created(time.Hour, errdefs.New(errdefs.NotFound, "no image"))
	m.Ran(protocol.Record{Cause: protocol.CauseExited, DurationUS: 2_000_000})
	m.Ran(protocol.Record{Cause: protocol.CauseExited, DurationUS: 8_000_000})
	m.Ran(protocol.Record{Cause: protocol.CauseOOMKilled, DurationUS: 500})
	var r history.HostReading
	if err := m.AddTo(&r); err != nil {
		t.Fatal(err)
	}
	created := r.Created["ok"]
	if len(r.Created) != 1 || created.Total() != 100 || r.FailedCreates != 2 || r.Killed != 1 || r.Ran["exited"].Total() != 2 {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct{ got, want float64 }{
		{created.Percentile(0.5), 0.05}, {created.Percentile(0.99), 0.099}, {r.Ran["exited"].Percentile(0.5), 2}, {r.Ran["exited"].Percentile(1), 8}, {r.Ran["oom_killed"].Percentile(0.5), 0.0005},
	} {
		if math.Abs(c.got/c.want-1) > 0.045 {
			t.Errorf("%v is more than 4.5 %% off %v", c.got, c.want)
		}
	}
	if err := (*Metrics)(nil).AddTo(&r); err != nil {
		t.Error(err)
	}
}

// Durations of all sizes are in fewer and coarser buckets, and still less than 10 % off.
func TestTotalsOfManySizes(t *testing.T) {
	m := newMetrics()
	for i := range 192 {
		m.Created(time.Duration(float64(time.Microsecond)*math.Exp2(float64(i)/8)), nil)
	}
	var r history.HostReading
	if err := m.AddTo(&r); err != nil {
		t.Fatal(err)
	}
	want := 1e-6 * math.Exp2(95.0/8)
	if got := r.Created["ok"].Percentile(0.5); r.Created["ok"].Total() != 192 || math.Abs(got/want-1) > 0.095 {
		t.Errorf("%v of %d, want %v", got, r.Created["ok"].Total(), want)
	}
}

func BenchmarkTotals(b *testing.B) {
	m := newMetrics()
	for i := range 1000 {
		m.Created(time.Duration(i+1)*time.Millisecond, nil)
		m.Ran(protocol.Record{Cause: protocol.CauseExited, DurationUS: int64(i * i)})
	}
	for b.Loop() {
		var r history.HostReading
		if err := m.AddTo(&r); err != nil {
			b.Fatal(err)
		}
	}
}
