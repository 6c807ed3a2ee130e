package session

import (
	"cmp"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// plan turns a request into the session that it asks for, in state creating
// under a new id, with every default filled in.
func (c *core) plan(p auth.Principal, req CreateRequest) (Session, error) {
	if err := c.checkCreate(req); err != nil {
		return Session{}, err
	}
	if req.RestoreSnapshotID != "" && !ids.Is(req.RestoreSnapshotID) {
		return Session{}, errdefs.Invalid("restore_snapshot_id", "must be the id of a snapshot, or the name of one")
	}
	hash, err := requestHash(req)
	if err != nil {
		return Session{}, err
	}
	d := c.defaultsOf(p.Owner)
	now := clock()
	id, driver := ids.New(), c.driverOf(req)
	s := Session{
		ID:             ID(id),
		Name:           req.Name,
		Sandbox:        runtime.ID(id).In(driver),
		Image:          cmp.Or(req.Image, d.Image),
		State:          Creating,
		WorkspaceID:    req.WorkspaceID,
		Cwd:            check.WorkspaceDir,
		Hostname:       cmp.Or(req.Hostname, d.Hostname),
		Limits:         req.Limits.Or(d.Limits),
		Network:        c.networks.Made(driver),
		ReadonlyRoot:   d.ReadonlyRoot,
		FileScope:      req.FileScope,
		Env:            req.Env,
		Labels:         req.Labels,
		Owner:          p.Owner,
		Helper:         req.helper,
		IdempotencyKey: req.IdempotencyKey,
		RequestHash:    hash,
		CreatedAt:      now,
		LastActivity:   now,
		TTL:            d.TTL,
		MaxLifetime:    c.opts.Maxima.Lifetime,
		Retention:      d.Retention,
		OnIdle:         OnIdleDestroy,
		OnExpiry:       d.onExpiry(req.Name),
		AutoResume:     true,
		BootID:         ids.New(),
	}
	if w, ok := c.workspaces.Options(); ok && s.WorkspaceID == "" && w.PersistByDefault && driver == c.opts.WorkspaceDriver {
		s.WorkspaceID = ids.New()
	}
	if req.ReadonlyRoot != nil {
		s.ReadonlyRoot = *req.ReadonlyRoot
	}
	if c.opts.DiskLimited != nil && !c.opts.DiskLimited(driver, s.ReadonlyRoot) {
		if err := check.NoDisk(req.Limits.DiskMB, driver, s.ReadonlyRoot); err != nil {
			return Session{}, err
		}
		s.Limits.DiskMB = 0
	}
	return c.decide(s, req.Policy())
}

// driverOf is the driver of the session that a request asks for: the default one, unless
// it names another, or a workspace that is another's.
func (c *core) driverOf(req CreateRequest) string {
	usual := c.opts.Drivers[0]
	if req.WorkspaceID != "" {
		usual = c.opts.WorkspaceDriver
	}
	return cmp.Or(req.Driver, usual)
}

// requestHash tells a retry from another request. Defaults are not part of it,
// so a retry after a change of the configuration is still one.
func requestHash(req CreateRequest) (string, error) {
	req.IdempotencyKey = ""
	return check.HashRequest(req)
}

func (c *core) checkCreate(req CreateRequest) error {
	for _, err := range []error{
		check.SessionName(req.Name), check.Image(cmp.Or(req.Image, c.opts.Defaults.Image)), check.Driver(req.Driver, c.opts.Drivers), c.checkWorkspace(req), check.Limits(req.Limits, c.opts.Maxima.Limits), checkNetworkMode(req),
		check.Env(req.Env), check.Hostname(req.Hostname), check.IdempotencyKey(req.IdempotencyKey), check.Labels(req.Labels), req.FileScope.Check(),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *core) checkWorkspace(req CreateRequest) error {
	switch {
	case req.WorkspaceID == "":
		return nil
	case !workspaces.IsID(req.WorkspaceID):
		return errdefs.Invalid("workspace_id", workspaces.IDRule)
	case c.driverOf(req) != c.opts.WorkspaceDriver:
		return check.Missing("workspace_id", "workspaces are of the driver %s; leave workspace_id out, or driver", c.opts.WorkspaceDriver)
	case !c.workspaces.Enabled():
		return check.Missing("workspace_id", "workspace_id needs workspaces that outlive sessions, which this daemon does not have; leave it out for one that ends with the session")
	}
	return nil
}
