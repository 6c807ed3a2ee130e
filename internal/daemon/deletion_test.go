package daemon

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// many is what a user may have of workspaces by default.
const many = 1000

var operator = auth.Principal{Owner: auth.Admin, ID: "api_key", Scopes: auth.ScopeDaemon}

// gated is a driver that removes so many workspaces, and the others when it is open.
type gated struct {
	*runtimetest.Local
	left  atomic.Int64
	open  chan struct{}
	once  sync.Once
	stuck chan struct{} // closed when one waits
}

func newGated(local *runtimetest.Local, free int64) *gated {
	g := &gated{Local: local, open: make(chan struct{}), stuck: make(chan struct{})}
	g.left.Store(free)
	return g
}

func (g *gated) DestroyWorkspace(ctx context.Context, id runtime.WorkspaceID) error {
	if g.left.Add(-1) < 0 {
		g.once.Do(func() { close(g.stuck) })
		select {
		case <-g.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.Local.DestroyWorkspace(ctx, id)
}

// household is a part of a daemon: what knows users and keeps their workspaces.
type household struct {
	*Daemon
	rows *store.Store
	stop func()
}

// openHousehold takes up what an earlier one has left in a database.
func openHousehold(t *testing.T, db string, driver runtime.Driver) household {
	t.Helper()
	rows, err := store.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	m := session.New(session.Options{
		Store: rows, Driver: driver, Images: oneImage{}, Defaults: session.Defaults{Image: "base"}, Workspaces: workspaces.WorkspaceOptions{Store: rows},
	})
	d := &Daemon{
		manager: m, events: events.NewHub(events.Options{}), log: silent, usage: usage.New(usage.Options{Store: rows, Sessions: rows}),
		scopes: scope.New(scope.Options{Store: rows, Sessions: m.Sessions}),
	}
	if err := d.openAccounts(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	ready := make(chan struct{})
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := d.accounts.Run(ctx, ready); err != nil {
			t.Error(err)
		}
	})
	stop := sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	testenv.Eventually(t, "the sessions are known", m.Ready)
	close(ready)
	return household{d, rows, stop}
}

// move makes a user who has so many workspaces.
func (h household) move(t *testing.T, name string, n int) {
	t.Helper()
	if _, err := h.accounts.CreateUser(t.Context(), operator, accounts.UserRequest{Name: name}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := h.manager.Workspaces.Create(t.Context(), auth.Principal{Owner: name}, workspaces.WorkspaceRequest{ID: "w" + strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

func (h household) gone(t *testing.T, name string) func() bool {
	return func() bool {
		_, err := h.accounts.GetUser(t.Context(), operator, name)
		return errdefs.Is(err, errdefs.NotFound)
	}
}

// wantWorkspaces checks how many workspaces users have, by all that knows of them.
func (h household) wantWorkspaces(t *testing.T, driver runtime.WorkspaceKeeper, want map[string]int) {
	t.Helper()
	all := 0
	for name, n := range want {
		all += n
		held, sizeMB, err := h.rows.WorkspacesHeld(t.Context(), name)
		if err != nil || held != n || sizeMB != int64(n)*1024 {
			t.Errorf("%s has %d workspaces of %d MiB, %v; want %d", name, held, sizeMB, err, n)
		}
	}
	for _, err := range driver.Workspaces(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all--
	}
	if all != 0 {
		t.Errorf("the driver has %d workspaces too few", all)
	}
}

// The request is answered in a moment, however much the user has and however long the
// driver takes for it, and nobody else waits for that.
func TestDeletingAUserWithManyWorkspaces(t *testing.T) {
	driver := newGated(runtimetest.NewLocal(t), 0)
	h := openHousehold(t, filepath.Join(t.TempDir(), "db"), driver)
	open := sync.OnceFunc(func() { close(driver.open) })
	t.Cleanup(open)
	h.move(t, "alice", many)
	h.move(t, "bob", 1)
	h.move(t, "carol", 0)
	for what, name := range map[string]string{"alice": "alice", "alice again": "alice", "carol": "carol"} {
		began := time.Now()
		if _, err := h.accounts.DeleteUser(t.Context(), operator, name); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s takes %s", what, took)
		}
	}
	if !h.gone(t, "carol")() {
		t.Error("one who has nothing is there still")
	}
	if u, err := h.accounts.GetUser(t.Context(), operator, "alice"); err != nil || u.State != accounts.Deleting {
		t.Errorf("meanwhile alice is %+v, %v", u, err)
	}
	h.wantWorkspaces(t, driver, map[string]int{"alice": many, "bob": 1})
	open()
	testenv.Eventually(t, "alice is gone", h.gone(t, "alice"))
	h.wantWorkspaces(t, driver, map[string]int{"alice": 0, "bob": 1})
	h.move(t, "alice", 1) // somebody else
	h.wantWorkspaces(t, driver, map[string]int{"alice": 1, "bob": 1})
}

// The environment of the daemon that is killed.
const (
	killedDir    = "SANDKASTEN_KILLED_DIR"
	killedRunner = "SANDKASTEN_KILLED_RUNNER"
	killedDB     = "SANDKASTEN_KILLED_DB"
)

// TestDeletingDaemon is the daemon that TestDeletionOverAKill starts. By itself it does
// nothing.
func TestDeletingDaemon(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return
	}
	driver := newGated(&runtimetest.Local{Dir: dir, Runner: os.Getenv(killedRunner)}, many/3)
	h := openHousehold(t, os.Getenv(killedDB), driver)
	h.move(t, "alice", many)
	h.move(t, "bob", 1)
	if _, err := h.accounts.DeleteUser(t.Context(), operator, "alice"); err != nil {
		t.Fatal(err)
	}
	<-driver.stuck
	os.Stdout.WriteString("\nin the middle\n")
	select {} // until it is killed
}

// A daemon that is killed in the middle of a deletion leaves rows of all that it has not
// removed, and the next one goes on.
func TestDeletionOverAKill(t *testing.T) {
	local, db := runtimetest.NewLocal(t), filepath.Join(t.TempDir(), "db")
	daemon := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDeletingDaemon$", "-test.v")
	daemon.Env = append(os.Environ(), killedDir+"="+local.Dir, killedRunner+"="+local.Runner, killedDB+"="+db)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "in the middle" {
		said.WriteString(lines.Text() + "\n")
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("it ended by itself: %v\n%s", err, said.String())
	}

	rows, err := store.Look(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	left, _, err := rows.WorkspacesHeld(t.Context(), "alice")
	if err != nil || left == 0 || left >= many {
		t.Errorf("%d of %d rows are left, %v", left, many, err)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	h := openHousehold(t, db, local)
	testenv.Eventually(t, "alice is gone", h.gone(t, "alice"))
	h.wantWorkspaces(t, local, map[string]int{"alice": 0, "bob": 1})
}
