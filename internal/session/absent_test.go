package session_test

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/multidriver"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// leaving is a driver that can be away, as an engine that is down.
type leaving struct {
	*runtimetest.Local
	away atomic.Bool
}

func (l *leaving) err() error {
	if l.away.Load() {
		return errdefs.New(errdefs.Unavailable, "away for the test")
	}
	return nil
}

func (l *leaving) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	if err := l.err(); err != nil {
		return func(yield func(runtime.Status, error) bool) { yield(runtime.Status{}, err) }
	}
	return l.Local.List(ctx)
}

func (l *leaving) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Local.Create(ctx, id, spec)
}

func (l *leaving) Open(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Local.Open(ctx, id)
}

func (l *leaving) Destroy(ctx context.Context, id runtime.ID) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.Local.Destroy(ctx, id)
}

// TestAbsentDriver starts a daemon while one of its two drivers is away: the
// other's sessions notice nothing, its own keep their state, and are taken up
// when it is back.
func TestAbsentDriver(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	other := &leaving{Local: runtimetest.NewLocal(t)}
	options := func(o *session.Options) {
		o.Driver = multidriver.New(map[string]runtime.Driver{runtime.Native: h.driver, "other": other}, runtime.Native)
		o.Drivers = []string{runtime.Native, "other"}
	}
	d := h.start(t, options)
	usual := d.create(t, session.CreateRequest{})
	lives := d.create(t, session.CreateRequest{Driver: "other"})
	paused := d.create(t, session.CreateRequest{Driver: "other"})
	dies := d.create(t, session.CreateRequest{Driver: "other"})
	stopped := d.create(t, session.CreateRequest{Driver: "other"})
	d.output(t, lives.ID, "x=kept")
	if _, err := d.Sessions.Stop(t.Context(), everyone, stopped.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sessions.Pause(t.Context(), everyone, paused.ID, session.MemoryRAM); err != nil {
		t.Fatal(err)
	}
	d.stop()
	const orphan = "other_orphan"
	if _, err := other.Create(t.Context(), orphan, runtime.Spec{Image: runtimetest.LocalImage}); err != nil {
		t.Fatal(err)
	}
	other.KillRunner(t, dies.Sandbox)
	other.away.Store(true)

	d = h.start(t, options)
	d.output(t, usual.ID, "true")
	if got := d.Absent(); !slices.Equal(got, []string{"other"}) {
		t.Errorf("absent: %v", got)
	}
	_, err := d.Execs.Run(t.Context(), everyone, string(lives.ID), ops.ExecRequest{Command: "true"}, new(bytes.Buffer))
	wantCode(t, err, errdefs.Unavailable)
	_, err = d.Sessions.Create(t.Context(), everyone, session.CreateRequest{Driver: "other"})
	wantCode(t, err, errdefs.Unavailable)
	for s, state := range map[session.ID]session.State{
		usual.ID: session.Running, lives.ID: session.Running, dies.ID: session.Running,
		paused.ID: session.Paused, stopped.ID: session.Stopped,
	} {
		d.want(t, s, state)
	}

	other.away.Store(false)
	testenv.Eventually(t, "the driver is back, its orphan is gone and the dead session has ended", func() bool {
		_, err := other.Open(t.Context(), orphan)
		died, getErr := d.Sessions.Get(t.Context(), everyone, dies.ID)
		if getErr != nil {
			t.Fatal(getErr)
		}
		return errdefs.Is(err, errdefs.NotFound) && !died.State.Alive() && len(d.Absent()) == 0
	})
	if got := d.output(t, lives.ID, "echo $x"); got != "kept\n" {
		t.Errorf("the session that lived on: %q", got)
	}
	d.want(t, paused.ID, session.Paused)
	if _, err := d.Sessions.Start(t.Context(), everyone, stopped.ID); err != nil {
		t.Errorf("start of the stopped one: %v", err)
	}
}
