package session_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// ofNothing are the operations that name nothing of anybody's, with what a
// foreigner gets from each.
var ofNothing = map[string]errdefs.Code{
	"Sessions.Create": "", "Sessions.List": "", "Sessions.Find": "", "Sessions.NoneCalled": errdefs.NotFound, "Sessions.Limits": "", "Sessions.LastStats": "",
	"Workspaces.Create": "", "Workspaces.List": "", "Workspaces.RemoveAll": "", "Workspaces.Enabled": "", "Workspaces.Options": "",
	"Snapshots.Upload": errdefs.Unprocessable, "Snapshots.List": "", "Snapshots.Usage": "", "Snapshots.Enabled": "", "Snapshots.MaxArchive": "",
	"Secrets.Set": errdefs.InvalidArgument, "Secrets.List": "",
	"Upkeep.Survey": errdefs.PermissionDenied, "Upkeep.Prune": errdefs.PermissionDenied,
	"Networks.Default": "", "Networks.TotalsByOwner": errdefs.PermissionDenied,
	"Upkeep.PruneWorkspaces": errdefs.PermissionDenied, "Upkeep.PruneSnapshots": errdefs.PermissionDenied,
}

// TestForeignPrincipals calls every public operation of the core on what is
// alice's, in bob's name, and on what never was. Both are NotFound in the same words.
func TestForeignPrincipals(t *testing.T) {
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) {
		o.Workspaces = workspaces.WorkspaceOptions{Store: o.Store.(workspaces.WorkspaceStore)}
		o.Secrets = secrets.Options{Store: o.Store.(secrets.Store), Key: must(seal.NewKey(make([]byte, seal.KeySize)))}
	})
	credential := network.Secret{Name: "theirs", Hosts: []string{"a.example"}, Header: "A", Value: "a-value-of-worth"}
	must(d.Secrets.Set(t.Context(), as("alice"), secrets.Request{Secret: credential}))
	theirs := d.createAs(t, as("alice"), session.CreateRequest{Name: "theirs", WorkspaceID: "w"})
	saved := d.save(t, as("alice"), string(theirs.ID), snapshots.Request{})
	rows, err := d.Sessions.List(t.Context(), as("alice"), session.ListRequest{IncludeEnded: true})
	if err != nil {
		t.Fatal(err)
	}
	never := strings.Repeat("a", 26)
	called := 0
	for name, service := range d.services() {
		ids := [2]string{string(theirs.ID), never}
		switch name {
		case "Workspaces":
			ids = [2]string{"w", "never"}
		case "Secrets":
			ids = [2]string{"theirs", "never"}
		case "Snapshots":
			ids = [2]string{saved.ID, never}
		}
		for i := range service.NumMethod() {
			method := name + "." + service.Type().Method(i).Name
			called++
			if method == "Snapshots.Create" {
				ids[0] = string(theirs.ID)
			}
			got, takesPrincipal := callAs(t, service.Method(i), as("bob"), ids[0])
			want, exempt := ofNothing[method]
			switch {
			case exempt:
				if want != "" {
					wantCode(t, got, want)
				} else if got != nil {
					t.Errorf("%s: %v", method, got)
				}
			case !takesPrincipal:
				t.Errorf("%s takes no principal", method)
			default:
				none, _ := callAs(t, service.Method(i), as("bob"), ids[1])
				if !errdefs.Is(got, errdefs.NotFound) || got.Error() != none.Error() {
					t.Errorf("%s of alice's: %v; of what never was: %v", method, got, none)
				}
			}
			if name == "Snapshots" {
				ids[0] = saved.ID
			}
		}
	}
	if called < 50 {
		t.Errorf("only %d operations were found", called)
	}
	after, err := d.Sessions.List(t.Context(), as("alice"), session.ListRequest{IncludeEnded: true})
	if err != nil || len(after) != len(rows) || after[0].State != session.Running {
		t.Errorf("alice has %+v, %v", after, err)
	}
	if found, err := d.Sessions.Find(as("bob"), "theirs"); err != nil || found != "theirs" {
		t.Errorf("bob finds alice's %s, %v", found, err)
	}
	for owner, known := range map[string]bool{"alice": true, "bob": false} {
		if used := d.Sessions.LastStats(t.Context(), as(owner), []session.ID{theirs.ID}); len(used) != 1 || used[0].At.IsZero() == known {
			t.Errorf("%s sees that alice's uses %+v", owner, used)
		}
	}
	if all, err := d.Snapshots.List(t.Context(), as("bob"), snapshots.Filter{}); err != nil || len(all) != 0 {
		t.Errorf("bob has the snapshots %+v, %v", all, err)
	}
	if all, err := d.Secrets.List(t.Context(), as("bob")); err != nil || len(all) != 0 {
		t.Errorf("bob has the secrets %+v, %v", all, err)
	}
	for _, s := range must(d.Sessions.List(t.Context(), as("bob"), session.ListRequest{IncludeEnded: true, Helpers: true})) {
		if s.Owner != "bob" {
			t.Errorf("bob sees the session %s of %s", s.ID, s.Owner)
		}
	}
}

// services are those of a manager, by name. A field that is none fails the test.
func (d *daemon) services() map[string]reflect.Value {
	all := map[string]reflect.Value{}
	manager := reflect.ValueOf(*d.Manager)
	for _, field := range reflect.VisibleFields(manager.Type()) {
		if field.IsExported() {
			all[field.Name] = manager.FieldByIndex(field.Index)
		}
	}
	return all
}

// callAs calls a method in the name of p, with id wherever it takes one and with
// nothing for the rest. It reports the error and whether there is a principal.
func callAs(t *testing.T, method reflect.Value, p auth.Principal, id string) (err error, takesPrincipal bool) {
	t.Helper()
	var args []reflect.Value
	named := false // later strings name other things
	for i := range method.Type().NumIn() {
		in := method.Type().In(i)
		arg := reflect.New(in).Elem()
		switch {
		case in == reflect.TypeFor[context.Context]():
			arg.Set(reflect.ValueOf(t.Context()))
		case in == reflect.TypeFor[auth.Principal]():
			arg.Set(reflect.ValueOf(p))
			takesPrincipal = true
		case in.Kind() == reflect.String && !named:
			arg.SetString(id)
			named = true
		case in.Kind() == reflect.Interface && reflect.TypeFor[*strings.Reader]().Implements(in):
			arg.Set(reflect.ValueOf(strings.NewReader("")))
		}
		args = append(args, arg)
	}
	results := method.Call(args)
	last := results[len(results)-1]
	if !slices.Contains([]reflect.Type{reflect.TypeFor[error]()}, last.Type()) || last.IsNil() {
		return nil, takesPrincipal
	}
	return last.Interface().(error), takesPrincipal
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return v
}

// Quotas are asked at every use: what a principal may have changes while the
// daemon runs.
func TestQuotasChange(t *testing.T) {
	quotas := &changingQuotas{}
	h := newHost(t)
	d := h.start(t, h.withSnapshots(t), func(o *session.Options) { o.Quotas = quotas })
	quotas.quota.Sessions = 1
	first := d.createAs(t, as("alice"), session.CreateRequest{})
	_, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{})
	wantCode(t, err, errdefs.ResourceExhausted)
	quotas.quota.Sessions = 2
	d.createAs(t, as("alice"), session.CreateRequest{})

	d.output(t, first.ID, "head -c 20000 /dev/urandom > f")
	quotas.quota.SnapshotBytes = 1000
	_, err = d.Snapshots.Create(t.Context(), as("alice"), string(first.ID), snapshots.Request{})
	wantCode(t, err, errdefs.InsufficientSpace)
	quotas.quota.SnapshotBytes = 1 << 20
	d.save(t, as("alice"), string(first.ID), snapshots.Request{})
}

// changingQuotas has one quota for all.
type changingQuotas struct{ quota auth.Quota }

func (c *changingQuotas) QuotaOf(auth.Principal) auth.Quota { return c.quota }

// Of creates at once no more succeed than the quota has room for, and of starts.
func TestQuotasHoldForRequestsAtOnce(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]auth.Quota{
		"sessions": {Sessions: 5}, "running": {Running: 5}, "cpu": {CPU: 5}, "memory": {MemoryMB: 5 * 100}, "disk": {DiskMB: 5 * 100},
	} {
		t.Run(name, func(t *testing.T) {
			quotas := &changingQuotas{quota}
			d := newHost(t).start(t, func(o *session.Options) {
				o.Quotas = quotas
				o.Defaults.Limits = runtime.Limits{CPU: 1, MemoryMB: 100, DiskMB: 100}
			})
			made := atOnce(50, func() error {
				_, err := d.Sessions.Create(t.Context(), as("alice"), session.CreateRequest{})
				return err
			})
			if made != 5 {
				t.Errorf("%d of 50 were made", made)
			}
			d.createAs(t, as("alice2"), session.CreateRequest{}) // another owner
			if quota.Sessions > 0 || quota.DiskMB > 0 {
				return
			}
			all := must(d.Sessions.List(t.Context(), as("alice"), session.ListRequest{}))
			for _, s := range all {
				must(d.Sessions.Stop(t.Context(), as("alice"), s.ID))
			}
			d.createAs(t, as("alice"), session.CreateRequest{}) // what is stopped has files only
			var next atomic.Int32
			started := atOnce(len(all), func() error {
				_, err := d.Sessions.Start(t.Context(), as("alice"), all[next.Add(1)-1].ID)
				return err
			})
			if started != 4 {
				t.Errorf("%d of %d started beside one", started, len(all))
			}
		})
	}
}

// atOnce calls do n times at once and says how often it did not fail.
func atOnce(n int, do func() error) int {
	var fine atomic.Int32
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if do() == nil {
				fine.Add(1)
			}
		})
	}
	all.Wait()
	return int(fine.Load())
}
