package session

import (
	"time"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/networks"
)

// CreateRequest is what a client may choose. Zero values take the defaults of
// Options; values beyond its maxima are refused with InvalidArgument.
type CreateRequest struct {
	Name           string `json:",omitempty"` // unique among the owner's sessions that have not ended
	Image          string
	Driver         string
	TTL            time.Duration
	WorkspaceID    string // made if the owner has none of this id
	Limits         runtime.Limits
	NetworkMode    network.Mode    `json:"Network"` // short for a NetworkPolicy that has nothing else
	NetworkPolicy  *networks.Asked `json:",omitempty"`
	ReadonlyRoot   *bool
	FileScope      FileScope `json:",omitempty"` // without it as before, also for the hash of a request of then
	Env            map[string]string
	Hostname       string
	Labels         map[string]string
	IdempotencyKey string

	RestoreSnapshotID string // the session begins with its files, and its image if there is no other

	Lifetime    time.Duration // this, TTL and what follows are its Policy
	IdleTimeout time.Duration
	OnIdle      OnIdle
	OnExpiry    OnExpiry `json:",omitempty"` // as FileScope
	AutoResume  *bool

	helper bool // see Session.Helper
}

// Policy is the part of the request that Update can change later.
func (r CreateRequest) Policy() Policy {
	return Policy{TTL: r.TTL, Lifetime: r.Lifetime, IdleTimeout: r.IdleTimeout, OnIdle: r.OnIdle, OnExpiry: r.OnExpiry, AutoResume: r.AutoResume}
}
