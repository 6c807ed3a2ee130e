package toolset_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/agents/toolset"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func needDaemon(t *testing.T) *sandkasten.Client {
	t.Helper()
	if os.Getenv("SANDKASTEN_FLAKY_URL") == "" {
		t.Skip("no daemon: see sdk/contract/README.md") //nolint:forbidigo // testenv belongs to another module; the task starts a daemon
	}
	client, err := sandkasten.New(sandkasten.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// block is the sandbox of a prompt's frontmatter.
func block(t *testing.T, text string) *frontmatter.Sandbox {
	t.Helper()
	p, err := frontmatter.Parse("a.prompt", "---\nsandbox: "+text+"\n---\n")
	if err != nil {
		t.Fatal(err)
	}
	return p.Sandbox
}

// options are of a run, which ends with the test.
func options(t *testing.T, client *sandkasten.Client, run string) toolset.Options {
	t.Helper()
	o := toolset.Options{
		Client: client, Images: frontmatter.DefaultImages(),
		Run: tools.Scope{Namespace: "workflow", ID: run}, Agent: tools.Scope{Namespace: "agent", ID: run + ":agent"},
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		for _, scope := range []tools.Scope{o.Run, o.Agent} {
			if _, err := client.CompleteScope(ctx, scope.String(), nil); err != nil {
				t.Error(err)
			}
		}
	})
	return o
}

// offline is a client of nothing.
func offline(t *testing.T) toolset.Options {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	return toolset.Options{Client: client, Run: tools.Scope{Namespace: "workflow", ID: "r"}, Agent: tools.Scope{Namespace: "agent", ID: "r"}}
}

func TestModesHaveTheirTools(t *testing.T) {
	t.Parallel()
	for text, wants := range map[string]string{
		"python":       "sandbox_run",
		"{}":           "sandbox_run",
		"{mode: code}": "sandbox_open sandbox_close sandbox_exec sandbox_exec_read sandbox_exec_wait",
	} {
		set, err := toolset.New(block(t, text), offline(t))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range set.Tools() {
			names = append(names, tool.Name)
		}
		got := strings.Join(names, " ")
		if !strings.HasPrefix(got, wants) || slices.Contains(names, "sandbox_run") != (wants == "sandbox_run") {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// A model is told the defaults that the block decides, in the tools that have them.
func TestDefaultsOfTheBlock(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct{ tool, want string }{
		"node": {"sandbox_run", `"default":"node"`}, "python": {"sandbox_run", `"default":120`},
		"{timeout_seconds: 30}":               {"sandbox_run", `"default":30`},
		"{mode: code, timeout_seconds: 1800}": {"sandbox_exec", `If left out: 1800`},
		"{mode: code, timeout_seconds: 1801}": {"sandbox_exec_wait", `"default":60`},
	} {
		set, err := toolset.New(block(t, text), offline(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range set.Tools() {
			if tool.Name == c.tool && !strings.Contains(string(tool.Schema), c.want) {
				t.Errorf("%s: %s has %s, want %s", text, tool.Name, tool.Schema, c.want)
			}
		}
	}
}

// A call that names no runtime has that of the block.
func TestComputeModeRunsItsRuntime(t *testing.T) {
	t.Parallel()
	set, err := toolset.New(block(t, "bash"), options(t, needDaemon(t), "runtime"))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Runtime, Stdout string }
	if call(t, set, "sandbox_run", map[string]string{"code": "echo $((1 + 1))"}, &answer); answer.Runtime != "bash" || answer.Stdout != "2\n" {
		t.Errorf("got %+v", answer)
	}
}

// TestModelDoesNotSetLimits sends what a prompt file decides.
func TestModelDoesNotSetLimits(t *testing.T) {
	t.Parallel()
	set, err := toolset.New(block(t, "{mode: code, limits: {memory_mb: 64}}"), offline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"image":"big"`, `"limits":{"memory_mb":4096}`, `"network":"internet"`, `"workspace":"other"`} {
		name, _, _ := strings.Cut(field, ":")
		for _, tool := range set.Tools() {
			if tool.Name == "sandbox_open" && strings.Contains(string(tool.Schema), name) {
				t.Errorf("the model is told of %s", name)
			}
		}
		if r := set.Call(t.Context(), "sandbox_open", json.RawMessage("{"+field+"}")); !r.IsError || !strings.Contains(r.Text(), "prompt file") {
			t.Errorf("%s: %s", field, r.Text())
		}
	}
	for name, args := range map[string]string{"sandbox_run": `{"code":"1"}`, "no_tool": "{}"} {
		if r := set.Call(t.Context(), name, json.RawMessage(args)); !r.IsError || !strings.Contains(r.Text(), "the tools are sandbox_open") {
			t.Errorf("%s: %s", name, r.Text())
		}
	}
	if r := set.Call(t.Context(), "sandbox_open", json.RawMessage("[]")); !r.IsError || !strings.Contains(r.Text(), "one JSON object") {
		t.Errorf("a list: %s", r.Text())
	}
}

type opened struct {
	SandboxID string `json:"sandbox_id"`
	Image     string `json:"image"`
	Created   bool   `json:"created"`
	Network   string `json:"network"`
}

func open(t *testing.T, s *frontmatter.Sandbox, o toolset.Options) (*toolset.Toolset, opened) {
	t.Helper()
	set, err := toolset.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	var answer opened
	call(t, set, "sandbox_open", nil, &answer)
	return set, answer
}

func call(t *testing.T, set *toolset.Toolset, name string, args, answer any) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r := set.Call(t.Context(), name, text)
	if r.IsError {
		t.Fatalf("%s: %s", name, r.Text())
	}
	if err := json.Unmarshal(r.JSON, answer); err != nil {
		t.Fatal(err)
	}
}

func TestSessionsOfARun(t *testing.T) {
	t.Parallel()
	o := options(t, needDaemon(t), "sessions-of-a-run")
	_, shared := open(t, block(t, "{mode: code, limits: {memory_mb: 96, cpu_millicores: 500, workspace_mb: 64, timeout_seconds: 300}}"), o)
	_, again := open(t, block(t, "{mode: code, session: default}"), o)
	_, named := open(t, block(t, "{mode: code, session: other}"), o)
	_, namedAgain := open(t, block(t, "{mode: code, session: other}"), o)
	_, isolated := open(t, block(t, "{mode: code, session: isolated}"), o)
	if !shared.Created || again.Created || again.SandboxID != shared.SandboxID || namedAgain.SandboxID != named.SandboxID {
		t.Errorf("shared %+v and %+v, named %+v and %+v", shared, again, named, namedAgain)
	}
	if named.SandboxID == shared.SandboxID || isolated.SandboxID == shared.SandboxID || shared.Network != "none" {
		t.Errorf("shared %+v, named %+v, isolated %+v", shared, named, isolated)
	}
	session, err := o.Client.GetSession(t.Context(), shared.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	i := session.Info
	if i.Limits.MemoryMB != 96 || i.Limits.CPU != 0.5 || i.Limits.DiskMB != 64 || i.TTLSeconds != 300 {
		t.Errorf("got %+v, TTL %d", i.Limits, i.TTLSeconds)
	}
}

func TestComputeModeRunsCode(t *testing.T) {
	t.Parallel()
	set, err := toolset.New(block(t, "{runtime: python, max_stdout_bytes: 300, timeout_seconds: 30}"), options(t, needDaemon(t), "compute"))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		ExitCode  int    `json:"exit_code"`
		Stdout    string `json:"stdout"`
		Truncated bool   `json:"truncated"`
		Limits    struct {
			Timeout int `json:"timeout_seconds"`
		} `json:"limits"`
	}
	call(t, set, "sandbox_run", map[string]string{"code": "print('x' * 1000)"}, &answer)
	if answer.ExitCode != 0 || !answer.Truncated || answer.Limits.Timeout != 30 {
		t.Errorf("got %+v", answer)
	}
}

// restore goes back to a snapshot that it makes, and returns the sandbox.
func restore(t *testing.T, set *toolset.Toolset, sandbox string) string {
	t.Helper()
	var saved struct {
		ID string `json:"snapshot_id"`
	}
	call(t, set, "sandbox_snapshot", map[string]any{"sandbox_id": sandbox}, &saved)
	var restored opened
	call(t, set, "sandbox_restore", map[string]any{"snapshot_id": saved.ID}, &restored)
	return restored.SandboxID
}

// A model that goes back to a snapshot has the sandbox that it had opened.
func TestRestoredLikeItWasOpened(t *testing.T) {
	t.Parallel()
	o := options(t, needDaemon(t), "restored")
	set, err := tools.New(tools.Options{Client: o.Client, Scope: o.Run})
	if err != nil {
		t.Fatal(err)
	}
	use := func(name, args string, answer any) {
		t.Helper()
		r := set.Call(t.Context(), name, json.RawMessage(args))
		if err := json.Unmarshal(r.JSON, answer); r.IsError || err != nil {
			t.Fatalf("%s: %s", name, r.Text())
		}
	}
	var box, restored opened
	use("sandbox_open", `{"limits": {"memory_mb": 96, "cpu_millicores": 500, "workspace_mb": 64, "timeout_seconds": 300}, "network": "none"}`, &box)
	var saved struct {
		ID string `json:"snapshot_id"`
	}
	use("sandbox_snapshot", `{"sandbox_id": "`+box.SandboxID+`"}`, &saved)
	use("sandbox_restore", `{"snapshot_id": "`+saved.ID+`"}`, &restored)
	session, err := o.Client.GetSession(t.Context(), restored.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	i := session.Info
	if i.ID == box.SandboxID || i.Limits.MemoryMB != 96 || i.Limits.CPU != 0.5 || i.Limits.DiskMB != 64 || i.TTLSeconds != 300 || i.NetworkMode != "none" {
		t.Errorf("restored %+v, TTL %d, network %s", i.Limits, i.TTLSeconds, i.NetworkMode)
	}
}

// installer stands for pip: it notes what it was given.
const installer = `mkdir -p /opt/packages; for one in "$@"; do echo "$one" >> /opt/packages/list; done; echo /workspace/no > /workspace/no`

func TestPackagesAreInstalledOnce(t *testing.T) {
	t.Parallel()
	o := options(t, needDaemon(t), "packages")
	o.Installers.Pip = []string{"sh", "-c", installer, "pip"}
	s := block(t, "{mode: code, image: python, pip_packages: [requests==2.32.0, attrs], limits: {memory_mb: 96}}")
	count := func() int {
		saved, err := o.Client.ListSnapshots(t.Context(), &sandkasten.ListSnapshotsOptions{Name: "agent-packages"})
		if err != nil {
			t.Fatal(err)
		}
		return len(saved)
	}
	check := func(s *frontmatter.Sandbox, want string) {
		t.Helper()
		set, sandbox := open(t, s, o)
		var answer struct {
			Stdout string `json:"stdout"`
		}
		call(t, set, "sandbox_exec", map[string]any{
			"sandbox_id": sandbox.SandboxID, "cmd": []string{"sh", "-c", "tr '\\n' ' ' < /opt/packages/list; ls -A /workspace"},
		}, &answer)
		if answer.Stdout != want || sandbox.Network != "none" {
			t.Errorf("got %q, network %s", answer.Stdout, sandbox.Network)
		}
		restored := restore(t, set, sandbox.SandboxID)
		call(t, set, "sandbox_exec", map[string]any{"sandbox_id": restored, "cmd": []string{"sh", "-c", "tr '\\n' ' ' < /opt/packages/list"}}, &answer)
		if answer.Stdout != want {
			t.Errorf("restored, it has %q", answer.Stdout)
		}
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		saved, err := o.Client.ListSnapshots(ctx, &sandkasten.ListSnapshotsOptions{Name: "agent-packages"})
		for _, one := range saved {
			err = errors.Join(err, o.Client.DeleteSnapshot(ctx, one.ID))
		}
		if err != nil {
			t.Error(err)
		}
	})
	check(s, "attrs requests==2.32.0 ")
	if n := count(); n != 1 {
		t.Errorf("%d snapshots after the first agent", n)
	}
	other := *s
	other.Session, other.PipPackages = "second", []string{"attrs", "requests==2.32.0"} // the same list
	check(&other, "attrs requests==2.32.0 ")
	if n := count(); n != 1 {
		t.Errorf("%d snapshots after the second agent", n)
	}
	other.Session, other.PipPackages = "third", []string{"attrs"}
	check(&other, "attrs ")
	if n := count(); n != 2 {
		t.Errorf("%d snapshots after another list", n)
	}
}

// labelOfAttrs is of a snapshot with attrs on the image sha256:a.
const labelOfAttrs = "packages-4737e3b8448a8e015a9090174317fd0c"

// What another owner has saved under the same name and label is nothing to begin with,
// though an admin's key sees it.
func TestPackagesOfOthersAreNotTaken(t *testing.T) {
	t.Parallel()
	for owner, restored := range map[string]bool{"admin": true, "mallory": false} {
		t.Run(owner, func(t *testing.T) {
			t.Parallel()
			began := make(chan sandkasten.CreateOptions, 1)
			mux := http.NewServeMux()
			answer := func(path string, value any) {
				mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(value) })
			}
			answer("GET /v1/me", sandkasten.Me{Owner: "admin", Admin: true})
			answer("GET /v1/images/python", sandkasten.Image{Digest: "sha256:a"})
			answer("GET /v1/sessions", []any{})
			answer("GET /v1/snapshots", map[string]any{"snapshots": []sandkasten.Snapshot{{ID: "planted", Owner: owner, Name: "agent-packages", Label: labelOfAttrs}}})
			mux.HandleFunc("POST /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
				var options sandkasten.CreateOptions
				_ = json.NewDecoder(r.Body).Decode(&options)
				select {
				case began <- options:
				default:
				}
				http.Error(w, `{"error":"no","code":"permission_denied"}`, http.StatusForbidden)
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
			if err != nil {
				t.Fatal(err)
			}
			o := offline(t)
			o.Client = client
			set, err := toolset.New(block(t, "{mode: code, image: python, pip_packages: [attrs]}"), o)
			if err != nil {
				t.Fatal(err)
			}
			said := set.Call(t.Context(), "sandbox_open", nil)
			select {
			case options := <-began:
				if got := options.RestoreSnapshotID == "planted"; got != restored || !restored && (options.Network == nil || options.Network.Mode != "allow") {
					t.Errorf("it begins with %+v", options)
				}
			default:
				t.Errorf("no session: %s", said.Text())
			}
		})
	}
}

// A refusal keeps its code and its reason, and is not asked for again at once.
func TestRefusalBeforeTheFirstCommand(t *testing.T) {
	t.Parallel()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		if _, err := w.Write([]byte(`{"code":"permission_denied","error":"the key may not use mode allow"}`)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	o := offline(t)
	o.Client = client
	set, err := toolset.New(block(t, "{mode: code, image: python, pip_packages: [requests]}"), o)
	if err != nil {
		t.Fatal(err)
	}
	first := set.Call(t.Context(), "sandbox_open", nil)
	once := asked
	set.Call(t.Context(), "sandbox_open", nil)
	for _, want := range []string{`"code":"permission_denied"`, "may not use mode allow", "tell the user"} {
		if !strings.Contains(first.Text(), want) {
			t.Errorf("no %s in %s", want, first.Text())
		}
	}
	if once == 0 || asked != once {
		t.Errorf("asked %d times, then %d", once, asked)
	}
}

func TestFailedInstallationIsToldToTheModel(t *testing.T) {
	t.Parallel()
	o := options(t, needDaemon(t), "failed-packages")
	o.Installers.Npm = []string{"sh", "-c", "echo no such package: $1, $(cat /proc/sys/kernel/random/uuid) >&2; exit 3", "npm"}
	set, err := toolset.New(block(t, "{mode: code, image: python, npm_packages: [left-pad]}"), o)
	if err != nil {
		t.Fatal(err)
	}
	r := set.Call(t.Context(), "sandbox_open", nil)
	if again := set.Call(t.Context(), "sandbox_open", nil); again.Text() != r.Text() {
		t.Errorf("it was tried again at once: %s", again.Text())
	}
	for _, want := range []string{"could not be installed", "ended with 3", "no such package: left-pad"} {
		if !r.IsError || !strings.Contains(r.Text(), want) {
			t.Errorf("no %q in %s", want, r.Text())
		}
	}
}
