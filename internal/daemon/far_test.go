package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest/far"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// farDelay of each direction: an answer comes 200 ms after its request, or later.
const farDelay = 100 * time.Millisecond

// farRow is a driver whose sandboxes are behind an address.
func farRow(addr string) drivers.Row {
	return drivers.Row{
		Name: "far", Title: "far", OwnImages: true, Workspaces: true,
		Open: func(context.Context, config.Config, *images.Store, *slog.Logger) (drivers.HostDriver, error) {
			return &far.Driver{Addr: addr, CancelTime: time.Second}, nil
		},
		Uses: func(config.Config) (string, error) { return "", nil },
	}
}

// startFar makes a daemon that may have the far driver, and runs it.
func startFar(t *testing.T, cfg config.Config, addr string) (d *Daemon, stop func() error) {
	t.Helper()
	return startWith(t, cfg, Options{
		Log:     slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Drivers: []drivers.Row{farRow(addr)},
	})
}

// run runs a command and returns what it wrote.
func (c caller) run(session, command string) string {
	c.t.Helper()
	got := c.do(http.MethodPost, "/"+session+"/exec", fmt.Sprintf(`{"cmd":%q}`, command))
	return fmt.Sprint(got["output"])
}

// A daemon whose sandboxes are 200 ms away starts, serves, stops, and the next one takes
// up what is there. Nothing of them is on this host: no image, and no room for them.
func TestADaemonWithAFarDriver(t *testing.T) {
	testenv.NeedsRoot(t)
	server := far.NewServer(t)
	link := far.NewLink(t, server.Addr(), farDelay)
	cfg := testConfig(t)
	cfg.Driver, cfg.DefaultImage, cfg.Workspace.Enabled = "far", far.Image, true
	cfg.Admission.MemoryReserveMB = 1 << 24 // more than any host has

	d, stop := startFar(t, cfg, link.Addr())
	c := call(t, d, cfg)
	lives := c.do(http.MethodPost, "", `{"workspace_id":"kept"}`)["id"].(string)
	stopped := c.do(http.MethodPost, "", "{}")["id"].(string)
	if got := c.run(lives, "x=far; cd /tmp; echo $x > \"$HOME/file\"; echo done"); got != "done\n" {
		t.Errorf("a command wrote %q", got)
	}
	if got := c.do(http.MethodPost, "/"+stopped+"/stop", "")["status"]; got != "stopped" {
		t.Errorf("after its stop it is %v", got)
	}
	if status, text := c.try(http.MethodPost, "", `{"image":"none:1"}`); status != http.StatusNotFound || !strings.Contains(string(text), "at the far end") {
		t.Errorf("an image that is not there: %d %s", status, text)
	}
	if err := stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	const orphan = runtime.ID("far_orphan")
	if _, err := server.Local.Create(t.Context(), orphan, runtime.Spec{Image: "sha256:10ca1"}); err != nil {
		t.Fatal(err)
	}

	d, _ = startFar(t, cfg, link.Addr())
	c = call(t, d, cfg)
	if got := c.run(lives, "echo $x $PWD"); got != "far /tmp\n" {
		t.Errorf("after the restart a command wrote %q", got)
	}
	if got := c.do(http.MethodPost, "/"+stopped+"/start", "")["status"]; got != "running" {
		t.Errorf("after its start it is %v", got)
	}
	testenv.Eventually(t, "the orphan is gone", func() bool {
		_, err := server.Local.Open(t.Context(), orphan)
		return errdefs.Is(err, errdefs.NotFound)
	})
	for _, id := range []string{lives, stopped} {
		c.do(http.MethodDelete, "/"+id, "")
	}
	server.Local.WantSandboxes(t)
}

// A far driver that does not answer keeps nobody waiting: the daemon starts with its
// others, says so, and stops; and takes up its sessions when it answers.
func TestADaemonStartsWithoutAFarEnd(t *testing.T) {
	testenv.NeedsRoot(t)
	server := far.NewServer(t)
	link := far.NewLink(t, server.Addr(), farDelay)
	cfg := testConfig(t)
	cfg.ExtraDrivers = []string{"far"}
	d, stop := startFar(t, cfg, link.Addr())
	c := call(t, d, cfg)
	id := c.do(http.MethodPost, "", fmt.Sprintf(`{"driver":"far","image":%q}`, far.Image))["id"].(string)
	c.run(id, "x=far")
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	link.Block()
	d, stop = startFar(t, cfg, link.Addr())
	c = call(t, d, cfg)
	if status, text := c.try(http.MethodPost, "/"+id+"/exec", `{"cmd":"true"}`); status != http.StatusServiceUnavailable {
		t.Errorf("a command in a session of it: %d %s", status, text)
	}
	link.Unblock()
	testenv.Eventually(t, "the session is there again", func() bool {
		status, _ := c.try(http.MethodPost, "/"+id+"/exec", `{"cmd":"true"}`)
		return status == http.StatusOK
	})
	if got := c.run(id, "echo $x"); got != "far\n" {
		t.Errorf("a command wrote %q", got)
	}
	link.Block()
	began := time.Now()
	if err := stop(); err != nil || time.Since(began) > time.Minute {
		t.Errorf("stop after %v: %v", time.Since(began), err)
	}
}
