package session

import (
	"cmp"
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/session/networks"
	"github.com/sandkasten/sandkasten/internal/session/quota"
	"github.com/sandkasten/sandkasten/internal/tracing"
)

// MaxForks is how many forks one request may ask for.
const MaxForks = 100

// ForkRequest is what forks may have otherwise than their source. Zero values
// take what that has.
type ForkRequest struct {
	Count    int            // from 1 to MaxForks
	Limits   runtime.Limits // but for DiskMB, which is the source's
	Env      map[string]string
	Hostname string // else the source's, with the beginning of the fork's id
	Labels   map[string]string
	Policy

	IdempotencyKey string
}

// Forked is what Fork has made.
type Forked struct {
	Sessions []Session // as many as were asked for
	Copied   bool      // the host had to copy the files; see runtime.Forks
}

// Fork makes sessions that begin with the files of another: what it has
// written to its root and to its own workspace, as it was at one moment. A
// workspace that outlives sessions they share with it. The source may run, be
// paused or be stopped, and stays so. It makes all or none, and is as Create
// for the rest, idempotency keys included.
func (c *Sessions) Fork(ctx context.Context, p auth.Principal, id ID, req ForkRequest) (_ Forked, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "fork")
	defer func() { span.End(err) }()
	source, err := c.living(ctx, p, id)
	if err != nil {
		return Forked{}, err
	}
	if c.forks == nil {
		return Forked{}, errdefs.New(errdefs.Unimplemented, "this daemon's driver cannot fork a session; create one, and copy the files as an archive")
	}
	if err := c.checkFork(req); err != nil {
		return Forked{}, err
	}
	making := ctx
	if req.IdempotencyKey != "" {
		making = context.WithoutCancel(ctx)
	}
	making, cancel := context.WithTimeout(making, c.opts.CreateTimeout)
	defer cancel()
	if err := source.Acquire(making); err != nil {
		return Forked{}, err
	}
	defer source.Release()
	f := &forking{core: c.core, source: source, room: c.roomFor(p)}
	planned, err := f.plan(req)
	if err != nil {
		return Forked{}, err
	}
	if earlier, err := f.earlier(making, planned); err != nil || len(earlier) > 0 {
		return Forked{Sessions: earlier}, err
	}
	if err := f.claim(making, planned); err != nil {
		return Forked{}, err
	}
	err = f.run(making)
	for _, e := range f.made {
		e.finishCreate(err)
		e.Release()
	}
	if err != nil {
		return Forked{}, err
	}
	return f.result(), nil
}

func (c *core) checkFork(req ForkRequest) error {
	if req.Count < 1 || req.Count > MaxForks {
		return errdefs.Invalid("count", "must be from 1 to %d", MaxForks)
	}
	if req.Limits.DiskMB != 0 {
		return errdefs.Invalid("disk_mb", "must be left out: a fork's disk is as large as the session's that it is of")
	}
	for _, err := range []error{
		check.Limits(req.Limits, c.opts.Maxima.Limits), check.Env(req.Env), check.Hostname(req.Hostname),
		check.IdempotencyKey(req.IdempotencyKey), check.Labels(req.Labels),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// forking is one Fork under way. It holds the source's lock, and those of what
// it makes.
type forking struct {
	core   *core
	room   room
	source *entry
	made   []*entry
	env    map[string]string // nil is the source's, which the driver knows
	copied bool
}

// plan turns a request into the sessions that it asks for.
func (f *forking) plan(req ForkRequest) ([]Session, error) {
	from := f.source.snapshot()
	if !from.State.settled() {
		return nil, notRunning(from)
	}
	hash, err := forkHash(from.ID, req)
	if err != nil {
		return nil, err
	}
	f.env = req.Env
	s := from
	s.ForkedFrom, s.RequestHash, s.Helper = from.ID, hash, false
	s.Name = "" // a name is of one session
	s.State, s.End, s.EndReason, s.Cwd = Creating, "", "", check.WorkspaceDir
	s.Limits = req.Limits.Or(from.Limits)
	if req.Env != nil {
		s.Env = req.Env
	}
	if req.Labels != nil {
		s.Labels = req.Labels
	}
	now := clock()
	s.CreatedAt, s.LastActivity = now, now
	if s, err = f.core.decide(s, req.Policy); err != nil {
		return nil, err
	}
	all := make([]Session, req.Count)
	for i := range all {
		id := ids.New()
		all[i] = s
		all[i].ID, all[i].Sandbox, all[i].BootID = ID(id), runtime.ID(id).In(from.Driver()), ids.New()
		all[i].Hostname = req.Hostname
		if req.Hostname == "" {
			all[i].Hostname = check.ForkHostname(from.Hostname, id)
		}
		all[i].IdempotencyKey = check.ForkKey(req.IdempotencyKey, i)
	}
	return all, nil
}

// forkHash is requestHash for forks.
func forkHash(from ID, req ForkRequest) (string, error) {
	req.IdempotencyKey = ""
	return check.HashRequest(struct {
		From ID
		ForkRequest
	}{from, req})
}

// earlier finds the sessions that an earlier request with the idempotency key
// has made, ended or not. None is on its way: its Fork would have our lock.
func (f *forking) earlier(ctx context.Context, planned []Session) ([]Session, error) {
	if planned[0].IdempotencyKey == "" {
		return nil, nil
	}
	var found []Session
	for _, s := range planned {
		row, err := f.core.store.FindKey(ctx, s.Owner, s.IdempotencyKey)
		if errdefs.Is(err, errdefs.NotFound) && len(found) == 0 {
			return nil, nil
		}
		if err == nil {
			_, err = sameRequest(row, s)
		}
		if err != nil {
			return nil, err
		}
		if e := f.core.entry(row.ID); e != nil {
			row = e.snapshot()
		}
		found = append(found, row)
	}
	return found, nil
}

// claim enters the forks into the live sessions, all or none. Where they are over the limit,
// spare sessions of their owner end, if that makes room for all of them.
func (f *forking) claim(ctx context.Context, planned []Session) error {
	f.core.makeRoom(ctx, planned[0].Owner, anywhere, func(live int, sum quota.Sum) bool {
		for i, s := range planned {
			if f.room.check(live+i, sum, s) != nil {
				return false
			}
			sum.Add(quota.Held{Limits: s.Limits})
		}
		return true
	}, errdefs.New(errdefs.ResourceExhausted, "%d forks of session %s", len(planned), f.source.id))
	for i, s := range planned {
		e, first, err := f.core.enter(f.core.newEntry(s), f.room)
		if err == nil && !first {
			if i == 0 { // of a create that has no row yet
				_, err = follow(ctx, e, s)
			}
			err = cmp.Or(err, errHalfRemoved())
		}
		if err != nil {
			f.forget(err)
			return err
		}
		f.made = append(f.made, e)
	}
	return nil
}

func errHalfRemoved() error {
	return errdefs.New(errdefs.Unavailable, "what an earlier request with this Idempotency-Key has left is not removed yet; try again")
}

// forget takes back claims of what has no row.
func (f *forking) forget(err error) {
	for _, e := range f.made {
		f.core.forget(e)
		e.finishCreate(err)
		e.Release()
	}
	f.made = nil
}

// run makes the claimed forks: their rows, their sandboxes, their rows again.
// When it fails nothing is left but rows that say so.
func (f *forking) run(ctx context.Context) error {
	for i, e := range f.made {
		network, err := f.record(ctx, e)
		if err != nil {
			return f.undo(ctx, f.made[:i], f.made[i:], err)
		}
		if err := f.core.keepNetwork(ctx, e, network); err != nil {
			return f.undo(ctx, f.made[:i+1], f.made[i+1:], err)
		}
	}
	err := failpoint.Hit("fork.rows")
	if err == nil {
		err = f.fork(ctx)
	}
	if err == nil {
		err = failpoint.Hit("fork.sandboxes")
	}
	for _, e := range f.made {
		if err == nil {
			err = f.core.commit(ctx, e, Running, "")
		}
	}
	if err != nil {
		return f.undo(ctx, f.made, nil, err)
	}
	f.source.use()
	return failpoint.Hit("fork.running")
}

// record writes the first row of a fork, which may reach what its source may.
func (f *forking) record(ctx context.Context, e *entry) (networks.Planned, error) {
	s := e.snapshot()
	if err := f.core.opts.Admit(ctx, s.admission()); err != nil {
		return networks.Planned{}, f.core.unclaim(e, err)
	}
	network, err := f.core.networks.Copy(ctx, f.source.subject())
	if err != nil {
		return networks.Planned{}, f.core.unclaim(e, err)
	}
	s.NetworkPolicy = network.Policy
	first, err := f.core.record(ctx, e, s)
	if err == nil && !first {
		err = errHalfRemoved()
	}
	return network, err
}

// fork has the driver make the sandboxes.
func (f *forking) fork(ctx context.Context) error {
	s := f.made[0].snapshot()
	volume, _, err := f.core.workspaces.Attachable(ctx, userOf(s))
	if err != nil {
		return err
	}
	spec := f.core.spec(s, volume)
	spec.Env = f.env
	if f.env != nil {
		spec.Env = f.core.networks.Environment(f.env, s.NetworkPolicy)
	}
	branches := make([]runtime.Branch, len(f.made))
	for i, e := range f.made {
		fork := e.snapshot()
		branches[i] = runtime.Branch{ID: fork.Sandbox, Hostname: fork.Hostname}
	}
	forking, span := tracing.Start(ctx, tracing.Driver, "fork")
	made, err := f.core.forks.Fork(forking, f.source.snapshot().Sandbox, branches, spec)
	span.End(err)
	if err != nil {
		return err
	}
	f.copied = made.Copied
	for i, sandbox := range made.Sandboxes {
		err = errors.Join(err, f.core.open(ctx, f.made[i], sandbox))
	}
	if err != nil {
		return err
	}
	return f.core.checkIdleOf(f.made[0], s.OnIdle)
}

// undo ends what has a row, takes back the claims of what has none, and returns
// the error for the client.
func (f *forking) undo(ctx context.Context, recorded, claimed []*entry, cause error) error {
	answer := cause
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		answer = errdefs.Wrap(cause, errdefs.Unavailable, "the forks were not ready within %s; try again, or fork fewer at once", f.core.opts.CreateTimeout)
	}
	for _, e := range claimed {
		f.core.forget(e)
	}
	for _, e := range recorded {
		if err := f.core.end(ctx, e, as(Failed, "its sandbox could not be made: "+errdefs.MessageOf(cause))); err != nil {
			answer = errors.Join(answer, err)
		}
	}
	return answer
}

func (f *forking) result() Forked {
	all := make([]Session, len(f.made))
	for i, e := range f.made {
		all[i] = e.snapshot()
	}
	return Forked{Sessions: all, Copied: f.copied}
}
