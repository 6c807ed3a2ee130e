// Package history keeps what sessions used over their lives, and how full the host was: a
// sample every ten seconds for an hour, and one each minute for a day. Samples of sessions
// are counters as they were read, so that whoever draws them works out rates, and sees
// where there is a hole. Those of the host have what happened since the one before, for
// the percentiles of an interval are none of counters'.
package history

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Step is how far samples are from each other.
type Step time.Duration

// The steps.
const (
	Fine   = Step(10 * time.Second)
	Coarse = Step(time.Minute)
)

// How long samples are kept, with the number of sessions of which there are so many.
// With more they are kept shorter, so that all together have a bound.
const (
	fineLife   = time.Hour
	coarseLife = 24 * time.Hour
	fullFor    = 500
)

// mostWaiting bounds the samples that wait to be written.
const mostWaiting = 50_000

// Sample is what a session used at a time. Counters begin anew with the session's start,
// those of the network also with the daemon's.
type Sample struct {
	At            time.Time
	CPUUsageUsec  int64
	MemoryBytes   int64 // of Coarse, the most of its minute's
	DiskBytes     int64
	Pids          int64
	SentBytes     int64
	ReceivedBytes int64
}

// Row is a sample of a session.
type Row struct {
	Session session.ID
	Step    Step
	Sample
}

// Store is where samples are kept. Implementations are safe for concurrent use.
type Store interface {
	// AddHistory writes rows, and forgets, of the sessions that they are of, those before
	// the times of their steps. All of the sessions in gone are forgotten.
	AddHistory(ctx context.Context, rows []Row, before map[Step]time.Time, gone []session.ID) error
	// History lists the samples of a session from a time on, oldest first.
	History(ctx context.Context, id session.ID, step Step, since time.Time) ([]Sample, error)
	// HistorySessions lists the sessions that there are samples of.
	HistorySessions(ctx context.Context) ([]session.ID, error)
	// AddHostHistory writes samples of the host, and forgets those before the times of
	// their steps.
	AddHostHistory(ctx context.Context, rows []HostRow, before map[Step]time.Time) error
	// HostHistory lists the samples of the host from a time on, oldest first.
	HostHistory(ctx context.Context, step Step, since time.Time) ([]HostSample, error)
}

// Options configures a Recorder. All but Host, Log and Now are required.
type Options struct {
	Store Store
	// List lists the sessions whose samples stay: those that have not ended. Read and Host
	// get its answer, so that there is one list for a sample of both.
	List func(context.Context) ([]session.Session, error)
	// Read returns what each of the sessions used that runs, as far as it is known. It
	// waits for none that is slow.
	Read func(context.Context, []session.Session) map[session.ID]Sample
	// Host reads how full the host is; nil records nothing of it.
	Host func(context.Context, []session.Session) (HostReading, error)
	Log  *slog.Logger
	Now  func() time.Time
}

// Recorder takes samples and answers with them. It is safe for concurrent use.
type Recorder struct {
	opts Options

	mu      sync.Mutex
	waiting []Row                 // guarded by mu; not written yet
	minute  map[session.ID]Sample // guarded by mu; the last of this minute, with its most memory
	begun   time.Time             // guarded by mu; that minute
	last    map[session.ID]time.Time
	stored  map[session.ID]bool // guarded by mu; those that the store has samples of
	host    hostSeries          // guarded by mu
}

// New returns a Recorder. It records while Run runs.
func New(o Options) *Recorder {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Recorder{opts: o, minute: map[session.ID]Sample{}, last: map[session.ID]time.Time{}, stored: map[session.ID]bool{}}
}

// Run takes samples until ctx is done, and writes what waits then.
func (r *Recorder) Run(ctx context.Context) error {
	ids, err := r.opts.Store.HistorySessions(ctx)
	if err != nil {
		r.opts.Log.WarnContext(ctx, "cannot read of which sessions there is a history", "err", err)
	}
	r.mu.Lock()
	for _, id := range ids {
		r.stored[id] = true
	}
	r.mu.Unlock()
	if all, ok := r.list(ctx); ok {
		r.takeHost(ctx, all) // from then on
	}
	tick := time.NewTicker(time.Duration(Fine))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.Take(ctx)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if all, ok := r.list(ctx); ok {
				r.write(ctx, all)
			}
			r.writeHost(ctx)
			return nil
		}
	}
}

// Take takes one sample of the host and of each session, and writes those of a minute
// that is over.
func (r *Recorder) Take(ctx context.Context) {
	all, ok := r.list(ctx)
	if !ok {
		return
	}
	r.takeHost(ctx, all)
	if r.add(r.opts.Read(ctx, all)) {
		r.write(ctx, all)
		r.writeHost(ctx)
	}
}

// list lists the sessions that have a history.
func (r *Recorder) list(ctx context.Context) (all []session.Session, ok bool) {
	all, err := r.opts.List(ctx)
	if err != nil {
		r.opts.Log.WarnContext(ctx, "cannot list the sessions that have a history", "err", err)
	}
	return all, err == nil
}

// add reports whether a minute is over.
func (r *Recorder) add(samples map[session.ID]Sample) (over bool) {
	now := r.opts.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(r.begun) {
		over = !r.begun.IsZero()
		for id, s := range r.minute {
			r.waiting = append(r.waiting, Row{id, Coarse, s})
		}
		clear(r.minute)
		r.begun = minute
	}
	for id, s := range samples {
		if !s.At.After(r.last[id]) {
			continue // what was read is the sample that there is
		}
		r.last[id] = s.At
		r.waiting = append(r.waiting, Row{id, Fine, s})
		s.MemoryBytes = max(s.MemoryBytes, r.minute[id].MemoryBytes)
		r.minute[id] = s
	}
	maps.DeleteFunc(r.last, func(id session.ID, _ time.Time) bool { _, lives := samples[id]; return !lives })
	if more := len(r.waiting) - mostWaiting; more > 0 {
		r.waiting = slices.Delete(r.waiting, 0, more)
	}
	return over
}

// write writes what waits of the sessions that there are. What cannot be written waits on.
func (r *Recorder) write(ctx context.Context, all []session.Session) {
	kept := make(map[session.ID]bool, len(all))
	for _, s := range all {
		kept[s.ID] = true
	}
	r.mu.Lock()
	rows := slices.Clone(r.waiting)
	var gone []session.ID
	for id := range r.stored {
		if !kept[id] {
			gone = append(gone, id)
		}
	}
	r.mu.Unlock()
	rows = slices.DeleteFunc(rows, func(row Row) bool { return !kept[row.Session] })
	now := r.opts.Now()
	before := map[Step]time.Time{Fine: now.Add(-life(fineLife, len(kept))), Coarse: now.Add(-life(coarseLife, len(kept)))}
	if err := r.opts.Store.AddHistory(ctx, rows, before, gone); err != nil {
		r.opts.Log.WarnContext(ctx, "cannot write what sessions used; trying again", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	written := map[Row]bool{}
	for _, row := range rows {
		written[row] = true
		r.stored[row.Session] = true
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(row Row) bool { return written[row] || !kept[row.Session] })
	for _, id := range gone {
		delete(r.stored, id)
	}
}

// life is how long samples are kept where there are so many sessions.
func life(full time.Duration, sessions int) time.Duration {
	if sessions <= fullFor {
		return full
	}
	return full / time.Duration(sessions) * fullFor
}

// stepOf is the step, and for 0 the finest that there is from a time on. It refuses
// steps that there are none of.
func (r *Recorder) stepOf(step Step, since time.Time) (Step, error) {
	switch {
	case step == Fine || step == Coarse:
		return step, nil
	case step != 0:
		return 0, errdefs.Invalid("step", "must be %g or %g", time.Duration(Fine).Seconds(), time.Duration(Coarse).Seconds())
	case r.opts.Now().Sub(since) <= fineLife:
		return Fine, nil
	}
	return Coarse, nil
}

// Of lists the samples of a session from a time on, oldest first. Step 0 is the finest
// that there is from then on.
func (r *Recorder) Of(ctx context.Context, id session.ID, step Step, since time.Time) ([]Sample, Step, error) {
	step, err := r.stepOf(step, since)
	if err != nil {
		return nil, 0, err
	}
	samples, err := r.opts.Store.History(ctx, id, step, since)
	if err != nil {
		return nil, step, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.waiting {
		if row.Session == id && row.Step == step && !row.At.Before(since) && (len(samples) == 0 || row.At.After(samples[len(samples)-1].At)) {
			samples = append(samples, row.Sample)
		}
	}
	return samples, step, nil
}
