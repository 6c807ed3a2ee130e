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
	e := testenv.StartEngine(t)
	checkDeployed(t, e, "kept", "compose.docker.yaml", "SANDKASTEN_ENGINE="+strings.TrimPrefix(e.Host, "unix://"))
}

// TestNative has a daemon in a container make sandboxes in that. They end with it,
// and can be started again.
func TestNative(t *testing.T) {
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t)
	cmd := exec.CommandContext(t.Context(), "docker", "--host", e.Host, "import", "-", "base")
	cmd.Stdin = rootfs(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	checkDeployed(t, e, "", "compose.native.yaml", "SANDKASTEN_BASE=base")
}

// checkDeployed takes a session of a daemon in a container over the
// container's restart and its replacement. Its files are there then, and in
// its shell is what memory says.
func checkDeployed(t *testing.T, e *testenv.Engine, memory, file string, env ...string) {
	t.Helper()
	listen := testenv.OwnIP().String() + ":8787"
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
