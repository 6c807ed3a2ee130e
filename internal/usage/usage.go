// Package usage meters what owners use in a calendar month: the time that their
// sessions live, processor time, network traffic and sessions made. What it has
// counted survives a crash of the daemon, and so does a session that goes on meanwhile:
// its time is counted from when it began, not from ticks.
package usage

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Month is a calendar month in UTC, as in "2026-11".
type Month string

const monthForm = "2006-01"

// MonthOf returns the month that t is in.
func MonthOf(t time.Time) Month { return Month(t.UTC().Format(monthForm)) }

// ParseMonth checks the text of a month. Empty text is the one that now is in.
func ParseMonth(text string, now time.Time) (Month, error) {
	if text == "" {
		return MonthOf(now), nil
	}
	t, err := time.Parse(monthForm, text)
	if err != nil || MonthOf(t) != Month(text) {
		return "", errdefs.Invalid("month", "must be a year and a month, as 2026-11")
	}
	return Month(text), nil
}

// Begin is the first moment of the month.
func (m Month) Begin() time.Time {
	t, _ := time.Parse(monthForm, string(m)) // the zero time for what is no month
	return t
}

// End is the first moment of the month after it.
func (m Month) End() time.Time { return m.Begin().AddDate(0, 1, 0) }

// Day is a day in UTC, as in "2026-11-28".
type Day string

// DayOf returns the day that t is in.
func DayOf(t time.Time) Day { return Day(t.UTC().Format(time.DateOnly)) }

// ParseDay checks the text of a day. Empty text is the one that t is in.
func ParseDay(field, text string, t time.Time) (Day, error) {
	if text == "" {
		return DayOf(t), nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil || DayOf(at) != Day(text) {
		return "", errdefs.Invalid(field, "must be a day, as 2026-11-28")
	}
	return Day(text), nil
}

// Month is the month that d is in.
func (d Day) Month() Month { return Month(d[:len(monthForm)]) }

// next is the first moment of the day after it.
func (d Day) next() time.Time {
	t, _ := time.Parse(time.DateOnly, string(d)) // the zero time for what is no day
	return t.AddDate(0, 0, 1)
}

// DaysKept is for how long what was used on a day is known. That of a month stays.
const DaysKept = 400 * 24 * time.Hour

// Amounts is what was used.
type Amounts struct {
	SessionTime time.Duration // that sessions lived, all together
	CPUTime     time.Duration // of all processors together
	Sent        int64         // bytes
	Received    int64         // bytes
	Sessions    int64         // made

	// MemoryTime is the MiB of memory that sessions had in use, by the seconds that they had
	// them, as seen each minute. It is counted for days and for no month.
	MemoryTime int64

	SnapshotPeak int64 // the most bytes that snapshots had at once, as seen each minute
}

// NetworkBytes is what a quota of network bytes is compared with.
func (a Amounts) NetworkBytes() int64 { return a.Sent + a.Received }

// plus adds up two parts of a month.
func (a Amounts) plus(b Amounts) Amounts {
	return Amounts{
		SessionTime:  a.SessionTime + b.SessionTime,
		CPUTime:      a.CPUTime + b.CPUTime,
		Sent:         a.Sent + b.Sent,
		Received:     a.Received + b.Received,
		Sessions:     a.Sessions + b.Sessions,
		MemoryTime:   a.MemoryTime + b.MemoryTime,
		SnapshotPeak: max(a.SnapshotPeak, b.SnapshotPeak),
	}
}

// Key names what is counted together.
type Key struct {
	Owner string
	Month Month
}

// DayKey names what is counted together for a day.
type DayKey struct {
	Owner string
	Day   Day
}

// DayUsage is what an owner used on a day.
type DayUsage struct {
	DayKey
	Amounts
}

// Span is the time from when a session began to live, by its create or start, until
// it ends or stops. A row of it is there for as long as the session lives. One that did
// not begin is of a create that was under way at the write.
type Span struct {
	Session string
	Owner   string
	Began   time.Time     // zero if it did not begin
	CPUTime time.Duration // of it, that is counted already
}

// Changes are what there is to write, all or nothing.
type Changes struct {
	Seen    time.Time       // when the meter worked last
	Amounts map[Key]Amounts // to add to what there is
	Days    map[DayKey]Amounts
	Spans   []Span   // to insert, or to replace those of the same sessions
	Closed  []string // sessions whose spans are counted in Amounts and to be forgotten
}

// State is what an earlier meter left.
type State struct {
	Seen  time.Time // zero if there was none
	Spans []Span
}

// Store remembers usage. What it has written survives a crash of the daemon from the
// moment the method returns.
type Store interface {
	// UsageState returns what an earlier meter left.
	UsageState(ctx context.Context) (State, error)
	// UsageOf returns what was counted of a month, by owner; of all if owner is nil.
	UsageOf(ctx context.Context, month Month, owner *string) (map[string]Amounts, error)
	// UsageDays returns what was counted of the days from one to another; of all owners if
	// owner is nil.
	UsageDays(ctx context.Context, from, to Day, owner *string) ([]DayUsage, error)
	// AddUsage writes changes.
	AddUsage(ctx context.Context, c Changes) error
	// ForgetUsage forgets an owner.
	ForgetUsage(ctx context.Context, owner string) error
	// SnapshotBytes returns what the snapshots of owners have now; of all if owner is
	// nil.
	SnapshotBytes(ctx context.Context, owner *string) (map[string]int64, error)
	// WorkspacesHeld returns how many workspaces an owner has, in whatever state, and what
	// they may have together.
	WorkspacesHeld(ctx context.Context, owner string) (count int, sizeMB int64, err error)
}
