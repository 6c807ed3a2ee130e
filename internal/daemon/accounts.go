package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events/sources"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/store"
)

// openAccounts opens users and their keys, which are beside those of the
// configuration. The manager may be opened later.
func (d *Daemon) openAccounts(ctx context.Context, rows *store.Store) (err error) {
	configured := map[string]bool{auth.Admin: true}
	for _, k := range d.cfg.APIKeys {
		configured[k.Owner] = true
	}
	d.looks = inspections.New(rows)
	d.accounts, err = accounts.New(ctx, accounts.Options{
		Store: rows, Log: d.log, Changed: sources.Accounts(d.events),
		Reserved:    func(name string) bool { return configured[name] },
		Opened:      d.opened,
		EmailsOpen:  d.cfg.OIDC.Issuer != "" && d.cfg.OIDC.LinkUsers,
		RemoveOwned: func(ctx context.Context, owner string) error { return d.removeAll(ctx, rows, owner) },
	})
	return err
}

// opened tells a user who has given them a key, or set what signs them in.
func (d *Daemon) opened(ctx context.Context, by, user, what string) error {
	api.LooksIn(ctx, user)
	return d.looks.Note(ctx, inspections.Kind{Owner: user, By: by, What: what})
}

// lookIn tells an owner which admin looks into a session of theirs, and has the audit log
// say whose it is.
func (d *Daemon) lookIn(ctx context.Context, p auth.Principal, owner, id string) error {
	api.LooksIn(ctx, owner)
	return d.looks.Note(ctx, inspections.Kind{Owner: owner, By: p.Owner, What: "a session", Session: id})
}

// removeAll removes what an owner has, so that the next one of that name begins with
// nothing. It may be repeated.
func (d *Daemon) removeAll(ctx context.Context, rows *store.Store, owner string) error {
	// One after the other: files that are not saved yet keep what they are in.
	if err := d.removeNamed(ctx, rows, owner); err != nil {
		return err
	}
	if err := removeOwned(ctx, d.manager, owner); err != nil {
		return err
	}
	if err := errors.Join(rows.ForgetEnded(ctx, owner), d.scopes.Forget(ctx, owner), d.usage.Forget(ctx, owner), d.looks.Forget(ctx, owner)); err != nil {
		return err
	}
	d.events.ForgetOwner(owner) // at last: all of the above is told by events
	return nil
}

// removeNamed forgets the orchestrator's sessions and artifacts of an owner, before
// what they run in: nothing begins anew meanwhile. A daemon without an orchestrator
// forgets those of an earlier one; their artifacts' content goes when it has one
// again.
func (d *Daemon) removeNamed(ctx context.Context, rows *store.Store, owner string) error {
	if d.named != nil {
		if err := d.named.RemoveOwner(ctx, owner); err != nil {
			return fmt.Errorf("forget the sessions of the orchestrator: %w", err)
		}
	}
	if err := rows.RemoveOrchestrated(ctx, owner); err != nil || d.artifacts == nil {
		return err
	}
	return d.artifacts.RemoveOwner(ctx, owner)
}

// openSignIns opens what browsers have signed in to. The accounts are there already.
func (d *Daemon) openSignIns(ctx context.Context, rows browser.Store) error {
	var err error
	d.signIns, err = browser.New(ctx, browser.Options{
		Store: rows, Accounts: d.accounts, Keys: d.accounts.Authenticator(d.configured), Idle: d.cfg.SignIn.Idle, Most: d.cfg.SignIn.Most, Log: d.log,
	})
	if err == nil {
		d.accounts.SetSignIns(d.signIns)
	}
	return err
}

// openOIDC opens the provider that signs users in, if there is one. It may be down.
func (d *Daemon) openOIDC(rows oidc.Store) error {
	o := d.cfg.OIDC
	if o.Issuer == "" {
		return nil
	}
	secret := ""
	if o.ClientSecretFile != "" {
		var err error
		if secret, err = auth.ReadKeyFile(o.ClientSecretFile); err != nil {
			return fmt.Errorf("oidc.client_secret_file: %w", err)
		}
	}
	d.oidc = oidc.New(oidc.Options{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret, Scopes: o.Scopes,
		AllowedDomains: o.AllowedDomains, AllowedGroups: o.AllowedGroups, AdminGroups: o.AdminGroups,
		GroupsClaim: o.GroupsClaim, NameClaim: o.NameClaim, CreateUsers: o.CreateUsers, LinkUsers: o.LinkUsers, Audience: cmp.Or(o.Audience, o.ClientID),
		Store: rows, Accounts: d.accounts,
	})
	return nil
}

// removeOwned ends the sessions of an owner and removes all that is kept for them.
// It goes on where something cannot be removed, until ctx is done; the error names that.
func removeOwned(ctx context.Context, m *session.Manager, owner string) error {
	p := auth.Principal{Owner: owner, ID: "daemon/delete-user", Scopes: auth.ScopeHelpers}
	all, err := m.Sessions.List(ctx, p, session.ListRequest{Helpers: true})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s session.Session) bool { return s.Owner != owner })
	failed := []error{removeEach(ctx, all, func(s session.Session) (string, error) {
		return "session " + string(s.ID), m.Sessions.Destroy(ctx, p, s.ID)
	})}
	kept, err := m.Snapshots.List(ctx, p, snapshots.Filter{})
	failed = append(failed, unlessUnimplemented(err), removeEach(ctx, kept, func(s snapshots.Snapshot) (string, error) {
		return "snapshot " + s.ID, m.Snapshots.Delete(ctx, p, s.ID)
	}))
	failed = append(failed, m.Workspaces.RemoveAll(ctx, p))
	stored, err := m.Secrets.List(ctx, p)
	failed = append(failed, unlessUnimplemented(err), removeEach(ctx, stored, func(s secrets.Secret) (string, error) {
		return "secret " + s.Name, m.Secrets.Delete(ctx, p, s.Name)
	}))
	return errors.Join(failed...)
}

// removeAtOnce bounds the things of an owner that are removed at the same time: others
// have the same driver and disks.
const removeAtOnce = 8

// removeEach removes all of a kind, and goes on where one cannot be removed, until ctx is
// done.
func removeEach[T any](ctx context.Context, all []T, remove func(T) (what string, err error)) error {
	var removing errgroup.Group
	removing.SetLimit(removeAtOnce)
	failed := make([]error, len(all))
	for i, one := range all {
		removing.Go(func() error {
			if failed[i] = ctx.Err(); failed[i] != nil {
				return nil
			}
			// What is gone meanwhile is gone as it should be.
			if what, err := remove(one); err != nil && !errdefs.Is(err, errdefs.NotFound) {
				failed[i] = fmt.Errorf("remove %s: %w", what, err)
			}
			return nil
		})
	}
	_ = removing.Wait() // its functions say in failed what went wrong
	return errors.Join(failed...)
}

// unlessUnimplemented is no error of what this daemon has not got at all.
func unlessUnimplemented(err error) error {
	if errdefs.Is(err, errdefs.Unimplemented) {
		return nil
	}
	return err
}
