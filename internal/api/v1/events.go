package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/images"
	"github.com/sandkasten/sandkasten/internal/api/v1/networks"
	"github.com/sandkasten/sandkasten/internal/api/v1/snapshots"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/events/sources"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/session"
	sessionsnapshots "github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/protocol"
)

// Event is something that happened. Its type says which of the other fields it has.
type Event struct {
	ID        string      `json:"id" doc:"Its place, for Last-Event-ID and since; the id of the server-sent event too." example:"mzxk2q9c1-2400871"`
	Type      events.Type `json:"type" doc:"What happened; the name of the server-sent event too." example:"session.state"`
	Time      time.Time   `json:"time"`
	Owner     string      `json:"owner,omitempty" doc:"Whose it is. Absent for what is the daemon's." example:"alice"`
	SessionID string      `json:"session_id,omitempty" doc:"The session that it is about." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`

	Session   *Session               `json:"session,omitempty" doc:"Of session events: how it is now."`
	Before    session.State          `json:"before,omitempty" doc:"Of session.state and session.ended: the status before." example:"running"`
	Exec      *ExecRecord            `json:"exec,omitempty" doc:"Of exec.started and exec.finished."`
	ExecBurst *ExecBurst             `json:"exec_burst,omitempty" doc:"Of exec.burst."`
	Network   *networks.NetworkEvent `json:"network,omitempty" doc:"Of network.decision."`
	NetBurst  *NetworkBurst          `json:"network_burst,omitempty" doc:"Of network.burst."`
	Workspace *EventWorkspace        `json:"workspace,omitempty" doc:"Of workspace.changed."`
	Snapshot  *snapshots.Snapshot    `json:"snapshot,omitempty" doc:"Of snapshot.created."`
	ImageJob  *EventImageJob         `json:"image_job,omitempty" doc:"Of image.job."`
	Pool      *PoolStatus            `json:"pool,omitempty" doc:"Of pool.changed."`
	Account   *EventAccount          `json:"account,omitempty" doc:"Of account.changed."`
	DeletedID string                 `json:"deleted_id,omitempty" doc:"Of workspace.deleted and snapshot.deleted."`
	Reason    events.Reason          `json:"reason,omitempty" doc:"Of gap: restarted, the daemon since the id; expired, the id is older than what is kept; slow, the client reads more slowly than events come." example:"expired"`
	Reload    []events.Kind          `json:"reload,omitempty" nullable:"false" doc:"Of gap: what may have changed meanwhile." example:"[\"session\",\"exec\"]"`
}

// ExecBurst counts commands and processes that came too fast to be told one by one.
type ExecBurst struct {
	Started  int `json:"started" example:"120"`
	Finished int `json:"finished" example:"118"`
}

// NetworkBurst counts decisions that came too fast to be told one by one.
type NetworkBurst struct {
	Allowed int `json:"allowed" example:"300"`
	Denied  int `json:"denied" example:"2"`
}

// EventWorkspace is what an event says of a workspace.
type EventWorkspace struct {
	ID         string            `json:"id" example:"project"`
	Labels     map[string]string `json:"labels,omitempty"`
	SizeMB     int64             `json:"size_mb" doc:"What its files may take." example:"1024"`
	CreatedAt  time.Time         `json:"created_at"`
	LastUsedAt time.Time         `json:"last_used_at"`
}

// EventImageJob is what an event says of a job for an image.
type EventImageJob struct {
	ID       string          `json:"id" example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
	Kind     jobs.Kind       `json:"kind" example:"pull"`
	Name     string          `json:"name" doc:"Of the image." example:"python:3.12-slim"`
	Status   jobs.State      `json:"status" example:"running"`
	Progress images.Progress `json:"progress"`
	Error    string          `json:"error,omitempty" doc:"Why the job failed."`
}

// EventAccount says whose account has changed.
type EventAccount struct {
	User  string `json:"user" example:"alice"`
	KeyID string `json:"key_id,omitempty" doc:"The key that was made or revoked; absent where the user was made, changed or deleted." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
}

type eventsInput struct {
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that arrived. It goes before since."`
	Since       string `query:"since" maxLength:"64" doc:"The same, for the first request. Without either, the stream begins now."`
	Types       string `query:"types" maxLength:"256" doc:"What events are about, separated by commas: session, exec, network, workspace, snapshot, and for admins image, pool and account. Without it, all that the key may see." example:"session,exec"`
	Session     string `query:"session" maxLength:"64" doc:"Only events about this session: its id, name, or the beginning of its id."`
	Owner       string `query:"owner" maxLength:"63" doc:"For admins: only events of this owner."`
}

// eventRoutes is the one stream of events.
func (s *surface) eventRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/events", Scope: api.Key, Class: api.Long, Listens: true,
		Doc: kit.Doc{
			ID: "events", Summary: "Follow what happens", Media: "text/event-stream", Errors: []int{403, 404, 501},
			Example: exampleEvents,
			Description: "Server-sent events of all that the key may see: its owner's sessions, commands, network decisions, workspaces and snapshots, and for admins those of all owners and image jobs, the pool and accounts. " +
				"The first event is ready: what happens from then on arrives, so what a client lists after it is complete. A broken stream is resumed with Last-Event-ID. " +
				"Where events are missing the event gap says why, and which lists to load again. To follow is not activity. See docs/events.md for every type.",
		},
	}, s.followEvents)
}

func (s *surface) followEvents(ctx context.Context, in *eventsInput) (*kit.Stream, error) {
	req := events.Request{After: in.LastEventID, Owner: in.Owner}
	if req.After == "" {
		req.After = in.Since
	}
	var err error
	if req.Kinds, err = eventKinds(in.Types); err != nil {
		return nil, err
	}
	var id session.ID
	if in.Session != "" {
		if id, err = s.called(ctx, in.Session); err != nil {
			return nil, err
		}
	}
	follows, err := s.manager.Events.Subscribe(ctx, api.Caller(ctx), id, req)
	if err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		defer follows.Close()
		stream := api.StartEvents(w)
		defer stream.Close()
		if err := s.sendEvents(r.Context(), stream, follows); !errors.Is(err, events.ErrClosed) {
			api.Failed(r.Context(), err)
		}
	}), nil
}

func eventKinds(list string) (kinds []events.Kind, err error) {
	if list == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if !events.IsKind(name) {
			return nil, errdefs.Invalid("types", "must be of %s, separated by commas", joined(events.Kinds))
		}
		kinds = append(kinds, events.Kind(name))
	}
	return kinds, nil
}

func joined(kinds []events.Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Names of the events that are about the stream itself.
const (
	eventReady = "ready"
	eventGap   = "gap"
)

// sendEvents sends what happens until the client, its key or the daemon leaves.
func (s *surface) sendEvents(ctx context.Context, stream *api.Events, follows *events.Subscription) error {
	if err := stream.Send(eventReady, follows.ID(), Event{ID: follows.ID(), Type: eventReady, Time: time.Now().UTC()}); err != nil {
		return err
	}
	for {
		batch, err := follows.Next(ctx, api.Heartbeat)
		if err != nil {
			return err
		}
		if gap := batch.Gap; gap != nil {
			told := Event{ID: gap.ID, Type: eventGap, Time: time.Now().UTC(), Reason: gap.Reason, Reload: gap.Reload}
			if err := stream.Send(eventGap, gap.ID, told); err != nil {
				return err
			}
		}
		for _, e := range batch.Events {
			id := follows.IDOf(e)
			text, err := e.Text(func(e *events.Event) ([]byte, error) { return encodeEvent(id, e) })
			if err == nil {
				err = stream.SendText(string(e.Type), id, text)
			}
			if err != nil {
				return err
			}
		}
		if batch.Gap == nil && len(batch.Events) == 0 {
			if err := stream.Mark(batch.ID); err != nil {
				return err
			}
		}
	}
}

// encodeEvent is an event as clients get it.
func encodeEvent(id string, e *events.Event) ([]byte, error) {
	v := Event{ID: id, Type: e.Type, Time: e.Time.UTC(), Owner: e.Owner, SessionID: e.Session}
	switch data := e.Data.(type) {
	case session.Event:
		now := view(data.Session)
		v.Session, v.Before = &now, data.Before
	case protocol.Record:
		record := recordOf(data)
		v.Exec = &record
	case events.Burst:
		if e.Type == events.ExecBurst {
			v.ExecBurst = &ExecBurst{Started: data.Began, Finished: data.Ended}
		} else {
			v.NetBurst = &NetworkBurst{Allowed: data.Allowed, Denied: data.Denied}
		}
	case relay.Event:
		decision := networks.EventOf(data)
		v.Network = &decision
	case workspaces.Workspace:
		v.Workspace = &EventWorkspace{ID: data.ID, Labels: data.Labels, SizeMB: data.SizeMB, CreatedAt: data.CreatedAt.UTC(), LastUsedAt: data.LastUsed.UTC()}
	case sessionsnapshots.Snapshot:
		made := snapshots.View(data)
		v.Snapshot = &made
	case events.Gone:
		v.DeletedID = data.ID
	case jobs.Job:
		v.ImageJob = imageJobOf(data)
	case pool.Status:
		status := viewStatus(data)
		v.Pool = &status
	case sources.Account:
		v.Account = &EventAccount{User: data.User, KeyID: data.KeyID}
	default:
		return nil, fmt.Errorf("v1: an event of type %s has data of type %T", e.Type, e.Data)
	}
	return api.EventText(v)
}

func imageJobOf(j jobs.Job) *EventImageJob {
	v := &EventImageJob{ID: j.ID, Kind: j.Kind, Name: j.Name, Status: j.State, Progress: images.ViewProgress(j.Progress)}
	if j.Err != nil {
		v.Error = errdefs.MessageOf(j.Err)
	}
	return v
}
