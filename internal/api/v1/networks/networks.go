// Package networks has the handlers of /v1 for what sessions may reach, and the shapes
// of policies that other parts of /v1 show too. What is allowed is decided elsewhere.
package networks

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/networks"
)

// Handlers answer the calls. Both fields are required.
type Handlers struct {
	Manager *session.Manager
	// Find returns the session of a path.
	Find func(context.Context, contract.SessionPath) (session.ID, error)
}

// NetworkRules are the part of a policy that requests and answers have in common.
type NetworkRules struct {
	Mode  network.Mode `json:"mode" enum:"none,allow,internet,full" doc:"none: loopback only. allow: only what the list names. internet: everything public. full: private addresses too, where the operator allows it. The host's own addresses and metadata services are never reached." example:"allow"`
	Allow []string     `json:"allow,omitempty" nullable:"false" maxItems:"256" doc:"Of mode allow: host names, one with a leading wildcard label like *.example.org, addresses, CIDRs, each with :port or :port-port if wanted, or groups like @pip. Names without a port are for the ports 80 and 443." example:"[\"@pip\",\"api.example.org\"]"`
	Deny  []string     `json:"deny,omitempty" nullable:"false" maxItems:"256" doc:"The same entries, for all ports where they have none. Deny beats allow."`

	MaxMbit              int `json:"max_mbit,omitempty" minimum:"0" maximum:"1000000" doc:"Megabits per second in each direction, of all connections together; 0 is no limit." example:"100"`
	MaxConnections       int `json:"max_connections,omitempty" minimum:"0" maximum:"4096" doc:"Connections and flows of UDP at once; 0 is 256."`
	ConnectionsPerSecond int `json:"connections_per_second,omitempty" minimum:"0" maximum:"10000" doc:"New ones; 0 is 100, with bursts of 256."`
	MaxMB                int `json:"max_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"MiB in both directions together since the session's last start, or the daemon's; 0 is no limit."`
}

// NetworkRequest is what a client asks a session to reach.
type NetworkRequest struct {
	NetworkRules
	Secrets []NetworkSecretRequest `json:"secrets,omitempty" maxItems:"32" doc:"Credentials that stay outside of the sandbox. Absent in a change, those that there are stay; an empty list removes them."`
}

// NetworkSecretRequest is a credential for some hosts.
type NetworkSecretRequest struct {
	Name   string   `json:"name" minLength:"1" maxLength:"255" doc:"The environment variable in the sandbox that has a placeholder, which is worth nothing." example:"API_TOKEN"`
	Hosts  []string `json:"hosts,omitempty" nullable:"false" maxItems:"64" doc:"Who gets it, as entries of allow without a port. The policy has to allow them." example:"[\"api.example.org\"]"`
	Header string   `json:"header,omitempty" maxLength:"128" doc:"The header in which the placeholder is replaced: alone, behind a scheme like Bearer, or in basic authentication." example:"Authorization"`
	Query  string   `json:"query,omitempty" maxLength:"128" doc:"The query parameter in which it is replaced, instead of a header."`
	Value  string   `json:"value,omitempty" maxLength:"16384" doc:"What the host gets. It is never shown again. Absent in a change, the value that the session has for this name stays." example:"Bearer secret-of-the-api"`
	Stored string   `json:"stored,omitempty" maxLength:"64" doc:"A stored secret (see /v1/secrets) instead of hosts, header, query and value." example:"github"`
}

// Network is what a session may reach.
type Network struct {
	NetworkRules
	Secrets []NetworkSecret `json:"secrets,omitempty" nullable:"false"`
	Relay   *bool           `json:"relay,omitempty" doc:"There, and false, if the daemon does not carry the sandbox's connections: it is in a network of its container engine, which decides what it reaches."`
}

// NetworkSecret is a credential without its value.
type NetworkSecret struct {
	Name        string   `json:"name" example:"API_TOKEN"`
	Hosts       []string `json:"hosts" nullable:"false" example:"[\"api.example.org\"]"`
	Header      string   `json:"header,omitempty" example:"Authorization"`
	Query       string   `json:"query,omitempty"`
	Stored      string   `json:"stored,omitempty" doc:"The stored secret that it is."`
	Placeholder string   `json:"placeholder" doc:"What programs send instead. Only secrets of the create and of a fork's source are in variables of the sandbox; pass one that came later in env of commands." example:"placeholder-0f1e2d3c4b5a69788796a5b4c3d2e1f0"`
}

// Asked gives the core's request, or nil for none.
func (r *NetworkRequest) Asked() *networks.Asked {
	if r == nil {
		return nil
	}
	asked := &networks.Asked{Policy: network.Policy{
		Mode: r.Mode, Allow: r.Allow, Deny: r.Deny, MaxMbit: r.MaxMbit,
		MaxConnections: r.MaxConnections, ConnectionsPerSecond: r.ConnectionsPerSecond, MaxMB: r.MaxMB,
	}}
	if r.Secrets != nil {
		asked.Secrets = make([]networks.AskedSecret, 0, len(r.Secrets))
	}
	for _, s := range r.Secrets {
		asked.Secrets = append(asked.Secrets, networks.AskedSecret(s))
	}
	return asked
}

// View is a policy as it is shown.
func View(p networks.Policy) Network {
	v := Network{NetworkRules: NetworkRules{
		Mode: cmp.Or(p.Mode, network.None), Allow: p.Allow, Deny: p.Deny, MaxMbit: p.MaxMbit,
		MaxConnections: p.MaxConnections, ConnectionsPerSecond: p.ConnectionsPerSecond, MaxMB: p.MaxMB,
	}}
	if p.Engine {
		v.Relay = new(bool)
	}
	for _, s := range p.Secrets {
		v.Secrets = append(v.Secrets, NetworkSecret{Name: s.Name, Hosts: s.Hosts, Header: s.Header, Query: s.Query, Stored: s.Stored, Placeholder: s.Placeholder})
	}
	return v
}

// NetworkOutput is the answer of most calls.
type NetworkOutput struct{ Body Network }

// Get answers with what a session may reach.
func (h *Handlers) Get(ctx context.Context, in *contract.SessionPath) (*NetworkOutput, error) {
	id, err := h.Find(ctx, *in)
	if err != nil {
		return nil, err
	}
	p, err := h.Manager.Networks.Get(ctx, api.Caller(ctx), string(id))
	return &NetworkOutput{View(p)}, err
}

// SetInput is a new policy for a session.
type SetInput struct {
	contract.SessionPath
	Body NetworkRequest
}

// Set replaces what a session may reach.
func (h *Handlers) Set(ctx context.Context, in *SetInput) (*NetworkOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	p, err := h.Manager.Networks.Set(ctx, api.Caller(ctx), string(id), *in.Body.Asked())
	return &NetworkOutput{View(p)}, err
}

// AllowInput is more that a session may reach.
type AllowInput struct {
	contract.SessionPath
	Body NetworkAllowRequest
}

// NetworkAllowRequest has entries to add.
type NetworkAllowRequest struct {
	Entries []string `json:"entries" nullable:"false" minItems:"1" maxItems:"256" doc:"As in allow." example:"[\"files.example.org\"]"`
}

// Allow adds entries to what a session may reach.
func (h *Handlers) Allow(ctx context.Context, in *AllowInput) (*NetworkOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	p, err := h.Manager.Networks.Allow(ctx, api.Caller(ctx), string(id), in.Body.Entries)
	return &NetworkOutput{View(p)}, err
}

// NetworkEvent is one decision about a session's network.
type NetworkEvent struct {
	Seq     uint64    `json:"seq" doc:"Later events have higher numbers; there are gaps." example:"1763715600000001"`
	Time    time.Time `json:"time"`
	Op      relay.Op  `json:"op" enum:"resolve,connect,datagrams,request,close,cut" doc:"resolve: a name query. connect: a connection. datagrams: a flow of UDP. request: one of HTTP that was looked at. close: a connection's end. cut: another policy ended it." example:"connect"`
	Name    string    `json:"name,omitempty" doc:"The host, as far as it is known." example:"pypi.example.org"`
	Address string    `json:"address,omitempty" example:"198.51.100.7"`
	Port    int       `json:"port,omitempty" example:"443"`
	Allowed bool      `json:"allowed"`
	Why     string    `json:"why,omitempty" doc:"The entry that decided, or what is missing." example:"no entry of allow names pypi.example.org"`
	Entry   string    `json:"entry,omitempty" doc:"Of a refusal: what opens it once it is in the list of allow. Left out where no entry does, as for a limit or an entry of deny." example:"pypi.example.org"`
	Count   int       `json:"count" doc:"How often it happened in a row." example:"1"`
	Sent    int64     `json:"bytes_sent,omitempty" doc:"Of a connection that ended."`
	Got     int64     `json:"bytes_received,omitempty" doc:"Of a connection that ended."`
}

// EventOf is a decision as it is shown.
func EventOf(e relay.Event) NetworkEvent {
	v := NetworkEvent{
		Seq: e.Seq, Time: e.At.UTC(), Op: e.Op, Name: e.Name, Port: int(e.Port), Allowed: e.Allowed, Why: e.Why, Entry: e.Entry, Count: e.Count, Sent: e.Sent, Got: e.Received,
	}
	if e.Addr.IsValid() {
		v.Address = e.Addr.String()
	}
	return v
}

// LogInput is for what was decided lately.
type LogInput struct {
	contract.SessionPath
	SinceSeq int64 `query:"since_seq" minimum:"0" maximum:"9007199254740991" doc:"The seq of the last event that was read; without it, all that are kept."`
	Limit    int   `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"Events in the answer."`
}

// NetworkLog is what was decided, oldest first.
type NetworkLog struct {
	Events  []NetworkEvent `json:"events" nullable:"false"`
	NextSeq uint64         `json:"next_seq" doc:"What to send as since_seq for what comes next." example:"1763715600000001"`
}

// LogOutput is the answer of Log.
type LogOutput struct{ Body NetworkLog }

// Log answers with what was decided lately.
func (h *Handlers) Log(ctx context.Context, in *LogInput) (*LogOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	events, err := h.Manager.Networks.Log(ctx, api.Caller(ctx), string(id), uint64(in.SinceSeq), in.Limit)
	if err != nil {
		return nil, err
	}
	out := &LogOutput{NetworkLog{Events: make([]NetworkEvent, 0, len(events)), NextSeq: uint64(in.SinceSeq)}}
	for _, e := range events {
		out.Body.Events = append(out.Body.Events, EventOf(e))
		out.Body.NextSeq = e.Seq
	}
	return out, nil
}

// FollowInput is for what is decided from now on.
type FollowInput struct {
	contract.SessionPath
	LastEventID string `header:"Last-Event-ID" maxLength:"32" doc:"The id of the last event that arrived; without it, all that are kept come first."`
}

// Follow streams what is decided.
func (h *Handlers) Follow(ctx context.Context, in *FollowInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	var since uint64
	if in.LastEventID != "" {
		if since, err = strconv.ParseUint(in.LastEventID, 10, 64); err != nil {
			return nil, errdefs.Invalid("Last-Event-ID", "must be the id of an event of this path")
		}
	}
	if _, err := h.Manager.Sessions.Enter(ctx, api.Caller(ctx), id); err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		events := api.StartEvents(w)
		defer events.Close()
		err := h.Manager.Networks.Follow(r.Context(), api.Caller(ctx), string(id), since, func(e relay.Event) error {
			return events.Send("network", strconv.FormatUint(e.Seq, 10), EventOf(e))
		})
		if err == nil {
			err = events.Send("done", "", struct{}{})
		} else if r.Context().Err() == nil {
			body, _ := api.ErrorForm(r.Context(), err)
			err = events.Send("error", "", body)
		}
		if err != nil {
			api.Failed(r.Context(), errors.Join(err, r.Context().Err()))
		}
	}), nil
}

// NetworkDenial is something that a session's network refused.
type NetworkDenial struct {
	Name    string `json:"name,omitempty" example:"pypi.example.org"`
	Address string `json:"address,omitempty" example:"198.51.100.7"`
	Port    int    `json:"port,omitempty" example:"443"`
	Why     string `json:"why" example:"no entry of allow names pypi.example.org"`
	Entry   string `json:"entry,omitempty" doc:"What opens it once it is in the list of allow. Left out where no entry does." example:"pypi.example.org"`
}

// Denied is what a session was refused since a time, for the result of a command.
func (h *Handlers) Denied(ctx context.Context, id session.ID, since time.Time) []NetworkDenial {
	events, err := h.Manager.Networks.Denied(ctx, api.Caller(ctx), string(id), since)
	if err != nil {
		return nil // the command's result says more
	}
	var denied []NetworkDenial
	for _, e := range events {
		v := EventOf(e)
		denied = append(denied, NetworkDenial{Name: v.Name, Address: v.Address, Port: v.Port, Why: v.Why, Entry: v.Entry})
	}
	return denied
}

// NetworkStats is what a session's network carried and refused.
type NetworkStats struct {
	Connections    int               `json:"connections" doc:"Open now, flows of UDP among them."`
	Opened         uint64            `json:"opened" doc:"Connections so far."`
	Refused        uint64            `json:"refused" doc:"Connections, flows and requests."`
	Sent           int64             `json:"bytes_sent"`
	Received       int64             `json:"bytes_received"`
	Queries        uint64            `json:"queries" doc:"For names."`
	QueriesRefused uint64            `json:"queries_refused"`
	LimitHits      map[string]uint64 `json:"limit_hits,omitempty" doc:"How often each limit refused something, by its name." example:"{\"max_connections\":3}"`
}

// Stats is what a session's network carried and refused, or nil if it has none.
func (h *Handlers) Stats(ctx context.Context, id session.ID) (*NetworkStats, error) {
	t, err := h.Manager.Networks.Totals(ctx, api.Caller(ctx), string(id))
	if err != nil || t == nil {
		return nil, err
	}
	v := &NetworkStats{
		Connections: t.Connections, Opened: t.Opened, Refused: t.Refused, Sent: t.Sent, Received: t.Received, Queries: t.Queries, QueriesRefused: t.QueriesRefused,
	}
	if len(t.LimitHits) > 0 {
		v.LimitHits = make(map[string]uint64, len(t.LimitHits))
		for limit, hits := range t.LimitHits {
			v.LimitHits[string(limit)] = hits
		}
	}
	return v, nil
}
