package usage

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Traffic is what networks carried since the daemon's start.
type Traffic struct{ Sent, Received int64 }

// Options configures a Meter. Store and Sessions are required.
type Options struct {
	Store    Store
	Sessions session.Store
	Log      *slog.Logger // silence

	// Traffic returns what the networks of owners carried since the daemon's start.
	// Nil knows of none.
	Traffic func() map[string]Traffic

	// Measure returns the processor time of a sandbox since it began to live, and the
	// bytes of memory that it has now. Nil knows of none.
	Measure func(ctx context.Context, id runtime.ID) (cpu time.Duration, memory int64, err error)

	// Quotas are those that Check holds. Nil is that of no limits.
	Quotas auth.Quotas
}

// Meter counts. It has the current month in memory. Its methods may be called
// concurrently.
type Meter struct {
	opts Options
	kick chan struct{} // has something when a session began or ended to live

	writes sync.Mutex // held while the store is changed

	mu      sync.Mutex
	month   Month               // guarded by mu; that of stored
	stored  map[string]Amounts  // guarded by mu; of month, by owner
	writing map[Key]Amounts     // guarded by mu; what is being added to the store
	pending map[Key]Amounts     // guarded by mu; what is still to be
	days    map[DayKey]Amounts  // guarded by mu; the same by day
	spans   map[string]*span    // guarded by mu; of sessions that live
	started map[string]bool     // guarded by mu; sessions that are being started
	making  map[string]*making  // guarded by mu; sessions whose create is under way
	closed  []string            // guarded by mu; sessions whose spans are still to be forgotten
	traffic map[string]Traffic  // guarded by mu; that is counted
	until   time.Time           // guarded by mu; not zero before Settled: what ends is not known to have lived longer
	owned   map[string][]string // guarded by mu; sessions of spans, by owner

	networks atomic.Pointer[map[string]bool] // the owners whose networks are over quota
}

// span is a Span in memory. Its times are of this process's monotonic clock.
type span struct {
	Span

	sandbox  runtime.ID
	measured time.Time // when its memory was, or its beginning
	changed  bool      // it is to be written
}

// making is a create that is under way. The next meter is to know of it if this one dies:
// its session is older than what was written last, and yet not counted.
type making struct {
	owner   string
	written bool // as a Span that did not begin
}

// New returns a Meter that does nothing yet: see Resume and Run.
func New(o Options) *Meter {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Quotas == nil {
		o.Quotas = auth.FixedQuotas{}
	}
	return &Meter{
		opts: o, kick: make(chan struct{}, 1), pending: make(map[Key]Amounts), days: make(map[DayKey]Amounts), stored: make(map[string]Amounts),
		spans: make(map[string]*span), started: make(map[string]bool), making: make(map[string]*making), owned: make(map[string][]string), traffic: make(map[string]Traffic),
	}
}

// Resume goes on where the last meter stopped. It comes before anything that changes a
// session.
func (m *Meter) Resume(ctx context.Context) error {
	now := time.Now()
	month := MonthOf(now)
	stored, err := m.opts.Store.UsageOf(ctx, month, nil)
	if err != nil {
		return err
	}
	state, err := m.opts.Store.UsageState(ctx)
	if err != nil {
		return err
	}
	rows, err := m.opts.Sessions.List(ctx, session.ListFilter{IncludeEnded: true})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.month, m.stored = month, stored
	if err := m.resume(ctx, state, rows, now); err != nil {
		return err
	}
	m.judgeNetworks(now)
	return nil
}

// resume takes up the spans of sessions that live, as their rows say, and ends those
// of others. A row may be newer than the last write of the meter before. The caller
// holds mu.
func (m *Meter) resume(ctx context.Context, state State, rows []session.Session, now time.Time) error {
	m.until = now
	if !state.Seen.IsZero() {
		m.until = rebase(state.Seen, now)
	}
	living, over := make(map[string]session.Session, len(rows)), map[string]session.Session{}
	for _, s := range rows {
		if s.State.Ended() {
			over[string(s.ID)] = s
		} else {
			living[string(s.ID)] = s
		}
	}
	m.resumeShort(state, living, over, now)
	for _, old := range state.Spans {
		s, ok := living[old.Session]
		if old.Began.IsZero() {
			m.resumeMade(old, s)
			continue
		}
		old.Began = rebase(old.Began, now)
		m.enter(&span{Span: old, sandbox: s.Sandbox, measured: now})
		switch {
		case ok && s.State == session.Stopped:
			m.close(old.Session, rebase(s.LastActivity, now)) // which is that of its stop
		case !ok:
			ended, err := m.endOf(ctx, session.ID(old.Session), now)
			if err != nil {
				return err
			}
			m.close(old.Session, ended)
		}
	}
	for id, s := range living {
		if s.State.Alive() && m.spans[id] == nil {
			m.begin(s, m.beginOf(s, state, now))
		}
	}
	return nil
}

// resumeMade goes on with a create that was under way at the last write of the meter
// before. If it failed or is over, s does not say so, and resumeShort counted what there
// was. The caller holds mu.
func (m *Meter) resumeMade(old Span, s session.Session) {
	switch {
	case s.State == session.Creating:
		m.making[old.Session] = &making{owner: old.Owner, written: true}
	case s.State.Alive():
		m.begin(s, s.CreatedAt)
	default:
		m.closed = append(m.closed, old.Session)
	}
}

// resumeShort counts sessions that the meter before did not hear of, because they were made,
// and stopped or ended again, after its last write, or their create was under way at it. The
// caller holds mu.
func (m *Meter) resumeShort(state State, living, over map[string]session.Session, now time.Time) {
	if state.Seen.IsZero() {
		return
	}
	heard, made := make(map[string]bool, len(state.Spans)), map[string]bool{}
	for _, old := range state.Spans {
		heard[old.Session] = !old.Began.IsZero()
		made[old.Session] = old.Began.IsZero()
	}
	count := func(s session.Session, end time.Time) {
		id := string(s.ID)
		if heard[id] || !made[id] && rebase(s.CreatedAt, now).Before(m.until) {
			return
		}
		m.begin(s, s.CreatedAt)
		m.close(id, end)
	}
	for _, s := range living {
		if s.State == session.Stopped {
			count(s, s.LastActivity) // which is that of its stop
		}
	}
	for _, s := range over {
		if s.State != session.Failed {
			count(s, s.EndedAt)
		}
	}
}

// beginOf is when a session began to live that the meter before did not hear of: that
// was after its last write. The caller holds mu.
func (m *Meter) beginOf(s session.Session, before State, now time.Time) time.Time {
	if before.Seen.IsZero() {
		return now // there was no meter, and so nothing to count
	}
	began := rebase(s.CreatedAt, now)
	// A start is activity, so a session without any is new: its create had no row yet
	// when the meter wrote.
	if began.Before(m.until) && s.LastActivity.Equal(s.CreatedAt) {
		return s.CreatedAt
	}
	if began.Before(m.until) {
		began = rebase(s.LastActivity, now) // which is that of its start
	}
	if began.Before(m.until) {
		return m.until
	}
	return began
}

// endOf is when a session ended of which only its row is left, if that is.
func (m *Meter) endOf(ctx context.Context, id session.ID, now time.Time) (time.Time, error) {
	s, err := m.opts.Sessions.Get(ctx, id)
	if errdefs.Is(err, errdefs.NotFound) || err == nil && s.EndedAt.IsZero() {
		return m.until, nil
	}
	return rebase(s.EndedAt, now), err
}

// rebase puts a time of the wall clock on this process's monotonic clock. A time in
// the future becomes now.
func rebase(t, now time.Time) time.Time {
	return now.Add(-max(now.Round(0).Sub(t.Round(0)), 0))
}

// Settled is called once the sessions of an earlier daemon have been taken up, before
// anything else changes one. Those that are found dead before that count until the
// earlier daemon's last sign of life. What it took up is written at once: rows alone do not
// say how long a session lived that is started, taken up and stopped between two writes.
func (m *Meter) Settled(ctx context.Context) {
	m.mu.Lock()
	m.until = time.Time{}
	m.mu.Unlock()
	m.write(ctx)
}

// ClockSet has the times of spans told by the wall clock as it is now.
func (m *Meter) ClockSet() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, s := range m.spans {
		s.Began = now.Add(s.Began.Sub(now))
	}
}

// observe notes what a session's row says from now on.
func (m *Meter) observe(s session.Session) {
	if s.Helper {
		return // no client asked for it
	}
	id := string(s.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	switch {
	case s.State == session.Creating:
		m.making[id] = &making{owner: s.Owner}
		return // it is written with others if it takes long
	case s.State == session.Starting:
		m.started[id] = true
	case s.State.Alive() && m.spans[id] == nil && m.started[id]:
		m.begin(s, now)
	case s.State.Alive() && m.spans[id] == nil:
		m.begin(s, s.CreatedAt)
	case s.State == session.Stopped, s.State.Ended():
		if !m.until.IsZero() {
			now = m.until
		}
		m.close(id, now)
	default:
		return
	}
	if s.State != session.Starting {
		delete(m.started, id)
	}
	if made := m.making[id]; made != nil {
		delete(m.making, id)
		if made.written && m.spans[id] == nil {
			m.closed = append(m.closed, id)
		}
	}
	select {
	case m.kick <- struct{}{}:
	default: // it is kicked already
	}
}

// begin begins the span of a session, which is new if that is its create. The caller
// holds mu.
func (m *Meter) begin(s session.Session, at time.Time) {
	if at.Equal(s.CreatedAt) {
		m.add(s.Owner, DayOf(at), Amounts{Sessions: 1})
	}
	m.enter(&span{Span: Span{Session: string(s.ID), Owner: s.Owner, Began: at}, sandbox: s.Sandbox, measured: time.Now(), changed: true})
}

// enter adds a span. The caller holds mu.
func (m *Meter) enter(s *span) {
	m.spans[s.Session] = s
	m.owned[s.Owner] = append(m.owned[s.Owner], s.Session)
}

// close counts the span of a session that lives no more, if there is one. The caller
// holds mu.
func (m *Meter) close(id string, at time.Time) {
	s := m.spans[id]
	if s == nil {
		return
	}
	for day, part := range split(s.Began, at) {
		m.add(s.Owner, day, Amounts{SessionTime: part})
	}
	m.drop(s)
	m.closed = append(m.closed, id)
}

// drop forgets a span. The caller holds mu.
func (m *Meter) drop(s *span) {
	delete(m.spans, s.Session)
	left := m.owned[s.Owner]
	for i, id := range left {
		if id == s.Session {
			left[i] = left[len(left)-1]
			left = left[:len(left)-1]
			break
		}
	}
	if m.owned[s.Owner] = left; len(left) == 0 {
		delete(m.owned, s.Owner)
	}
}

// add counts what was used on a day. The caller holds mu.
func (m *Meter) add(owner string, day Day, a Amounts) {
	month, one := Key{owner, day.Month()}, DayKey{owner, day}
	m.pending[month] = m.pending[month].plus(a)
	m.days[one] = m.days[one].plus(a)
}

// split divides a time among the days that it is of. Its length is that of the
// monotonic clock, its end is by the wall clock.
func split(from, to time.Time) map[Day]time.Duration {
	parts := make(map[Day]time.Duration, 1)
	end := to.Round(0).UTC()
	for at := end.Add(-max(to.Sub(from), 0)); at.Before(end); {
		day := DayOf(at)
		next := day.next()
		if next.After(end) {
			next = end
		}
		parts[day] += next.Sub(at)
		at = next
	}
	return parts
}

// amounts is what an owner has used in the current month until now. The caller holds
// mu, and has called turn.
func (m *Meter) amounts(owner string, now time.Time) Amounts {
	return m.stored[owner].plus(m.unwritten(Key{owner, m.month}, now))
}

// unwritten is what the store does not know of a month. The caller holds mu.
func (m *Meter) unwritten(k Key, now time.Time) Amounts {
	sum := m.writing[k].plus(m.pending[k])
	for _, id := range m.owned[k.Owner] {
		s := m.spans[id]
		if MonthOf(s.Began) == k.Month && k.Month == MonthOf(now) {
			sum.SessionTime += max(now.Sub(s.Began), 0) // nearly all are so
			continue
		}
		for day, part := range split(s.Began, now) {
			if day.Month() == k.Month {
				sum.SessionTime += part
			}
		}
	}
	return sum
}

// turn goes on to the month of now. What is stored of it already is little or nothing:
// only a clock that was set back knows more. The caller holds mu.
func (m *Meter) turn(now time.Time) {
	if month := MonthOf(now); month != m.month {
		m.month, m.stored = month, make(map[string]Amounts)
	}
}

// Used is what an owner has used in the current month.
func (m *Meter) Used(owner string) Amounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.turn(now)
	return m.amounts(owner, now)
}

// UsedIn is what an owner has used in a month.
func (m *Meter) UsedIn(ctx context.Context, owner string, month Month) (Amounts, error) {
	now := time.Now()
	if month == MonthOf(now) {
		return m.Used(owner), nil
	}
	stored, err := m.opts.Store.UsageOf(ctx, month, &owner)
	if err != nil {
		return Amounts{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return stored[owner].plus(m.unwritten(Key{owner, month}, now)), nil
}

// Forget forgets what an owner used who is no more.
func (m *Meter) Forget(ctx context.Context, owner string) error {
	m.writes.Lock()
	defer m.writes.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.opts.Store.ForgetUsage(ctx, owner); err != nil {
		return err
	}
	delete(m.stored, owner)
	maps.DeleteFunc(m.pending, func(k Key, _ Amounts) bool { return k.Owner == owner })
	maps.DeleteFunc(m.days, func(k DayKey, _ Amounts) bool { return k.Owner == owner })
	return nil
}

// metered is a store of sessions that tells the meter of all changes.
type metered struct {
	session.Store

	meter *Meter
}

// Sessions is the store of sessions that tells the meter of all changes.
func (m *Meter) Sessions() session.Store { return metered{m.opts.Sessions, m} }

// Put implements session.Store.
func (s metered) Put(ctx context.Context, x session.Session) error {
	switch x.State {
	case session.Stopping:
		s.meter.measureLast(ctx, string(x.ID))
	case session.Starting:
		s.meter.writeEnd(ctx, string(x.ID))
	}
	if err := s.Store.Put(ctx, x); err != nil {
		return err
	}
	s.meter.observe(x)
	return nil
}
