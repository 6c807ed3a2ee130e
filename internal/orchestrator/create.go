package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
)

// CreateRequest asks for a session. Zero values take the defaults.
type CreateRequest struct {
	ID               string // of one that is there, or a new one; "" is a new one
	Mode             string
	Image            string
	CPU              string
	Memory           string
	EphemeralStorage string
	RestoreSnapshot  string // the core's id of a snapshot; "" is the session's latest
	IdleTimeout      time.Duration
	MaxLifetime      time.Duration
	Metadata         map[string]any
	ArtifactBaseURL  string
}

// Workspace is where a session's files are.
const Workspace = "/workspace"

// created is the answer to a create.
type created struct {
	session Session
	made    bool
}

// Create returns a ready session, and whether it had to be made or begun anew for
// that. One that is ready and not out of time is returned as it is. One that has
// ended begins anew with the files of its latest snapshot. Creates of one session
// that come at the same time have one answer.
func (s *Service) Create(ctx context.Context, p auth.Principal, req CreateRequest) (_ Session, made bool, err error) {
	req.ID = cmp.Or(req.ID, NewID())
	done := s.flights.DoChan(p.Owner+"\x00"+req.ID, func() (any, error) {
		// The others that wait for it are no worse off if this client leaves.
		return s.create(context.WithoutCancel(ctx), p, req)
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return Session{}, false, result.Err
		}
		answer := result.Val.(created)
		return answer.session, answer.made, nil
	case <-ctx.Done():
		return Session{}, false, ctx.Err()
	}
}

func (s *Service) create(ctx context.Context, p auth.Principal, req CreateRequest) (created, error) {
	release, err := s.locks.Acquire(ctx, req.ID)
	if err != nil {
		return created{}, err
	}
	defer release()
	found, err := s.find(ctx, p, req.ID)
	if errdefs.Is(err, errdefs.NotFound) {
		return s.createNew(ctx, p, req)
	}
	if err != nil {
		return created{}, err
	}
	if found, err = s.current(ctx, found); err != nil {
		return created{}, err
	}
	late := !time.Now().Before(found.ExpiresAt)
	if found.Status == Ready && !late {
		s.saw(found.ID, true)
		return created{s.withSeen(found), false}, nil
	}
	if err := s.checkSnapshot(ctx, found, req.RestoreSnapshot); err != nil {
		return created{}, err
	}
	if found.Status == Ready {
		// Who asks for what was its latest snapshot means its files.
		same := req.RestoreSnapshot == found.LatestSnapshot
		if err := s.terminate(ctx, &found, labelLifetime, ReasonLifetime, false); err != nil {
			return created{}, err
		}
		if same {
			req.RestoreSnapshot = found.LatestSnapshot
		}
	}
	if err := s.saveBefore(ctx, &found, req.RestoreSnapshot); err != nil {
		return created{}, err
	}
	found.IdleTimeout = cmp.Or(req.IdleTimeout, found.IdleTimeout)
	found.MaxLifetime = cmp.Or(req.MaxLifetime, found.MaxLifetime)
	if err := s.provision(ctx, &found, req.RestoreSnapshot); err != nil {
		return created{}, err
	}
	return created{found, true}, nil
}

// saveBefore saves the files of a session that has stopped by itself before it begins
// with another snapshot than its latest: what it ran in makes room for that.
func (s *Service) saveBefore(ctx context.Context, x *Session, restore string) error {
	if restore == "" || restore == x.LatestSnapshot || x.Unsaved() || x.Status == Failed {
		return nil
	}
	there, err := s.hasFiles(ctx, *x)
	if err != nil || !there {
		return err
	}
	return s.terminate(ctx, x, labelStop, "", false)
}

func (s *Service) createNew(ctx context.Context, p auth.Principal, req CreateRequest) (created, error) {
	// Another owner's may have the ID.
	if _, err := s.opts.Store.GetOrchestrated(ctx, req.ID); !errdefs.Is(err, errdefs.NotFound) {
		return created{}, cmp.Or(err, error(errNoSession()))
	}
	x := Session{
		ID: req.ID, Owner: p.Owner, Mode: cmp.Or(req.Mode, s.opts.DefaultMode), Image: cmp.Or(req.Image, s.opts.DefaultImage),
		CPU: req.CPU, Memory: req.Memory, EphemeralStorage: req.EphemeralStorage,
		IdleTimeout: cmp.Or(req.IdleTimeout, s.opts.IdleTimeout), MaxLifetime: cmp.Or(req.MaxLifetime, s.opts.MaxLifetime),
		Metadata: req.Metadata, ArtifactBaseURL: req.ArtifactBaseURL, CreatedAt: time.Now().UTC(),
	}
	if _, err := s.plan(x, ""); err != nil {
		return created{}, err
	}
	if s.StorageUnbounded(x) {
		s.opts.Log.WarnContext(ctx, "the driver cannot bound what a session writes, which asked for it", "session", x.ID, "driver", s.driverOf(x), "ephemeral_storage", x.EphemeralStorage)
	}
	if err := s.checkSnapshot(ctx, x, req.RestoreSnapshot); err != nil {
		return created{}, err
	}
	if err := s.provision(ctx, &x, req.RestoreSnapshot); err != nil {
		return created{}, err
	}
	return created{x, true}, nil
}

// checkSnapshot refuses a snapshot that the owner does not have.
func (s *Service) checkSnapshot(ctx context.Context, x Session, id string) error {
	if id == "" {
		return nil
	}
	_, err := s.opts.Snapshots.Get(ctx, ownerOf(x), id)
	return err
}

// plan is what the core is asked for. Its own times are as long as they can be, so
// that no session ends before its files are saved.
func (s *Service) plan(x Session, restore string) (session.CreateRequest, error) {
	if s.opts.Planned(x.Mode) {
		return session.CreateRequest{}, errdefs.New(errdefs.Unimplemented, "mode %s is not there yet", x.Mode)
	}
	driver := s.driverOf(x)
	if !slices.Contains(s.opts.Drivers, driver) {
		return session.CreateRequest{}, errdefs.Invalid("mode", "%s is not available: this daemon has %s", x.Mode, strings.Join(s.opts.Drivers, " and "))
	}
	limits, err := limitsOf(x.CPU, x.Memory, x.EphemeralStorage)
	if err != nil {
		return session.CreateRequest{}, err
	}
	if s.StorageUnbounded(x) {
		limits.DiskMB = 0
	}
	_, maxima, _ := s.opts.Sessions.Limits(ownerOf(x))
	if most := maxima.TTL - s.margin(); x.IdleTimeout > most {
		return session.CreateRequest{}, errdefs.Invalid("idle_timeout_sec", "must be at most %d", int64(most/time.Second))
	}
	if most := maxima.Lifetime - s.margin(); maxima.Lifetime > 0 && x.MaxLifetime > most {
		return session.CreateRequest{}, errdefs.Invalid("max_lifetime_sec", "must be at most %d", int64(most/time.Second))
	}
	return session.CreateRequest{
		Name: CoreName(x.ID), WorkspaceID: s.keptWorkspace(x), Image: cmp.Or(s.opts.ImageAliases[x.Image], x.Image), Driver: driver, Limits: limits,
		TTL: maxima.TTL, OnIdle: session.OnIdleDestroy, OnExpiry: session.OnExpiryDestroy, FileScope: session.FileScopeSandbox, RestoreSnapshotID: restore,
		Labels: map[string]string{LabelSession: x.ID, "astraforge.sandbox.user": x.Owner},
	}, nil
}

// margin is how long before the core we end a session: it saves nothing.
func (s *Service) margin() time.Duration { return 2 * s.opts.Every }

// driverOf is the driver of x's mode.
func (s *Service) driverOf(x Session) string { return cmp.Or(s.opts.Modes[x.Mode], x.Mode) }

// StorageUnbounded reports whether x asks for a bound of what it writes that its driver
// does not hold, as a container engine without quotas. It begins without one.
func (s *Service) StorageUnbounded(x Session) bool {
	if x.EphemeralStorage == "" {
		return false
	}
	defaults, _, _ := s.opts.Sessions.Limits(ownerOf(x))
	return !s.opts.DiskLimited(s.driverOf(x), defaults.ReadonlyRoot)
}

// keptWorkspace is the workspace that x shares with others of its owner, or "". One
// driver alone has such.
func (s *Service) keptWorkspace(x Session) string {
	if s.driverOf(x) != s.opts.Keeper {
		return ""
	}
	return s.opts.Workspace
}

// LabelSession is the label of a session of the core with the ID of ours that runs in it.
const LabelSession = "astraforge.sandbox.session"

// CoreName is what the session of an ID is called in the core.
func CoreName(id string) string { return "sandbox-" + id }

// provision makes a session begin, with the files of a snapshot: this one, or the
// latest that is good. It is ready when they are all there, or else failed. A client
// that was told of one bad snapshot is not told of others. The caller has the
// session's lock.
func (s *Service) provision(ctx context.Context, x *Session, restore string) error {
	told := x.Status == Failed && x.TerminatedReason == ReasonRestore
	for {
		err := s.attempt(ctx, x, restore)
		switch {
		case err == nil || !isBadArchive(err):
			return err
		case x.Suspect == "": // the second look has decided, and the first one told the client
			restore = ""
		case !told:
			return err
		}
	}
}

// attempt is provision with one snapshot.
func (s *Service) attempt(ctx context.Context, x *Session, restore string) error {
	lost, err := s.checkUnsaved(ctx, x)
	if err != nil {
		return err
	}
	if restore, err = s.choose(ctx, *x, restore); err != nil {
		return err
	}
	if err := awaitSecondTry(ctx, *x, restore); err != nil {
		return err
	}
	req, err := s.plan(*x, restore)
	if err != nil {
		return err
	}
	if err := x.to(Starting); err != nil {
		return err
	}
	before := x.Core
	x.RestoreSnapshot, x.Error = restore, ""
	if err := s.put(ctx, x); err != nil {
		return err
	}
	made, err := s.makeCore(ctx, *x, before, req)
	if err != nil {
		err = explainRestore(err)
		return errors.Join(err, s.fail(ctx, x, restore, err))
	}
	now := time.Now().UTC()
	x.Suspect, x.SuspectAt, x.Error = "", time.Time{}, lost
	x.BadSnapshots = slices.DeleteFunc(x.BadSnapshots, func(id string) bool { return id == restore })
	s.settle(ctx, x, unsavedResumed)
	x.Core, x.LastActivity, x.LastHeartbeat, x.ExpiresAt = made.ID, now, now, now.Add(x.MaxLifetime)
	// One that goes on has its own end, at which nothing is saved.
	if end := made.CreatedAt.Add(made.MaxLifetime - s.margin()); made.MaxLifetime > 0 && end.Before(x.ExpiresAt) {
		x.ExpiresAt = end
	}
	if err := x.to(Ready); err != nil {
		return err
	}
	return s.put(ctx, x)
}

// checkUnsaved finds that files that no snapshot has are lost, of an unsaved session or
// of one in memory that broke, and returns what to tell the client then. The session
// begins with a snapshot, as if they had never been. What an earlier end lost is told
// once more, to who goes on.
func (s *Service) checkUnsaved(ctx context.Context, x *Session) (lost string, err error) {
	switch {
	case x.Unsaved():
	case x.Status == Terminated && x.Error != "" && s.keptWorkspace(*x) == "":
		return x.Error, nil
	default:
		return s.lostInMemory(ctx, *x), nil
	}
	there, err := s.hasFiles(ctx, *x)
	if err != nil || there {
		return "", err
	}
	s.noteLost(ctx, x)
	return x.Error, nil
}

// makeCore makes what x runs in. What it ran in before goes on if its files are
// still there, or is there for the next try; what else is in the way under its name, as
// after a crash, is removed.
func (s *Service) makeCore(ctx context.Context, x Session, before session.ID, req session.CreateRequest) (session.Session, error) {
	p := ownerOf(x)
	if before != "" && (x.Unsaved() || x.RestoreSnapshot == x.LatestSnapshot) {
		started, err := s.goOn(ctx, p, before)
		if err != nil || started.State == session.Running {
			return started, err
		}
		if x.Unsaved() {
			return started, errdefs.New(errdefs.Unavailable, "the sandbox with the session's files is %s; try again", started.State)
		}
	}
	made, err := s.opts.Sessions.Create(ctx, p, req)
	if !errdefs.Is(err, errdefs.AlreadyExists) && !errors.Is(err, errdefs.ErrBeingRemoved) {
		return made, err
	}
	if err := s.clear(ctx, x); err != nil { // which waits for what is being removed
		return session.Session{}, err
	}
	made, err = s.opts.Sessions.Create(ctx, p, req)
	if errdefs.Is(err, errdefs.AlreadyExists) {
		err = errdefs.Wrap(err, errdefs.Unavailable, "the session's sandbox is still in use; try again")
	}
	return made, err
}

// goOn starts a session of the core that has stopped. One that runs, is ending or has ended
// it returns as it is. As long as there are files, an error is no reason to begin without
// them.
func (s *Service) goOn(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error) {
	old, err := s.opts.Sessions.Get(ctx, p, id)
	switch {
	case errdefs.Is(err, errdefs.NotFound):
		return old, nil
	case err != nil:
		return old, err
	case old.State == session.Starting, old.State == session.Stopping && old.End == session.Stopped:
		return old, errdefs.New(errdefs.Unavailable, "the session's sandbox is being started or stopped; try again")
	case old.State == session.Paused:
		return s.opts.Sessions.Resume(ctx, p, id)
	case old.State != session.Stopped:
		return old, nil
	}
	started, err := s.opts.Sessions.Start(ctx, p, id)
	if err == nil {
		return started, nil
	}
	now, getErr := s.opts.Sessions.Get(ctx, p, id)
	if errdefs.Is(getErr, errdefs.NotFound) || getErr == nil && now.State.Ended() {
		return now, nil
	}
	return now, err
}

// clear removes what has x's name in the core, unless it is what x ran in and has the
// files of its client.
func (s *Service) clear(ctx context.Context, x Session) error {
	p := ownerOf(x)
	id, err := s.opts.Sessions.Find(p, CoreName(x.ID))
	if err != nil || string(id) == CoreName(x.ID) { // which is what nothing is called
		return err
	}
	if id == x.Core {
		if there, err := s.hasFiles(ctx, x); err != nil || there {
			return err
		}
	}
	err = s.opts.Sessions.Destroy(ctx, p, id)
	if errdefs.Is(err, errdefs.NotFound) {
		return nil
	}
	return err
}

// choose is the snapshot that x begins with: the one asked for, or its latest one,
// of those that are good. "" is an empty workspace, or a kept one as it is: what x's
// latest snapshot has is still in that, and other sessions may have written since.
func (s *Service) choose(ctx context.Context, x Session, asked string) (string, error) {
	if x.Unsaved() { // which goes on with its disk
		return x.RestoreSnapshot, nil
	}
	if s.keptWorkspace(x) != "" && (asked == "" || asked == x.LatestSnapshot) {
		return "", nil
	}
	// Clients name the latest one that they know of by themselves: it may be skipped. Who
	// names another one that was skipped may have brought its archive back.
	if asked != "" && (asked != x.LatestSnapshot || !slices.Contains(x.BadSnapshots, asked)) {
		return asked, nil
	}
	all, err := s.snapshotsOf(ctx, x)
	if err != nil {
		return "", err
	}
	for _, one := range all {
		if !slices.Contains(x.BadSnapshots, one.ID) {
			return one.ID, nil
		}
	}
	return "", nil
}

// snapshotsOf are x's snapshots, newest first. They have its ID for a name.
func (s *Service) snapshotsOf(ctx context.Context, x Session) ([]snapshots.Snapshot, error) {
	if !s.opts.Snapshots.Enabled() {
		return nil, nil
	}
	all, err := s.opts.Snapshots.List(ctx, ownerOf(x), snapshots.Filter{Name: x.ID})
	slices.Reverse(all)
	return all, err
}

// Times are those that a request means for a new session.
func (s *Service) Times(req CreateRequest) (idle, lifetime time.Duration) {
	return cmp.Or(req.IdleTimeout, s.opts.IdleTimeout), cmp.Or(req.MaxLifetime, s.opts.MaxLifetime)
}
