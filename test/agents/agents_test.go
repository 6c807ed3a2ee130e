// Package agents drives the tools of agents against a real daemon, with both drivers:
// the contract that agents and their workflows rely on.
package agents

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// answer is all that tools answer.
type answer struct {
	SandboxID string `json:"sandbox_id"`
	Image     string
	Workdir   string
	Created   bool
	ExecID    string `json:"exec_id"`
	Status    string
	ExitCode  *int `json:"exit_code"`
	Stdout    *string
	StdoutB64 string `json:"stdout_b64"`
	Lossy     bool
	Stderr    *string
	Output    string
	Cwd       string
	Cause     string
	Truncated bool
	TimedOut  bool `json:"timed_out"`
	Done      bool
	NextSeq   int64 `json:"next_seq"`
	Chunks    []struct {
		Seq          int64
		Stream, Text string
		TextB64      string `json:"text_b64"`
	}
	OK          bool
	Path        string
	Deleted     string
	Contents    *string
	ContentsB64 *string `json:"contents_b64"`
	SizeBytes   int64   `json:"size_bytes"`
	Entries     []struct {
		Path, Type, Mode string
		Size             int64
		MtimeUnix        int64 `json:"mtime_unix"`
	}
	Matches []struct {
		Path string
		Line int
		Text string
	}
	Replaced   int
	Diff       string
	URL        string
	SnapshotID string `json:"snapshot_id"`
	FileKey    string `json:"file_key"`
	Runtime    string
	DurationMS int64 `json:"duration_ms"`
	Error      string
	Code       string
	Hint       string
}

// agent is one that has tools in a scope.
type agent struct {
	t   *testing.T
	set *tools.Set
}

func newAgent(t *testing.T, d *blackbox.Daemon, scope string, files tools.FileStore) *agent {
	t.Helper()
	s, err := tools.ParseScope(scope)
	if err != nil {
		t.Fatal(err)
	}
	set, err := tools.New(tools.Options{Client: client(t, d), Scope: s, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return &agent{t, set}
}

func client(t *testing.T, d *blackbox.Daemon) *sandkasten.Client {
	t.Helper()
	c, err := sandkasten.New(sandkasten.Options{URL: d.URL, APIKey: d.Key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// call returns the answer of a tool, which is no error.
func (a *agent) call(tool string, args map[string]any) answer {
	a.t.Helper()
	got, failed := a.try(tool, args)
	if failed {
		a.t.Fatalf("%s %v: %s", tool, args, got.Error)
	}
	return got
}

// refused is the error of a call, which says want.
func (a *agent) refused(want, tool string, args map[string]any) {
	a.t.Helper()
	got, failed := a.try(tool, args)
	if !failed || !strings.Contains(got.Error, want) {
		a.t.Errorf("%s %v: %+v, want an error with %q", tool, args, got, want)
	}
}

func (a *agent) try(tool string, args map[string]any) (got answer, failed bool) {
	a.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		a.t.Error(err)
	}
	result := a.set.Call(a.t.Context(), tool, text)
	if err := json.Unmarshal(result.JSON, &got); err != nil {
		a.t.Errorf("%s: %v: %s", tool, err, result.JSON)
	}
	conforms(a.t, tool, result.JSON)
	return got, result.IsError
}

// in adds the sandbox's id.
func in(id string, args map[string]any) map[string]any {
	all := map[string]any{"sandbox_id": id}
	for k, v := range args {
		all[k] = v
	}
	return all
}

type m = map[string]any

func text(p *string) string {
	if p == nil {
		return "(none)"
	}
	return *p
}

func TestToolsOnTheNativeDriver(t *testing.T) {
	t.Parallel()
	contract(t, blackbox.Start(t, blackbox.Options{}))
}

func TestToolsOnDocker(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	e := testenv.StartEngine(t)
	contract(t, blackbox.Start(t, blackbox.Options{Env: []string{"SANDKASTEN_DRIVER=docker", "SANDKASTEN_DOCKER__HOST=" + e.Host}}))
}

// contract holds the tools to what agents rely on.
func contract(t *testing.T, d *blackbox.Daemon) {
	t.Helper()
	store := &memory{files: map[string][]byte{"in": []byte("staged\n")}}
	a := newAgent(t, d, "workflow:run-1", store)
	opened := a.call("sandbox_open", nil)
	if !opened.Created || opened.Workdir != "/workspace" || opened.Image == "" || opened.SandboxID == "" {
		t.Fatalf("opened %+v", opened)
	}
	id := opened.SandboxID
	if again := a.call("sandbox_open", nil); again.Created || again.SandboxID != id {
		t.Errorf("opened again %+v", again)
	}
	t.Run("commands", func(t *testing.T) { commands(&agent{t, a.set}, id) })
	t.Run("programs that go on", func(t *testing.T) { streams(&agent{t, a.set}, id) })
	t.Run("files", func(t *testing.T) { files(&agent{t, a.set}, id) })
	t.Run("search and edit", func(t *testing.T) { search(&agent{t, a.set}, id) })
	t.Run("staged files", func(t *testing.T) { staged(&agent{t, a.set}, id, store) })
	t.Run("runs", func(t *testing.T) { runs(&agent{t, a.set}) })
	t.Run("snapshots and ports", func(t *testing.T) { snapshots(&agent{t, a.set}, id) })
}

func commands(a *agent, id string) {
	t := a.t
	hello := a.call("sandbox_exec", in(id, m{"cmd": []string{"echo", "hello world"}}))
	if *hello.ExitCode != 0 || text(hello.Stdout) != "hello world\n" || text(hello.Stderr) != "" || hello.Status != "completed" || hello.ExecID == "" {
		t.Errorf("echo: %+v", hello)
	}
	failed := a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "echo oops >&2; exit 42"}}))
	if *failed.ExitCode != 42 || text(failed.Stderr) != "oops\n" {
		t.Errorf("exit 42: %+v", failed)
	}
	env := a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "echo $TEST_VAR; pwd"}, "env": m{"TEST_VAR": "test_value"}, "cwd": "/tmp"}))
	if text(env.Stdout) != "test_value\n/tmp\n" {
		t.Errorf("env: %+v", env)
	}
	if here := a.call("sandbox_exec", in(id, m{"cmd": []string{"pwd"}})); text(here.Stdout) != "/workspace\n" {
		t.Errorf("pwd: %+v", here)
	}
	start := time.Now()
	slow := a.call("sandbox_exec", in(id, m{"cmd": []string{"sleep", "30"}, "timeout_seconds": 1}))
	if *slow.ExitCode == 0 || !slow.TimedOut || slow.Cause != "timeout" || time.Since(start) > 10*time.Second || slow.Hint == "" {
		t.Errorf("timeout: %+v", slow)
	}
	long := a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "echo first; seq 1 20000; echo last"}}))
	if !long.Truncated || !strings.HasPrefix(text(long.Stdout), "first\n") || !strings.HasSuffix(text(long.Stdout), "last\n") ||
		!strings.Contains(text(long.Stdout), "sandbox_exec_read") || len(text(long.Stdout)) > 20_000 {
		t.Errorf("long: %d bytes, truncated %v", len(text(long.Stdout)), long.Truncated)
	}
	lost := a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "seq 1 1000000; echo last"}}))
	if !strings.Contains(text(lost.Stdout), "more bytes of output are lost") || !strings.HasSuffix(text(lost.Stdout), "last\n") {
		t.Errorf("long: %q", text(lost.Stdout))
	}
	random := a.call("sandbox_exec", in(id, m{"cmd": []string{"head", "-c", "100000", "/dev/zero"}}))
	if text(random.Stdout) != "\ufffd" || !random.Lossy || random.Hint == "" {
		t.Errorf("zeros: %+v", random)
	}
	log := a.call("sandbox_shell", in(id, m{"command": `printf 'caf\351 begin\n'; seq 100000; echo FINAL; exit 2`}))
	if !log.Lossy || !log.Truncated || !strings.HasPrefix(log.Output, "caf\ufffd begin\n") || !strings.HasSuffix(log.Output, "FINAL\n") {
		t.Errorf("a long log with an odd byte: %d bytes, %q", len(log.Output), log.Hint)
	}
	if exact := a.call("sandbox_exec_read", in(id, m{"exec_id": log.ExecID, "bytes": true})); len(exact.Chunks) == 0 || !strings.HasPrefix(exact.Chunks[0].TextB64, "Y2Fm6SBiZWdpbgo") {
		t.Errorf("its bytes: %.300v", exact)
	}
	a.refused("It is timeout_seconds", "sandbox_exec", in(id, m{"cmd": []string{"true"}, "timeout_seconds": 3600}))
	a.refused("It is the field workspace", "sandbox_open", m{"session_key": "other", "workspace": "a b"})
	a.refused("limits.timeout_seconds", "sandbox_open", m{"session_key": "other", "limits": m{"timeout_seconds": 31536000}})
	a.refused("field command", "sandbox_shell", in(id, m{"command": "a\x00b"}))
	binary := a.call("sandbox_exec", in(id, m{"cmd": []string{"printf", `\377\000`}}))
	if text(binary.Stdout) != "\ufffd" || !binary.Lossy {
		t.Errorf("binary: %+v", binary)
	}
	if exact := a.call("sandbox_exec_read", in(id, m{"exec_id": binary.ExecID, "bytes": true})); len(exact.Chunks) != 1 ||
		exact.Chunks[0].TextB64 != base64.StdEncoding.EncodeToString([]byte{0xff, 0}) {
		t.Errorf("its bytes: %+v", exact)
	}
	a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", `printf 'caf\351 is good\n' > latin; printf '\001\351\352\353' > few`}}))
	latin := a.call("sandbox_fs_read", in(id, m{"path": "latin"}))
	if latin.Contents == nil || *latin.Contents != "caf\ufffd is good\n" || !latin.Lossy || latin.Hint == "" {
		t.Errorf("latin: %+v", latin)
	}
	if few := a.call("sandbox_fs_read", in(id, m{"path": "few"})); few.Contents != nil || few.ContentsB64 == nil {
		t.Errorf("mostly odd bytes: %+v", few)
	}
	a.refused("contents_b64", "sandbox_fs_write", in(id, m{"path": "latin", "contents": *latin.Contents}))
	a.refused("contents_b64", "sandbox_fs_edit", in(id, m{"path": "latin", "old": "good", "new": "\ufffd"}))
	a.refused("contents_b64", "sandbox_fs_edit", in(id, m{"path": "latin", "old": "caf\ufffd", "new": "tea"}))
	a.call("sandbox_fs_edit", in(id, m{"path": "latin", "old": "good", "new": "fine"}))
	if kept := a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "od -An -tx1 latin; head -c 5000000 /dev/zero | tr '\\0' a > far; printf '\\351' >> far"}})); !strings.HasPrefix(text(kept.Stdout), " 63 61 66 e9 20 69 73 20 66 69 6e 65 0a") {
		t.Errorf("an edit beside an odd byte has left %+v", kept)
	}
	a.refused("contents_b64", "sandbox_fs_write", in(id, m{"path": "far", "contents": "\ufffd"}))
	a.call("sandbox_fs_write", in(id, m{"path": "marked", "contents": "\ufffd"}))
	a.call("sandbox_fs_write", in(id, m{"path": "marked", "contents": "\ufffd\ufffd"}))
	a.call("sandbox_shell", in(id, m{"command": "cd /tmp; X=kept"}))
	if shell := a.call("sandbox_shell", in(id, m{"command": "echo $X; pwd"})); shell.Output != "kept\n/tmp\n" || shell.Cwd != "/tmp" || *shell.ExitCode != 0 {
		t.Errorf("shell: %+v", shell)
	}
	a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "echo hello > /workspace/data.txt"}}))
	if kept := a.call("sandbox_exec", in(id, m{"cmd": []string{"cat", "data.txt"}})); text(kept.Stdout) != "hello\n" {
		t.Errorf("data.txt: %+v", kept)
	}
	a.refused("command -v", "sandbox_exec", in(id, m{"cmd": []string{"no-such-program"}}))
}

func streams(a *agent, id string) {
	t := a.t
	started := a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "echo start; sleep 0.3; echo end >&2; exit 3"}, "stream": true}))
	if started.ExecID == "" || started.Status != "running" || started.ExitCode != nil || started.Stdout != nil {
		t.Fatalf("started %+v", started)
	}
	exec := m{"exec_id": started.ExecID}
	waited := a.call("sandbox_exec_wait", in(id, exec))
	if !waited.Done || *waited.ExitCode != 3 {
		t.Errorf("waited %+v", waited)
	}
	first := a.call("sandbox_exec_read", in(id, exec))
	if len(first.Chunks) == 0 || first.Chunks[0].Seq < 1 || first.Chunks[0].Stream != "stdout" || first.Chunks[0].Text != "start\n" || !first.Done {
		t.Fatalf("read %+v", first)
	}
	rest := a.call("sandbox_exec_read", in(id, m{"exec_id": started.ExecID, "since_seq": first.Chunks[0].Seq}))
	if len(rest.Chunks) != 1 || rest.Chunks[0].Stream != "stderr" || rest.Chunks[0].Text != "end\n" {
		t.Errorf("read on %+v", rest)
	}
	if one := a.call("sandbox_exec_read", in(id, m{"exec_id": started.ExecID, "max_chunks": 1})); len(one.Chunks) != 1 || one.Done {
		t.Errorf("read one %+v", one)
	}
	runs := a.call("sandbox_exec", in(id, m{"cmd": []string{"sleep", "60"}, "stream": true}))
	if more := a.call("sandbox_exec_wait", in(id, m{"exec_id": runs.ExecID, "timeout_seconds": 1})); more.Done || more.ExitCode != nil {
		t.Errorf("sleep: %+v", more)
	}
	a.refused("exec_id of this sandbox", "sandbox_exec_read", in(id, m{"exec_id": strings.Repeat("a", 26)}))

	long := a.call("sandbox_exec", in(id, m{"cmd": []string{"seq", "1", "30000"}}))
	var all strings.Builder
	for since, done := int64(0), false; !done; {
		page := a.call("sandbox_exec_read", in(id, m{"exec_id": long.ExecID, "since_seq": since}))
		for _, c := range page.Chunks {
			all.WriteString(c.Text)
		}
		if done = page.Done; !done && page.NextSeq <= since {
			t.Fatalf("no progress: %+v", page)
		}
		since = page.NextSeq
	}
	if got := all.String(); !strings.HasPrefix(got, "1\n2\n") || !strings.HasSuffix(got, "\n30000\n") || strings.Count(got, "\n") != 30000 {
		t.Errorf("read %d bytes in pages", len(got))
	}
}

func files(a *agent, id string) {
	t := a.t
	wrote := a.call("sandbox_fs_write", in(id, m{"path": "sub/test.sh", "contents": "echo Hello from test\n", "mode": "0755"}))
	if !wrote.OK || wrote.Path != "/workspace/sub/test.sh" {
		t.Errorf("wrote %+v", wrote)
	}
	for _, path := range []string{"sub/test.sh", "workspace/sub/test.sh", "/workspace/sub/test.sh", "./sub//test.sh"} {
		if read := a.call("sandbox_fs_read", in(id, m{"path": path})); text(read.Contents) != "echo Hello from test\n" || read.Truncated || read.SizeBytes != 21 {
			t.Errorf("%s: %+v", path, read)
		}
	}
	if ran := a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "sub/test.sh"}})); text(ran.Stdout) != "Hello from test\n" {
		t.Errorf("ran %+v", ran)
	}
	list := a.call("sandbox_fs_list", in(id, m{"path": "sub"}))
	if len(list.Entries) != 1 || list.Entries[0].Path != "sub/test.sh" || list.Entries[0].Type != "file" || list.Entries[0].Size != 21 ||
		!strings.HasSuffix(list.Entries[0].Mode, "755") || list.Entries[0].MtimeUnix == 0 {
		t.Errorf("list %+v", list)
	}
	if all := a.call("sandbox_fs_list", in(id, m{"recursive": true})); len(all.Entries) < 2 {
		t.Errorf("list %+v", all)
	}
	a.refused("overwrite true", "sandbox_fs_write", in(id, m{"path": "sub/test.sh", "contents": "x", "overwrite": false}))
	a.call("sandbox_fs_write", in(id, m{"path": "sub/test.sh", "contents": "x"}))
	a.call("sandbox_fs_write", in(id, m{"path": "b", "contents_b64": "/wBh"}))
	if read := a.call("sandbox_fs_read", in(id, m{"path": "b"})); read.Contents != nil || text(read.ContentsB64) != "/wBh" || read.SizeBytes != 3 {
		t.Errorf("binary %+v", read)
	}
	a.call("sandbox_fs_write", in(id, m{"path": "empty"}))
	if read := a.call("sandbox_fs_read", in(id, m{"path": "empty"})); text(read.Contents) != "" || read.Contents == nil {
		t.Errorf("empty %+v", read)
	}
	a.call("sandbox_fs_write", in(id, m{"path": "u", "contents": "aäb"}))
	cut := a.call("sandbox_fs_read", in(id, m{"path": "u", "max_bytes": 2}))
	rest := a.call("sandbox_fs_read", in(id, m{"path": "u", "offset": 1}))
	if text(cut.Contents) != "a" || !cut.Truncated || cut.SizeBytes != 4 || !strings.Contains(cut.Hint, "offset 1") || text(rest.Contents) != "äb" || rest.Truncated {
		t.Errorf("cut %+v, rest %+v", cut, rest)
	}
	a.refused("recursive true", "sandbox_fs_delete", in(id, m{"path": "sub"}))
	if gone := a.call("sandbox_fs_delete", in(id, m{"path": "sub", "recursive": true})); !gone.OK || gone.Deleted != "/workspace/sub" {
		t.Errorf("deleted %+v", gone)
	}
	if none := a.call("sandbox_fs_delete", in(id, m{"path": "never-was"})); none.OK || none.Deleted != "" || none.Hint == "" {
		t.Errorf("deleted %+v", none)
	}
	a.refused("sandbox_fs_list", "sandbox_fs_read", in(id, m{"path": "sub/test.sh"}))
	a.refused("sandbox_fs_list", "sandbox_fs_read", in(id, m{"path": "."}))
	a.call("sandbox_exec", in(id, m{"cmd": []string{"ln", "-s", "/etc/passwd", "link"}}))
	a.refused("workspace", "sandbox_fs_read", in(id, m{"path": "link"}))
}

func search(a *agent, id string) {
	t := a.t
	a.call("sandbox_fs_write", in(id, m{"path": "src/a.py", "contents": "one = 1\ntwo = 2\ntwo = 2\n"}))
	found := a.call("sandbox_fs_grep", in(id, m{"pattern": "^two", "path": "src"}))
	if len(found.Matches) != 2 || found.Matches[0].Path != "src/a.py" || found.Matches[0].Line != 2 || found.Matches[0].Text != "two = 2" {
		t.Errorf("grep %+v", found)
	}
	if names := a.call("sandbox_fs_glob", in(id, m{"pattern": "**/*.py"})); len(names.Entries) != 1 || names.Entries[0].Path != "src/a.py" {
		t.Errorf("glob %+v", names)
	}
	edited := a.call("sandbox_fs_edit", in(id, m{"path": "src/a.py", "old": "one = 1", "new": "one = 11"}))
	if edited.Replaced != 1 || !strings.Contains(edited.Diff, "+one = 11") {
		t.Errorf("edit %+v", edited)
	}
	a.refused("count", "sandbox_fs_edit", in(id, m{"path": "src/a.py", "old": "two = 2", "new": "x"}))
	if both := a.call("sandbox_fs_edit", in(id, m{"path": "src/a.py", "old": "two = 2", "new": "three = 3", "count": 2})); both.Replaced != 2 {
		t.Errorf("edit %+v", both)
	}
	a.refused("sandbox_fs_read", "sandbox_fs_edit", in(id, m{"path": "src/a.py", "old": "never", "new": "x"}))
}

// memory is a store of files for tests.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (s *memory) Open(_ context.Context, key string) (io.ReadCloser, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.files[key]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
}

func (s *memory) Put(_ context.Context, key, name string, content io.Reader) (string, int64, error) {
	if key == "" {
		key = "files/" + name
	}
	data, err := io.ReadAll(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[key] = data
	return key, int64(len(data)), err
}

func staged(a *agent, id string, store *memory) {
	t := a.t
	if in := a.call("sandbox_stage_file", in(id, m{"file_key": "in", "destination": "data/in.txt"})); in.SizeBytes != 7 || in.Path != "/workspace/data/in.txt" {
		t.Errorf("staged %+v", in)
	}
	const size = 3 << 20
	a.call("sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "head -c 3145728 /dev/zero > big"}}))
	if out := a.call("sandbox_publish_file", in(id, m{"source": "big"})); out.SizeBytes != size || out.FileKey != "files/big" || len(store.files["files/big"]) != size {
		t.Errorf("published %+v", out)
	}
	a.refused("file_key", "sandbox_stage_file", in(id, m{"file_key": "none", "destination": "x"}))
}

func runs(a *agent) {
	t := a.t
	ok := a.call("sandbox_run", m{"runtime": "bash", "code": `echo $1 $V; cat data.txt`, "args": []string{"arg"}, "env": m{"V": "env"}, "files": m{"data.txt": "file\n"}})
	if !ok.OK || ok.Runtime != "bash" || *ok.ExitCode != 0 || text(ok.Stdout) != "arg env\nfile\n" || ok.Error != "" {
		t.Errorf("run %+v", ok)
	}
	if python := a.call("sandbox_run", m{"code": "print(6 * 7)"}); !python.OK || python.Runtime != "python" || text(python.Stdout) != "42\n" {
		t.Errorf("run %+v", python)
	}
	odd := a.call("sandbox_run", m{"runtime": "bash", "code": `printf 'caf\351\n'`, "bytes": true})
	if !odd.OK || text(odd.Stdout) != "caf\ufffd\n" || !odd.Lossy || odd.StdoutB64 != "Y2Fm6Qo=" {
		t.Errorf("run %+v", odd)
	}
	bad := a.call("sandbox_run", m{"runtime": "bash", "code": "exit 7"})
	if bad.OK || *bad.ExitCode != 7 || bad.Error == "" {
		t.Errorf("run %+v", bad)
	}
	if killed := a.call("sandbox_run", m{"runtime": "bash", "code": "kill -9 $$"}); killed.Cause != "signaled" || !strings.Contains(killed.Error, "signal 9") {
		t.Errorf("run %+v", killed)
	}
	if slow := a.call("sandbox_run", m{"runtime": "bash", "code": "sleep 60", "timeout_seconds": 1}); slow.OK || slow.Error == "" || !slow.TimedOut || slow.Cause != "timeout" {
		t.Errorf("run %+v", slow)
	}
}

func snapshots(a *agent, id string) {
	t := a.t
	a.call("sandbox_fs_write", in(id, m{"path": "kept", "contents": "kept"}))
	saved := a.call("sandbox_snapshot", in(id, nil))
	a.call("sandbox_fs_delete", in(id, m{"path": "kept"}))
	again := a.call("sandbox_restore", m{"snapshot_id": saved.SnapshotID})
	if again.SandboxID == id || !again.Created {
		t.Errorf("restored %+v", again)
	}
	if read := a.call("sandbox_fs_read", in(again.SandboxID, m{"path": "kept"})); text(read.Contents) != "kept" {
		t.Errorf("read %+v", read)
	}
	a.refused("Call sandbox_open", "sandbox_exec", in(id, m{"cmd": []string{"true"}}))
	port := a.call("sandbox_expose_port", in(again.SandboxID, m{"port": 8000}))
	if !strings.Contains(port.URL, "8000") && port.URL == "" || port.Hint == "" {
		t.Errorf("port %+v", port)
	}
	if closed := a.call("sandbox_close", in(again.SandboxID, m{"delete_workspace": false})); !closed.OK {
		t.Errorf("closed %+v", closed)
	}
	back := a.call("sandbox_open", nil)
	if back.SandboxID != again.SandboxID || back.Created {
		t.Errorf("opened %+v", back)
	}
	a.call("sandbox_fs_read", in(back.SandboxID, m{"path": "kept"}))
	a.call("sandbox_close", in(back.SandboxID, nil))
	if fresh := a.call("sandbox_open", nil); !fresh.Created {
		t.Errorf("opened %+v", fresh)
	}
}

func TestScopesOnTheNativeDriver(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	var agents sync.WaitGroup
	ids, made := make([]string, 10), make([]bool, 10)
	for i := range 10 { // each with a client of its own, as in processes of their own
		one := newAgent(t, d, "workflow:run-1", nil)
		agents.Go(func() {
			got, failed := one.try("sandbox_open", nil)
			if failed {
				t.Error(got.Error)
			}
			ids[i], made[i] = got.SandboxID, got.Created
		})
	}
	agents.Wait()
	count := 0
	for i := range 10 {
		if ids[i] != ids[0] {
			t.Errorf("ten agents got %q", ids)
		}
		if made[i] {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d were the first", count)
	}

	a, other := newAgent(t, d, "workflow:run-1", nil), newAgent(t, d, "workflow:run-2", nil)
	a.call("sandbox_fs_write", in(ids[0], m{"path": "marker", "contents": "x"}))
	other.refused("sandbox_open first", "sandbox_fs_read", in(ids[0], m{"path": "marker"}))
	named := a.call("sandbox_open", m{"session_key": "isolated"})
	theirs := other.call("sandbox_open", nil)
	if named.SandboxID == ids[0] || theirs.SandboxID == ids[0] {
		t.Error("another key or scope has the same sandbox")
	}

	d.Kill()
	d.Start()
	again := newAgent(t, d, "workflow:run-1", nil)
	if open := again.call("sandbox_open", nil); open.Created || open.SandboxID != ids[0] {
		t.Errorf("after a crash: %+v", open)
	}
	again.call("sandbox_fs_read", in(ids[0], m{"path": "marker"}))

	c := client(t, d)
	left := func(scope string) int {
		t.Helper()
		list, err := c.ListSessions(t.Context(), &sandkasten.ListSessionsOptions{Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := left("workflow:run-1"); n != 2 {
		t.Errorf("the scope has %d sessions", n)
	}
	listed, err := command(d, "ls", "--quiet", "--scope", "workflow:run-1").CombinedOutput()
	if err != nil || !slices.Contains(strings.Fields(string(listed)), ids[0]) || len(strings.Fields(string(listed))) != 2 {
		t.Errorf("ls --scope: %s, %v", listed, err)
	}
	if done, err := c.CompleteScope(t.Context(), "workflow:run-1", nil); err != nil || done.Sessions != 0 {
		t.Errorf("complete: %+v, %v", done, err)
	}
	if left("workflow:run-1") != 0 || left("workflow:run-2") != 1 {
		t.Error("the wrong sessions have ended")
	}
	if done, err := c.CompleteScope(t.Context(), "workflow:run-2", &sandkasten.CompleteOptions{Retention: time.Second}); err != nil || done.Sessions != 1 {
		t.Errorf("complete: %+v, %v", done, err)
	}
	d.Kill()
	time.Sleep(time.Second)
	d.Start()
	for deadline := time.Now().Add(3 * time.Minute); left("workflow:run-2") > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a crash has kept a complete scope alive")
		}
	}
}
