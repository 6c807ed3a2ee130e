package contexts_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/contexts"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var everyone = auth.Principal{Owner: "alice", Scopes: auth.ScopeDaemon}

type images struct{}

func (images) Resolve(context.Context, string) (string, error) { return runtimetest.LocalImage, nil }

// host is where daemons come and go over the same sandboxes.
type host struct {
	driver *runtimetest.Local
	rows   *store.Store
	path   string // of Python
}

func newHost(t *testing.T, packages ...string) *host {
	t.Helper()
	db, err := store.Open(t.Context(), storetest.NewDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &host{driver: runtimetest.NewLocal(t), rows: db, path: testenv.KernelPath(t, packages...)}
}

// daemon is a manager and the contexts over it.
type daemon struct {
	*contexts.Service

	manager *session.Manager
	stop    func()
}

func (h *host) start(t *testing.T) *daemon {
	t.Helper()
	m := session.New(session.Options{Store: h.rows, Driver: h.driver, Images: images{}, Defaults: session.Defaults{Image: "base"}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	d := &daemon{manager: m, Service: contexts.New(contexts.Options{
		Execs: m.Execs,
		Image: func(context.Context, auth.Principal, session.ID) (string, error) { return "base", nil },
		Timeouts: func(auth.Principal) (time.Duration, time.Duration) {
			return time.Minute, 10 * time.Minute
		},
		Grace: time.Second,
	})}
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(d.stop)
	testenv.Eventually(t, "the manager is ready", m.Ready)
	return d
}

func (h *host) session(t *testing.T, d *daemon) session.ID {
	t.Helper()
	s, err := d.manager.Sessions.Create(t.Context(), everyone, session.CreateRequest{Env: map[string]string{
		"PYTHONPATH": h.path, "PATH": "/usr/bin:/bin", "IPYTHONDIR": t.TempDir(), "MPLCONFIGDIR": t.TempDir(), "HOME": t.TempDir(), "TMPDIR": t.TempDir(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

func (d *daemon) run(t *testing.T, id session.ID, code string) contexts.Answer {
	t.Helper()
	_, a, err := d.RunCode(t.Context(), everyone, id, "python", contexts.RunRequest{Code: code}, nil)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return a
}

// main is the value of the last expression.
func mainText(a contexts.Answer) string {
	for _, r := range a.Results {
		if text, ok := r.Data["text/plain"].(string); ok && r.IsMainResult {
			return text
		}
	}
	return ""
}

func TestCodeIsRemembered(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	if a := d.run(t, id, "x = 20\nimport math"); a.Cause != contexts.CauseCompleted || len(a.Results) != 0 || a.ExecutionCount != 1 {
		t.Errorf("%+v", a)
	}
	if a := d.run(t, id, "print('hi'); x + 1"); a.Stdout != "hi\n" || mainText(a) != "21" || a.ExecutionCount != 2 {
		t.Errorf("%+v", a)
	}
	all, err := d.List(t.Context(), everyone, id)
	if err != nil || len(all) != 1 || all[0].Name != "default-python" || all[0].Language != "python" || !all[0].Running {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestAnswers holds what an answer says of one piece of code.
func TestAnswers(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	tests := []struct {
		name, code string
		holds      func(a contexts.Answer) bool
	}{
		{"an exception", "1 / 0", func(a contexts.Answer) bool {
			return a.Cause == contexts.CauseError && a.Error.Name == "ZeroDivisionError" && a.Error.Value == "division by zero" && strings.Contains(a.Error.Traceback, "1 / 0") && !strings.Contains(a.Error.Traceback, "\x1b")
		}},
		{"a syntax error", "x =", func(a contexts.Answer) bool { return a.Error.Name == "SyntaxError" }},
		{"sys.exit is an exception and no end", "import sys; sys.exit(3)", func(a contexts.Answer) bool { return a.Error.Name == "SystemExit" && !a.StateLost }},
		{"stderr apart", "import sys; print('e', file=sys.stderr)", func(a contexts.Answer) bool { return a.Stderr == "e\n" && a.Stdout == "" }},
		{"await", "import asyncio; await asyncio.sleep(0, 'slept')", func(a contexts.Answer) bool { return mainText(a) == "'slept'" }},
		{"a magic", "%who_ls", func(a contexts.Answer) bool { return a.Cause == contexts.CauseCompleted && mainText(a) != "" }},
		{"a shell's command", "!echo from sh", func(a contexts.Answer) bool { return strings.TrimSpace(a.Stdout) == "from sh" }},
		{"input is refused", "input('name?')", func(a contexts.Answer) bool { return a.Error.Name == "StdinNotImplementedError" }},
		{"a progress bar is one line", "for i in range(100): print(f'\\r{i}%', end='')\nprint()", func(a contexts.Answer) bool { return a.Stdout == "99%\n" }},
		{"rich results", "from IPython.display import *; display(HTML('<b>x</b>')); display(JSON({'a_b': [1]})); Markdown('# y')", func(a contexts.Answer) bool {
			return len(a.Results) == 3 && a.Results[0].Data["text/html"] == "<b>x</b>" && a.Results[1].Data["application/json"].(map[string]any)["a_b"] != nil &&
				!a.Results[1].IsMainResult && a.Results[2].IsMainResult && a.Results[2].Data["text/markdown"] == "# y"
		}},
		{"an update", "h = display('old', display_id='d'); h.update('new')", func(a contexts.Answer) bool {
			return len(a.Results) == 1 && a.Results[0].DisplayID == "d" && a.Results[0].Data["text/plain"] == "'new'"
		}},
		{"clear_output", "from IPython.display import clear_output\nprint('gone'); display('gone'); clear_output(); print('kept')", func(a contexts.Answer) bool { return a.Stdout == "kept\n" && len(a.Results) == 0 }},
		{"clear_output that waits", "print('gone'); clear_output(wait=True); print('kept')", func(a contexts.Answer) bool { return a.Stdout == "kept\n" }},
		{"help", "len?", func(a contexts.Answer) bool {
			return len(a.Results) == 1 && strings.Contains(a.Results[0].Data["text/plain"].(string), "Signature")
		}},
		{"a surrogate, which the kernel cannot send", "print('\\ud800x')", func(a contexts.Answer) bool {
			return a.Cause == contexts.CauseCompleted && strings.Contains(a.Stderr, "surrogates not allowed")
		}},
		{"no code", "", func(a contexts.Answer) bool { return a.Cause == contexts.CauseCompleted }},
		{"what the program below prints", "import os; os.write(1, b'raw\\n'); import time; time.sleep(.3)", func(a contexts.Answer) bool { return a.Stdout == "raw\n" }},
		{"a forged frame", `print('{"tag": "x", "kind": "end", "answer": {}}')`, func(a contexts.Answer) bool {
			return a.Cause == contexts.CauseCompleted && strings.Contains(a.Stdout, "kind")
		}},
		{"a table of another shape", "class T:\n def _repr_mimebundle_(self, **_): return {'text/plain': 't', 'application/vnd.sandkasten.table+json': {'rows': 3}}\nT()", func(a contexts.Answer) bool {
			return mainText(a) == "t" && a.Results[0].Table == nil
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if a := d.run(t, id, test.code); !test.holds(a) {
				t.Errorf("%+v %+v", a, a.Error)
			}
		})
	}
}

func TestOutputIsBounded(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	a := d.run(t, id, "print('begin'); print(('x' * 99 + '\\n') * 30_000); print('end')")
	if len(a.Stdout) > 1<<20+200 || !strings.HasPrefix(a.Stdout, "begin\n") || !strings.HasSuffix(a.Stdout, "end\n") || a.StdoutDroppedBytes < 1<<20 {
		t.Errorf("%d bytes, %d dropped, %q", len(a.Stdout), a.StdoutDroppedBytes, a.Stdout[:min(len(a.Stdout), 50)])
	}
	whole, err := os.ReadFile(a.StdoutFile)
	if err != nil || len(whole) != 6+30_000*100+1+4 || a.StdoutFileError != "" {
		t.Errorf("the file has %d bytes, %v %s", len(whole), err, a.StdoutFileError)
	}
	a = d.run(t, id, "from IPython.display import Image; Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + bytes(9 << 20), format='png')")
	if len(a.Results) != 1 || a.Results[0].Data["image/png"] != nil || a.Results[0].DroppedBytes < 9<<20 {
		t.Fatalf("%d results, %+v", len(a.Results), a.Error)
	}
	picture, err := os.ReadFile(a.Results[0].FilePaths["image/png"])
	if err != nil || len(picture) != 8+9<<20 {
		t.Errorf("the file has %d bytes, %v", len(picture), err)
	}
	a = d.run(t, id, "for i in range(300): display(i)")
	if len(a.Results) != 256 || a.DroppedResults != 44 {
		t.Errorf("%d results, %d dropped", len(a.Results), a.DroppedResults)
	}
}

func TestTimeoutInterruptsAndThenKills(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	limited := func(code string, after time.Duration) contexts.Answer {
		t.Helper()
		_, a, err := d.RunCode(t.Context(), everyone, id, "python", contexts.RunRequest{Code: code, Timeout: after}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	d.run(t, id, "x = 5")
	// In which the code has begun, on a loaded machine, too.
	if a := limited("import time; time.sleep(60)", 3*time.Second); a.Cause != contexts.CauseTimeout || a.StateLost || a.Error == nil || a.Error.Name != "KeyboardInterrupt" {
		t.Errorf("%+v", a)
	}
	if a := d.run(t, id, "x"); mainText(a) != "5" || a.NewKernel {
		t.Errorf("the state is not kept: %+v", a)
	}
	if a := limited("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: pass", 300*time.Millisecond); a.Cause != contexts.CauseTimeout || a.StateLost {
		t.Errorf("the code catches the interrupt: %+v", a)
	}
	stubborn := "while True:\n try:\n  time.sleep(60)\n except KeyboardInterrupt: pass"
	if a := limited(stubborn, 300*time.Millisecond); a.Cause != contexts.CauseTimeout || !a.StateLost {
		t.Errorf("%+v", a)
	}
	if a := d.run(t, id, "'x' in globals()"); mainText(a) != "False" || !a.NewKernel {
		t.Errorf("%+v", a)
	}
}

// An interrupt that comes before the kernel has begun with the code ends it all the same.
func TestInterruptsAtTheBeginning(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	if _, err := d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: "python", Name: "a"}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, a, err := d.Run(t.Context(), everyone, id, "a", contexts.RunRequest{Code: "while True: pass", Timeout: time.Minute}, &contexts.Watch{
			Begin: func(string, string) error { return nil },
			Event: func(_ int64, e contexts.Event) error {
				if e.Type == "start" {
					return d.Interrupt(t.Context(), everyone, id, "a")
				}
				return nil
			},
		})
		if err != nil || a.Cause != contexts.CauseInterrupted || a.StateLost {
			t.Fatalf("%+v, %v", a, err)
		}
	}
}

func TestInterruptRestartDelete(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	c, err := d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: "python", Name: "a", Env: map[string]string{"V": "1"}})
	if err != nil || c.Status == nil || c.Status.Kernel != "python3" || c.Status.State != "idle" {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: "python", Name: "a"}); !errdefs.Is(err, errdefs.AlreadyExists) {
		t.Errorf("a second a: %v", err)
	}
	began := make(chan struct{})
	answers := make(chan contexts.Answer, 1)
	go func() {
		_, a, err := d.Run(t.Context(), everyone, id, "a", contexts.RunRequest{Code: "import time, os; x = os.environ['V']; print('on'); time.sleep(60)"}, &contexts.Watch{
			Begin: func(string, string) error { return nil },
			Event: func(_ int64, e contexts.Event) error {
				if e.Type == "stdout" {
					close(began)
				}
				return nil
			},
		})
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	<-began
	if c, err := d.Get(t.Context(), everyone, id, "a"); err != nil || c.Status.State != "busy" || c.Status.RunID == "" {
		t.Errorf("%+v, %v", c.Status, err)
	}
	if err := d.Interrupt(t.Context(), everyone, id, "a"); err != nil {
		t.Error(err)
	}
	if a := <-answers; a.Cause != contexts.CauseInterrupted || a.StateLost {
		t.Errorf("%+v", a)
	}
	if _, a, err := d.Run(t.Context(), everyone, id, c.ID, contexts.RunRequest{Code: "x"}, nil); err != nil || mainText(a) != "'1'" {
		t.Errorf("%+v, %v", a, err)
	}
	if c, err := d.Restart(t.Context(), everyone, id, "a"); err != nil || c.Status.KernelsStarted != 2 {
		t.Errorf("%+v, %v", c.Status, err)
	}
	if _, a, err := d.Run(t.Context(), everyone, id, "a", contexts.RunRequest{Code: "'x' in globals()"}, nil); err != nil || mainText(a) != "False" || !a.NewKernel {
		t.Errorf("%+v, %v", a, err)
	}
	if err := d.Delete(t.Context(), everyone, id, "a"); err != nil {
		t.Error(err)
	}
	if _, _, err := d.Run(t.Context(), everyone, id, c.ID, contexts.RunRequest{Code: "1"}, nil); !errdefs.Is(err, errdefs.Conflict) {
		t.Errorf("a run in a deleted context: %v", err)
	}
	if _, err := d.Get(t.Context(), everyone, id, "a"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a deleted context by its name: %v", err)
	}
}

// TestKernelsAndBridgesThatDie: the next run works.
func TestKernelsAndBridgesThatDie(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	tests := []struct {
		name, code string
		holds      func(a contexts.Answer) bool
	}{
		{"os._exit", "import os; os._exit(7)", func(a contexts.Answer) bool { return a.Cause == contexts.CauseKernelDied && a.KernelExitCode == 7 }},
		{"kill -9", "os.kill(os.getpid(), 9)", func(a contexts.Answer) bool { return a.Cause == contexts.CauseKernelDied && a.KernelSignal == 9 }},
		{"a crash", "import ctypes; ctypes.string_at(0)", func(a contexts.Answer) bool { return a.Cause == contexts.CauseKernelDied && a.KernelSignal == 11 }},
	}
	for _, test := range tests {
		d.run(t, id, "import os; x = 1")
		if a := d.run(t, id, test.code); !test.holds(a) || !a.StateLost {
			t.Errorf("%s: %+v", test.name, a)
		}
		if a := d.run(t, id, "'x' in globals()"); mainText(a) != "False" || !a.NewKernel {
			t.Errorf("behind %s: %+v", test.name, a)
		}
	}
	if a := d.run(t, id, "import os; os.kill(os.getppid(), 9); import time; time.sleep(60)"); !a.StateLost || a.Cause != contexts.CauseKernelDied {
		t.Errorf("the bridge was killed: %+v", a)
	}
	if a := d.run(t, id, "'x' in globals()"); mainText(a) != "False" {
		t.Errorf("behind a bridge that was killed: %+v", a)
	}
}

// TestDaemonGoesAway: a run goes on without its daemon, and is found by its id.
func TestDaemonGoesAway(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	d.run(t, id, "x = 41")
	var contextID, runID string
	left := errors.New("the client went away")
	release := t.TempDir() + "/release"
	_, _, err := d.RunCode(t.Context(), everyone, id, "python", contexts.RunRequest{
		Code: "import os, time\nprint('begun')\nwhile not os.path.exists('" + release + "'): time.sleep(.01)\nx + 1",
	}, &contexts.Watch{
		Begin: func(c, r string) error { contextID, runID = c, r; return nil },
		Event: func(_ int64, e contexts.Event) error {
			if e.Type == "stdout" {
				return left
			}
			return nil
		},
	})
	if !errors.Is(err, left) {
		t.Fatal(err)
	}
	d.stop()
	d = h.start(t)
	if _, a, err := d.Look(t.Context(), everyone, id, contextID, runID); err != nil || a.Cause != contexts.CauseRunning || a.Stdout != "begun\n" {
		t.Errorf("%+v, %v", a, err)
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var events []string
	_, a, err := d.Follow(t.Context(), everyone, id, contextID, runID, 0, &contexts.Watch{
		Begin: func(string, string) error { return nil },
		Event: func(_ int64, e contexts.Event) error { events = append(events, e.Type+e.Text); return nil },
	})
	if err != nil || mainText(a) != "42" || a.Stdout != "begun\n" || strings.Join(events, " ") != "queued start stdoutbegun\n result" {
		t.Errorf("%+v, %q, %v", a, events, err)
	}
	if _, again, err := d.Follow(t.Context(), everyone, id, contextID, runID, 0, nil); err != nil || mainText(again) != "42" {
		t.Errorf("%+v, %v", again, err)
	}
	if a := d.run(t, id, "x"); mainText(a) != "41" {
		t.Errorf("%+v", a)
	}
	if _, _, err := d.Look(t.Context(), everyone, id, contextID, strings.Repeat("a", 26)); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("a run that never was: %v", err)
	}
}

// TestStopInMidRun: the answer says that the sandbox is gone, and a start begins anew.
func TestStopInMidRun(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	stopped := make(chan error, 1)
	_, a, err := d.RunCode(t.Context(), everyone, id, "python", contexts.RunRequest{Code: "x = 1; print('on'); import time; time.sleep(60)"}, &contexts.Watch{
		Begin: func(string, string) error { return nil },
		Event: func(_ int64, e contexts.Event) error {
			if e.Type == "stdout" {
				go func() {
					_, err := d.manager.Sessions.Stop(t.Context(), everyone, id)
					stopped <- err
				}()
			}
			return nil
		},
	})
	if err != nil || a.Cause != contexts.CauseSandboxGone || !a.StateLost || a.RunID == "" {
		t.Errorf("%+v, %v", a, err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.RunCode(t.Context(), everyone, id, "python", contexts.RunRequest{Code: "1"}, nil); !errdefs.Is(err, errdefs.Conflict) {
		t.Errorf("code in a stopped session: %v", err)
	}
	if _, err := d.manager.Sessions.Start(t.Context(), everyone, id); err != nil {
		t.Fatal(err)
	}
	if a := d.run(t, id, "'x' in globals()"); mainText(a) != "False" {
		t.Errorf("%+v", a)
	}
}

func TestRunsOfAContextComeOneAfterAnother(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	d.run(t, id, "n = 0")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { d.run(t, id, "m = n; import time; time.sleep(.01); n = m + 1") })
	}
	group.Wait()
	if a := d.run(t, id, "n"); mainText(a) != "8" {
		t.Errorf("%+v", a)
	}
	if all, err := d.List(t.Context(), everyone, id); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestSessionsWithoutAKernel(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	_, err := d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: "cobol"})
	if known, ok := errors.AsType[*errdefs.Error](err); !ok || known.Code != errdefs.Unprocessable || known.Reason != errdefs.NoKernel || !strings.Contains(known.Message, "python3 (python)") {
		t.Errorf("%v", err)
	}
	_, err = d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: "python", Env: map[string]string{"PYTHONPATH": "/nowhere"}})
	if known, ok := errors.AsType[*errdefs.Error](err); !ok || known.Reason != errdefs.NoKernel || !strings.Contains(known.Message, "pip: [ipykernel==") {
		t.Errorf("%v", err)
	}
	_, err = d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: "python", Cwd: "/nowhere"})
	if !errdefs.Is(err, errdefs.Unprocessable) {
		t.Errorf("%v", err)
	}
	for _, language := range []string{"", "a b", "../x", strings.Repeat("x", 65)} {
		if _, err := d.Create(t.Context(), everyone, id, contexts.CreateRequest{Language: language}); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%q: %v", language, err)
		}
	}
	if all, err := d.List(t.Context(), everyone, id); err != nil || len(all) > 0 && all[0].Running {
		t.Errorf("what failed goes on: %+v, %v", all, err)
	}
}

// TestNobodyElseReachesAKernel holds that the sockets and the key of a kernel are in a
// directory of its user's alone, and that the bridge listens on nothing.
func TestNobodyElseReachesAKernel(t *testing.T) {
	h := newHost(t)
	d := h.start(t)
	id := h.session(t, d)
	a := d.run(t, id, "import ipykernel.connect, os; f = ipykernel.connect.get_connection_file(); print(f)")
	file := strings.TrimSpace(a.Stdout)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Fatalf("%s: %v, %v", file, info, err)
	}
	for dir := file[:strings.LastIndex(file, "/")]; strings.Contains(dir, "sandkasten-"); dir = dir[:strings.LastIndex(dir, "/")] {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"transport": "ipc"`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestPictureChartAndTable(t *testing.T) {
	plots, err := testenv.PlotPackages()
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, plots)
	d := h.start(t)
	id := h.session(t, d)
	a := d.run(t, id, `
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot([1, 2, 3], [2, 4, 8], label="growth")
ax.bar(["a", "b"], [1, 2])
ax.set_title("Both"); ax.set_xlabel("time")
plt.show()`)
	if len(a.Results) != 1 || a.Results[0].Chart == nil {
		for _, r := range a.Results {
			t.Logf("%v, %d forms, %v", r.Chart, len(r.Data), r.Note)
		}
		t.Fatalf("%d results, %s, %+v", len(a.Results), a.Stderr, a.Error)
	}
	picture, err := base64.StdEncoding.DecodeString(a.Results[0].Data["image/png"].(string))
	if err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
		t.Errorf("no picture: %v", err)
	}
	chart := a.Results[0].Chart
	axes := chart.Axes[0]
	if chart.Type != "mixed" || chart.Title != "Both" || axes.XLabel != "time" || len(axes.Series) != 2 || axes.Series[0].Label != "growth" || axes.Series[0].Y[2] != 8.0 || axes.Series[1].X[1] != "b" || axes.Series[1].Type != "bar" {
		t.Errorf("%+v", chart)
	}
	a = d.run(t, id, `
import pandas as pd
pd.DataFrame({"name": ["x", None], "n": [1, 2**60], "f": [0.5, float("nan")]}, index=["i", "j"])`)
	if len(a.Results) != 1 || a.Results[0].Table == nil || a.Results[0].Data["text/html"] == nil {
		t.Fatalf("%+v %+v", a, a.Error)
	}
	table := a.Results[0].Table
	if table.Shape[0] != 2 || table.Shape[1] != 3 || table.Columns[2].Type != "float64" || table.Rows[0][0] != "x" || table.Rows[1][0] != nil || table.Rows[1][1] != "1152921504606846976" || table.Rows[1][2] != nil || table.Index[1] != "j" {
		t.Errorf("%+v", table)
	}
	if a := d.run(t, id, "pd.DataFrame({'n': range(100_000)})"); len(a.Results[0].Table.Rows) != 100 || a.Results[0].Table.Shape[0] != 100_000 {
		t.Errorf("%+v", a.Results[0].Table.Shape)
	}
}
