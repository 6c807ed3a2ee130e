package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// anyImage takes every name for the local driver's one image.
type anyImage struct{}

func (anyImage) Resolve(context.Context, string) (string, error) { return runtimetest.LocalImage, nil }

// console is a daemon on the local driver and a user in front of it.
type console struct {
	t   *testing.T
	url string
	key string
}

// library is an image store of the test's own.
func library(t *testing.T) *jobs.Library {
	t.Helper()
	s, err := images.Open(images.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	m := jobs.New(t.Context(), nil)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &jobs.Library{Store: s, Jobs: m, InUse: func(string) ([]string, error) { return nil, nil }}
}

// startDaemon puts together what the daemon does, with a driver that needs no
// root.
func startDaemon(t *testing.T) *console {
	t.Helper()
	rows, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	})
	key := auth.NewKey()
	keys, err := auth.NewKeys(auth.Key{Owner: auth.Admin, Hash: auth.HashKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	sealing, err := seal.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	manager := session.New(session.Options{
		Store: rows, Driver: runtimetest.NewLocal(t), Images: anyImage{}, Defaults: session.Defaults{Image: "base"},
		Workspaces: workspaces.WorkspaceOptions{Store: rows}, Secrets: secrets.Options{Store: rows, Key: sealing},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- manager.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	users, err := accounts.New(t.Context(), accounts.Options{Store: rows, RemoveOwned: func(context.Context, string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	silent := slog.New(slog.DiscardHandler)
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = api.NewServer(api.Handler(api.Options{Log: silent, Authenticator: users.Authenticator(keys)},
		v1.New(v1.Options{Manager: manager, SpoolDir: t.TempDir(), Images: library(t), Accounts: users, History: history.New(history.Options{Store: rows}), Findings: sick()})), silent)
	srv.Start()
	t.Cleanup(srv.Close)
	for !manager.Ready() {
		time.Sleep(time.Millisecond)
	}
	return &console{t: t, url: srv.URL, key: key}
}

// result is what a command left behind.
type result struct {
	code        int
	out, errOut string
}

// run types a command. Its input is empty.
func (tm *console) run(args ...string) result { return tm.runCtx(tm.t.Context(), "", args...) }

func (tm *console) runCtx(ctx context.Context, input string, args ...string) result {
	tm.t.Helper()
	in := filepath.Join(tm.t.TempDir(), "in")
	if err := os.WriteFile(in, []byte(input), 0o600); err != nil {
		tm.t.Fatal(err)
	}
	stdin, err := os.Open(in)
	if err != nil {
		tm.t.Fatal(err)
	}
	defer stdin.Close()
	return tm.runFrom(ctx, stdin, args...)
}

func (tm *console) runFrom(ctx context.Context, stdin *os.File, args ...string) result {
	tm.t.Helper()
	stdout, err := os.CreateTemp(tm.t.TempDir(), "out")
	if err != nil {
		tm.t.Fatal(err)
	}
	defer stdout.Close()
	var errOut bytes.Buffer
	a := &cli.App{In: stdin, Out: stdout, Err: &errOut}
	code := run(ctx, a, append([]string{"--url", tm.url, "--api-key", tm.key}, args...))
	out, err := os.ReadFile(stdout.Name())
	if err != nil {
		tm.t.Fatal(err)
	}
	return result{code, string(out), errOut.String()}
}

// want runs a command that has to work and returns its output.
func (tm *console) want(args ...string) string {
	tm.t.Helper()
	r := tm.run(args...)
	if r.code != 0 {
		tm.t.Fatalf("sandkasten %q: exit code %d\n%s%s", args, r.code, r.out, r.errOut)
	}
	return r.out
}

func (tm *console) create(args ...string) string {
	tm.t.Helper()
	return strings.TrimSpace(tm.want(append([]string{"create"}, args...)...))
}

func TestRunStreamsRemovesAndExitsWithTheCode(t *testing.T) {
	tm := startDaemon(t)
	r := tm.run("run", "base", "echo out; echo err >&2; exit 7")
	if r.code != 7 || r.out != "out\nerr\n" || r.errOut != "" {
		t.Errorf("run = %+v", r)
	}
	if out := tm.want("ls", "-q"); out != "" {
		t.Errorf("the session is still there: %s", out)
	}
	r = tm.run("run", "base", "--keep", "--", "printf", "%s|", "a b", "$HOME")
	if r.code != 0 || r.out != "a b|$HOME|" {
		t.Errorf("run = %+v", r)
	}
	id := strings.TrimSpace(tm.want("ls", "-q"))
	if len(id) != 26 || !strings.Contains(r.errOut, id) {
		t.Errorf("kept %q, said %q", id, r.errOut)
	}
}

// interrupted returns a context that Ctrl-C ends once something is written to a pipe.
func interrupted(t *testing.T) (ctx context.Context, started string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	started = filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if _, err := os.ReadFile(started); err != nil { // until the command is running
			t.Error(err)
		}
		cancel(cli.SignalError(syscall.SIGINT))
	}()
	return ctx, started
}

func TestRunThatIsInterruptedRemovesItsSession(t *testing.T) {
	tm := startDaemon(t)
	ctx, started := interrupted(t)
	if r := tm.runCtx(ctx, "", "run", "base", "echo > "+started+"; sleep 600"); r.code != 130 {
		t.Errorf("run = %+v, want exit code 130", r)
	}
	if out := tm.want("ls", "-q"); out != "" {
		t.Errorf("the session is still there: %s", out)
	}
}

// The daemon goes on with a create that an interrupt cuts off. Nobody would know of its
// session.
func TestInterruptedCreateLeavesNoSession(t *testing.T) {
	for _, command := range [][]string{{"run", "base", "true"}, {"create", "base"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var keys, removed []string
		daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil { // or nobody sees that the client leaves
				t.Error(err)
			}
			switch r.Method {
			case http.MethodPost:
				if keys = append(keys, r.Header.Get("Idempotency-Key")); len(keys) == 1 {
					cancel(cli.SignalError(syscall.SIGINT))
					<-r.Context().Done()
					return
				}
				w.WriteHeader(http.StatusCreated)
			case http.MethodDelete:
				removed = append(removed, r.URL.Path)
			}
			fmt.Fprint(w, `{"id":"made"}`)
		}))
		tm := &console{t: t, url: daemon.URL, key: "key"}
		if r := tm.runCtx(ctx, "", command...); r.code != 130 {
			t.Errorf("%q: %+v", command, r)
		}
		daemon.Close()
		if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] || !slices.Equal(removed, []string{"/v1/sessions/made"}) {
			t.Errorf("%q: keys %q, removed %q", command, keys, removed)
		}
	}
}

// A command whose result nobody waits for any more does not keep the shell.
func TestInterruptedExecOfAResult(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	for _, command := range [][]string{{"exec", "--json", id, "--"}, {"exec", "--json", "--argv", id, "--"}} {
		ctx, started := interrupted(t)
		if r := tm.runCtx(ctx, "", append(command, "sh", "-c", "echo > "+started+"; sleep 600")...); r.code != 130 {
			t.Errorf("%q: %+v", command, r)
		}
		for deadline := time.Now().Add(10 * time.Second); strings.Contains(tm.want("ps", id), "sleep 600"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q goes on", command)
			}
		}
	}
}

func TestExecSaysWhatItsShellIsBusyWith(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	waiting := make(chan result, 1)
	ctx, started := interrupted(t)
	go func() {
		<-ctx.Done() // the command has begun
		waiting <- tm.run("exec", id, "echo next")
	}()
	first := tm.run("exec", id, "echo > "+started+"; sleep 2")
	r := <-waiting
	if first.code != 0 || first.errOut != "" || r.code != 0 || r.out != "next\n" {
		t.Errorf("%+v, %+v", first, r)
	}
	if !strings.Contains(r.errOut, `waiting for the shell, which runs "echo > `+started) {
		t.Errorf("it says %q", r.errOut)
	}
}

func TestTimeoutHasItsOwnCode(t *testing.T) {
	tm := startDaemon(t)
	r := tm.run("run", "base", "--timeout", "3s", "echo before; sleep 600")
	if r.code != cli.ExitTimeout || !strings.HasPrefix(r.out, "before\n") || !strings.Contains(r.errOut, "time was up") {
		t.Errorf("run = %+v", r)
	}
}

func TestExecKeepsTheShell(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	tm.want("exec", id, "cd /tmp; export MODE=fast")
	if out := tm.want("exec", id, "echo $PWD $MODE"); out != "/tmp fast\n" {
		t.Errorf("exec = %q", out)
	}
	if r := tm.runCtx(t.Context(), "some input", "exec", "-i", id, "cat"); r.out != "some input" {
		t.Errorf("exec -i = %+v", r)
	}
	if out := tm.want("exec", id, "cat"); out != "" {
		t.Errorf("exec without -i read %q", out)
	}
	var got struct {
		ExitCode int    `json:"exit_code"`
		Output   string `json:"output"`
	}
	r := tm.run("exec", "--json", id, "echo hi; false")
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Output != "hi\n" || got.ExitCode != 1 || r.code != 1 {
		t.Errorf("exec --json = %+v (%v)", r, err)
	}
}

func TestExecOfALineReadsInputOfAnyLength(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	long := strings.Repeat("\xff", 3_000_000)
	for name, test := range map[string]struct {
		args       []string
		input, out string
	}{
		"long and binary": {[]string{"exec", "-i", id, "wc -c"}, long, "3000000\n"},
		"not read":        {[]string{"exec", "-i", id, "true"}, long, ""},
		"read in part":    {[]string{"exec", "-i", id, "head -c 3 | wc -c"}, long, "3\n"},
		"empty":           {[]string{"exec", "-i", id, "cat; echo over"}, "", "over\n"},
		"another shell":   {[]string{"exec", "-i", "--shell", "b", id, "wc -c"}, long, "3000000\n"},
		"of run":          {[]string{"run", "-i", "base", "wc -c"}, long, "3000000\n"},
	} {
		if r := tm.runCtx(t.Context(), test.input, test.args...); r.code != 0 || r.out != test.out {
			t.Errorf("%s: %+v", name, r)
		}
	}
	var got sandkasten.ExecResult
	r := tm.runCtx(t.Context(), long, "exec", "-i", "--json", id, "wc -c")
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Output != "3000000\n" || got.Cause != "exited" || r.code != 0 {
		t.Errorf("exec -i --json = %+v (%v)", r, err)
	}
}

// TestExecOfALineHoldsLittleOfItsInput reads no more of an endless input than a command takes.
func TestExecOfALineHoldsLittleOfItsInput(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	input, err := os.Create(filepath.Join(t.TempDir(), "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	if err := input.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	if r := tm.runFrom(t.Context(), input, "exec", "-i", id, "head -c 100000 >/dev/null; sleep 0.5; (exit 4)"); r.code != 4 {
		t.Errorf("%+v", r)
	}
	if n, err := input.Seek(0, io.SeekCurrent); err != nil || n > 4<<20 {
		t.Errorf("it read %d bytes of its input (%v)", n, err)
	}
}

// TestExecWhoseConnectionBreaks goes on by itself, if there is a daemon to ask.
func TestExecWhoseConnectionBreaks(t *testing.T) {
	const begun = "event: start\nid: e1:0\ndata: {\"exec_id\":\"e1\"}\n\nevent: chunk\nid: e1:2\ndata: {\"chunk\":\"a\\n\"}\n\n"
	const ended = "event: chunk\nid: e1:4\ndata: {\"chunk\":\"b\\n\"}\n\nevent: done\nid: e1:end\ndata: {\"exec_id\":\"e1\",\"exit_code\":7}\n\n"
	for _, tt := range []struct {
		rest   string
		code   int
		out    string
		errOut string
	}{
		{ended, 7, "a\nb\n", ""},
		{"", cli.ExitNotRun, "a\n", "`sandkasten logs -f s1 e1` shows how it goes on"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text := tt.rest
			if r.Method == http.MethodPost {
				text = begun
			}
			io.WriteString(w, text)
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		tm := &console{t: t, url: srv.URL, key: "x"}
		if r := tm.run("exec", "s1", "x"); r.code != tt.code || r.out != tt.out || !strings.Contains(r.errOut, tt.errOut) {
			t.Errorf("%+v", r)
		}
		srv.Close()
	}
}

func TestExecOfNoSession(t *testing.T) {
	tm := startDaemon(t)
	if r := tm.run("exec", "nosuch", "true"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "no such session") {
		t.Errorf("exec = %+v", r)
	}
	if r := tm.run("stats", "nosuch"); r.code != cli.ExitFailed {
		t.Errorf("stats = %+v", r)
	}
}

func TestListsAndTheirJSON(t *testing.T) {
	tm := startDaemon(t)
	if r := tm.run("ls"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "No sessions") {
		t.Errorf("ls = %+v", r)
	}
	id := tm.create("base", "--driver", "native", "--label", "task=42", "--hostname", "box", "--memory", "100")
	if out := tm.want("ls"); !strings.Contains(out, "STATUS") || !strings.Contains(out, id) || !strings.Contains(out, "running") {
		t.Errorf("ls = %s", out)
	}
	var list []struct {
		ID     string            `json:"id"`
		Labels map[string]string `json:"labels"`
		Limits struct {
			MemoryMB int `json:"memory_mb"`
		} `json:"limits"`
	}
	if err := json.Unmarshal([]byte(tm.want("ls", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].ID != id || list[0].Labels["task"] != "42" || list[0].Limits.MemoryMB != 100 {
		t.Errorf("ls --json = %+v", list)
	}
	if out := tm.want("stats"); !strings.Contains(out, id) {
		t.Errorf("stats = %s", out)
	}
	var stats []map[string]any
	if err := json.Unmarshal([]byte(tm.want("stats", "--json")), &stats); err != nil || len(stats) != 1 || stats[0]["id"] != id {
		t.Errorf("stats --json = %v, %v", stats, err)
	}
	if r := tm.run("stats", "--history", "1h"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "name it") {
		t.Errorf("stats --history of none = %+v", r)
	}
	var history struct {
		StepSeconds int `json:"step_seconds"`
	}
	if err := json.Unmarshal([]byte(tm.want("stats", id, "--history", "30m", "--json")), &history); err != nil || history.StepSeconds != 10 {
		t.Errorf("stats --history --json = %+v, %v", history, err)
	}
}

func TestHistoryRows(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	rows := historyRows([]sandkasten.StatsSample{
		{At: at, CPUUsageUsec: 1e6, MemoryBytes: 1 << 20, SentBytes: 1024},
		{At: at.Add(10 * time.Second), CPUUsageUsec: 6e6, MemoryBytes: 2 << 20, SentBytes: 3072},
		{At: at.Add(20 * time.Second), CPUUsageUsec: 1e5},
	})
	var told []string
	for _, row := range rows[1:] {
		told = append(told, row[1]+" "+row[5])
	}
	if want := []string{"- -", "0.50 " + rows[2][5], "- -"}; !slices.Equal(told, want) || rows[2][5] == "-" {
		t.Errorf("%q", told)
	}
}

func TestRm(t *testing.T) {
	tm := startDaemon(t)
	a, b, c := tm.create(), tm.create(), tm.create()
	if out := tm.want("rm", a); out != a+"\n" {
		t.Errorf("rm = %q", out)
	}
	if out := tm.want("rm", a); out != a+"\n" {
		t.Errorf("second rm = %q", out)
	}
	r := tm.run("rm", "nosuch", b)
	if r.code != cli.ExitFailed || r.out != b+"\n" || !strings.Contains(r.errOut, "nosuch") {
		t.Errorf("rm = %+v", r)
	}
	if r := tm.run("rm"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "--all") {
		t.Errorf("rm of nothing = %+v", r)
	}
	if out := tm.want("rm", "--all"); out != c+"\n" {
		t.Errorf("rm --all = %q", out)
	}
	if out := tm.want("ls", "-a"); !strings.Contains(out, a) || !strings.Contains(out, "destroyed") {
		t.Errorf("ls -a = %s", out)
	}
}

func TestLogsShowControlCharacters(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	const evil = "a\x1b]0;title\x07\xffb\n"
	if out := tm.want("exec", id, `printf 'a\033]0;title\007\377b\n'`); out != evil {
		t.Errorf("exec = %q", out)
	}
	out := tm.want("logs", id)
	if !strings.Contains(out, "exited") {
		t.Errorf("logs = %s", out)
	}
	exec := strings.Fields(strings.Split(out, "\n")[1])[0]
	if out := tm.want("logs", id, exec); out != `a\x1b]0;title\a\xffb`+"\n" {
		t.Errorf("logs EXEC = %q", out)
	}
	if out := tm.want("logs", "--raw", id, exec); out != evil {
		t.Errorf("logs --raw = %q", out)
	}
	var detail map[string]any
	if err := json.Unmarshal([]byte(tm.want("logs", "--json", id, exec)), &detail); err != nil || detail["exec_id"] != exec {
		t.Errorf("logs --json = %v, %v", detail, err)
	}
}

func TestCompletion(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	tm.want("workspace", "create", "project.v2")
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"s"}, "shell\nshells\nstats\nstop\nstart\nset\nsecret\nscope\nsnapshot\n"},
		{[]string{"start", ""}, id + "\n"},
		{[]string{"image", "i"}, "import\ninspect\n"},
		{[]string{"exec", "--ti"}, "--timeout\n"},
		{[]string{"exec", ""}, id + "\n"},
		{[]string{"rm", id[:3]}, id + "\n"},
		{[]string{"workspace", "i"}, "inspect\n"},
		{[]string{"workspace", "rm", "p"}, "project.v2\n"},
		{[]string{"__"}, ""},
	} {
		if out := tm.want(append([]string{"__complete", "--"}, test.words...)...); out != test.want {
			t.Errorf("completions of %q are %q, want %q", test.words, out, test.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := tm.want("completion", shell); !strings.Contains(out, "sandkasten __complete") {
			t.Errorf("completion %s = %s", shell, out)
		}
	}
}

func TestShellNeedsATerminal(t *testing.T) {
	tm := startDaemon(t)
	if r := tm.run("shell", "abc"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "needs a terminal") {
		t.Errorf("shell = %+v", r)
	}
}

func TestWrongFlags(t *testing.T) {
	tm := &console{t: t, url: "http://127.0.0.1:1", key: "x"}
	for _, args := range [][]string{{"nonsense"}, {"exec", "a"}, {"ls", "--bad"}, {"ls", "-q", "--json"}, {"completion", "tcsh"}} {
		if r := tm.run(args...); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "--help") {
			t.Errorf("%q = %+v", args, r)
		}
	}
}

func (tm *console) decode(v any, args ...string) {
	tm.t.Helper()
	tm.decodeAs(0, v, args...)
}

// decodeAs is that of a command which ends with an exit code.
func (tm *console) decodeAs(code int, v any, args ...string) {
	tm.t.Helper()
	r := tm.run(args...)
	if err := json.Unmarshal([]byte(r.out), v); err != nil || r.code != code {
		tm.t.Fatalf("%v: %+v (%v)", args, r, err)
	}
}

func TestExecOfAProgram(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	for name, test := range map[string]struct {
		args        []string
		input       string
		code        int
		out, errOut string
	}{
		"streams apart":       {[]string{"--argv", id, "--", "sh", "-c", "echo out; echo err >&2; exit 5"}, "", 5, "out\n", "err\n"},
		"no quoting":          {[]string{"--argv", id, "--", "echo", "a  b", "$x"}, "", 0, "a  b $x\n", ""},
		"directory, variable": {[]string{"-w", "/usr", "-e", "A=b,c", "-e", "D=", id, "--", "sh", "-c", "pwd; echo $A$D"}, "", 0, "/usr\nb,c\n", ""},
		"input as it comes":   {[]string{"-i", "--argv", id, "--", "wc", "-c"}, strings.Repeat("\xff", 3<<20), 0, "3145728\n", ""},
		"input not read":      {[]string{"-i", "--argv", id, "--", "true"}, strings.Repeat("x", 1<<20), 0, "", ""},
		"no such program":     {[]string{"--argv", id, "--", "no-such-program"}, "", cli.ExitNotRun, "", "no-such-program"},
		"out of time":         {[]string{"--argv", "--timeout", "100ms", id, "--", "sleep", "600"}, "", cli.ExitTimeout, "", "time was up"},
		"in a shell":          {[]string{"--argv", "--shell", "x", id, "--", "true"}, "", cli.ExitNotRun, "", "--shell"},
		"no value":            {[]string{"-e", "A", id, "--", "true"}, "", cli.ExitNotRun, "", "NAME=VALUE"},
		"input nowhere":       {[]string{"-i", "-d", id, "--", "true"}, "", cli.ExitNotRun, "", "--stdin"},
		"no terminal":         {[]string{"-t", id, "--", "true"}, "", cli.ExitNotRun, "", "needs a terminal"},
	} {
		r := tm.runCtx(t.Context(), test.input, append([]string{"exec"}, test.args...)...)
		if r.code != test.code || r.out != test.out || !strings.Contains(r.errOut, test.errOut) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	var p struct {
		Stdout   string `json:"stdout"`
		ExitCode int    `json:"exit_code"`
	}
	tm.decode(&p, "exec", "--json", "--argv", id, "--", "echo", "hi")
	if p.Stdout != "hi\n" || p.ExitCode != 0 {
		t.Errorf("%+v", p)
	}
}

// TestBackgroundProcess is what somebody does with a server.
func TestBackgroundProcess(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	exec := strings.TrimSpace(tm.want("exec", "-d", id, "--", "sh", "-c", `echo up; echo "\033[1m" >&2; trap "exit 7" HUP; while :; do sleep 0.05; done`))
	if out := tm.want("ps", id); !strings.Contains(out, exec) || !strings.Contains(out, "running") || !strings.Contains(out, "sh -c echo up") {
		t.Errorf("ps:\n%s", out)
	}
	if r := tm.run("wait", "--timeout", "1ms", id, exec); r.code != cli.ExitTimeout || !strings.Contains(r.errOut, "still runs") {
		t.Errorf("%+v", r)
	}
	tm.want("exec", id, "true") // the session works beside it
	for !strings.Contains(tm.want("logs", id, exec), "up\n") {
		continue // it writes after it has started
	}
	tm.want("kill", "-s", "HUP", id, exec)
	if r := tm.run("wait", id, exec); r.code != 7 {
		t.Errorf("%+v", r)
	}
	if r := tm.run("logs", "-f", id, exec); r.code != 0 || !strings.Contains(r.out, "up\n") || strings.Contains(r.errOut, "\x1b") {
		t.Errorf("%+v", r)
	}
	if out := tm.want("ps", id); strings.Contains(out, exec) {
		t.Errorf("ps shows what has ended:\n%s", out)
	}
	if out := tm.want("ps", "-a", id); !strings.Contains(out, "exited (7)") {
		t.Errorf("ps -a:\n%s", out)
	}
	exec = strings.TrimSpace(tm.want("exec", "-d", id, "--", "sleep", "600"))
	if out := tm.want("__complete", "--", "kill", id, exec[:4]); out != exec+"\n" {
		t.Errorf("completion %q", out)
	}
	tm.want("kill", id, exec)
	if r := tm.run("wait", id, exec); r.code != cli.ExitNotRun {
		t.Errorf("%+v", r)
	}
	if r := tm.run("kill", "-s", "NONE", id, exec); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "TERM") {
		t.Errorf("%+v", r)
	}
	if r := tm.run("logs", "-f", id); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "sandkasten ps") {
		t.Errorf("%+v", r)
	}
}

func TestShellsCommand(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	tm.want("exec", "--shell", "build", id, "cd /usr")
	if out := tm.want("shells", id); !strings.Contains(out, "build") || !strings.Contains(out, "default") || !strings.Contains(out, "/usr") {
		t.Errorf("shells:\n%s", out)
	}
	tm.want("shells", "--close", "build", id)
	if out := tm.want("shells", "--json", id); strings.Contains(out, "build") {
		t.Errorf("closed, but there: %s", out)
	}
	if r := tm.run("shells", "--close", "build", id); r.code != cli.ExitFailed {
		t.Errorf("%+v", r)
	}
}
