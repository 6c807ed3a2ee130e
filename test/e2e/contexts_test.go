package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// TestContexts runs the image python's kernel in real sandboxes: what its processes,
// limits and users are, which needs the driver. What code answers is in
// internal/contexts.
func TestContexts(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	d := blackbox.New(t, blackbox.Options{Images: blackbox.KernelImages(t)})
	d.Start()
	client := d.Client(d.Key)
	ctx := t.Context()
	create := func(t *testing.T, image string) *sandkasten.Session {
		t.Helper()
		s, err := client.CreateSession(ctx, &sandkasten.CreateOptions{Image: image, MemoryMB: 256})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Destroy(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	run := func(t *testing.T, s *sandkasten.Session, code string) sandkasten.CodeRun {
		t.Helper()
		r, err := s.RunCode(ctx, code, nil)
		if err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		return r
	}
	s := create(t, "python")

	t.Run("memory over the limit", func(t *testing.T) {
		run(t, s, "x = 1")
		if r := run(t, s, "b = b'x' * (1 << 30)"); r.Cause != "oom_killed" || !r.StateLost || r.PeakMemoryBytes < 100<<20 {
			t.Errorf("%+v", r)
		}
		if r := run(t, s, "'x' in globals()"); r.Text() != "False" || !r.NewKernel {
			t.Errorf("%+v", r)
		}
	})
	t.Run("another user", func(t *testing.T) {
		where := run(t, s, "import ipykernel.connect as c; print(c.get_connection_file())").Stdout
		dir := filepath.Dir(strings.TrimSpace(where))
		look := fmt.Sprintf("cat %s/connection.json; ls %s; python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('%s/s-1')\"", dir, dir, dir)
		r, err := s.RunProcess(ctx, []string{"sh", "-c", look}, &sandkasten.ProcessOptions{User: "1000:1000"})
		if err != nil || strings.Contains(r.Stdout, "key") || strings.Count(strings.ToLower(r.Stderr), "permission denied") != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		r, err = s.RunProcess(ctx, []string{"cat", dir + "/connection.json"}, nil) // the control
		if err != nil || !strings.Contains(r.Stdout, "key") {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("nothing of ours listens on TCP", func(t *testing.T) {
		ports, err := s.ListPorts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ports {
			if p.Address != "127.0.0.1" && p.Address != "::1" {
				t.Errorf("%+v", p)
			}
		}
	})
	t.Run("pause, stop and a daemon that is killed", func(t *testing.T) {
		run(t, s, "x = 2")
		if _, err := s.Pause(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if r := run(t, s, "x"); r.Text() != "2" {
			t.Errorf("behind a pause: %+v", r)
		}
		d.Kill()
		d.Start()
		if r := run(t, s, "x"); r.Text() != "2" || r.NewKernel {
			t.Errorf("behind a kill -9 of the daemon: %+v", r)
		}
		if _, err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if r := run(t, s, "'x' in globals()"); r.Text() != "False" || !r.NewKernel {
			t.Errorf("behind a stop: %+v", r)
		}
	})
	t.Run("forks and snapshots have files and no kernels", func(t *testing.T) {
		run(t, s, "x = 3; open('/workspace/f', 'w').write('kept')")
		made, err := s.Fork(ctx, 1, nil)
		if err != nil || made.DroppedContexts != 1 {
			t.Fatalf("%+v, %v", made, err)
		}
		fork := made.Sessions[0]
		t.Cleanup(func() {
			if err := fork.Destroy(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
		if r := run(t, fork, "'x' in globals(), open('/workspace/f').read()"); r.Text() != "(False, 'kept')" || !r.NewKernel {
			t.Errorf("a fork: %+v", r)
		}
		if r := run(t, s, "x"); r.Text() != "3" || r.NewKernel {
			t.Errorf("behind the fork: %+v", r)
		}
		saved, err := s.Snapshot(ctx, nil)
		if err != nil || saved.DroppedContexts != 1 {
			t.Errorf("%+v, %v", saved, err)
		}
		if again, err := create(t, "base").Snapshot(ctx, nil); err != nil || again.DroppedContexts != 0 {
			t.Errorf("without contexts: %+v, %v", again, err)
		}
	})
	t.Run("an image without a kernel", func(t *testing.T) {
		if _, err := create(t, "base").RunCode(ctx, "1", nil); err == nil || !strings.Contains(err.Error(), "pip: [ipykernel") {
			t.Errorf("%v", err)
		}
	})
	t.Run("the command line", func(t *testing.T) {
		runCode := func(stdin string, args ...string) (stdout, stderr string, code int) {
			cmd := d.Command(append([]string{"run-code"}, args...)...)
			cmd.Stdin = strings.NewReader(stdin)
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			cmd.Run() // the code says how it went
			return out.String(), errs.String(), cmd.ProcessState.ExitCode()
		}
		if out, _, code := runCode("print('hi')\ny = 3\ny + 1", s.ID, "-"); out != "hi\n4\n" || code != 0 {
			t.Errorf("%q, %d", out, code)
		}
		if _, errs, code := runCode("", s.ID, "1 / 0"); !strings.Contains(errs, "ZeroDivisionError") || code != 1 {
			t.Errorf("%q, %d", errs, code)
		}
		dir := filepath.Join(t.TempDir(), "plots")
		code := `import base64; from IPython.display import Image; Image(data=base64.b64decode("iVBORw0KGgo="), format="png")`
		if _, errs, code := runCode(code, "--pictures", dir, s.ID, "-"); code != 0 {
			t.Errorf("%s, %d", errs, code)
		}
		if _, err := os.Stat(filepath.Join(dir, "1.png")); err != nil {
			t.Error(err)
		}
	})
}
