package session_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// images resolves every name but "missing" to the image of the local driver.
type images struct{}

func (images) Resolve(_ context.Context, name string) (string, error) {
	if name == "missing" {
		return "", errdefs.New(errdefs.NotFound, "no image %q", name)
	}
	return runtimetest.LocalImage, nil
}

// host is what survives a daemon: its database and its sandboxes.
type host struct {
	driver *runtimetest.Local
	db     string
}

func newHost(t testing.TB) host {
	t.Helper()
	return host{driver: runtimetest.NewLocal(t), db: storetest.NewDB(t)}
}

// daemon is one run of a manager on a host.
type daemon struct {
	*session.Manager
	t     testing.TB
	store *store.Store
	stop  func()
}

// start runs a manager until the test ends or stop is called. It returns when
// the manager is ready.
func (h host) start(t testing.TB, options ...func(*session.Options)) *daemon {
	t.Helper()
	d := h.prepare(t, options...)
	d.run()
	d.waitReady()
	return d
}

// prepare makes a manager that does not run yet.
func (h host) prepare(t testing.TB, options ...func(*session.Options)) *daemon {
	t.Helper()
	db, err := store.Open(context.Background(), h.db)
	if err != nil {
		t.Fatal(err)
	}
	o := session.Options{
		Store:    db,
		Driver:   h.driver,
		Images:   images{},
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		Defaults: session.Defaults{Image: "base"},
	}
	for _, set := range options {
		set(&o)
	}
	d := &daemon{Manager: session.New(o), t: t, store: db}
	d.stop = sync.OnceFunc(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *daemon) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			d.t.Errorf("Run: %v", err)
		}
		if err := d.store.Close(); err != nil {
			d.t.Error(err)
		}
	})
}

// A daemon that is told to stop before it has read what there is has not failed.
func TestRunStoppedAtOnce(t *testing.T) {
	d := newHost(t).prepare(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func (d *daemon) waitReady() {
	for !d.Ready() {
		time.Sleep(time.Millisecond)
	}
}

// everyone may use the sessions of all owners, and part is one of the daemon.
var (
	everyone = auth.Anonymous()
	part     = auth.System("test")
)

// as is a client with an owner's key.
func as(owner string) auth.Principal { return auth.Principal{Owner: owner, Quota: owner} }

// quota is one that all principals have.
func quota(q auth.Quota) auth.Quotas { return auth.FixedQuotas{General: q} }

func (d *daemon) create(t testing.TB, req session.CreateRequest) session.Session {
	t.Helper()
	return d.createAs(t, everyone, req)
}

func (d *daemon) createAs(t testing.TB, p auth.Principal, req session.CreateRequest) session.Session {
	t.Helper()
	s, err := d.Sessions.Create(t.Context(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *daemon) want(t testing.TB, id session.ID, state session.State) session.Session {
	t.Helper()
	s, err := d.Sessions.Get(t.Context(), everyone, id)
	if err != nil {
		t.Fatal(err)
	}
	if s.State != state {
		t.Errorf("session is %s (%s), want %s", s.State, s.EndReason, state)
	}
	return s
}

func wantCode(t testing.TB, err error, code errdefs.Code) {
	t.Helper()
	if err == nil || errdefs.CodeOf(err) != code {
		t.Errorf("error %v has code %q, want %q", err, errdefs.CodeOf(err), code)
	}
}

// writeFIFO opens a FIFO, which waits for its reader, and writes to it.
func writeFIFO(path, text string) error { return os.WriteFile(path, []byte(text), 0) }
