// Package fault breaks the real daemon and its host in every way of the fault
// list and looks at what is left: a test for each fault, named
// by its id, and a monkey that mixes them. What crashes at a point inside the
// driver or the manager alone is tested beside those.
package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(withStore{m}) }

// withStore removes the image store behind the last test.
type withStore struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (w withStore) Run() int {
	code := w.tests.Run()
	if err := os.RemoveAll(store.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// store is the image store of all daemons of this package.
var store struct {
	once sync.Once
	dir  string
	err  error
}

func images(t *testing.T) string {
	t.Helper()
	program, rootfs := testenv.Program(t, "failpoint"), testenv.BaseRootfs(t)
	store.once.Do(func() {
		if store.dir, store.err = testenv.MakeDataDir(); store.err == nil {
			store.err = blackbox.ImportImage(t.Context(), program, rootfs, "base", append(blackbox.Environ(), "SANDKASTEN_DATA_DIR="+store.dir))
		}
	})
	if store.err != nil {
		t.Fatal(store.err)
	}
	return filepath.Join(store.dir, "images")
}

// host is a daemon that is to suffer, and a client of it.
type host struct {
	*blackbox.Daemon
	t *testing.T
	c *sandkasten.Client
}

// quick are the settings of all daemons here: small disks, and a reaper that
// does not keep a test waiting.
const quick = `reaper_interval_seconds: 1
shutdown_grace_seconds: 5
defaults: {disk_limit_mb: 64, mem_limit_mb: 128, pids_limit: 64}
workspace: {default_size_mb: 16}
`

// prepare makes a daemon that does not run yet. What it leaves on the host when
// the test ends fails the test.
func prepare(t *testing.T, o blackbox.Options) *host {
	t.Helper()
	o.Config = quick + o.Config
	return newHost(t, o)
}

// Start runs the daemon, and has a client of it from the first time on.
func (h *host) Start() {
	h.t.Helper()
	h.Daemon.Start()
	if h.c == nil {
		h.c = h.Client("")
	}
}

func start(t *testing.T, config string, env ...string) *host {
	t.Helper()
	h := prepare(t, blackbox.Options{Config: config, Env: env})
	h.Start()
	return h
}

// at has the daemon killed by kill -9 when it comes to a failpoint.
func at(point string) string { return "SANDKASTEN_FAILPOINT=" + point + "=kill9" }

// wantKilled waits for the end of a daemon that has come to its failpoint, and
// starts one without.
func (h *host) wantKilled(err error) {
	h.t.Helper()
	if err == nil {
		h.t.Error("the call was answered, although the daemon was to die in it")
	}
	if lost, ok := errors.AsType[*sandkasten.ConnectionError](err); err != nil && !ok {
		h.t.Errorf("the call ended with %v, %v; want a broken connection", err, lost)
	}
	h.Wait()
	h.SetEnv()
	h.Start()
}

func (h *host) create(o *sandkasten.CreateOptions) *sandkasten.Session {
	h.t.Helper()
	s, err := h.c.CreateSession(h.t.Context(), o)
	if err != nil {
		h.t.Fatalf("create: %v\n%s", err, h.Log())
	}
	return s
}

// sh is what a command that works prints.
func (h *host) sh(s *sandkasten.Session, cmd string) string {
	h.t.Helper()
	r, err := s.Exec(h.t.Context(), cmd, nil)
	if err != nil || r.ExitCode != 0 {
		h.t.Fatalf("exec %q in %s: %+v, %v\n%s", cmd, s.ID, r, err, h.Log())
	}
	return strings.TrimSpace(r.Output)
}

// destroy ends a session.
func (h *host) destroy(s *sandkasten.Session) {
	h.t.Helper()
	if err := s.Destroy(h.t.Context()); err != nil {
		h.t.Errorf("destroy %s: %v", s.ID, err)
	}
}

// destroyAll ends every session that there is.
func (h *host) destroyAll() {
	h.t.Helper()
	all, err := h.c.ListSessions(h.t.Context(), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, s := range all {
		h.destroy(s)
	}
}

// wantStatus waits until a session has a status, and returns it then.
func (h *host) wantStatus(s *sandkasten.Session, want string, within time.Duration) sandkasten.SessionInfo {
	h.t.Helper()
	var info sandkasten.SessionInfo
	h.eventually(within, func() error {
		var err error
		if info, err = s.Refresh(h.t.Context()); err == nil && info.Status != want {
			err = fmt.Errorf("session %s is %s (%s), want %s", s.ID, info.Status, info.EndReason, want)
		}
		return err
	})
	return info
}

// eventually fails the test unless look has no error within a time.
func (h *host) eventually(within time.Duration, look func() error) {
	h.t.Helper()
	if err := patiently(within, look); err != nil {
		h.t.Fatalf("%v\n%s", err, h.Log())
	}
}

func patiently(within time.Duration, look func() error) error {
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		err := look()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// code is what the daemon calls an error, or "" for one of another kind.
func code(err error) string {
	if refused, ok := errors.AsType[*sandkasten.APIError](err); ok {
		return refused.Code
	}
	return ""
}
