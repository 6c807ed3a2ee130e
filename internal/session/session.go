// Package session is the heart: what a client owns, its states, and the
// Manager that every surface calls. It knows drivers, the runner's client and
// a store by their contracts, and nothing of HTTP or of files on the host.
package session

import (
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/networks"
)

// ID names a session: 26 characters of [a-z2-7], 128 random bits, made by the
// server. It is never used twice.
type ID string

// Session is what a client owns. Its truth is its row in the store.
type Session struct {
	ID             ID
	Name           string     // that the owner gave it: unique among his that have not ended; "" is none
	Sandbox        runtime.ID // the sandbox behind it, which says of which driver it is
	Image          string     // as the client wrote it, or the default
	ImageDigest    string     // what that was resolved to at create
	State          State
	BootID         string // of the sandbox's processes: another one after each start
	End            State  // while Stopping, the state it is on its way to; else empty
	EndReason      string // why it ended, stopped or was paused, for people; empty while it runs
	WorkspaceID    string
	ForkedFrom     ID     // the session whose files it began with; empty if it is no fork
	Cwd            string // of the default shell, as last reported
	Hostname       string
	Limits         runtime.Limits
	Network        runtime.Network // what its driver made; see NetworkPolicy for what it reaches
	NetworkPolicy  networks.Policy // in a table of its own
	ReadonlyRoot   bool
	FileScope      FileScope
	Env            map[string]string // never logged and never shown again
	Labels         map[string]string
	Owner          string // the key that made it
	Helper         bool   // hidden: it serves a workspace's files
	IdempotencyKey string
	RequestHash    string // of the create request, to tell a retry from a mistake

	CreatedAt    time.Time
	LastActivity time.Time
	TTL          time.Duration // idle time after which OnExpiry happens; activity starts it anew
	IdleTimeout  time.Duration // idle time after which OnIdle happens; 0, with OnIdleDestroy, is none
	OnIdle       OnIdle
	OnExpiry     OnExpiry      // what happens when its TTL is over
	ByHand       bool          // of a stopped one: a client stopped it, so it makes room for no other
	AutoResume   bool          // an operation wakes it when it is paused
	MaxLifetime  time.Duration // absolute, from CreatedAt; 0 is none
	Retention    time.Duration // of a stopped one, instead of TTL; of the configuration and in no row
	EndedAt      time.Time
}

// Driver is the name of the driver that its sandbox is of.
func (s Session) Driver() string { return s.Sandbox.Driver() }

// payer is whose monthly quotas its time counts for: nobody's if no client knows it.
func (s Session) payer() string {
	if s.Helper {
		return ""
	}
	return s.Owner
}

// admission is what is asked before its sandbox is made or started.
func (s Session) admission() Admission { return Admission{Owner: s.payer(), Driver: s.Driver()} }

// OnIdle is what happens to a session that nothing has used for its idle
// timeout. The strings are part of the API.
type OnIdle string

// What may happen to an idle session.
const (
	OnIdlePause   OnIdle = "pause"
	OnIdleStop    OnIdle = "stop"
	OnIdleDestroy OnIdle = "destroy"
)

// IdleAt is when the reaper will pause or stop the session if nothing happens,
// or zero if it will not.
func (s Session) IdleAt() time.Time {
	if s.State != Running || s.OnIdle == OnIdleDestroy {
		return time.Time{}
	}
	return s.LastActivity.Add(s.IdleTimeout)
}

// ExpiresAt is when the reaper will end the session, or stop it as OnExpiry says, if
// nothing happens.
func (s Session) ExpiresAt() time.Time {
	idle := s.TTL
	switch {
	case s.State == Stopped && s.Retention > 0:
		idle = s.Retention
	case s.OnIdle == OnIdleDestroy && s.IdleTimeout > 0:
		idle = min(idle, s.IdleTimeout)
	}
	at := s.LastActivity.Add(idle)
	if s.MaxLifetime > 0 {
		if end := s.CreatedAt.Add(s.MaxLifetime); end.Before(at) {
			return end
		}
	}
	return at
}
