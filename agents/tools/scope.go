package tools

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Namespaces are the kinds of scopes.
var Namespaces = []string{"workflow", "agent", "user"}

// Labels of sessions that say where they belong. The names under their prefix are
// Sandkasten's own.
const (
	LabelScope = "sandkasten.scope"
	LabelKey   = "sandkasten.scope.key"
)

// DefaultKey is the key of a scope's session that asks for none.
const DefaultKey = "default"

const maxScopeID, maxScopeKey = 128, 64

// Scope is whose sandboxes are meant: those of a run of a workflow, of an agent or
// of a user of the application.
type Scope struct{ Namespace, ID string }

// ParseScope reads what String writes.
func ParseScope(text string) (Scope, error) {
	namespace, id, _ := strings.Cut(text, ":")
	s := Scope{namespace, id}
	return s, s.Check()
}

// String is the scope as in workflow:run-1.
func (s Scope) String() string { return s.Namespace + ":" + s.ID }

// Check refuses what is no scope.
func (s Scope) Check() error {
	if !slices.Contains(Namespaces, s.Namespace) || !isScopeName(s.ID, maxScopeID) {
		return wrongInput("the scope %q must be %s and a colon, and an id of 1 to %d of a-z, A-Z, 0-9 and . _ - : @, as workflow:run-1",
			s.String(), strings.Join(Namespaces, ", "), maxScopeID)
	}
	return nil
}

func isScopeName(s string, longest int) bool {
	const also = "._-:@"
	return s != "" && len(s) <= longest && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(also, r))
	})
}

// sessionName is what the daemon calls the session of a key. Names are unique among
// an owner's sessions, which makes opening idempotent.
func (s Scope) sessionName(key string) string {
	sum := sha256.Sum256([]byte(s.Namespace + "\x00" + s.ID + "\x00" + key))
	return "scope-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// expires is what becomes of a sandbox of the tools that nothing has used for its time: its
// name is for finding it, and nobody comes back to look after it.
const expires = "destroy"

// openPause is between two looks at a sandbox that another caller is making.
const openPause = 50 * time.Millisecond

// openAttempts bounds how often others may make or end the sandbox meanwhile.
const openAttempts = 600

// open returns the session of a key of the scope, which is made if there is none.
// Of callers that come at the same time one makes it, and all get it.
func (c *call) open(ctx context.Context, key string, options sandkasten.CreateOptions) (info sandkasten.SessionInfo, created bool, err error) {
	options.Name = c.scope.sessionName(key)
	options.OnExpiry = expires
	labels := map[string]string{LabelScope: c.scope.String(), LabelKey: key}
	for name, value := range options.Labels {
		if _, ours := labels[name]; !ours {
			labels[name] = value
		}
	}
	options.Labels = labels
	full := false
	for range openAttempts {
		found, err := c.lookUp(ctx, key)
		if err != nil {
			return info, false, err
		}
		if found != nil {
			info, err := c.wake(ctx, found)
			if err == nil || !errors.Is(err, sandkasten.ErrNotFound) {
				return info, false, err
			}
		}
		session, err := c.set.opts.Client.CreateSession(ctx, &options)
		if err == nil {
			c.set.remember(session.ID, c.scope)
			return session.Info, true, nil
		}
		// Another caller's may have taken the last room.
		taken := errors.Is(err, sandkasten.ErrAlreadyExists)
		if !taken && (full || !errors.Is(err, sandkasten.ErrRateLimit)) {
			return info, false, err
		}
		full = !taken
		select {
		case <-ctx.Done():
			return info, false, ctx.Err()
		case <-time.After(openPause):
		}
	}
	return info, false, &sandkasten.APIError{Code: "unavailable", Message: "the sandbox of this session_key begins and ends all the time"}
}

// lookUp returns the session of a key once it is made, or nil.
func (c *call) lookUp(ctx context.Context, key string) (*sandkasten.Session, error) {
	sessions, err := c.set.opts.Client.ListSessions(ctx, &sandkasten.ListSessionsOptions{Scope: c.scope.String()})
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		if session.Info.Name == c.scope.sessionName(key) {
			return session, nil
		}
	}
	return nil, nil
}

// wake returns a session when it can run commands. ErrNotFound is one that has ended.
func (c *call) wake(ctx context.Context, session *sandkasten.Session) (sandkasten.SessionInfo, error) {
	for {
		info, err := session.Refresh(ctx)
		if err != nil {
			return info, err
		}
		switch info.Status {
		case "running":
			c.set.remember(info.ID, c.scope)
			return info, session.Heartbeat(ctx)
		case "paused":
			_, err = session.Resume(ctx)
		case "stopped":
			_, err = session.Start(ctx)
		case "creating", "starting", "stopping":
		default:
			return info, sandkasten.ErrNotFound
		}
		if err != nil && !errors.Is(err, sandkasten.ErrConflict) {
			return info, err
		}
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case <-time.After(openPause):
		}
	}
}

// session returns the sandbox that the call names, if it belongs to the scope.
func (c *call) session(ctx context.Context) (*sandkasten.Session, error) {
	id := c.text("sandbox_id")
	if c.set.isKnown(id, c.scope) {
		return c.set.opts.Client.Session(id), nil
	}
	session, err := c.set.opts.Client.GetSession(ctx, id)
	if err != nil {
		return nil, err
	}
	if session.Info.Labels[LabelScope] != c.scope.String() {
		return nil, &sandkasten.APIError{Code: "not_found", Reason: sandkasten.ReasonNoSuchSession, Message: fmt.Sprintf("there is no sandbox %s here", id)}
	}
	if session.ID == id {
		c.set.remember(id, c.scope)
	}
	return session, nil
}

// maxKnown bounds what a set remembers, for sets that live long.
const maxKnown = 10_000

func (s *Set) remember(id string, scope Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[id] = scope
}

func (s *Set) isKnown(id string, scope Scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id] == scope
}
