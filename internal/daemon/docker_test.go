package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// giveImage imports the tests' root file system as the default image.
func giveImage(t *testing.T, cfg config.Config) {
	t.Helper()
	store, err := datadir.OpenImages(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	archive, w := io.Pipe()
	go func() { w.CloseWithError(flatten.Write(t.Context(), w, []string{testenv.ShellRootfs(t)})) }()
	if _, err := store.Import(t.Context(), images.ImportRequest{Name: cfg.DefaultImage, Tar: archive}); err != nil {
		t.Fatal(err)
	}
}

// caller calls /v1 with the daemon's own key.
type caller struct {
	t        *testing.T
	url, key string
}

// call waits until the daemon is ready.
func call(t *testing.T, d *Daemon, cfg config.Config) caller {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		status, body := get(t, d.URL()+"/readyz", "")
		if status == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it does not become ready: %d %s", status, body)
		}
	}
	key, err := os.ReadFile(cfg.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	return caller{t, d.URL(), strings.TrimSpace(string(key))}
}

// do makes a call that must succeed, and returns the answer's fields.
func (c caller) do(method, path, body string) map[string]any {
	c.t.Helper()
	status, text := c.try(method, path, body)
	if status/100 != 2 {
		c.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	fields := map[string]any{}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &fields); err != nil {
			c.t.Fatalf("%s %s: %s, %v", method, path, text, err)
		}
	}
	return fields
}

// try makes a call and returns its answer.
func (c caller) try(method, path, body string) (status int, text []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+"/v1/sessions"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, text
}

// exec runs a command in a session, whose output must be want.
func (c caller) exec(id, command, want string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]string{"cmd": command})
	if err != nil {
		c.t.Fatal(err)
	}
	if got := c.do(http.MethodPost, "/"+id+"/exec", string(body))["output"]; got != want {
		c.t.Errorf("%s: %q, want %q", command, got, want)
	}
}

// TestDockerDriver takes a session on a Docker engine through its life, with a
// restart of the daemon and a crash of the engine in it.
func TestDockerDriver(t *testing.T) {
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t, "--live-restore")
	cfg := testConfig(t)
	cfg.Driver, cfg.Docker.Host = "docker", e.Host
	giveImage(t, cfg)
	d, stop := start(t, cfg)
	c := call(t, d, cfg)
	digest, err := d.images.Resolve(t.Context(), cfg.DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	if groups, err := d.groups.Groups(t.Context(), digest); err != nil || len(groups["apt"]) == 0 {
		t.Errorf("the image's groups are %v, %v", groups, err)
	}
	wantNoSandboxes(t, d)
	id, _ := c.do(http.MethodPost, "", `{"env": {"GREETING": "hi"}, "workspace_id": "kept"}`)["id"].(string)
	c.exec(id, "cd /tmp; x=1; echo $GREETING | tee /workspace/file", "hi\n")
	if state := c.do(http.MethodPost, "/"+id+"/pause", "")["status"]; state != "paused" {
		t.Errorf("paused, it is %v", state)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	e.Stop(t, syscall.SIGKILL)
	e.Start(t)
	d, _ = start(t, cfg)
	c = call(t, d, cfg)
	c.exec(id, "echo $PWD $x", "/tmp 1\n") // which resumes it
	c.do(http.MethodPost, "/"+id+"/stop", "")
	c.do(http.MethodPost, "/"+id+"/start", "")
	c.exec(id, "cat /workspace/file; echo $x", "hi\n\n")
	if stats := c.do(http.MethodGet, "/"+id+"/stats", ""); stats["memory_bytes"] == 0.0 {
		t.Errorf("%v", stats)
	}
	c.do(http.MethodDelete, "/"+id, "")
	other, _ := c.do(http.MethodPost, "", `{"workspace_id": "kept"}`)["id"].(string)
	c.exec(other, "cat file", "hi\n")
	c.do(http.MethodDelete, "/"+other, "")
}

// TestTwoDrivers has sessions on this host and on a Docker engine at once, and
// takes both over a restart, which the engine's absence does not hold up.
func TestTwoDrivers(t *testing.T) {
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t, "--live-restore")
	cfg := testConfig(t)
	cfg.ExtraDrivers, cfg.Docker.Host = []string{"docker"}, e.Host
	giveImage(t, cfg)
	d, stop := start(t, cfg)
	c := call(t, d, cfg)
	ids := map[string]string{}
	for driver, body := range map[string]string{"native": "", "docker": `{"driver": "docker"}`} {
		made := c.do(http.MethodPost, "", body)
		ids[driver], _ = made["id"].(string)
		if made["driver"] != driver {
			t.Errorf("of %v, not of %s", made["driver"], driver)
		}
		c.exec(ids[driver], "x="+driver, "")
	}
	e.Stop(t, syscall.SIGKILL)
	c.awaitAbsent("docker")
	c.checkAbsent(ids)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	d, _ = start(t, cfg)
	c = call(t, d, cfg)
	c.awaitAbsent("docker")
	c.checkAbsent(ids)

	e.Start(t)
	c.awaitAbsent("")
	for driver, id := range ids {
		c.exec(id, "echo $x", driver+"\n")
		c.do(http.MethodDelete, "/"+id, "")
	}
}

// TestDockerState takes the state of sessions from one driver to the other as
// snapshots, forks one on an engine, and creates from a pool there.
func TestDockerState(t *testing.T) {
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t)
	cfg := testConfig(t)
	cfg.Driver, cfg.ExtraDrivers, cfg.Docker.Host = "docker", []string{"native"}, e.Host
	cfg.Pool.Enabled, cfg.Pool.Images = true, map[string]int{cfg.DefaultImage: 1}
	cfg.Pool.MemoryReserveMB = 1
	giveImage(t, cfg)
	d, _ := start(t, cfg)
	c := call(t, d, cfg)
	for end := time.Now().Add(time.Minute); d.pool.Status().Ready == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("none is ready: %+v", d.pool.Status())
		}
	}
	var all []string
	create := func(body string) string {
		t.Helper()
		id, _ := c.do(http.MethodPost, "", body)["id"].(string)
		all = append(all, id)
		return id
	}
	first := create(`{"env": {"GREETING": "hi"}}`)
	if s := d.pool.Status(); s.Images[0].Hits != 1 {
		t.Errorf("not from the pool: %+v", s)
	}
	const look = "cat file; cat /opt/new; test -e /etc/issue || echo gone; stat -c '%u %a' file /opt/new"
	c.exec(first, "echo $GREETING >file; chown 7 file; echo new >/opt/new; chmod 750 /opt/new; rm /etc/issue", "")
	const want = "hi\nnew\ngone\n7 644\n0 750\n"
	forks, _ := c.do(http.MethodPost, "/"+first+"/fork", `{"count": 2}`)["sessions"].([]any)
	if len(forks) != 2 {
		t.Fatalf("forks: %v", forks)
	}
	for _, f := range forks {
		id, _ := f.(map[string]any)["id"].(string)
		all = append(all, id)
		c.exec(id, look+"; echo $GREETING", want+"hi\n")
	}
	last := all[len(all)-1]
	for _, driver := range []string{"native", "docker", "native"} { // each from the one before
		snapshot, _ := c.do(http.MethodPost, "/"+last+"/snapshots", `{"scope": "sandbox"}`)["id"].(string)
		last = create(`{"driver": "` + driver + `", "restore_snapshot_id": "` + snapshot + `"}`)
		c.exec(last, look, want)
	}
	for _, id := range all {
		c.do(http.MethodDelete, "/"+id, "")
	}
}

// awaitAbsent waits until the daemon says that a driver is absent, or with ""
// that none is. It is ready all the time.
func (c caller) awaitAbsent(name string) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		status, body := get(c.t, c.url+"/readyz", "")
		if status != http.StatusOK {
			c.t.Fatalf("not ready: %d %s", status, body)
		}
		if said := strings.Contains(body, "absent_drivers"); said == (name != "") && strings.Contains(body, name) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("waited for %q to be absent: %s", name, body)
		}
	}
}

// checkAbsent: the session of the absent driver has its state and cannot be
// used, and the other can.
func (c caller) checkAbsent(ids map[string]string) {
	c.t.Helper()
	c.exec(ids["native"], "echo $x", "native\n")
	if s := c.do(http.MethodGet, "/"+ids["docker"], ""); s["status"] != "running" {
		c.t.Errorf("the session of the absent driver is %v", s["status"])
	}
	if status, body := get(c.t, c.url+"/v1/sessions/"+ids["docker"]+"/stats", c.key); status != http.StatusServiceUnavailable {
		c.t.Errorf("its stats: %d %s", status, body)
	}
}
