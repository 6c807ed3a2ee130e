package orchestrator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// caller makes calls of the API that the published client does not.
type caller struct {
	t   *testing.T
	d   *blackbox.Daemon
	key string
}

// call makes a request below /api/sandbox/sessions and returns the answer's fields,
// if it has such.
func (c caller) call(method, path string, body map[string]any, want int) map[string]any {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.d.URL+"/api/sandbox/sessions/"+path, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", c.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != want {
		c.t.Fatalf("%s %s: %s %s\n%s", method, path, resp.Status, answer, c.d.Log())
	}
	fields := map[string]any{}
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &fields); err != nil {
			c.t.Fatalf("%s %s: %v: %s", method, path, err, answer)
		}
	}
	return fields
}

// exec runs a command in a session, whose output must be want.
func (c caller) exec(id, command, want string) {
	c.t.Helper()
	if got := c.call(http.MethodPost, id+"/exec", map[string]any{"command": command}, http.StatusOK); got["stdout"] != want {
		c.t.Errorf("%s: %v, want %q", command, got, want)
	}
}

// container is what the engine says of one.
type container struct {
	HostConfig struct {
		NanoCpus       int64
		Memory         int64
		MemorySwap     int64
		PidsLimit      int64
		ReadonlyRootfs bool
		NetworkMode    string
		CapDrop        []string
		SecurityOpt    []string
		ExtraHosts     []string
		Tmpfs          map[string]string
	}
}

// dockerOutput is what a command of the engine's client prints.
func dockerOutput(t *testing.T, e *testenv.Engine, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", append([]string{"--host", e.Host}, args...)...).Output()
	if err != nil {
		t.Fatalf("docker %q: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// containerOf is the id of the container that runs and has a label.
func containerOf(t *testing.T, e *testenv.Engine, label string) string {
	t.Helper()
	return dockerOutput(t, e, "ps", "--quiet", "--no-trunc", "--filter", "label="+label)
}

// inspect asks the engine for the container with a label, of which there must be one.
func inspect(t *testing.T, e *testenv.Engine, label string) container {
	t.Helper()
	var all []container
	if err := json.Unmarshal([]byte(dockerOutput(t, e, "inspect", containerOf(t, e, label))), &all); err != nil || len(all) != 1 {
		t.Fatalf("containers with %s: %v, %v", label, all, err)
	}
	return all[0]
}

// TestHardenedDocker has a session in mode docker as the original hardens it, and
// asks the engine what it was given.
func TestHardenedDocker(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t)
	d := blackbox.Start(t, blackbox.Options{
		Config: "orchestrator: {enabled: true}\n",
		Env: []string{
			"SANDKASTEN_DRIVER=docker", "SANDKASTEN_DOCKER__HOST=" + e.Host, "SANDKASTEN_DOCKER__WORKSPACE=memory",
			"SANDKASTEN_DOCKER__TMPFS=/var/tmp", "SANDKASTEN_DOCKER__USER=1000:1000", "SANDKASTEN_DEFAULTS__READONLY_ROOTFS=true",
		},
	})
	c := caller{t, d, d.Key}
	c.call(http.MethodPost, "", map[string]any{
		"id": someID, "mode": "docker", "cpu": "500m", "memory": "2Gi", "ephemeral_storage": "64Mi",
	}, http.StatusCreated)

	host := inspect(t, e, "astraforge.sandbox.session="+someID).HostConfig
	if host.NanoCpus != 500_000_000 || host.Memory != 2<<30 || host.MemorySwap != 2<<30 || host.PidsLimit < 512 || host.PidsLimit > 600 {
		t.Errorf("limits %+v", host)
	}
	if !host.ReadonlyRootfs || host.NetworkMode != "none" || strings.Join(host.CapDrop, " ") != "ALL" || len(host.ExtraHosts) > 0 ||
		!strings.Contains(strings.Join(host.SecurityOpt, " "), "no-new-privileges") || !strings.Contains(strings.Join(host.SecurityOpt, " "), "seccomp={") {
		t.Errorf("not hardened: %+v", host)
	}
	if !strings.Contains(host.Tmpfs["/workspace"], "size=67108864,") || host.Tmpfs["/var/tmp"] == "" {
		t.Errorf("in memory: %v", host.Tmpfs)
	}
	if owner := inspect(t, e, "astraforge.sandbox.user=admin"); owner.HostConfig.Memory != host.Memory {
		t.Errorf("the user's container is %+v", owner)
	}

	c.exec(someID, "id -u; grep CapEff /proc/self/status | tr -d '[:space:]'; touch /etc/x 2>/dev/null || echo refused", "1000\nCapEff:0000000000000000refused\n")
	c.exec(someID, "head -c 100000000 /dev/zero >large 2>/dev/null || echo full; rm large; echo kept >file; touch /var/tmp/x && echo written", "full\nwritten\n")
	// The core's own stop would lose what is in memory, and leaves it alone.
	core := strings.TrimSpace(d.Output("ls", "-q"))
	if out, err := d.Command("stop", core).CombinedOutput(); err == nil || !strings.Contains(string(out), "in memory") {
		t.Errorf("stop of %s: %v\n%s", core, err, out)
	}
	c.exec(someID, "cat file", "kept\n")
	c.call(http.MethodPost, someID+"/stop", nil, http.StatusNoContent)
	c.exec(someID, "cat file", "kept\n")

	// What is in memory is lost with the container, and the snapshot has it.
	before := c.call(http.MethodGet, someID, nil, http.StatusOK)["ref"]
	dockerOutput(t, e, "kill", containerOf(t, e, "astraforge.sandbox.session="+someID))
	for end := time.Now().Add(time.Minute); c.call(http.MethodGet, someID, nil, http.StatusOK)["status"] == "ready"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a session whose container was killed stays ready")
		}
	}
	c.exec(someID, "cat file", "kept\n")
	if after := c.call(http.MethodGet, someID, nil, http.StatusOK)["ref"]; after == before {
		t.Errorf("the session still runs in %v", after)
	}
	c.call(http.MethodDelete, someID, nil, http.StatusNoContent)
}

// TestStorageIsBoundedWhereItCanBe sends what the original's documentation sends with a
// create, whose answer and the log say where nothing holds ephemeral_storage.
func TestStorageIsBoundedWhereItCanBe(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config   func(t *testing.T) string
		enforced bool
	}{
		"native":                       {func(*testing.T) string { return "orchestrator: {enabled: true, modes: {docker: native}, " }, true},
		"an engine without quotas":     {func(t *testing.T) string { return docker.config(t) + "orchestrator: {enabled: true, " }, false},
		"an engine with them":          {func(t *testing.T) string { return onBtrfs(t) + "orchestrator: {enabled: true, " }, true},
		"in memory below a fixed root": {func(t *testing.T) string { return inMemory(t) + "orchestrator: {enabled: true, " }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.NeedsRoot(t)
			d := blackbox.Start(t, blackbox.Options{Config: test.config(t) + `image_aliases: {"astraforge/codex-cli:latest": base}}` + "\n"})
			c := caller{t, d, d.Key}
			made := c.call(http.MethodPost, "", map[string]any{
				"mode": "docker", "image": "astraforge/codex-cli:latest", "cpu": "1", "memory": "2Gi", "ephemeral_storage": "5Gi",
				"restore_snapshot_id": nil, "idle_timeout_sec": 300, "max_lifetime_sec": 3600,
			}, http.StatusCreated)
			metadata, _ := made["metadata"].(map[string]any)
			enforced, told := metadata["ephemeral_storage_enforced"]
			if told == test.enforced || !test.enforced && enforced != false || made["ephemeral_storage"] != "5Gi" {
				t.Errorf("created %v", made)
			}
			id, _ := made["id"].(string)
			warned := false
			for line := range strings.SplitSeq(d.Log(), "\n") {
				warned = warned || strings.Contains(line, "cannot bound what a session writes") && strings.Contains(line, id) && strings.Contains(line, "5Gi")
			}
			if warned == test.enforced {
				t.Errorf("the log warns: %t\n%s", warned, d.Log())
			}
			c.call(http.MethodDelete, id, nil, http.StatusNoContent)
		})
	}
}

func onBtrfs(t *testing.T) string {
	t.Helper()
	return "driver: docker\ndocker: {host: \"" + testenv.StartEngineOnBtrfs(t).Host + "\"}\n"
}

func inMemory(t *testing.T) string {
	t.Helper()
	return "driver: docker\ndocker: {host: \"" + testenv.StartEngine(t).Host + "\", workspace: memory}\ndefaults: {readonly_rootfs: true}\n"
}

// TestKeptWorkspace: the sessions of a user share a workspace that outlives them, and
// that no other user sees.
func TestKeptWorkspace(t *testing.T) {
	t.Parallel()
	for _, m := range []mode{native, docker} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			testenv.NeedsRoot(t)
			const key = "sk_of_another_user_of_this_test"
			d := blackbox.Start(t, blackbox.Options{
				Config: m.config(t) + "orchestrator: {enabled: true, workspace: user}\napi_keys: [{owner: bob, key: " + key + "}]\n",
			})
			c, other := caller{t, d, d.Key}, caller{t, d, key}
			create := func(c caller, body map[string]any) string {
				t.Helper()
				id, _ := c.call(http.MethodPost, "", body, http.StatusCreated)["id"].(string)
				return id
			}
			first, second, foreign := create(c, nil), create(c, nil), create(other, nil)
			c.exec(first, "echo one >file", "")
			c.exec(second, "cat file", "one\n")
			other.exec(foreign, "ls", "")
			c.call(http.MethodPost, first+"/stop", nil, http.StatusNoContent)
			c.exec(second, "echo two >file", "")
			c.call(http.MethodDelete, second, nil, http.StatusNoContent)
			latest, _ := c.call(http.MethodGet, first, nil, http.StatusOK)["metadata"].(map[string]any)
			if latest["latest_snapshot_id"] == nil {
				t.Errorf("the session that was stopped has no snapshot: %v", latest)
			}
			// As the published client asks for a session that has ended.
			create(c, map[string]any{"id": first, "restore_snapshot_id": latest["latest_snapshot_id"]})
			c.exec(first, "cat file", "two\n")
			c.call(http.MethodDelete, first, nil, http.StatusNoContent)
			other.call(http.MethodDelete, foreign, nil, http.StatusNoContent)
		})
	}
}

// TestEngineIsMissing: a client that asks for Docker hears that there is none, unless
// the configuration has another driver for it.
func TestEngineIsMissing(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	d := blackbox.Start(t, blackbox.Options{Config: "orchestrator: {enabled: true}\n"})
	c := caller{t, d, d.Key}
	c.call(http.MethodPost, "", map[string]any{"mode": "docker"}, http.StatusBadRequest)
	d.SetEnv(`SANDKASTEN_ORCHESTRATOR__MODES={docker: native}`)
	d.Restart()
	made := c.call(http.MethodPost, "", map[string]any{"mode": "docker"}, http.StatusCreated)
	id, _ := made["id"].(string)
	c.call(http.MethodDelete, id, nil, http.StatusNoContent)
}

// TestPrintedCommands runs the commands of the original's documentation as they are
// printed, but for the address. Our own page prints them, too.
func TestPrintedCommands(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	d := blackbox.Start(t, blackbox.Options{
		Config: `orchestrator: {enabled: true, modes: {docker: native}, image_aliases: {"astraforge/codex-cli:latest": base}}` + "\n",
	})
	page, err := os.ReadFile("../../docs/migrating-from-astraforge.md")
	if err != nil {
		t.Fatal(err)
	}
	printed := func(file, id string) map[string]any {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), string(text)) {
			t.Errorf("docs/migrating-from-astraforge.md does not have %s", file)
		}
		command := strings.NewReplacer("http://localhost:8001", d.URL, "<id>", id).Replace(string(text))
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Env = append(os.Environ(), "API_KEY="+d.Key)
		out, err := cmd.Output()
		fields := map[string]any{}
		if err == nil {
			err = json.Unmarshal(out, &fields)
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", file, err, out, d.Log())
		}
		return fields
	}
	made := printed("create.sh", "")
	id, _ := made["id"].(string)
	if made["status"] != "ready" || made["mode"] != "docker" || made["image"] != "astraforge/codex-cli:latest" {
		t.Errorf("created %v", made)
	}
	ran := printed("exec.sh", id)
	if text, _ := ran["stdout"].(string); ran["exit_code"] != 0.0 || !strings.HasPrefix(text, "total ") {
		t.Errorf("ran %v", ran)
	}
	caller{t, d, d.Key}.call(http.MethodDelete, id, nil, http.StatusNoContent)
}
