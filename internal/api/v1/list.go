package v1

import (
	"context"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/laststats"
	"github.com/sandkasten/sandkasten/internal/session/selection"
)

// Selection says which sessions are meant, of those that the key may see.
type Selection struct {
	Scope  string   `query:"scope" maxLength:"137" doc:"Only those of this scope of the key's own owner: their label sandkasten.scope is this." example:"workflow:run-1"`
	Status []string `query:"status,explode" maxItems:"10" doc:"Only those with one of these: creating, running, paused, stopping, stopped, starting, and destroyed, expired, crashed or failed, which need include_ended." example:"[\"running\"]"`
	Image  string   `query:"image" maxLength:"512" doc:"Only those of this image, by its name or digest." example:"base"`
	Label  []string `query:"label,explode" maxItems:"64" doc:"Only those with all of these labels: name, or name=value." example:"[\"task=42\"]"`
	Owner  string   `query:"owner" maxLength:"64" doc:"Only those of this owner." example:"alice"`
	Mine   bool     `query:"mine" doc:"Only those of the key's own owner: to others than admins all are."`
	Search string   `query:"search" maxLength:"256" doc:"Only those that have this text in their id, name, image or labels, in upper or lower case." example:"build"`
}

// filter is what a selection says, but for its scope.
func (in Selection) filter() (selection.Filter, error) {
	f := selection.Filter{Image: in.Image, Labels: in.Label, Owner: in.Owner, Text: in.Search}
	for _, status := range in.Status {
		if !slices.Contains(selection.States, session.State(status)) {
			return f, errdefs.Invalid("status", "must be one of creating, running, paused, stopping, stopped, starting, destroyed, expired, crashed and failed")
		}
		f.States = append(f.States, session.State(status))
	}
	return f, nil
}

type listInput struct {
	Selection
	IncludeEnded bool   `query:"include_ended" doc:"Also those that ended not long ago."`
	Sort         string `query:"sort" enum:"created,-created,activity,-activity,name,-name" default:"created" doc:"By when they were made, by their last activity, or by name; with a minus the other way round." example:"-activity"`
	Limit        int    `query:"limit" minimum:"1" maximum:"1000" doc:"How many at most. Without it all." example:"100"`
	After        string `query:"after" maxLength:"512" doc:"The cursor of the last session of the page before, which had the same sort."`
	Usage        bool   `query:"usage" doc:"With what each used a few seconds ago. The answer waits for no slow sandbox."`
}

type listOutput struct {
	Body []Session `nullable:"false"`
}

// SessionUsage is what a session used at a time.
type SessionUsage struct {
	MeasuredAt    time.Time `json:"measured_at"`
	CPUUsageUsec  int64     `json:"cpu_usage_usec" doc:"Processor time used up to then. Two answers tell how busy it is." example:"8123"`
	MemoryBytes   int64     `json:"memory_bytes" example:"1482752"`
	DiskBytes     int64     `json:"disk_bytes" doc:"Of all that it wrote, but for a workspace that outlives it." example:"40960"`
	Pids          int64     `json:"pids" example:"2"`
	SentBytes     int64     `json:"sent_bytes,omitempty" doc:"By its network since its last start, or the daemon's."`
	ReceivedBytes int64     `json:"received_bytes,omitempty"`
}

func (s *surface) listSessions(ctx context.Context, in *listInput) (*listOutput, error) {
	page := selection.Page{Order: selection.Order(in.Sort), After: in.After, Limit: in.Limit}
	found, err := s.selected(ctx, in.Selection, page, in.IncludeEnded)
	if err != nil {
		return nil, err
	}
	var stats []laststats.Reading
	if in.Usage {
		ids := make([]session.ID, len(found))
		for i, one := range found {
			ids[i] = one.ID
		}
		api.EndTurn(ctx) // while sandboxes are waited for
		stats = s.manager.Sessions.LastStats(ctx, api.Caller(ctx), ids)
		if err := api.BeginTurn(ctx); err != nil {
			return nil, err
		}
	}
	out := &listOutput{Body: make([]Session, 0, len(found))}
	for i, one := range found {
		v := view(one)
		if in.Limit > 0 {
			v.Cursor = page.Cursor(one)
		}
		if in.Usage && !stats[i].At.IsZero() {
			v.Usage = s.viewUsage(ctx, one.ID, stats[i])
		}
		out.Body = append(out.Body, v)
	}
	return out, nil
}

// selected are the sessions of a page that the caller may see.
func (s *surface) selected(ctx context.Context, in Selection, page selection.Page, ended bool) ([]session.Session, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	if p := api.Caller(ctx); in.Mine && p.Owner != "" {
		if in.Owner != "" {
			return nil, errdefs.Invalid("mine", "must not be there beside owner, which says whose")
		}
		filter.Owner = p.Owner
	}
	last, err := page.Ended(filter)
	if err != nil {
		return nil, err
	}
	var all []session.Session
	switch {
	case in.Scope == "":
		all, err = s.manager.Sessions.List(ctx, api.Caller(ctx), session.ListRequest{IncludeEnded: ended, Ended: last})
	case s.opts.Scopes == nil:
		err = errdefs.New(errdefs.Unimplemented, "this daemon has no scopes")
	default:
		all, err = s.opts.Scopes.List(ctx, api.Caller(ctx), in.Scope, ended)
	}
	if err != nil {
		return nil, err
	}
	return page.Of(all, filter)
}

func (s *surface) viewUsage(ctx context.Context, id session.ID, r laststats.Reading) *SessionUsage {
	u := &SessionUsage{
		MeasuredAt: r.At.UTC(), CPUUsageUsec: r.CPUUsageUsec, MemoryBytes: r.MemoryBytes, DiskBytes: r.DiskBytes, Pids: r.Pids,
	}
	// A session that has ended since has no network.
	if t, err := s.manager.Networks.Totals(ctx, api.Caller(ctx), string(id)); err == nil && t != nil {
		u.SentBytes, u.ReceivedBytes = t.Sent, t.Received
	}
	return u
}
