package history

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/session"
)

// mostHostRows bounds the samples of the host that wait to be written: an hour's.
const mostHostRows = 420

// HostSample is how full the host is at a time, and what its daemon did in the seconds
// before. Its JSON is what stores keep.
type HostSample struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // since the sample before, in which what follows happened

	CPUUsed       float64        `json:"cpu_used"` // processors, on average
	CPULimit      int            `json:"cpu_limit"`
	MemoryBytes   int64          `json:"memory_bytes"` // of Coarse, the most of its minute's
	MemoryLimit   int64          `json:"memory_limit"`
	DiskBytes     int64          `json:"disk_bytes"`
	DiskLimit     int64          `json:"disk_limit"`
	DiskPoolBytes int64          `json:"disk_pool_bytes,omitempty"`
	DiskPoolLimit int64          `json:"disk_pool_limit,omitempty"` // 0 is no pool of disks
	Sessions      map[string]int `json:"sessions"`                  // by state
	SessionsLimit int            `json:"sessions_limit"`            // 0 is none
	PoolReady     int            `json:"pool_ready"`
	PoolWanted    int            `json:"pool_wanted"`

	Creates       int64   `json:"creates"`
	CreateErrors  int64   `json:"create_errors"`
	CreateP50MS   float64 `json:"create_p50_ms,omitempty"`
	CreateP90MS   float64 `json:"create_p90_ms,omitempty"`
	CreateP99MS   float64 `json:"create_p99_ms,omitempty"`
	Execs         int64   `json:"execs"`
	ExecOOMKills  int64   `json:"exec_oom_kills"`
	ExecP50MS     float64 `json:"exec_p50_ms,omitempty"`
	ExecP90MS     float64 `json:"exec_p90_ms,omitempty"`
	ExecP99MS     float64 `json:"exec_p99_ms,omitempty"`
	Requests      int64   `json:"requests"`
	RequestErrors int64   `json:"request_errors"`
}

// HostReading is what is read of the host: amounts, and counters that grow while the
// daemon runs.
type HostReading struct {
	// HostSample has the time and the amounts; the rest is worked out of the counters.
	HostSample

	BusyTicks, TotalTicks int64                // of all processors
	Created, Ran          map[string]Durations // by outcome
	FailedCreates, Killed int64
	Answered, Failed      int64 // requests
}

// HostRow is a sample of the host to be stored.
type HostRow struct {
	Step Step
	HostSample
}

// between is the sample of now, whose interval begins with before.
func between(before, now HostReading) HostSample {
	s := now.HostSample
	s.Seconds = rounded(now.At.Sub(before.At).Seconds())
	if ticks := now.TotalTicks - before.TotalTicks; ticks > 0 {
		s.CPUUsed = rounded(float64(max(0, now.BusyTicks-before.BusyTicks)) / float64(ticks) * float64(now.CPULimit))
	}
	created, ran := allSince(now.Created, before.Created), allSince(now.Ran, before.Ran)
	s.Creates, s.Execs = created.Total(), ran.Total()
	s.CreateErrors, s.ExecOOMKills = grown(now.FailedCreates, before.FailedCreates), grown(now.Killed, before.Killed)
	s.Requests, s.RequestErrors = grown(now.Answered, before.Answered), grown(now.Failed, before.Failed)
	ms := func(d Durations, p float64) float64 { return rounded(1000 * d.Percentile(p)) }
	s.CreateP50MS, s.CreateP90MS, s.CreateP99MS = ms(created, 0.5), ms(created, 0.9), ms(created, 0.99)
	s.ExecP50MS, s.ExecP90MS, s.ExecP99MS = ms(ran, 0.5), ms(ran, 0.9), ms(ran, 0.99)
	return s
}

// rounded leaves out the digits that nobody has measured.
func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }

// grown is by how much a counter grew. One that fell has begun anew.
func grown(now, before int64) int64 {
	if now < before {
		return now
	}
	return now - before
}

// hostSeries makes samples of readings. Its first reading makes none.
type hostSeries struct {
	last, minute HostReading // the last, and the last of the minute before
	mostMemory   int64       // of this minute
	waiting      []HostRow   // not written yet
}

func (h *hostSeries) add(r HostReading) {
	if h.last.At.IsZero() || !r.At.After(h.last.At) { // the clock was set back
		h.last, h.minute, h.mostMemory = r, r, r.MemoryBytes
		return
	}
	if !r.At.Truncate(time.Minute).Equal(h.last.At.Truncate(time.Minute)) {
		if h.last.At.After(h.minute.At) {
			s := between(h.minute, h.last)
			s.MemoryBytes = h.mostMemory
			h.waiting = append(h.waiting, HostRow{Coarse, s})
		}
		h.minute, h.mostMemory = h.last, 0
	}
	h.waiting = append(h.waiting, HostRow{Fine, between(h.last, r)})
	h.last, h.mostMemory = r, max(h.mostMemory, r.MemoryBytes)
	if more := len(h.waiting) - mostHostRows; more > 0 {
		h.waiting = slices.Delete(h.waiting, 0, more)
	}
}

// takeHost takes one sample of the host, which has the sessions.
func (r *Recorder) takeHost(ctx context.Context, all []session.Session) {
	if r.opts.Host == nil {
		return
	}
	reading, err := r.opts.Host(ctx, all)
	if err != nil {
		r.opts.Log.WarnContext(ctx, "cannot read how full the host is", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.host.add(reading)
}

// writeHost writes what waits of the host. What cannot be written waits on.
func (r *Recorder) writeHost(ctx context.Context) {
	r.mu.Lock()
	rows := slices.Clone(r.host.waiting)
	r.mu.Unlock()
	if len(rows) == 0 {
		return
	}
	now := r.opts.Now()
	before := map[Step]time.Time{Fine: now.Add(-fineLife), Coarse: now.Add(-coarseLife)}
	if err := r.opts.Store.AddHostHistory(ctx, rows, before); err != nil {
		r.opts.Log.WarnContext(ctx, "cannot write how full the host was; trying again", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.host.waiting = slices.Delete(r.host.waiting, 0, len(rows))
}

// OfHost lists the samples of the host from a time on, oldest first. Step 0 is the
// finest that there is from then on.
func (r *Recorder) OfHost(ctx context.Context, step Step, since time.Time) ([]HostSample, Step, error) {
	step, err := r.stepOf(step, since)
	if err != nil {
		return nil, 0, err
	}
	samples, err := r.opts.Store.HostHistory(ctx, step, since)
	if err != nil {
		return nil, step, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.host.waiting {
		if row.Step == step && !row.At.Before(since) && (len(samples) == 0 || row.At.After(samples[len(samples)-1].At)) {
			samples = append(samples, row.HostSample)
		}
	}
	return samples, step, nil
}
