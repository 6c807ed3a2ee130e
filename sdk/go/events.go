package sandkasten

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// EventGap is the type of the event that stands for events that are missing.
const EventGap = "gap"

// EventReady is the type of the event that begins a stream: what happens from then on
// arrives, so that what is listed after it is complete.
const EventReady = "ready"

// Event is something that happened. Its type says which of the other fields it has;
// docs/events.md has all types.
type Event struct {
	ID   string    `json:"id"` // for EventOptions.Since
	Type string    `json:"type"`
	Time time.Time `json:"time"`

	Owner     string `json:"owner,omitempty"`      // whose it is; none's for what is the daemon's
	SessionID string `json:"session_id,omitempty"` // that it is about

	Session      *SessionInfo    `json:"session,omitempty"`       // of session events, as it is now
	Before       string          `json:"before,omitempty"`        // its status before
	Exec         *ExecRecord     `json:"exec,omitempty"`          // of exec.started and exec.finished
	ExecBurst    *ExecBurst      `json:"exec_burst,omitempty"`    // of exec.burst
	Network      *NetworkEvent   `json:"network,omitempty"`       // of network.decision
	NetworkBurst *NetworkBurst   `json:"network_burst,omitempty"` // of network.burst
	Workspace    *EventWorkspace `json:"workspace,omitempty"`     // of workspace.changed
	Snapshot     *Snapshot       `json:"snapshot,omitempty"`      // of snapshot.created
	ImageJob     *EventImageJob  `json:"image_job,omitempty"`     // of image.job
	Pool         *PoolStatus     `json:"pool,omitempty"`          // of pool.changed
	Account      *EventAccount   `json:"account,omitempty"`       // of account.changed
	DeletedID    string          `json:"deleted_id,omitempty"`    // of workspace.deleted and snapshot.deleted

	Reason string   `json:"reason,omitempty"` // of a gap: restarted, expired or slow
	Reload []string `json:"reload,omitempty"` // of a gap: the kinds of things to list again
}

// ExecBurst counts commands and processes that came too fast to be told one by one.
type ExecBurst struct {
	Started  int `json:"started"`
	Finished int `json:"finished"`
}

// NetworkBurst counts decisions that came too fast to be told one by one.
type NetworkBurst struct {
	Allowed int `json:"allowed"`
	Denied  int `json:"denied"`
}

// EventWorkspace is what an event says of a workspace.
type EventWorkspace struct {
	ID         string            `json:"id"`
	Labels     map[string]string `json:"labels,omitempty"`
	SizeMB     int64             `json:"size_mb"`
	CreatedAt  time.Time         `json:"created_at"`
	LastUsedAt time.Time         `json:"last_used_at"`
}

// EventImageJob is what an event says of a job for an image.
type EventImageJob struct {
	ID       string        `json:"id"`
	Kind     string        `json:"kind"`   // pull, build or commit
	Name     string        `json:"name"`   // of the image
	Status   string        `json:"status"` // queued, running, done, failed or canceled
	Progress ImageProgress `json:"progress"`
	Error    string        `json:"error,omitempty"` // why it failed
}

// EventAccount says whose account has changed.
type EventAccount struct {
	User  string `json:"user"`
	KeyID string `json:"key_id,omitempty"` // that was made or revoked; empty where the user was
}

// EventOptions chooses events. Its zero value chooses all that the key may see, from
// now on.
type EventOptions struct {
	Since   string   // the ID of the last event that is known
	Types   []string // what they are about: session, exec, network, workspace, snapshot, image, pool, account
	Session string   // only about this session: its id or name
	Owner   string   // for admins: only of this owner
}

// Events tells what happens, as it happens. It begins with an event of type EventReady
// and goes on behind the last event when the connection breaks; where events are
// missing, one of type EventGap says what to list again. An error is the last of the
// iteration, which without one goes on until ctx is done or the caller leaves.
func (c *Client) Events(ctx context.Context, o EventOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		p := patience{client: c}
		last, ready := o.Since, false
		for {
			r := get("/v1/events")
			r.query = url.Values{}
			for name, value := range map[string]string{"types": strings.Join(o.Types, ","), "session": o.Session, "owner": o.Owner} {
				if value != "" {
					r.query.Set(name, value)
				}
			}
			if last != "" {
				r.header = http.Header{"Last-Event-Id": {last}}
			}
			left, err := c.followEvents(ctx, r, &last, func(e Event) bool {
				p.progress()
				if e.Type == EventReady && ready { // a resumed stream is the same one
					return true
				}
				ready = ready || e.Type == EventReady
				return yield(e, nil)
			})
			if left {
				return
			}
			if err := p.resume(ctx, err); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// followEvents reads one connection to its end, or until yield wants no more. It moves
// last on, also where the daemon tells another place without an event.
func (c *Client) followEvents(ctx context.Context, r request, last *string, yield func(Event) bool) (left bool, err error) {
	for e, err := range c.events(ctx, r) {
		if err != nil {
			return false, err
		}
		if e.id != "" {
			*last = e.id
		}
		if e.name == "" {
			continue
		}
		var event Event
		if err := e.decode(&event); err != nil {
			return false, err
		}
		if !yield(event) {
			return true, nil
		}
	}
	return false, errors.New("the event stream ended") // which events says with an error
}
