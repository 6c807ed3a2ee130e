package orchestrator

import (
	"slices"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Status of a session. The strings are part of the API.
type Status string

// The statuses.
const (
	Starting   Status = "starting"   // what it runs in is being made and its files restored
	Ready      Status = "ready"      // it can be used
	Failed     Status = "failed"     // it could not start, or broke; the next use begins it anew
	Terminated Status = "terminated" // it was ended and its files saved; the next use restores it
)

// Why a session ended that no client has ended.
const (
	ReasonIdle     = "idle_timeout"
	ReasonLifetime = "max_lifetime"
	ReasonRestore  = "restore_failed"
)

// statuses is what a ready session is by the state of what it runs in. One that is
// stopped has its files and no programs: it is started, and not restored.
var statuses = map[session.State]Status{
	session.Creating:  Starting,
	session.Starting:  Starting,
	session.Running:   Ready,
	session.Paused:    Ready,
	session.Stopping:  Terminated,
	session.Stopped:   Terminated,
	session.Destroyed: Terminated,
	session.Expired:   Terminated,
	session.Crashed:   Failed,
	session.Failed:    Failed,
}

// next holds every change that may happen.
var next = map[Status][]Status{
	"":         {Starting},
	Starting:   {Starting, Ready, Failed, Terminated}, // the first after a crash of the daemon
	Ready:      {Starting, Failed, Terminated},
	Failed:     {Starting, Terminated},
	Terminated: {Starting},
}

// to is the one way to change a session's status.
func (x *Session) to(status Status) error {
	if !slices.Contains(next[x.Status], status) {
		return errdefs.New(errdefs.Conflict, "the session is %s and cannot become %s", x.Status, status)
	}
	x.Status = status
	return nil
}
