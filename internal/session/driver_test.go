package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/multidriver"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// TestDriver takes sessions of two drivers over a restart, after which the
// other driver is the default.
func TestDriver(t *testing.T) {
	h := newHost(t)
	drivers := map[string]runtime.Driver{runtime.Native: h.driver, "other": runtimetest.NewLocal(t)}
	of := func(names ...string) func(*session.Options) {
		return func(o *session.Options) {
			o.Driver, o.Drivers = multidriver.New(drivers, names[0]), names
			o.Workspaces = workspaces.WorkspaceOptions{Store: o.Store.(workspaces.WorkspaceStore), PersistByDefault: true}
		}
	}
	d := h.start(t, of(runtime.Native, "other"))
	usual := d.create(t, session.CreateRequest{})
	asked := d.create(t, session.CreateRequest{Driver: "other"})
	if usual.Driver() != runtime.Native || asked.Driver() != "other" {
		t.Errorf("%s is of %s, %s of %s", usual.Sandbox, usual.Driver(), asked.Sandbox, asked.Driver())
	}
	if usual.WorkspaceID == "" || asked.WorkspaceID != "" {
		t.Errorf("workspaces are %q and %q", usual.WorkspaceID, asked.WorkspaceID)
	}
	d.output(t, asked.ID, "x=1")
	if fork := d.fork(t, asked.ID, session.ForkRequest{Count: 1})[0]; fork.Driver() != "other" {
		t.Errorf("the fork is of %s", fork.Driver())
	}
	for field, req := range map[string]session.CreateRequest{
		"driver":       {Driver: "magic"},
		"workspace_id": {Driver: "other", WorkspaceID: "w"},
	} {
		_, err := d.Sessions.Create(t.Context(), everyone, req)
		want := map[string]errdefs.Code{"driver": errdefs.InvalidArgument, "workspace_id": errdefs.Unimplemented}[field]
		got, ok := errors.AsType[*errdefs.Error](err)
		if !ok || got.Code != want || got.Field != field || !strings.Contains(got.Message, runtime.Native) {
			t.Errorf("%s: %v", field, err)
		}
	}
	d.stop()

	d = h.start(t, of("other", runtime.Native))
	if got := d.output(t, asked.ID, "echo $x"); got != "1\n" {
		t.Errorf("after the restart: %q", got)
	}
	d.output(t, usual.ID, "true")
	if s := d.create(t, session.CreateRequest{}); s.Driver() != "other" {
		t.Errorf("of the default driver: %s", s.Driver())
	}
}

// TestWorkspacesOfAnotherDriver: the default driver need not keep workspaces, nor have the
// images of the others.
func TestWorkspacesOfAnotherDriver(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) {
		o.Driver = multidriver.New(map[string]runtime.Driver{runtime.Native: h.driver, "other": runtimetest.NewLocal(t)}, "other")
		o.Drivers, o.WorkspaceDriver = []string{runtime.Native, "other"}, "other"
		o.Workspaces = workspaces.WorkspaceOptions{Store: o.Store.(workspaces.WorkspaceStore), PersistByDefault: true}
		o.ImagesOf = func(driver string) session.ImageResolver {
			if driver == "other" {
				return ownImages{}
			}
			return o.Images
		}
	})
	if s := d.create(t, session.CreateRequest{}); s.Driver() != runtime.Native || s.WorkspaceID != "" {
		t.Errorf("%s has workspace %q", s.Sandbox, s.WorkspaceID)
	}
	if s := d.create(t, session.CreateRequest{Image: "theirs", WorkspaceID: "w"}); s.Driver() != "other" || s.WorkspaceID != "w" {
		t.Errorf("%s has workspace %q", s.Sandbox, s.WorkspaceID)
	}
	if s := d.create(t, session.CreateRequest{Image: "theirs", Driver: "other"}); s.WorkspaceID == "" {
		t.Errorf("%s has no workspace", s.Sandbox)
	}
	_, err := d.Sessions.Create(t.Context(), everyone, session.CreateRequest{Driver: runtime.Native, WorkspaceID: "w"})
	if got, ok := errors.AsType[*errdefs.Error](err); !ok || got.Code != errdefs.Unimplemented || !strings.Contains(got.Message, "driver other") {
		t.Errorf("of the driver that has none: %v", err)
	}
	_, err = d.Sessions.Create(t.Context(), everyone, session.CreateRequest{Driver: "other"})
	wantCode(t, err, errdefs.NotFound)
}

// ownImages are those of a driver that finds them itself.
type ownImages struct{}

func (ownImages) Resolve(_ context.Context, name string) (string, error) {
	if name != "theirs" {
		return "", errdefs.New(errdefs.NotFound, "no image %q", name)
	}
	return runtimetest.LocalImage, nil
}

// TestDiskWithoutLimit: nobody is promised a limit that does not hold.
func TestDiskWithoutLimit(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) {
		o.Driver = multidriver.New(map[string]runtime.Driver{runtime.Native: h.driver, "other": runtimetest.NewLocal(t), "some": runtimetest.NewLocal(t)}, runtime.Native)
		o.Drivers = []string{runtime.Native, "other", "some"}
		o.DiskLimited = func(driver string, readonlyRoot bool) bool {
			return driver != "other" && !(driver == "some" && readonlyRoot)
		}
	})
	if s := d.create(t, session.CreateRequest{Limits: runtime.Limits{DiskMB: 50}}); s.Limits.DiskMB != 50 {
		t.Errorf("with a limit: %d", s.Limits.DiskMB)
	}
	if s := d.create(t, session.CreateRequest{Driver: "other"}); s.Limits.DiskMB != 0 || s.Limits.MemoryMB == 0 {
		t.Errorf("without one: %+v", s.Limits)
	}
	yes := true
	for what, req := range map[string]session.CreateRequest{
		"of a driver without":      {Driver: "other"},
		"under a root that cannot": {Driver: "some", ReadonlyRoot: &yes},
	} {
		req.Limits.DiskMB = 50
		_, err := d.Sessions.Create(t.Context(), everyone, req)
		if got, ok := errors.AsType[*errdefs.Error](err); !ok || got.Code != errdefs.Unimplemented || got.Field != "limits.disk_mb" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s := d.create(t, session.CreateRequest{Driver: "some", Limits: runtime.Limits{DiskMB: 50}}); s.Limits.DiskMB != 50 {
		t.Errorf("of a driver that has one for it: %d", s.Limits.DiskMB)
	}
}
