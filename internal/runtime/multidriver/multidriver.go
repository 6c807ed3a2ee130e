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
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Driver implements runtime.Driver and its optional parts by the drivers that
// it is made of. What the driver of a sandbox cannot do is Unimplemented.
type Driver struct {
	drivers map[string]runtime.Driver
	keeper  string // of the workspaces
}

var (
	_ runtime.Driver          = (*Driver)(nil)
	_ runtime.Stopper         = (*Driver)(nil)
	_ runtime.QuietStarter    = (*Driver)(nil)
	_ runtime.Claimer         = (*Driver)(nil)
	_ runtime.Forker          = (*Driver)(nil)
	_ runtime.WorkspaceKeeper = (*Driver)(nil)
)

// New returns a driver made of drivers, by their names. Keeper is the one that has the
// workspaces; "" is none.
func New(drivers map[string]runtime.Driver, keeper string) *Driver {
	return &Driver{drivers: drivers, keeper: keeper}
}

// of is the driver of a sandbox. Of one whose driver is not here any more nothing is
// known.
func (d *Driver) of(id runtime.ID) runtime.Driver {
	if driver, ok := d.drivers[id.Driver()]; ok {
		return driver
	}
	return nobody{}
}

// nobody is the driver of the sandboxes that none of the drivers has.
type nobody struct{ runtime.Driver }

func errNobody(id runtime.ID) error {
	return errdefs.New(errdefs.NotFound, "no sandbox %s: there is no driver %s", id, id.Driver())
}

// Open implements runtime.Driver.
func (nobody) Open(_ context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return nil, errNobody(id)
}

// Destroy implements runtime.Driver.
func (nobody) Destroy(context.Context, runtime.ID) error { return nil }

// Stop implements runtime.Stopper.
func (nobody) Stop(_ context.Context, id runtime.ID) error { return errNobody(id) }

// Start implements runtime.Stopper.
func (nobody) Start(_ context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return nil, errNobody(id)
}

// StartQuiet implements runtime.QuietStarter.
func (nobody) StartQuiet(_ context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return nil, errNobody(id)
}

// Fork implements runtime.Forker.
func (nobody) Fork(_ context.Context, from runtime.ID, _ []runtime.Branch, _ runtime.Spec) (runtime.Forks, error) {
	return runtime.Forks{}, errNobody(from)
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
	if spec.Workspace != "" && id.Driver() != d.keeper {
		if _, err := d.workspaces(); err != nil {
			return nil, err
		}
		return nil, errdefs.New(errdefs.Unimplemented, "workspaces are of the driver %s, not of %s", d.keeper, id.Driver())
	}
	return d.of(id).Create(ctx, id, spec)
}

// Open implements runtime.Driver.
func (d *Driver) Open(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return d.of(id).Open(ctx, id)
}

// listTime is how long a driver may take to list its sandboxes, before it counts as one
// that does not answer. The sandboxes of the others wait for it at the start.
const listTime = 10 * time.Second

// listed is what one driver has listed, to the end or until an error.
type listed struct {
	all []runtime.Status
	err error
}

// List implements runtime.Driver: it asks all drivers at once, and yields the sandboxes
// of one after the other's, and an AbsentError for one that is unavailable.
func (d *Driver) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		names := slices.Sorted(maps.Keys(d.drivers))
		answers := make([]chan listed, len(names))
		var asking sync.WaitGroup
		defer asking.Wait()
		defer cancel()
		for i, name := range names {
			answers[i] = make(chan listed, 1)
			asking.Go(func() { answers[i] <- listOf(ctx, name, d.drivers[name]) })
		}
		for _, answer := range answers {
			got := <-answer
			for _, status := range got.all {
				if !yield(status, nil) {
					return
				}
			}
			if got.err == nil {
				continue
			}
			_, absent := errors.AsType[*runtime.AbsentError](got.err)
			if !yield(runtime.Status{}, got.err) || !absent {
				return
			}
		}
	}
}

// listOf lists the sandboxes of one driver.
func listOf(ctx context.Context, name string, driver runtime.Driver) (got listed) {
	asking, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	for status, err := range driver.List(asking) {
		late := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		switch {
		case err == nil:
			got.all = append(got.all, status)
			continue
		case late || errdefs.Is(err, errdefs.Unavailable):
			got.err = &runtime.AbsentError{Driver: name, Err: err}
		default:
			got.err = fmt.Errorf("%s: %w", name, err)
		}
		return got
	}
	return got
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

// workspaces is the keeper of the workspaces.
func (d *Driver) workspaces() (runtime.WorkspaceKeeper, error) {
	if d.keeper == "" {
		return nil, errdefs.New(errdefs.Unimplemented, "no driver of this daemon keeps workspaces")
	}
	return able[runtime.WorkspaceKeeper](d.keeper, d.drivers[d.keeper], "keep workspaces")
}

// CreateWorkspace implements runtime.WorkspaceKeeper.
func (d *Driver) CreateWorkspace(ctx context.Context, id runtime.WorkspaceID, sizeMB int64) error {
	k, err := d.workspaces()
	if err != nil {
		return err
	}
	return k.CreateWorkspace(ctx, id, sizeMB)
}

// DestroyWorkspace implements runtime.WorkspaceKeeper.
func (d *Driver) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	k, err := d.workspaces()
	if err != nil {
		return err
	}
	return k.DestroyWorkspace(ctx, id)
}

// Workspaces implements runtime.WorkspaceKeeper.
func (d *Driver) Workspaces(ctx context.Context) iter.Seq2[runtime.WorkspaceID, error] {
	k, err := d.workspaces()
	if err != nil {
		return func(yield func(runtime.WorkspaceID, error) bool) { yield("", err) }
	}
	return k.Workspaces(ctx)
}

// WorkspaceBytes implements runtime.WorkspaceKeeper.
func (d *Driver) WorkspaceBytes(ctx context.Context, id runtime.WorkspaceID) (int64, error) {
	k, err := d.workspaces()
	if err != nil {
		return 0, err
	}
	return k.WorkspaceBytes(ctx, id)
}
