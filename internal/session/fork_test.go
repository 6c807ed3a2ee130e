package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
)

func (d *daemon) fork(t testing.TB, id session.ID, req session.ForkRequest) []session.Session {
	t.Helper()
	made, err := d.Sessions.Fork(t.Context(), everyone, id, req)
	if err != nil {
		t.Fatal(err)
	}
	if len(made.Sessions) != req.Count {
		t.Fatalf("%d forks, want %d", len(made.Sessions), req.Count)
	}
	return made.Sessions
}

func TestFork(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.createAs(t, as("alice"), session.CreateRequest{
		Hostname: "box", Labels: map[string]string{"task": "1"}, Env: map[string]string{"A": "1"},
		Limits: runtime.Limits{MemoryMB: 300, DiskMB: 99}, TTL: 20 * time.Minute, IdempotencyKey: "create",
	})
	d.output(t, s.ID, "echo kept > file; x=1")
	seen := map[string]bool{s.BootID: true, s.Hostname: true}
	all := d.fork(t, s.ID, session.ForkRequest{Count: 3})
	for _, f := range all {
		if f.ForkedFrom != s.ID || f.State != session.Running || f.Owner != "alice" || f.TTL != s.TTL || f.Limits != s.Limits ||
			f.Labels["task"] != "1" || f.IdempotencyKey != "" || !strings.HasPrefix(f.Hostname, "box-") {
			t.Errorf("a fork is %+v", f)
		}
		if seen[f.BootID] || seen[f.Hostname] {
			t.Errorf("boot id %s or hostname %s are another's", f.BootID, f.Hostname)
		}
		seen[f.BootID], seen[f.Hostname] = true, true
		if got := d.output(t, f.ID, `cat file; echo "$A$x"`); got != "kept\n1\n" {
			t.Errorf("in a fork: %q", got)
		}
		if row, err := d.store.Get(t.Context(), f.ID); err != nil || row.ForkedFrom != s.ID {
			t.Errorf("row %+v, %v", row, err)
		}
	}
	other := d.fork(t, s.ID, session.ForkRequest{
		Count: 1, Env: map[string]string{"B": "2"}, Hostname: "other", Labels: map[string]string{},
		Limits: runtime.Limits{MemoryMB: 200}, Policy: session.Policy{TTL: time.Minute},
	})[0]
	if other.Hostname != "other" || len(other.Labels) != 0 || other.Limits.MemoryMB != 200 || other.Limits.DiskMB != 99 || other.TTL != time.Minute {
		t.Errorf("a fork with its own is %+v", other)
	}
	if got := d.output(t, other.ID, `echo "$A,$B"`); got != ",2\n" {
		t.Errorf("its environment: %q", got)
	}
	d.destroy(t, s.ID)
	if got := d.output(t, all[0].ID, "cat file"); got != "kept\n" {
		t.Errorf("after the end of the source: %q", got)
	}
}

// The source is forked as it is, also by a daemon that does not know its
// environment, and stays so.
func TestForkOfWhatDoesNotRun(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.create(t, session.CreateRequest{Env: map[string]string{"A": "1"}})
	d.output(t, s.ID, "echo kept > file")
	d.pause(t, s.ID)
	paused := d.fork(t, s.ID, session.ForkRequest{Count: 1})[0]
	d.want(t, s.ID, session.Paused)
	if _, err := d.Sessions.Stop(t.Context(), everyone, s.ID); err != nil {
		t.Fatal(err)
	}
	d.stop()
	d = h.start(t)
	stopped := d.fork(t, s.ID, session.ForkRequest{Count: 1})[0]
	d.want(t, s.ID, session.Stopped)
	for _, f := range []session.Session{paused, stopped} {
		if got := d.output(t, f.ID, `cat file; echo "$A"`); got != "kept\n1\n" {
			t.Errorf("got %q", got)
		}
	}
	d.destroy(t, s.ID)
	_, err := d.Sessions.Fork(t.Context(), everyone, s.ID, session.ForkRequest{Count: 1})
	wantCode(t, err, errdefs.Conflict)
	_, err = d.Sessions.Fork(t.Context(), everyone, "nosuchsession", session.ForkRequest{Count: 1})
	wantCode(t, err, errdefs.NotFound)
}

func TestForkSharesAWorkspace(t *testing.T) {
	d := newHost(t).start(t, withWorkspaces)
	s := d.createAs(t, as("alice"), session.CreateRequest{WorkspaceID: "w"})
	f := d.fork(t, s.ID, session.ForkRequest{Count: 2})
	d.output(t, s.ID, "echo later > file")
	if got := d.output(t, f[1].ID, "cat file"); got != "later\n" {
		t.Errorf("got %q", got)
	}
	if w := d.workspace(t, "alice", "w"); w.Active != 3 {
		t.Errorf("%d sessions have it", w.Active)
	}
}

// A repeated request gives the same forks, whoever asks at the same time, also
// after they have ended and the daemon was restarted.
func TestForkIsIdempotent(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	s := d.createAs(t, as("alice"), session.CreateRequest{IdempotencyKey: "taken"})
	req := session.ForkRequest{Count: 3, IdempotencyKey: "k"}
	answers := make([]string, 4)
	ids := func(d *daemon) string {
		var text []string
		for _, f := range d.fork(t, s.ID, req) {
			text = append(text, string(f.ID))
		}
		return strings.Join(text, " ")
	}
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = ids(d) })
	}
	all.Wait()
	for _, answer := range answers {
		if answer != answers[0] {
			t.Errorf("%s and %s", answer, answers[0])
		}
	}
	for _, id := range strings.Fields(answers[0])[:2] {
		d.destroy(t, session.ID(id))
	}
	d.stop()
	d = h.start(t)
	if again := ids(d); again != answers[0] {
		t.Errorf("after a restart %s, before %s", again, answers[0])
	}
	for key, count := range map[string]int{"k": 2, "taken": 1} {
		_, err := d.Sessions.Fork(t.Context(), everyone, s.ID, session.ForkRequest{Count: count, IdempotencyKey: key})
		wantCode(t, err, errdefs.Unprocessable)
	}
	if n := len(d.list(t)); n != 2 { // the source and the fork that is left
		t.Errorf("%d sessions", n)
	}
}

func (d *daemon) list(t *testing.T) []session.Session {
	t.Helper()
	all, err := d.Sessions.List(t.Context(), everyone, session.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Over a maximum, or without the driver's help, there are none at all.
func TestForkFails(t *testing.T) {
	h := newHost(t)
	d := h.start(t, func(o *session.Options) { o.Maxima.Sessions = 3 })
	s := d.create(t, session.CreateRequest{})
	_, err := d.Sessions.Fork(t.Context(), everyone, s.ID, session.ForkRequest{Count: 3})
	wantCode(t, err, errdefs.ResourceExhausted)
	for field, req := range map[string]session.ForkRequest{
		"count":     {},
		"count ":    {Count: 101},
		"disk_mb":   {Count: 1, Limits: runtime.Limits{DiskMB: 5}},
		"memory_mb": {Count: 1, Limits: runtime.Limits{MemoryMB: -1}},
		"hostname":  {Count: 1, Hostname: "-"},
	} {
		_, err := d.Sessions.Fork(t.Context(), everyone, s.ID, req)
		wantCode(t, err, errdefs.InvalidArgument)
		if !strings.Contains(fmt.Sprint(err), strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
	h.driver.WantSandboxes(t, s.Sandbox)
	d.stop()

	broken := errdefs.New(errdefs.InsufficientSpace, "full")
	d = h.start(t, func(o *session.Options) { o.Driver = faultyForker{h.driver, broken} })
	_, err = d.Sessions.Fork(t.Context(), everyone, s.ID, session.ForkRequest{Count: 2, IdempotencyKey: "k"})
	wantCode(t, err, errdefs.InsufficientSpace)
	if n := len(d.list(t)); n != 1 {
		t.Errorf("%d sessions", n)
	}
	d.stop()

	d = h.start(t)
	d.fork(t, s.ID, session.ForkRequest{Count: 2, IdempotencyKey: "k"}) // the key is free again
	d.stop()
	d = h.start(t, func(o *session.Options) { o.Driver = plainDriver{h.driver} })
	_, err = d.Sessions.Fork(t.Context(), everyone, s.ID, session.ForkRequest{Count: 1})
	wantCode(t, err, errdefs.Unimplemented)
}

// faultyForker fails to fork.
type faultyForker struct {
	*runtimetest.Local
	err error
}

func (f faultyForker) Fork(context.Context, runtime.ID, []runtime.Branch, runtime.Spec) (runtime.Forks, error) {
	return runtime.Forks{}, f.err
}

// plainDriver has nothing that a driver does not need.
type plainDriver struct{ runtime.Driver }

func TestForkHostname(t *testing.T) {
	d := newHost(t).start(t)
	long := strings.Repeat("a", 55) + "-" + strings.Repeat("b", 7)
	s := d.create(t, session.CreateRequest{Hostname: long})
	f := d.fork(t, s.ID, session.ForkRequest{Count: 1})[0]
	if want := strings.Repeat("a", 55) + "-" + string(f.ID)[:6]; f.Hostname != want {
		t.Errorf("%q, want %q", f.Hostname, want)
	}
}

// TestCrashOfFork kills the daemon at every step of a fork: the forks are all
// there or none, and the source goes on.
func TestCrashOfFork(t *testing.T) {
	t.Parallel()
	binary := crashBinary(t)
	for point, there := range map[string]bool{"fork.rows": false, "fork.sandboxes": false, "fork.running": true} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.crash(t, binary, "fork", point)
			d := h.start(t)
			all := d.list(t)
			if want := map[bool]int{true: 3, false: 1}[there]; len(all) != want {
				t.Fatalf("%d sessions, want %d", len(all), want)
			}
			var left []runtime.ID
			for _, s := range all {
				d.output(t, s.ID, "true")
				left = append(left, s.Sandbox)
			}
			h.driver.WantSandboxes(t, left...)
			again := d.fork(t, all[0].ID, crashFork)
			if known := slices.Contains(left, again[0].Sandbox); known != there {
				t.Errorf("the same request gives %s; there was %v", again[0].ID, left)
			}
		})
	}
}
