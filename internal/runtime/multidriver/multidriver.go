// Package multidriver makes one driver of more: each sandbox is of one of them,
// which its ID names.
package multidriver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Driver implements runtime.Driver and its optional parts by the drivers that
// it is made of. What the driver of a sandbox cannot do is Unimplemented.
type Driver struct {
	drivers map[string]runtime.Driver
	main    string
}

var (
	_ runtime.Driver          = (*Driver)(nil)
	_ runtime.Stopper         = (*Driver)(nil)
	_ runtime.QuietStarter    = (*Driver)(nil)
	_ runtime.Claimer         = (*Driver)(nil)
	_ runtime.Forker          = (*Driver)(nil)
	_ runtime.WorkspaceKeeper = (*Driver)(nil)
)

// New returns a driver made of drivers, by their names. One has to be
// runtime.Native. Main is the one that has the workspaces.
func New(drivers map[string]runtime.Driver, main string) *Driver {
	return &Driver{drivers: drivers, main: main}
}

// of is the driver of a sandbox. One that is not here any more has none, which
// is for the native driver to say: no ID of its own looks like that.
func (d *Driver) of(id runtime.ID) runtime.Driver {
	if driver, ok := d.drivers[id.Driver()]; ok {
		return driver
	}
	return d.drivers[runtime.Native]
}

// able is a driver with an optional part of the contract.
func able[T any](name string, driver runtime.Driver, what string) (T, error) {
	t, ok := driver.(T)
	if !ok {
		return t, errdefs.New(errdefs.Unimplemented, "the driver %s cannot %s", name, what)
	}
	return t, nil
}

// Check implements runtime.Driver: each must be able to work.
func (d *Driver) Check(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(d.drivers)) {
		if err := d.drivers[name].Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Create implements runtime.Driver.
func (d *Driver) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if _, ok := d.drivers[id.Driver()]; !ok {
		return nil, errdefs.New(errdefs.Unimplemented, "there is no driver %s", id.Driver())
	}
	if spec.Workspace != "" && id.Driver() != d.main {
		return nil, errdefs.New(errdefs.Unimplemented, "workspaces are of the driver %s, not of %s", d.main, id.Driver())
	}
	return d.of(id).Create(ctx, id, spec)
}

// Open implements runtime.Driver.
func (d *Driver) Open(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return d.of(id).Open(ctx, id)
}

// List implements runtime.Driver: it yields the sandboxes of one driver after
// the other's, and an AbsentError for one that is unavailable.
func (d *Driver) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(d.drivers)) {
			for status, err := range d.drivers[name].List(ctx) {
				absent := errdefs.Is(err, errdefs.Unavailable)
				switch {
				case absent:
					err = &runtime.AbsentError{Driver: name, Err: err}
				case err != nil:
					err = fmt.Errorf("%s: %w", name, err)
				}
				if !yield(status, err) || err != nil && !absent {
					return
				}
			}
		}
	}
}

// Destroy implements runtime.Driver.
func (d *Driver) Destroy(ctx context.Context, id runtime.ID) error {
	return d.of(id).Destroy(ctx, id)
}

// Stop implements runtime.Stopper.
func (d *Driver) Stop(ctx context.Context, id runtime.ID) error {
	s, err := able[runtime.Stopper](id.Driver(), d.of(id), "stop a sandbox")
	if err != nil {
		return err
	}
	return s.Stop(ctx, id)
}

// Start implements runtime.Stopper.
func (d *Driver) Start(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	s, err := able[runtime.Stopper](id.Driver(), d.of(id), "start a sandbox")
	if err != nil {
		return nil, err
	}
	return s.Start(ctx, id)
}

// StartQuiet implements runtime.QuietStarter.
func (d *Driver) StartQuiet(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	s, err := able[runtime.QuietStarter](id.Driver(), d.of(id), "read the files of a stopped session; start it first")
	if err != nil {
		return nil, err
	}
	return s.StartQuiet(ctx, id)
}

// Claim implements runtime.Claimer, within one driver.
func (d *Driver) Claim(ctx context.Context, ready, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if ready.Driver() != id.Driver() {
		return nil, errdefs.New(errdefs.Unimplemented, "a sandbox of the driver %s cannot become one of %s", ready.Driver(), id.Driver())
	}
	c, err := able[runtime.Claimer](id.Driver(), d.of(id), "claim a sandbox")
	if err != nil {
		return nil, err
	}
	return c.Claim(ctx, ready, id, spec)
}

// Fork implements runtime.Forker, within one driver.
func (d *Driver) Fork(ctx context.Context, from runtime.ID, branches []runtime.Branch, spec runtime.Spec) (runtime.Forks, error) {
	for _, b := range branches {
		if b.ID.Driver() != from.Driver() {
			return runtime.Forks{}, errdefs.New(errdefs.Unimplemented, "a sandbox of the driver %s cannot be forked to one of %s", from.Driver(), b.ID.Driver())
		}
	}
	f, err := able[runtime.Forker](from.Driver(), d.of(from), "fork a session; create one, and copy the files as an archive")
	if err != nil {
		return runtime.Forks{}, err
	}
	return f.Fork(ctx, from, branches, spec)
}

func (d *Driver) keeper() (runtime.WorkspaceKeeper, error) {
	return able[runtime.WorkspaceKeeper](d.main, d.drivers[d.main], "keep workspaces")
}

// CreateWorkspace implements runtime.WorkspaceKeeper.
func (d *Driver) CreateWorkspace(ctx context.Context, id runtime.WorkspaceID, sizeMB int64) error {
	k, err := d.keeper()
	if err != nil {
		return err
	}
	return k.CreateWorkspace(ctx, id, sizeMB)
}

// DestroyWorkspace implements runtime.WorkspaceKeeper.
func (d *Driver) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	k, err := d.keeper()
	if err != nil {
		return err
	}
	return k.DestroyWorkspace(ctx, id)
}

// Workspaces implements runtime.WorkspaceKeeper.
func (d *Driver) Workspaces(ctx context.Context) iter.Seq2[runtime.WorkspaceID, error] {
	k, err := d.keeper()
	if err != nil {
		return func(yield func(runtime.WorkspaceID, error) bool) { yield("", err) }
	}
	return k.Workspaces(ctx)
}

// WorkspaceBytes implements runtime.WorkspaceKeeper.
func (d *Driver) WorkspaceBytes(ctx context.Context, id runtime.WorkspaceID) (int64, error) {
	k, err := d.keeper()
	if err != nil {
		return 0, err
	}
	return k.WorkspaceBytes(ctx, id)
}
