package sandkasten

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// NetworkPolicy is what a session may reach. The host's own addresses and metadata
// services are never among it.
type NetworkPolicy struct {
	Mode  string   `json:"mode"`            // none, allow, internet or full
	Allow []string `json:"allow,omitempty"` // of mode allow: hosts, *.example.org, addresses, CIDRs, with :port if wanted, and groups such as @pip
	Deny  []string `json:"deny,omitempty"`  // the same; deny beats allow

	MaxMbit              int `json:"max_mbit,omitempty"`               // in each direction; 0 is no limit
	MaxConnections       int `json:"max_connections,omitempty"`        // at once; 0 is the daemon's default, as with the next one
	ConnectionsPerSecond int `json:"connections_per_second,omitempty"` // new ones
	MaxMB                int `json:"max_mb,omitempty"`                 // MiB in both directions together; 0 is no limit

	// Secrets are credentials that stay outside of the sandbox. In a change, nil keeps
	// those that there are, and an empty list removes them.
	Secrets []NetworkSecret `json:"secrets,omitzero"`

	// Relay is told, and false, where the sandbox is in a network of its container engine,
	// which decides what it reaches. It is never sent.
	Relay *bool `json:"relay,omitempty"`
}

// NetworkSecret is a credential for some hosts. Programs send a placeholder, which
// is replaced by the value on its way to one of the hosts.
type NetworkSecret struct {
	Name   string   `json:"name"`             // the environment variable that has the placeholder
	Hosts  []string `json:"hosts,omitempty"`  // who gets the value; the policy has to allow them
	Header string   `json:"header,omitempty"` // in which the placeholder is replaced, such as Authorization
	Query  string   `json:"query,omitempty"`  // the parameter, instead of a header
	Value  string   `json:"value,omitempty"`  // never told again; empty in a change keeps the one that the session has
	Stored string   `json:"stored,omitempty"` // a stored secret, instead of the four above

	Placeholder string `json:"placeholder,omitempty"` // told by the daemon, and never sent to it
}

// asked is a policy as a request has it: a policy that the daemon told can be sent
// again, with the changes that the caller made.
func (p NetworkPolicy) asked() NetworkPolicy {
	p.Relay = nil
	if p.Secrets == nil {
		return p
	}
	secrets := make([]NetworkSecret, len(p.Secrets))
	for i, s := range p.Secrets {
		if s.Placeholder != "" && s.Stored != "" { // told with what the stored secret has
			s.Hosts, s.Header, s.Query = nil, "", ""
		}
		s.Placeholder = ""
		secrets[i] = s
	}
	p.Secrets = secrets
	return p
}

// NetworkDenial is something that a session's network refused.
type NetworkDenial struct {
	Name    string `json:"name,omitempty"` // the host, as far as it is known
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	Why     string `json:"why"`
	Entry   string `json:"entry,omitempty"` // what AllowNetwork takes to open it; "" where no entry does
}

// NetworkEvent is one decision about a session's network.
type NetworkEvent struct {
	Seq     int64     `json:"seq"` // later ones have higher numbers; there are gaps
	Time    time.Time `json:"time"`
	Op      string    `json:"op"`             // resolve, connect, datagrams, request, close, cut
	Name    string    `json:"name,omitempty"` // the host, as far as it is known
	Address string    `json:"address,omitempty"`
	Port    int       `json:"port,omitempty"`
	Allowed bool      `json:"allowed"`
	Why     string    `json:"why,omitempty"`        // the entry that decided, or what is missing
	Entry   string    `json:"entry,omitempty"`      // of a refusal: what AllowNetwork takes to open it; "" where no entry does
	Count   int       `json:"count"`                // how often it happened in a row
	Sent    int64     `json:"bytes_sent,omitempty"` // of a connection that ended
	Got     int64     `json:"bytes_received,omitempty"`
}

// NetworkStats is what a session's network carried and refused.
type NetworkStats struct {
	Connections    int              `json:"connections"` // open now
	Opened         int64            `json:"opened"`
	Refused        int64            `json:"refused"` // connections, flows and requests
	Sent           int64            `json:"bytes_sent"`
	Received       int64            `json:"bytes_received"`
	Queries        int64            `json:"queries"` // for names
	QueriesRefused int64            `json:"queries_refused"`
	LimitHits      map[string]int64 `json:"limit_hits,omitempty"` // how often each limit refused something
}

// Network returns what the session may reach, with its secrets but for their values.
func (s *Session) Network(ctx context.Context) (NetworkPolicy, error) {
	return s.changeNetwork(ctx, get(s.path+"/network"))
}

// SetNetwork replaces what the session may reach, and returns it as it is then. It
// holds at once: connections that it does not allow are cut. What Network returned
// may be changed and given back.
func (s *Session) SetNetwork(ctx context.Context, policy NetworkPolicy) (NetworkPolicy, error) {
	return s.changeNetwork(ctx, request{method: http.MethodPut, path: s.path + "/network", json: policy.asked(), safe: true})
}

// AllowNetwork adds entries to what the session may reach. One of mode none comes to
// have mode allow.
func (s *Session) AllowNetwork(ctx context.Context, entries ...string) (NetworkPolicy, error) {
	return s.changeNetwork(ctx, postSame(s.path+"/network/allow", map[string][]string{"entries": entries}))
}

func (s *Session) changeNetwork(ctx context.Context, r request) (NetworkPolicy, error) {
	var policy NetworkPolicy
	err := s.client.call(ctx, r, &policy)
	return policy, err
}

// NetworkLog is what a session's network decided, oldest first.
type NetworkLog struct {
	Events  []NetworkEvent `json:"events"`
	NextSeq int64          `json:"next_seq"` // since, for what comes next
}

// NetworkLog returns what the session's network decided behind the event numbered
// since; 0 is all that is kept, which is the last 1000. A limit of 0 is the daemon's.
func (s *Session) NetworkLog(ctx context.Context, since int64, limit int) (NetworkLog, error) {
	r := get(s.path + "/network/log")
	r.setNumber("since_seq", since)
	r.setNumber("limit", int64(limit))
	var log NetworkLog
	err := s.client.call(ctx, r, &log)
	return log, err
}

// FollowNetworkLog tells what the session's network decided behind the event numbered
// since, and then each decision as it is made. It ends with the session, and goes on
// behind the last event when the connection breaks. An error is the last of the
// iteration.
func (s *Session) FollowNetworkLog(ctx context.Context, since int64) iter.Seq2[NetworkEvent, error] {
	return func(yield func(NetworkEvent, error) bool) {
		p := patience{client: s.client}
		var begun time.Time
		for {
			r := get(s.path + "/network/log/stream")
			r.opened = func() { begun = time.Now() }
			if since != 0 {
				r.header = http.Header{"Last-Event-Id": {strconv.FormatInt(since, 10)}}
			}
			before := since
			ended, broken := s.followNetwork(ctx, r, &since, yield)
			if ended {
				return
			}
			// A quiet stream that stood for long is progress too.
			if since != before || !begun.IsZero() && time.Since(begun) > longestPause {
				p.progress()
			}
			begun = time.Time{}
			if err := p.resume(ctx, broken); err != nil {
				yield(NetworkEvent{}, err)
				return
			}
		}
	}
}

// followNetwork reads one connection to its end, and moves since on with each event.
// It reports whether nothing is to come: the session has ended, or yield wants no more.
func (s *Session) followNetwork(ctx context.Context, r request, since *int64, yield func(NetworkEvent, error) bool) (ended bool, broken error) {
	for e, err := range s.client.events(ctx, r) {
		if err != nil {
			return false, err
		}
		switch e.name {
		case "network":
			var event NetworkEvent
			if err := e.decode(&event); err != nil {
				return false, err
			}
			*since = event.Seq
			if !yield(event, nil) {
				return true, nil
			}
		case "done":
			return true, nil
		case "error":
			return false, newAPIError(0, nil, e.data)
		}
	}
	return false, nil
}
