// Package far is a driver whose sandboxes are on another host, as far as anything above
// it can tell: what it does takes a connection over TCP, the other end is a process
// boundary away, and a Link between them delays each byte. It shows that nothing above
// a driver counts on its sandboxes being near. What it does is runtimetest.Local's.
package far

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Image is the name of the one image at the far end.
const Image = "registry.example/far:1"

// Driver reaches a Server. It keeps nothing: another Driver with the same Addr has the
// same sandboxes.
type Driver struct {
	Addr string // of a Server, or of a Link to one

	// CancelTime is how long the far end has to end what is not wanted any more, and to
	// say what became of it: 5 seconds.
	CancelTime time.Duration
}

var (
	_ runtime.Driver          = (*Driver)(nil)
	_ runtime.QuietStarter    = (*Driver)(nil)
	_ runtime.Stopper         = (*Driver)(nil)
	_ runtime.Forker          = (*Driver)(nil)
	_ runtime.WorkspaceKeeper = (*Driver)(nil)
	_ runtime.Remote          = (*Driver)(nil)
	_ runtime.ImageResolver   = (*Driver)(nil)
	_ runtime.Pauser          = (*sandbox)(nil)
)

// call sends a request and waits for the answer. When ctx is done the far end is told,
// and the answer says what has become of the request.
func (d *Driver) call(ctx context.Context, req request) (answer, error) {
	conn, got, err := d.begin(ctx, req)
	if conn != nil {
		err = errors.Join(err, conn.Close())
	}
	return got, err
}

// begin is call with the connection, if there is one.
func (d *Driver) begin(ctx context.Context, req request) (net.Conn, answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, answer{}, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", d.Addr)
	if err != nil {
		return nil, answer{}, unavailable(err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.(*net.TCPConn).CloseWrite() // the answer may have come
		_ = conn.SetReadDeadline(time.Now().Add(cmp.Or(d.CancelTime, 5*time.Second)))
	})
	defer stop()
	var got answer
	if err = writeLine(conn, req); err == nil {
		err = readLine(conn, &got)
	}
	if err != nil {
		return conn, answer{}, errors.Join(unavailable(err), ctx.Err())
	}
	if err := got.Failure.err(); err != nil {
		return conn, got, errors.Join(err, ctx.Err())
	}
	if !stop() && req.Op == opDial { // its connection is no good any more
		return conn, got, ctx.Err()
	}
	return conn, got, nil
}

func unavailable(err error) error {
	return errdefs.Wrap(err, errdefs.Unavailable, "the far end does not answer")
}

// Remote implements runtime.Remote.
func (d *Driver) Remote() bool { return true }

// Admit implements runtime.Remote: the far end has always room.
func (d *Driver) Admit(context.Context) error { return nil }

// ResolveImage implements runtime.ImageResolver.
func (d *Driver) ResolveImage(ctx context.Context, name string) (string, error) {
	got, err := d.call(ctx, request{Op: opResolve, Image: name})
	return got.Image, err
}

// Check implements runtime.Driver.
func (d *Driver) Check(ctx context.Context) error {
	_, err := d.call(ctx, request{Op: opCheck})
	return err
}

// Create implements runtime.Driver.
func (d *Driver) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	return d.make(ctx, request{Op: opCreate, ID: id, Spec: spec})
}

// make is a call with a sandbox for an answer.
func (d *Driver) make(ctx context.Context, req request) (runtime.Sandbox, error) {
	if _, err := d.call(ctx, req); err != nil {
		return nil, err
	}
	return &sandbox{d, req.ID}, nil
}

// Open implements runtime.Driver.
func (d *Driver) Open(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return d.make(ctx, request{Op: opOpen, ID: id})
}

// List implements runtime.Driver.
func (d *Driver) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return each(func() ([]runtime.Status, error) {
		got, err := d.call(ctx, request{Op: opList})
		return got.List, err
	})
}

// each yields what list returns.
func each[T any](list func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := list()
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// Destroy implements runtime.Driver.
func (d *Driver) Destroy(ctx context.Context, id runtime.ID) error {
	_, err := d.call(ctx, request{Op: opDestroy, ID: id})
	return err
}

// Stop implements runtime.Stopper.
func (d *Driver) Stop(ctx context.Context, id runtime.ID) error {
	_, err := d.call(ctx, request{Op: opStop, ID: id})
	return err
}

// Start implements runtime.Stopper.
func (d *Driver) Start(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return d.make(ctx, request{Op: opStart, ID: id})
}

// StartQuiet implements runtime.QuietStarter.
func (d *Driver) StartQuiet(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	return d.make(ctx, request{Op: opStartQuiet, ID: id})
}

// Fork implements runtime.Forker.
func (d *Driver) Fork(ctx context.Context, from runtime.ID, branches []runtime.Branch, spec runtime.Spec) (runtime.Forks, error) {
	got, err := d.call(ctx, request{Op: opFork, ID: from, Branches: branches, Spec: spec})
	if err != nil {
		return runtime.Forks{}, err
	}
	made := runtime.Forks{Copied: got.Copied}
	for _, id := range got.Sandboxes {
		made.Sandboxes = append(made.Sandboxes, &sandbox{d, id})
	}
	return made, nil
}

// CreateWorkspace implements runtime.WorkspaceKeeper.
func (d *Driver) CreateWorkspace(ctx context.Context, id runtime.WorkspaceID, sizeMB int64) error {
	_, err := d.call(ctx, request{Op: opCreateWorkspace, Workspace: id, SizeMB: sizeMB})
	return err
}

// DestroyWorkspace implements runtime.WorkspaceKeeper.
func (d *Driver) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	_, err := d.call(ctx, request{Op: opDestroyWorkspace, Workspace: id})
	return err
}

// Workspaces implements runtime.WorkspaceKeeper.
func (d *Driver) Workspaces(ctx context.Context) iter.Seq2[runtime.WorkspaceID, error] {
	return each(func() ([]runtime.WorkspaceID, error) {
		got, err := d.call(ctx, request{Op: opWorkspaces})
		return got.Workspaces, err
	})
}

// WorkspaceBytes implements runtime.WorkspaceKeeper.
func (d *Driver) WorkspaceBytes(ctx context.Context, id runtime.WorkspaceID) (int64, error) {
	got, err := d.call(ctx, request{Op: opWorkspaceBytes, Workspace: id})
	return got.Bytes, err
}

// Sweep implements drivers.HostDriver: nothing is left of an earlier process.
func (d *Driver) Sweep(context.Context) error { return nil }

// Close implements drivers.HostDriver.
func (d *Driver) Close() error { return nil }

// sandbox is a handle.
type sandbox struct {
	driver *Driver
	id     runtime.ID
}

func (s *sandbox) ID() runtime.ID { return s.id }

// DialRunner implements runtime.Sandbox.
func (s *sandbox) DialRunner(ctx context.Context) (net.Conn, error) {
	conn, _, err := s.driver.begin(ctx, request{Op: opDial, ID: s.id})
	if err != nil && conn != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Stats implements runtime.Sandbox.
func (s *sandbox) Stats(ctx context.Context) (runtime.Stats, error) {
	got, err := s.driver.call(ctx, request{Op: opStats, ID: s.id})
	return got.Stats, err
}

// Pause implements runtime.Pauser.
func (s *sandbox) Pause(ctx context.Context) error {
	_, err := s.driver.call(ctx, request{Op: opPause, ID: s.id})
	return err
}

// Resume implements runtime.Pauser.
func (s *sandbox) Resume(ctx context.Context) error {
	_, err := s.driver.call(ctx, request{Op: opResume, ID: s.id})
	return err
}

// pausedTime is how long Paused, which has no context, waits.
const pausedTime = 10 * time.Second

// Paused implements runtime.Pauser.
func (s *sandbox) Paused() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pausedTime)
	defer cancel()
	got, err := s.driver.call(ctx, request{Op: opPaused, ID: s.id})
	return got.Paused, err
}
