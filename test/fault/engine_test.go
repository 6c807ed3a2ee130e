package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// engineHost is a daemon whose sandboxes are on an engine that is to suffer with
// it.
type engineHost struct {
	*host
	e    *testenv.Engine
	live bool // containers outlive the engine's end

	session *sandkasten.Session // with a shell, and files in its root and its own workspace
	keeper  *sandkasten.Session // with a workspace that is kept
	round   int
}

func startOnEngine(t *testing.T, live bool) *engineHost {
	t.Helper()
	testenv.NeedsRoot(t)
	var flags []string
	if live {
		flags = []string{"--live-restore"}
	}
	e := testenv.StartEngine(t, flags...)
	config := fmt.Sprintf("%sdriver: docker\ndocker: {host: %q}\n", quick, e.Host)
	h := &engineHost{e: e, live: live, host: newHost(t, blackbox.Options{Config: config})}
	h.Start()
	h.session = h.create(nil)
	h.keeper = h.create(&sandkasten.CreateOptions{WorkspaceID: "w"})
	h.sh(h.session, "echo 0 >/root/f; echo 0 >f; mkdir /tmp/d")
	h.sh(h.keeper, "echo 0 >f")
	return h
}

// An engine and a daemon that are killed in any order lose nothing that the
// engine keeps: with live-restore sessions go on, without they are stopped and can
// be started, and their files and workspaces are there in any case. What is gone
// is said to be gone.
func TestF23_EngineAndDaemonKilled(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]bool{"live-restore": true, "no live-restore": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startOnEngine(t, live)
			for _, order := range []struct {
				name string
				kill func()
			}{
				{"the daemon, then the engine", func() { h.Kill(); h.killEngine(); h.e.Start(t); h.Start() }},
				{"the engine, then the daemon", func() { h.killEngine(); h.wantUnavailable(); h.Kill(); h.e.Start(t); h.Start() }},
				{"both at once", func() { h.killBoth(); h.e.Start(t); h.Start() }},
				{"the engine, which is back when the daemon is killed", func() { h.killEngine(); h.e.Start(t); h.Kill(); h.Start() }},
				{"the daemon, which finds no engine", func() { h.Kill(); h.killEngine(); h.wantNoStart(); h.e.Start(t); h.Start() }},
				{"the engine alone", func() { h.killEngine(); h.wantUnavailable(); h.e.Start(t) }},
			} {
				h.before()
				order.kill()
				h.wantKept(order.name)
			}
			h.loseOne()
			h.destroyAll()
			if left := h.containers(); len(left) > 0 {
				t.Errorf("left in the engine: %v", left)
			}
		})
	}
}

// before leaves what each round has to find.
func (h *engineHost) before() {
	h.t.Helper()
	h.round++
	h.sh(h.session, fmt.Sprintf("cd /tmp/d; x=%d; echo $x >/root/f; echo $x >/workspace/f; sync", h.round))
	h.sh(h.keeper, fmt.Sprintf("echo %d >/workspace/f; sync", h.round))
}

func (h *engineHost) killEngine() { h.e.Stop(h.t, syscall.SIGKILL) }

func (h *engineHost) killBoth() {
	var both sync.WaitGroup
	both.Go(h.killEngine)
	h.Kill()
	both.Wait()
}

// wantUnavailable: without its engine the daemon says so of what needs it, and
// takes no session for gone.
func (h *engineHost) wantUnavailable() {
	h.t.Helper()
	h.eventually(settle, func() error {
		_, err := h.session.Exec(h.t.Context(), "true", nil)
		if code(err) != "unavailable" {
			return fmt.Errorf("without an engine: %w", err)
		}
		return nil
	})
	for _, s := range []*sandkasten.Session{h.session, h.keeper} {
		if info, err := s.Refresh(h.t.Context()); err != nil || info.Status != "running" {
			h.t.Errorf("without an engine a session is %s: %v", info.Status, err)
		}
	}
}

// wantNoStart: a daemon of which the engine is all does not start without it,
// and says why.
func (h *engineHost) wantNoStart() {
	h.t.Helper()
	err := h.TryStart()
	if err == nil || !strings.Contains(err.Error(), "Docker engine") {
		h.t.Errorf("without an engine it starts, or does not say why: %v", err)
	}
}

// wantKept looks for what before left, and for containers that nobody asked for.
func (h *engineHost) wantKept(order string) {
	h.t.Helper()
	want := fmt.Sprint(h.round)
	for _, s := range []*sandkasten.Session{h.session, h.keeper} {
		if h.live {
			h.wantStatus(s, "running", settle)
			continue
		}
		h.wantStatus(s, "stopped", settle)
		if _, err := s.Start(h.t.Context()); err != nil {
			h.t.Fatalf("%s: start: %v", order, err)
		}
	}
	shell := "/tmp/d " + want
	if !h.live {
		shell = "/workspace" // a new one
	}
	if got := strings.TrimSpace(h.sh(h.session, "echo $PWD $x")); got != shell {
		h.t.Errorf("%s: the shell is at %q, want %q", order, got, shell)
	}
	if got := h.sh(h.session, "cat /root/f /workspace/f"); got != want+"\n"+want {
		h.t.Errorf("%s: its files are %q, want %s", order, got, want)
	}
	if got := h.sh(h.keeper, "cat /workspace/f"); got != want {
		h.t.Errorf("%s: the workspace has %q, want %s", order, got, want)
	}
	if all := h.containers(); len(all) != 2 {
		h.t.Errorf("%s: %d containers of 2 sessions: %v", order, len(all), all)
	}
	all, err := h.c.ListSessions(h.t.Context(), nil)
	if err != nil || len(all) != 2 {
		h.t.Errorf("%s: %d sessions, %v", order, len(all), err)
	}
}

// loseOne removes a container by hand while nobody looks: its session has
// crashed, the other and the workspace of both are as they were.
func (h *engineHost) loseOne() {
	h.t.Helper()
	h.before()
	lost := ""
	for name := range h.containers() {
		if strings.HasSuffix(name, h.keeper.ID) {
			lost = name
		}
	}
	h.Kill()
	h.ask(http.MethodDelete, "/containers/"+lost+"?force=1&v=1", nil)
	h.Start()
	if info := h.wantStatus(h.keeper, "crashed", settle); info.EndReason == "" {
		h.t.Errorf("of a session whose container is gone: %+v", info)
	}
	if got := h.sh(h.session, "cat /root/f"); got != fmt.Sprint(h.round) {
		h.t.Errorf("beside a session that is gone: %q", got)
	}
	again := h.create(&sandkasten.CreateOptions{WorkspaceID: "w"})
	if got := h.sh(again, "cat f"); got != fmt.Sprint(h.round) {
		h.t.Errorf("the workspace of a session that is gone has %q", got)
	}
}

// containers are those of sandboxes in the engine, with their states.
func (h *engineHost) containers() map[string]string {
	h.t.Helper()
	var list []struct {
		Names []string
		State string
	}
	filters := url.QueryEscape(`{"label": ["sandkasten.sandbox"]}`)
	h.ask(http.MethodGet, "/containers/json?all=1&filters="+filters, &list)
	found := map[string]string{}
	for _, c := range list {
		found[strings.TrimPrefix(c.Names[0], "/")] = c.State
	}
	return found
}

// ask makes a request of the engine's API, behind the daemon's back.
func (h *engineHost) ask(method, path string, into any) {
	h.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(h.e.Host, "unix://"))
		},
	}}
	req, err := http.NewRequestWithContext(h.t.Context(), method, "http://engine"+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil || resp.StatusCode/100 != 2 {
		h.t.Fatalf("the engine answers %s %s with %s %s, %v", method, path, resp.Status, text, err)
	}
}
