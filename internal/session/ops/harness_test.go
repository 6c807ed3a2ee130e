package ops_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// everyone may use the sessions of all owners.
var everyone = auth.Anonymous()

// host has a database and sandboxes that are no more than processes.
type host struct {
	driver *runtimetest.Local
	db     string
}

func newHost(t testing.TB) host {
	t.Helper()
	return host{driver: runtimetest.NewLocal(t), db: storetest.NewDB(t)}
}

// image resolves every name to the image of the local driver.
type image struct{}

func (image) Resolve(context.Context, string) (string, error) { return runtimetest.LocalImage, nil }

// creator is a session.Creator made of a function.
type creator func(context.Context, runtime.ID, runtime.Spec) (runtime.Sandbox, error)

func (c creator) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	return c(ctx, id, spec)
}

func withCreator(c creator) func(*session.Options) {
	return func(o *session.Options) { o.Creator = c }
}

// daemon is the core, whose operations are tested through the manager.
type daemon struct {
	*session.Manager
	stop func()
}

// start runs a manager until the test ends or stop is called.
func (h host) start(t testing.TB, options ...func(*session.Options)) *daemon {
	t.Helper()
	db, err := store.Open(context.Background(), h.db)
	if err != nil {
		t.Fatal(err)
	}
	o := session.Options{
		Store:    db,
		Driver:   h.driver,
		Images:   image{},
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		Defaults: session.Defaults{Image: "base"},
	}
	for _, set := range options {
		set(&o)
	}
	d := &daemon{Manager: session.New(o)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { d.stop() })
	testenv.Eventually(t, "the manager is ready", d.Ready)
	return d
}

func (d *daemon) create(t testing.TB, req session.CreateRequest) session.Session {
	t.Helper()
	s, err := d.Sessions.Create(t.Context(), everyone, req)
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

// output runs a command in the default shell.
func (d *daemon) output(t testing.TB, id session.ID, command string) string {
	t.Helper()
	var out bytes.Buffer
	result, err := d.Execs.Run(t.Context(), everyone, string(id), ops.ExecRequest{Command: command}, &out)
	if err != nil || result.ExitCode != 0 {
		t.Fatalf("%s: %+v, %v", command, result, err)
	}
	return out.String()
}

func wantCode(t testing.TB, err error, code errdefs.Code) {
	t.Helper()
	if err == nil || errdefs.CodeOf(err) != code {
		t.Errorf("error %v has code %q, want %q", err, errdefs.CodeOf(err), code)
	}
}

// writeFIFO opens a FIFO, which waits for its reader, and writes to it.
func writeFIFO(path, text string) error { return os.WriteFile(path, []byte(text), 0) }
