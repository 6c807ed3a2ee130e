package daemon

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/internal/clock"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/reaper"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
)

// openBeside opens what works beside the manager, over it and the same database.
func (d *Daemon) openBeside(ctx context.Context, rows *store.Store, stores datadir.Stores) error {
	var err error
	if d.artifacts, err = openArtifacts(ctx, d.cfg, rows, stores, d.accounts.Authenticator(d.configured), d.log); err != nil {
		return err
	}
	if err := errors.Join(d.openSignIns(ctx, rows), d.openOIDC(rows)); err != nil {
		return err
	}
	d.scopes = scope.New(scope.Options{Store: rows, Sessions: d.manager.Sessions, Ready: d.manager.Ready, Log: d.log})
	d.named = newOrchestrator(d.cfg, rows, d.manager, d.artifacts, d.drivers, d.log)
	times := &clock.Keeper{Read: clock.Host("/proc"), Rows: rows, Set: d.clockSet, Log: d.log}
	d.reaper = reaper.New(reaper.Options{Manager: d.manager, Log: d.log, Every: d.cfg.ReaperInterval, Align: times.Align})
	return times.Align(ctx) // before anybody compares times of rows
}

func workspaceOptions(cfg config.Workspace, set *drivers.Set, rows workspaces.WorkspaceStore) workspaces.WorkspaceOptions {
	if !cfg.Enabled || set.WorkspaceDriver == "" {
		return workspaces.WorkspaceOptions{}
	}
	return workspaces.WorkspaceOptions{
		Store:            rows,
		PersistByDefault: cfg.PersistByDefault,
		DefaultSizeMB:    cfg.DefaultSizeMB,
		MaxSizeMB:        cfg.MaxSizeMB,
		MaxCount:         cfg.MaxCount,
		Retention:        cfg.Retention,
	}
}
