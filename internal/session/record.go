package session

import (
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/check"
)

// record is a copy of a session's row, newer than that, and the way into its
// sandbox.
type record struct {
	session Session
	box     box // zero while there is no sandbox
}

// box is the way into a sandbox.
type box struct {
	sandbox runtime.Sandbox
	client  *runnerclient.Client
}

// close ends the connections that no operation uses.
func (b box) close() error {
	if b.client == nil {
		return nil
	}
	return b.client.Close()
}

// open makes the session usable through its sandbox, which may have come from a
// pool under another id, unless it is already.
func (r *record) open(sandbox runtime.Sandbox) {
	if r.box.sandbox != nil {
		return
	}
	r.session.Sandbox = sandbox.ID()
	if isVolatile(sandbox) {
		r.session.OnExpiry = OnExpiryDestroy
	}
	r.box = box{sandbox: sandbox, client: &runnerclient.Client{Dial: sandbox.DialRunner}}
}

// reopen is open of a sandbox that has been booted again: the default shell is
// back where it began.
func (r *record) reopen(sandbox runtime.Sandbox, bootID string) {
	r.open(sandbox)
	r.session.BootID, r.session.Cwd = bootID, check.WorkspaceDir
}

// replace sets the session to s, but for what changes with use.
func (r *record) replace(s Session) {
	if r.session.LastActivity.After(s.LastActivity) {
		s.LastActivity = r.session.LastActivity
	}
	s.Cwd = r.session.Cwd
	r.session = s
}

// stop brings the session, which is s now, to state stopping if how has an end
// for it. A session that is being stopped may be ended instead.
func (r *record) stop(s Session, how ending) error {
	if r.session.State == Stopping && r.session.End.Ended() {
		return nil
	}
	end, reason := how(s)
	if end == "" {
		return nil
	}
	if s.State == Stopping {
		s.EndReason = reason
	} else if err := s.To(Stopping, reason); err != nil {
		return err
	}
	s.End = end
	r.session = s
	return nil
}

// pause brings the session, which is s now and running, to state paused if why
// has a reason for it, and reports whether it did.
func (r *record) pause(s Session, why func(Session) string) (bool, error) {
	reason := why(s)
	if reason == "" {
		return false, nil
	}
	if err := s.To(Paused, reason); err != nil {
		return false, err
	}
	r.session = s
	return true, nil
}

// clockSet tells times by the wall clock as it is now.
func (r *record) clockSet(now time.Time) {
	s := &r.session
	s.CreatedAt, s.LastActivity = now.Add(s.CreatedAt.Sub(now)), now.Add(s.LastActivity.Sub(now))
}
