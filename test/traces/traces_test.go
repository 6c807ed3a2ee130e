// Package traces shows a run of an agent in a real Jaeger. That takes minutes to build,
// so it is in the long tier.
package traces

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// jaeger starts one, and returns where it takes spans and where it is asked for them.
func jaeger(t *testing.T) (takes, asked string) {
	t.Helper()
	program := testenv.Tool(t, "tools/jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one")
	takes, asked = free(t), free(t)
	args := []string{"--collector.otlp.enabled=true", "--collector.otlp.http.host-port=" + takes, "--query.http-server.host-port=" + asked}
	for _, other := range []string{
		"collector.otlp.grpc.host-port", "query.grpc-server.host-port", "admin.http.host-port", "collector.grpc-server.host-port", "collector.http-server.host-port",
	} {
		args = append(args, "--"+other+"="+free(t))
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's end has killed it
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if resp, err := client.Get("http://" + asked + "/api/services"); err == nil { //nolint:noctx // it is a test's own
			resp.Body.Close()
			return "http://" + takes, "http://" + asked
		}
		if time.Now().After(deadline) {
			t.Fatalf("Jaeger does not begin: %s", log.String())
		}
	}
}

var client = &http.Client{Timeout: 10 * time.Second}

func free(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// agentProgram builds sandkasten-agent, which is of another module.
func agentProgram(t *testing.T) string {
	t.Helper()
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "sandkasten-agent")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./cmd/sandkasten-agent")
	cmd.Dir = filepath.Join(root, "agents")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

const (
	prompt = "---\nsandbox: {mode: code, image: base}\n---\nSay hello.\n"
	script = `agents:
  greeter:
    - - calls: [{tool: sandbox_open}]
      - calls: [{tool: sandbox_exec, args: {sandbox_id: "${sandbox_id}", cmd: [echo, hello]}}]
      - text: 'It says ${stdout}'
`
)

// trace is what Jaeger's API returns of one.
type trace struct {
	Spans []struct {
		SpanID        string
		OperationName string
		ProcessID     string `json:"processID"`
		References    []struct{ RefType, SpanID string }
	}
	Processes map[string]struct{ ServiceName string }
}

// trees are the names of the spans, each with its service, from the roots down.
func (tr trace) trees(parent string) string {
	var all []string
	for _, s := range tr.Spans {
		above := ""
		for _, ref := range s.References {
			if ref.RefType == "CHILD_OF" {
				above = ref.SpanID
			}
		}
		if above != parent {
			continue
		}
		name := tr.Processes[s.ProcessID].ServiceName + ":" + s.OperationName
		if below := tr.trees(s.SpanID); below != "" {
			name += " > [" + below + "]"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A run of an agent is one trace in Jaeger: the agent, its tools, and below them what
// the daemon did for each.
func TestRunInJaeger(t *testing.T) {
	testenv.NeedsRoot(t)
	takes, asked := jaeger(t)
	d := blackbox.Start(t, blackbox.Options{Config: "tracing: {endpoint: " + takes + "}"})
	dir := t.TempDir()
	for name, text := range map[string]string{"greeter.prompt": prompt, "greeter.yaml": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), agentProgram(t), "run", filepath.Join(dir, "greeter.prompt"), "--model", "script:"+filepath.Join(dir, "greeter.yaml"))
	cmd.Env = append(d.Env, "SANDKASTEN_URL="+d.URL, "SANDKASTEN_API_KEY="+d.Key, "OTEL_EXPORTER_OTLP_ENDPOINT="+takes)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "It says hello") {
		t.Fatalf("%v\n%s", err, out)
	}
	d.Stop() // sends what waits
	wants := []string{
		"sandkasten-agent:agent greeter > [sandkasten-agent:model",
		"sandkasten-agent:tool.sandbox_open > [",
		"sandkasten:POST /v1/sessions > [sandkasten:manager.create > [sandkasten:driver.create",
		"sandkasten-agent:tool.sandbox_exec > [",
		"sandkasten:POST /v1/sessions/{id}/processes > [sandkasten:manager.run_process > [sandkasten:runner.start",
	}
	var seen string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) {
		seen = ""
		for _, tr := range traces(t, asked, "sandkasten-agent") {
			seen += tr.trees("") + "\n"
		}
		if !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(seen, want) }) {
			t.Log(seen)
			return
		}
	}
	t.Errorf("Jaeger shows\n%s", seen)
}

func traces(t *testing.T, asked, service string) []trace {
	t.Helper()
	resp, err := client.Get(fmt.Sprintf("%s/api/traces?service=%s&limit=20", asked, service)) //nolint:noctx // it is a test's own
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Data []trace }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.Data
}
