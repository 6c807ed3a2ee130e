// Package compose starts what deploy has, as its users do. What the parts do
// when they run is tested where they are.
package compose

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// project is a compose file in a copy of the repository's folders, on the
// engine of env. It ends with the test.
type project struct {
	t    *testing.T
	file string
	env  []string
}

func newProject(t *testing.T, file string, env ...string) project {
	t.Helper()
	if _, err := exec.LookPath("docker-compose"); err != nil {
		testenv.Unsupported(t, "no docker-compose; install it")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(testenv.Build(t, "./cmd/sandkasten"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "sandkasten"), program, 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	p := project{t, filepath.Join(dir, "deploy", file), env}
	t.Cleanup(func() {
		if t.Failed() {
			if logs, err := p.run(context.WithoutCancel(t.Context()), nil, "logs", "--tail=20"); err == nil {
				t.Log(logs)
			}
		}
		if _, err := p.run(context.WithoutCancel(t.Context()), nil, "down", "--volumes"); err != nil {
			t.Error(err)
		}
	})
	p.must(nil, "up", "--build", "--detach")
	return p
}

func (p project) run(ctx context.Context, in io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker-compose", append([]string{"-p", "sandkasten", "-f", p.file}, args...)...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdin = in
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		p.t.Logf("docker-compose %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), err
}

func (p project) must(in io.Reader, args ...string) string {
	p.t.Helper()
	out, err := p.run(p.t.Context(), in, args...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// TestDocker has a daemon in a container make sessions of others beside it.
func TestDocker(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	e := testenv.StartEngine(t)
	checkDeployed(t, e, "8787", "kept", "compose.docker.yaml", "SANDKASTEN_ENGINE="+strings.TrimPrefix(e.Host, "unix://"))
}

// TestNative has a daemon in a container make sandboxes in that. They end with it,
// and can be started again.
func TestNative(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	e := testenv.StartEngine(t)
	cmd := exec.CommandContext(t.Context(), "docker", "--host", e.Host, "import", "-", "base")
	cmd.Stdin = rootfs(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	checkDeployed(t, e, "8788", "", "compose.native.yaml", "SANDKASTEN_BASE=base")
}

// TestOrchestrator has a daemon in a container serve the orchestrator's API, whose
// snapshots are on the S3 server beside it. The daemon's own files are lost meanwhile
// but for its database.
func TestOrchestrator(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	e := testenv.StartEngine(t)
	giveS3(t, e)
	const key, id = "sk_of_the_test_of_this_file", "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"
	listen := testenv.OwnIP().String() + ":8001"
	p := newProject(t, "compose.orchestrator.yaml", "DOCKER_HOST="+e.Host, "SANDKASTEN_ENGINE="+strings.TrimPrefix(e.Host, "unix://"),
		"SANDKASTEN_LISTEN="+listen, "SANDKASTEN_S3_LISTEN="+testenv.OwnIP().String()+":7070", "SANDKASTEN_S3_SECRET=secret-of-the-test", "SANDKASTEN_API_KEY="+key)
	awaitReady(t, listen)
	p.must(rootfs(t), "exec", "-T", "sandkasten", "/sandkasten", "image", "import", "--name", "python", "--tar", "-")
	call := func(method, path, body string, want int) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+listen+"/api/sandbox/sessions"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, text, err)
		}
		return string(text)
	}
	// As the original's documentation sends it; this engine has no quotas.
	made := call(http.MethodPost, "", `{"id": "`+id+`", "mode": "docker", "image": "astraforge/codex-cli:latest", "cpu": "1", "memory": "2Gi",
		"ephemeral_storage": "5Gi", "restore_snapshot_id": null, "idle_timeout_sec": 300, "max_lifetime_sec": 3600}`, http.StatusCreated)
	if !strings.Contains(made, `"ephemeral_storage_enforced":false`) {
		t.Errorf("the answer does not say that nothing bounds the storage: %s", made)
	}
	if logs := p.must(nil, "logs", "sandkasten"); !strings.Contains(logs, "cannot bound what a session writes") || !strings.Contains(logs, "5Gi") {
		t.Errorf("the log does not say it: %s", logs)
	}
	call(http.MethodPost, "/"+id+"/exec", `{"command": "echo kept >file"}`, http.StatusOK)
	call(http.MethodPost, "/"+id+"/stop", "", http.StatusNoContent)
	if found := p.must(nil, "exec", "-T", "s3", "find", "/data/sandkasten", "-type", "f", "-size", "+0"); found == "" {
		t.Error("the bucket is empty")
	}
	p.must(nil, "up", "--force-recreate", "--detach")
	awaitReady(t, listen)
	if got := call(http.MethodPost, "/"+id+"/exec", `{"command": "cat file"}`, http.StatusOK); !strings.Contains(got, `"stdout":"kept\n"`) {
		t.Errorf("after the stop: %s", got)
	}
	call(http.MethodDelete, "/"+id, "", http.StatusNoContent)
}

// giveS3 has the engine know the S3 server's image, which the tests make themselves:
// its program, and what a program needs.
func giveS3(t *testing.T, e *testenv.Engine) {
	t.Helper()
	program, err := os.ReadFile(testenv.Tool(t, "tools/s3", "github.com/versity/versitygw/cmd/versitygw"))
	if err != nil {
		t.Fatal(err)
	}
	layer := t.TempDir()
	bin := filepath.Join(layer, "usr", "local", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "versitygw"), program, 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	archive, w := io.Pipe()
	go func() { w.CloseWithError(flatten.Write(t.Context(), w, []string{layer, testenv.BaseRootfs(t)})) }()
	cmd := exec.CommandContext(t.Context(), "docker", "--host", e.Host, "import", "-", "versity/versitygw:v1.8.0")
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
}

// checkDeployed takes a session of a daemon in a container over the
// container's restart and its replacement. Its files are there then, and in
// its shell is what memory says.
func checkDeployed(t *testing.T, e *testenv.Engine, port, memory, file string, env ...string) {
	t.Helper()
	listen := testenv.OwnIP().String() + ":" + port
	p := newProject(t, file, append(env, "DOCKER_HOST="+e.Host, "SANDKASTEN_LISTEN="+listen)...)
	awaitReady(t, listen)
	p.must(rootfs(t), "exec", "-T", "sandkasten", "/sandkasten", "image", "import", "--name", "base", "--tar", "-")
	if got := p.must(nil, "exec", "-T", "sandkasten", "/sandkasten", "run", "base", "--", "sh", "-c", "echo $((6 * 7))"); got != "42\n" {
		t.Errorf("run: %q", got)
	}
	id := strings.TrimSpace(p.must(nil, "exec", "-T", "sandkasten", "/sandkasten", "create", "base", "--workspace", "kept"))
	p.must(nil, "exec", "-T", "sandkasten", "/sandkasten", "exec", id, "--", "x=kept; echo own >/root/own; echo file >file")
	for name, args := range map[string][]string{"restarted": {"restart"}, "replaced": {"up", "--force-recreate", "--detach"}} {
		p.must(nil, args...)
		awaitReady(t, listen)
		p.must(nil, "exec", "-T", "sandkasten", "/sandkasten", "start", id)
		if got := p.must(nil, "exec", "-T", "sandkasten", "/sandkasten", "exec", id, "--", "cat /root/own; echo $x"); got != "own\n"+memory+"\n" {
			t.Errorf("%s: %q", name, got)
		}
		if got := p.must(nil, "exec", "-T", "sandkasten", "/sandkasten", "run", "--workspace", "kept", "base", "--", "cat", "file"); got != "file\n" {
			t.Errorf("%s, its workspace in another session: %q", name, got)
		}
	}
	p.must(nil, "exec", "-T", "sandkasten", "/sandkasten", "rm", id)
}

// rootfs is an archive of the tests' root file system.
func rootfs(t *testing.T) io.Reader {
	t.Helper()
	dir := testenv.BaseRootfs(t)
	archive, w := io.Pipe()
	go func() { w.CloseWithError(flatten.Write(t.Context(), w, []string{dir})) }()
	return archive
}

// awaitReady waits until a daemon that is starting takes requests.
func awaitReady(t *testing.T, address string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, err := c.Get("http://" + address + "/readyz") //nolint:noctx // bounded by the loop
		if err == nil {
			err = got.Body.Close()
		}
		if err == nil && got.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it does not become ready: %v", err)
		}
	}
}
