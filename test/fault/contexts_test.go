package fault

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// Whatever ends under a run of a context, its answer says so, the next run works, and no
// run gets the answer of another.
func TestF40_Contexts(t *testing.T) {
	t.Parallel()
	t.Run("native", func(t *testing.T) {
		t.Parallel()
		h := prepare(t, blackbox.Options{Images: blackbox.KernelImages(t)})
		h.Start()
		breakContexts(t, h)
		t.Run("the disk is full", func(t *testing.T) { fillContext(t, h) })
	})
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		testenv.NeedsRoot(t)
		e := testenv.StartEngine(t)
		h := prepare(t, blackbox.Options{Images: blackbox.KernelImages(t), Config: fmt.Sprintf("driver: docker\ndocker: {host: %q}\n", e.Host)})
		h.Start()
		breakContexts(t, h)
	})
}

// brokenRun is code that is underway while a fault happens.
type brokenRun struct {
	context, id string
	answer      chan sandkasten.CodeRun
	err         chan error
}

// beginRun begins code that shows "on" and then takes its time, and returns when it does.
func (h *host) beginRun(s *sandkasten.Session, code string) *brokenRun {
	h.t.Helper()
	r := &brokenRun{answer: make(chan sandkasten.CodeRun, 1), err: make(chan error, 1)}
	on := make(chan struct{})
	seen := sync.OnceFunc(func() { close(on) })
	go func() {
		a, err := s.RunCode(h.t.Context(), code, &sandkasten.RunCodeOptions{
			OnStart:  func(c, id string) { r.context, r.id = c, id },
			OnStdout: func(string) { seen() },
		})
		r.answer <- a
		r.err <- err
	}()
	select {
	case <-on:
	case <-time.After(time.Minute):
		h.t.Fatal("the code did not begin")
	}
	return r
}

func (h *host) runCode(s *sandkasten.Session, code string) sandkasten.CodeRun {
	h.t.Helper()
	r, err := s.RunCode(h.t.Context(), code, nil)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", code, err, h.Log())
	}
	return r
}

func breakContexts(t *testing.T, h *host) {
	const goesOn = "v = 7; print('on', flush=True)\nimport time, os\nwhile not os.path.exists('/workspace/go'): time.sleep(.02)\nv"
	newSession := func() *sandkasten.Session { return h.create(&sandkasten.CreateOptions{Image: "python", MemoryMB: 512}) }
	lost := func(t *testing.T, s *sandkasten.Session) {
		t.Helper()
		if r := h.runCode(s, "'v' in globals()"); r.Text() != "False" || !r.NewKernel {
			t.Errorf("behind it: %+v", r)
		}
		if r := h.runCode(s, "6 * 7"); r.Text() != "42" || r.NewKernel {
			t.Errorf("behind that: %+v", r)
		}
	}
	ends := []struct {
		name, cause string
		end         func(s *sandkasten.Session, pid int)
	}{
		{"the kernel is killed", "kernel_died", func(s *sandkasten.Session, pid int) { h.sh(s, fmt.Sprintf("kill -9 %d", pid)) }},
		{"the bridge is killed", "kernel_died", func(s *sandkasten.Session, pid int) {
			h.sh(s, fmt.Sprintf("kill -9 $(sed -n 's/^PPid:\\t//p' /proc/%d/status)", pid))
		}},
		{"stop in mid-run", "sandbox_gone", func(s *sandkasten.Session, _ int) {
			if _, err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}},
	}
	for _, one := range ends {
		t.Run(one.name, func(t *testing.T) {
			s := newSession()
			run := h.beginRun(s, goesOn)
			info, err := s.Context(run.context).Refresh(t.Context())
			if err != nil || info.PID == 0 || info.RunID != run.id {
				t.Fatalf("%+v, %v", info, err)
			}
			one.end(s, info.PID)
			a, err := <-run.answer, <-run.err
			if err != nil || a.Cause != one.cause || !a.StateLost || a.RunID != run.id {
				t.Errorf("%+v, %v", a, err)
			}
			if one.cause == "sandbox_gone" {
				if _, err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			lost(t, s)
		})
	}
	t.Run("the daemon is killed", func(t *testing.T) {
		s := newSession()
		run := h.beginRun(s, goesOn)
		h.Kill()
		h.Start()
		found, err := s.Context(run.context).GetRun(t.Context(), run.id, 0)
		if err != nil || found.Cause != "running" || found.Stdout != "on\n" {
			t.Errorf("%+v, %v", found, err)
		}
		h.sh(s, "touch /workspace/go")
		found, err = s.Context(run.context).GetRun(t.Context(), run.id, time.Minute)
		if err != nil || found.Text() != "7" || found.StateLost {
			t.Errorf("%+v, %v", found, err)
		}
		// Who followed it took up the stream, or knows that the connection was lost.
		var lost *sandkasten.ConnectionError
		if a, err := <-run.answer, <-run.err; err != nil && !errors.As(err, &lost) || err == nil && (a.Text() != "7" || a.RunID != run.id) {
			t.Errorf("%+v, %v", a, err)
		}
		if r := h.runCode(s, "v"); r.Text() != "7" || r.NewKernel {
			t.Errorf("%+v", r)
		}
	})
	t.Run("pause in mid-run", func(t *testing.T) {
		s := newSession()
		run := h.beginRun(s, goesOn)
		if _, err := s.Pause(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.sh(s, "touch /workspace/go")
		if a, err := <-run.answer, <-run.err; err != nil || a.Text() != "7" || a.StateLost {
			t.Errorf("%+v, %v", a, err)
		}
	})
	t.Run("no answer is another's", func(t *testing.T) {
		s := newSession()
		h.runCode(s, "n = 0")
		var group sync.WaitGroup
		for i := range 24 {
			group.Go(func() {
				code := fmt.Sprintf("print('of %d'); %d", i, i)
				if i%8 == 3 {
					code = fmt.Sprintf("print('of %d', flush=True); import os, time; time.sleep(.2); os.kill(os.getpid(), 9)", i)
				}
				r, err := s.RunCode(t.Context(), code, nil)
				var refused *sandkasten.APIError
				if err != nil && !errors.As(err, &refused) {
					t.Errorf("%d: %v", i, err)
				}
				if err == nil && (r.Stdout != "" && r.Stdout != fmt.Sprintf("of %d\n", i) || r.Text() != "" && r.Text() != fmt.Sprint(i)) {
					t.Errorf("%d: %+v", i, r)
				}
				if err == nil && r.Cause == "completed" && (r.Text() == "" || !strings.HasPrefix(r.Stdout, "of ")) {
					t.Errorf("%d has no answer: %+v", i, r)
				}
			})
		}
		group.Wait()
	})
}

// fillContext fills the disk under a run. Only the native driver's sandboxes have one of
// their own here.
func fillContext(t *testing.T, h *host) {
	t.Helper()
	s := h.create(&sandkasten.CreateOptions{Image: "python", MemoryMB: 512})
	r := h.runCode(s, "v = 7\nf = open('/workspace/big', 'wb')\nfor n in range(256): f.write(bytes(1 << 20)); f.flush()")
	if r.Cause != "error" || r.Error == nil || r.Error.Name != "OSError" || r.StateLost {
		t.Errorf("%+v %+v", r, r.Error)
	}
	// Long output has no room for its file: what is kept comes all the same.
	r = h.runCode(s, "print(('x' * 99 + '\\n') * 40_000)")
	if r.Cause != "completed" || r.StdoutDroppedBytes == 0 || len(r.Stdout) < 1<<20-4096 {
		t.Errorf("%s, %d bytes, %d dropped, %q", r.Cause, len(r.Stdout), r.StdoutDroppedBytes, r.StdoutFileError)
	}
	if r := h.runCode(s, "f.close(); os = __import__('os'); os.remove('/workspace/big'); v"); r.Text() != "7" || r.DiskFull {
		t.Errorf("%+v", r)
	}
}
