package docker

import (
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestEngineRestarts is SECURITY.md's F23: what the engine keeps, we keep, and
// while it is down everybody is told to try later.
func TestEngineRestarts(t *testing.T) {
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t, "--live-restore")
	o := options(t, e)
	d := open(t, o)
	x := newBox(t, d, "lives")
	x.run(t, "cd /tmp; x=kept; echo kept > file")

	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			e.Stop(t, sig)
			checkDown(t, d, x)
			e.Start(t)
			checkBack(t, d, x.ID())
			checkBack(t, open(t, o), x.ID()) // and so after a restart of ours
		})
	}

	t.Run("without live-restore", func(t *testing.T) {
		e.Flags = nil
		e.Stop(t, syscall.SIGTERM)
		e.Start(t) // it ends what still runs
		again := open(t, o)
		if _, err := again.Open(t.Context(), x.ID()); !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("Open: %v", err)
		}
		for s, err := range again.List(t.Context()) {
			if err != nil || s.ID != x.ID() || s.Alive || !s.Startable {
				t.Errorf("List: %+v, %v", s, err)
			}
		}
		sandbox, err := again.Start(t.Context(), x.ID())
		if err != nil {
			t.Fatal(err)
		}
		y := use(again, sandbox)
		defer y.client.Close()
		if got := y.run(t, "cat /tmp/file; echo $x"); got != "kept\n" {
			t.Errorf("%q", got)
		}
	})
}

func checkDown(t *testing.T, d *Driver, x *box) {
	t.Helper()
	_, openErr := d.Open(t.Context(), x.ID())
	_, createErr := d.Create(t.Context(), "other", testSpec())
	for what, err := range map[string]error{"Open": openErr, "Create": createErr, "Destroy": d.Destroy(t.Context(), "other"), "Check": d.Check(t.Context())} {
		if !errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("%s: %v, want %s", what, err, errdefs.Unavailable)
		}
	}
	// The link ends with the engine's connection, of which we hear soon.
	for end := time.Now().Add(30 * time.Second); d.linkNow(x.ID()) != nil; {
		if time.Now().After(end) {
			t.Fatal("the link does not end")
		}
	}
	if conn, err := x.DialRunner(t.Context()); !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("DialRunner: %v, %v, want %s", conn, err, errdefs.Unavailable)
	}
}

// checkBack: the same shell as before.
func checkBack(t *testing.T, d *Driver, id runtime.ID) {
	t.Helper()
	sandbox, err := d.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	x := use(d, sandbox)
	defer x.client.Close()
	if got := x.run(t, "echo $x $PWD"); got != "kept /tmp" {
		t.Errorf("%q", got)
	}
}
