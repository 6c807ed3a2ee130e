package users

import (
	"bytes"
	"context"
	"encoding/csv"
	"net/http"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// OwnersUsage is what all owners use.
type OwnersUsage struct {
	Month  string       `json:"month" doc:"Of UTC." example:"2026-11"`
	Owners []OwnerShare `json:"owners" nullable:"false" doc:"Who used something in the month or has something now, by name."`
}

// OwnerShare is what one of several owners uses.
type OwnerShare struct {
	OwnerUsage

	MemoryBytes int64 `json:"memory_bytes" doc:"That the owner's sessions used a few seconds ago, all together. now.memory_mb is what they may use." example:"805306368"`
}

// UsageDays is what was used by day.
type UsageDays struct {
	Days []UsageDay `json:"days" nullable:"false" doc:"By day, and by owner."`
}

// UsageDay is what an owner used on a day.
type UsageDay struct {
	Day             string  `json:"day" doc:"Of UTC." example:"2026-11-28"`
	Owner           string  `json:"owner" example:"alice"`
	SessionSeconds  float64 `json:"session_seconds" doc:"That sessions lived, all together. Those that live count until now." example:"5321.7"`
	CPUSeconds      float64 `json:"cpu_seconds" doc:"Processor time of sessions, as it was seen a minute ago at most." example:"310.2"`
	MemoryMBSeconds int64   `json:"memory_mb_seconds" doc:"MiB of memory that sessions had in use, by the seconds that they had them: 3600 are one MiB for an hour. It is seen once a minute." example:"921600"`
	SentBytes       int64   `json:"sent_bytes" doc:"By the networks of sessions." example:"1048576"`
	ReceivedBytes   int64   `json:"received_bytes" example:"73400320"`
	SessionsCreated int64   `json:"sessions_created" doc:"That came to run." example:"17"`
}

// Inspections is who has looked into what is the caller's.
type Inspections struct {
	Inspections []Inspection `json:"inspections" nullable:"false" doc:"The newest first, 1000 at most."`
}

// Inspection is that somebody did.
type Inspection struct {
	By        string    `json:"by" doc:"The admin; admin is the daemon's own key." example:"root"`
	What      string    `json:"what" doc:"What was looked into, or made in the caller's name: a session, a key, a password, an e-mail address." example:"a session"`
	SessionID string    `json:"session_id,omitempty" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	FirstAt   time.Time `json:"first_at" doc:"On that day of UTC. The same on another day is an entry of its own."`
	LastAt    time.Time `json:"last_at" doc:"To the minute."`
}

type (
	// AllUsageOutput is that of AllUsage.
	AllUsageOutput struct{ Body OwnersUsage }
	// DaysInput is that of Days.
	DaysInput struct {
		Since  string `query:"since" maxLength:"10" doc:"The first day of UTC: 30 days before until if it is left out. What is older than 400 days is not known." example:"2026-11-01"`
		Until  string `query:"until" maxLength:"10" doc:"The last day: today if it is left out." example:"2026-11-28"`
		Owner  string `query:"owner" maxLength:"64" doc:"Only of this owner. Without it an admin gets all owners, and everybody else themselves." example:"alice"`
		Format string `query:"format" enum:"json,csv" default:"json" doc:"csv is a table with a line of names, for a spreadsheet."`
	}
	// InspectionsOutput is that of Inspections.
	InspectionsOutput struct{ Body Inspections }
)

// AllUsage says what all owners use.
func (h *Handlers) AllUsage(ctx context.Context, in *MyUsageInput) (*AllUsageOutput, error) {
	if h.Meter == nil {
		return nil, errNotMetered()
	}
	month, err := usage.ParseMonth(in.Month, time.Now())
	if err != nil {
		return nil, err
	}
	all, err := h.Meter.Reports(ctx, month)
	if err != nil {
		return nil, err
	}
	memory, err := h.memoryByOwner(ctx)
	if err != nil {
		return nil, err
	}
	out := &AllUsageOutput{OwnersUsage{Month: string(month), Owners: make([]OwnerShare, 0, len(all))}}
	for _, r := range all {
		out.Body.Owners = append(out.Body.Owners, OwnerShare{viewUsage(r), memory[r.Owner]})
	}
	return out, nil
}

// memoryByOwner is what the sessions that the caller sees used a few seconds ago.
func (h *Handlers) memoryByOwner(ctx context.Context) (map[string]int64, error) {
	sum := make(map[string]int64)
	if h.Sessions == nil {
		return sum, nil
	}
	all, err := h.Sessions.List(ctx, api.Caller(ctx), session.ListRequest{})
	if err != nil {
		return nil, err
	}
	ids := make([]session.ID, len(all))
	for i, one := range all {
		ids[i] = one.ID
	}
	for i, used := range h.Sessions.LastStats(ctx, api.Caller(ctx), ids) {
		sum[all[i].Owner] += used.MemoryBytes
	}
	return sum, nil
}

// Days says what was used by day.
func (h *Handlers) Days(ctx context.Context, in *DaysInput) (*kit.Stream, error) {
	if h.Meter == nil {
		return nil, errNotMetered()
	}
	now := time.Now()
	until, err := usage.ParseDay("until", in.Until, now)
	if err != nil {
		return nil, err
	}
	if in.Until != "" {
		if now, err = time.Parse(time.DateOnly, in.Until); err != nil {
			return nil, err
		}
	}
	since, err := usage.ParseDay("since", in.Since, now.AddDate(0, 0, -30))
	if err != nil {
		return nil, err
	}
	owner, err := h.whose(ctx, in.Owner)
	if err != nil {
		return nil, err
	}
	all, err := h.Meter.Days(ctx, since, until, owner)
	if err != nil {
		return nil, err
	}
	days := make([]UsageDay, 0, len(all))
	for _, d := range all {
		days = append(days, UsageDay{
			Day: string(d.Day), Owner: d.Owner, SessionSeconds: seconds(d.SessionTime), CPUSeconds: seconds(d.CPUTime), MemoryMBSeconds: d.MemoryTime,
			SentBytes: d.Sent, ReceivedBytes: d.Received, SessionsCreated: d.Sessions,
		})
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		if in.Format != "csv" {
			api.WriteJSON(w, r, http.StatusOK, UsageDays{days})
			return
		}
		w.Header().Set("Content-Type", CSV)
		w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
		w.Write(table(days)) //nolint:errcheck // the client has gone
	}), nil
}

// whose is the owner of whom a caller asks, or nil for all.
func (h *Handlers) whose(ctx context.Context, asked string) (*string, error) {
	p := api.Caller(ctx)
	switch {
	case asked == "" && p.Has(auth.ScopeDaemon):
		return nil, nil
	case asked == "":
		return &p.Owner, nil
	}
	if err := h.checkEnabled(); err != nil {
		return nil, err
	}
	return &asked, h.Accounts.CheckSees(p, asked)
}

// CSV is the media type of tables.
const CSV = "text/csv; charset=utf-8"

// table writes days as CSV. Owners' names have nothing that a spreadsheet takes for a
// formula.
func table(days []UsageDay) []byte {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	lines := [][]string{{"day", "owner", "session_seconds", "cpu_seconds", "memory_mb_seconds", "sent_bytes", "received_bytes", "sessions_created"}}
	for _, d := range days {
		lines = append(lines, []string{
			d.Day, d.Owner, number(d.SessionSeconds), number(d.CPUSeconds), whole(d.MemoryMBSeconds), whole(d.SentBytes), whole(d.ReceivedBytes), whole(d.SessionsCreated),
		})
	}
	if err := w.WriteAll(lines); err != nil {
		panic(err) // a buffer takes all
	}
	return text.Bytes()
}

// Inspections says who has looked into what is the caller's.
func (h *Handlers) Inspections(ctx context.Context, _ *struct{}) (*InspectionsOutput, error) {
	if h.Looks == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon keeps no list of who looked into what others have")
	}
	all, err := h.Looks.Of(ctx, api.Caller(ctx).Owner)
	if err != nil {
		return nil, err
	}
	out := &InspectionsOutput{Inspections{make([]Inspection, 0, len(all))}}
	for _, i := range all {
		out.Body.Inspections = append(out.Body.Inspections, Inspection{By: i.By, What: i.What, SessionID: i.Session, FirstAt: i.First, LastAt: i.Last})
	}
	return out, nil
}

func errNotMetered() error {
	return errdefs.New(errdefs.Unimplemented, "this daemon does not meter what is used")
}
