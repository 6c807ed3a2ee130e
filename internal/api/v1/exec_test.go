package v1_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/protocol"
)

// run sends an exec request and returns its result.
func (s *server) run(tb testing.TB, path string, request map[string]any) v1.ExecResponse {
	tb.Helper()
	var r v1.ExecResponse
	s.do(tb, "POST", path+"/exec", js(tb, request)).into(tb, http.StatusOK, &r)
	return r
}

func TestExec(t *testing.T) {
	s := start(t)
	path := s.create(t)
	type m = map[string]any
	tests := []struct {
		name    string
		request m
		output  string
		code    int
		cause   protocol.Cause

		restarted bool
	}{
		{"output and error output", m{"cmd": "echo out; echo err >&2"}, "out\nerr\n", 0, protocol.CauseExited, false},
		{"exit code", m{"cmd": "(exit 7)"}, "", 7, protocol.CauseExited, false},
		{"zero is there", m{"cmd": "true"}, "", 0, protocol.CauseExited, false},
		{"state stays", m{"cmd": "x=1; cd /tmp"}, "", 0, protocol.CauseExited, false},
		{"state stayed", m{"cmd": "echo $x $PWD"}, "1 /tmp\n", 0, protocol.CauseExited, false},
		{"standard input", m{"cmd": "cat", "stdin": "line\u00e4\n"}, "line\u00e4\n", 0, protocol.CauseExited, false},
		{"no standard input", m{"cmd": "cat"}, "", 0, protocol.CauseExited, false},
		{"colours go", m{"cmd": `printf '\033[31mred\033[0m\r\n'`}, "red\n", 0, protocol.CauseExited, false},
		{"colours stay", m{"cmd": `printf '\033[31mred\033[0m\r\n'`, "raw_output": true}, "\x1b[31mred\x1b[0m\r\n", 0, protocol.CauseExited, false},
		{"markup stays", m{"cmd": "echo '<a href=\"x\">&'"}, "<a href=\"x\">&\n", 0, protocol.CauseExited, false},
		{"NUL in output", m{"cmd": `printf 'a\0b'`}, "a\x00b", 0, protocol.CauseExited, false},
		{"another shell", m{"cmd": "echo ${x-unset}", "shell": "build"}, "unset\n", 0, protocol.CauseExited, false},
		{"exit", m{"cmd": "exit 3"}, "", 3, protocol.CauseShellExited, false},
		{"timeout", m{"cmd": "echo before; sleep 60", "timeout_ms": 300}, "before\n", 124, protocol.CauseTimeout, true},
		{"after all that", m{"cmd": "echo ok"}, "ok\n", 0, protocol.CauseExited, false},
	}
	for _, tt := range tests {
		r := s.run(t, path, tt.request)
		// A command that is killed may say so itself, behind what it printed.
		right := r.Output == tt.output || tt.cause == protocol.CauseTimeout && strings.HasPrefix(r.Output, tt.output)
		if !right || r.Cause != tt.cause || r.ExitCode != tt.code {
			t.Errorf("%s: %+v", tt.name, r)
		}
		if r.ExecID == "" || r.Cwd == "" || r.OutputEncoding != "utf-8" || r.Truncated || r.DroppedBytes != 0 {
			t.Errorf("%s: %+v", tt.name, r)
		}
		if r.TimedOut != (tt.cause == protocol.CauseTimeout) || r.ShellRestarted != tt.restarted {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

func TestExecBinaryOutput(t *testing.T) {
	s := start(t)
	path := s.create(t)
	r := s.exec(t, path, `printf 'a\377b\303'`)
	exact, err := base64.StdEncoding.DecodeString(r.OutputBase64)
	if err != nil || string(exact) != "a\xffb\xc3" || r.OutputEncoding != "base64" || r.Output != "a\ufffdb\ufffd" {
		t.Errorf("%+v: %q, %v", r, exact, err)
	}
}

func TestExecLongOutput(t *testing.T) {
	s := start(t, func(o *setup) { o.v1.OutputBytes = 100 })
	path := s.create(t)
	r := s.exec(t, path, "echo start; seq 1 2000; echo end")
	if !strings.HasPrefix(r.Output, "start\n1\n") || !strings.HasSuffix(r.Output, "2000\nend\n") {
		t.Errorf("head and tail are not kept: %q", r.Output)
	}
	const total = 6 + 8893 + 4
	if !r.Truncated || r.OutputBytes != total || r.DroppedBytes != total-100 {
		t.Errorf("truncated %v, %d of %d bytes dropped, want %d of %d", r.Truncated, r.DroppedBytes, r.OutputBytes, total-100, total)
	}
	if !strings.Contains(r.Output, fmt.Sprintf("\n[... %d bytes of output are left out here ...]\n", r.DroppedBytes)) {
		t.Errorf("the gap is not marked: %q", r.Output)
	}
}

// TestWhatAnOpenControlStringHidesIsCounted: a program that is killed while it draws leaves
// one, and nothing after it may vanish without a mark.
func TestWhatAnOpenControlStringHidesIsCounted(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for introducer, want := range map[string]string{"P": "a\n12 failed\n", "]": "a\n12 failed\n", "_": "a\n12 failed\n", "^": "a\n12 failed\n", "X": "a\n12 failed\n"} {
		cmd := `printf 'a\033` + introducer + `hidden\n12 failed\n'`
		r := s.exec(t, path, cmd)
		if r.Output != want || !r.Truncated || r.DroppedBytes != 6 {
			t.Errorf("ESC %s: output %q, truncated %v, %d bytes dropped, want %q and 6", introducer, r.Output, r.Truncated, r.DroppedBytes, want)
		}
		p := s.process(t, path, fields{"cmd": []string{"sh", "-c", cmd}})
		if p.Stdout != want || !p.Truncated || p.DroppedBytes != 6 {
			t.Errorf("ESC %s in a process: output %q, truncated %v, %d bytes dropped, want %q and 6", introducer, p.Stdout, p.Truncated, p.DroppedBytes, want)
		}
		c := s.stream(t, path, cmd)
		var end struct {
			Dropped int64 `json:"dropped_bytes"`
		}
		if err := json.Unmarshal(c.last.data, &end); err != nil || c.output != want || end.Dropped != 6 {
			t.Errorf("ESC %s in a stream: output %q, %d bytes dropped, %v, want %q and 6", introducer, c.output, end.Dropped, err, want)
		}
	}
	if r := s.exec(t, path, `printf 'a\033]0;title\007b\033Pq#0\033\\c'`); r.Output != "abc" || r.Truncated || r.DroppedBytes != 0 {
		t.Errorf("strings with their ends: %+v", r)
	}
}

func TestExecLongCommand(t *testing.T) {
	s := start(t)
	path := s.create(t)
	most := 1 << 20
	r := s.run(t, path, map[string]any{"cmd": ": " + strings.Repeat("\u00e4", (most-2)/2)})
	if r.ExitCode != 0 {
		t.Errorf("a command of 1 MiB: %+v", r)
	}
	a := s.do(t, "POST", path+"/exec", js(t, map[string]any{"cmd": ": " + strings.Repeat("\u00e4", most/2)}))
	a.wantError(t, http.StatusRequestEntityTooLarge, "too_large", "cmd")
	a = s.do(t, "POST", path+"/exec", js(t, map[string]any{"cmd": strings.Repeat(":", most+1)}))
	a.wantError(t, http.StatusBadRequest, "invalid_argument", "cmd")
}

func TestExecsAreSerial(t *testing.T) {
	s := start(t)
	path := s.create(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			r := s.exec(t, path, fmt.Sprintf("n=%d; echo a$n; sleep 0.01; echo b$n", i))
			if want := fmt.Sprintf("a%d\nb%d\n", i, i); r.Output != want {
				t.Errorf("%q, want %q", r.Output, want)
			}
		})
	}
	group.Wait()
}

func TestExecRecords(t *testing.T) {
	s := start(t, func(o *setup) { o.v1.OutputBytes = 64 })
	path := s.create(t)
	r := s.exec(t, path, `printf '\033[1mbold\033[0m\n'; (exit 4)`)
	var all []v1.ExecRecord
	s.do(t, "GET", path+"/execs", "").into(t, 200, &all)
	if len(all) != 1 || all[0].ExecID != r.ExecID || all[0].State != protocol.StateEnded || all[0].ExitCode == nil || *all[0].ExitCode != 4 ||
		all[0].Cause != protocol.CauseExited || all[0].StartedAt == nil || !strings.HasPrefix(all[0].Command, "printf") {
		t.Errorf("records: %+v", all)
	}
	var one v1.ExecDetail
	s.do(t, "GET", path+"/execs/"+r.ExecID, "").into(t, 200, &one)
	if one.Output != "bold\n" || one.ExitCode == nil || *one.ExitCode != 4 {
		t.Errorf("detail: %+v", one)
	}
	s.do(t, "GET", path+"/execs/"+r.ExecID+"?raw_output=true", "").into(t, 200, &one)
	if one.Output != "\x1b[1mbold\x1b[0m\n" {
		t.Errorf("raw detail: %+v", one)
	}
}

// launch starts a command whose client goes away, and returns its id when it
// has printed something.
func launch(t *testing.T, s *server, path, cmd string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+path+"/exec/stream", strings.NewReader(js(t, map[string]any{"cmd": cmd})))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+aliceKey)
	r.Header.Set("Content-Type", "application/json")
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	stream := newStream(response.Body)
	var begun struct {
		ExecID string `json:"exec_id"`
	}
	stream.want(t, "start", &begun)
	stream.want(t, "chunk", &struct{}{})
	cancel()
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	return begun.ExecID
}

// TestExecOutlivesItsClient is F25: a command goes on without its client, can
// be read, waited for and canceled by its id.
func TestExecOutlivesItsClient(t *testing.T) {
	s := start(t)
	path := s.create(t)
	id := launch(t, s, path, "echo first; until [ -e go ]; do sleep 0.01; done; echo last")
	exec := path + "/execs/" + id

	var one v1.ExecDetail
	s.do(t, "GET", exec, "").into(t, 200, &one)
	if one.State != protocol.StateRunning || one.Output != "first\n" || one.ExitCode != nil {
		t.Errorf("while it runs: %+v", one)
	}
	s.do(t, "GET", exec+"?wait_ms=50", "").into(t, 200, &one)
	if one.State != protocol.StateRunning || one.Output != "first\n" {
		t.Errorf("after waiting a little: %+v", one)
	}
	s.do(t, "POST", path+"/fs/write", `{"path":"go","text":""}`).into(t, 200, &v1.OK{})
	s.do(t, "GET", exec+"?wait_ms=60000", "").into(t, 200, &one)
	if one.State != protocol.StateEnded || one.Output != "first\nlast\n" || one.ExitCode == nil || *one.ExitCode != 0 {
		t.Errorf("at its end: %+v", one)
	}
}

func TestCancel(t *testing.T) {
	s := start(t)
	path := s.create(t)
	id := launch(t, s, path, "echo first; sleep 60")
	exec := path + "/execs/" + id
	begin := time.Now()
	s.do(t, "POST", exec+"/cancel", "").into(t, 200, &v1.OK{})
	var one v1.ExecDetail
	s.do(t, "GET", exec+"?wait_ms=60000", "").into(t, 200, &one)
	if one.Cause != protocol.CauseCanceled || !strings.HasPrefix(one.Output, "first\n") || time.Since(begin) > 10*time.Second {
		t.Errorf("after cancel: %+v", one)
	}
	s.do(t, "POST", exec+"/cancel", "").into(t, 200, &v1.OK{})
	if r := s.exec(t, path, "echo next"); r.Output != "next\n" {
		t.Errorf("the shell after cancel: %+v", r)
	}
}

// A client that has chosen a command's id can end it before it hears of it.
func TestCommandsHaveTheIDsOfTheirClients(t *testing.T) {
	s := start(t)
	path := s.create(t)
	type m = map[string]any
	const id, other, third = "aaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbb", "cccccccccccccccccccccccccc"
	ended := make(chan v1.ExecResponse, 1)
	go func() { ended <- s.run(t, path, m{"cmd": "echo first; sleep 60", "exec_id": id}) }()
	exec := path + "/execs/" + id
	for s.do(t, "GET", exec+"?wait_ms=1", "").status == http.StatusNotFound {
	}
	// Whoever comes with the same id is refused, and ends nothing by that.
	for _, route := range []string{"/exec", "/exec/stream"} {
		s.do(t, "POST", path+route, js(t, m{"cmd": "true", "exec_id": id, "on_disconnect": "kill"})).wantError(t, 409, "already_exists", "")
	}
	s.do(t, "POST", path+"/processes", js(t, m{"cmd": []string{"true"}, "exec_id": id, "on_disconnect": "kill"})).wantError(t, 409, "already_exists", "")
	var one v1.ExecDetail
	if s.do(t, "GET", exec, "").into(t, 200, &one); one.State == protocol.StateEnded {
		t.Errorf("after others with its id: %+v", one)
	}
	s.do(t, "POST", exec+"/cancel", "").into(t, 200, &v1.OK{})
	if r := <-ended; r.ExecID != id || r.Cause != protocol.CauseCanceled {
		t.Errorf("%+v", r)
	}
	if r := s.run(t, path, m{"cmd": "echo next", "exec_id": other}); r.ExecID != other || r.Output != "next\n" {
		t.Errorf("%+v", r)
	}
	var p v1.ProcessResponse
	if s.do(t, "POST", path+"/processes", js(t, m{"cmd": []string{"true"}, "exec_id": third})).into(t, 200, &p); p.ExecID != third {
		t.Errorf("%+v", p)
	}
	for _, wrong := range []string{"short", "AAAAAAAAAAAAAAAAAAAAAAAAAA", id + "a", "../../../../../../../../etc"} {
		s.do(t, "POST", path+"/exec", js(t, m{"cmd": "true", "exec_id": wrong})).wantError(t, 400, "invalid_argument", "exec_id")
		s.do(t, "POST", path+"/processes", js(t, m{"cmd": []string{"true"}, "exec_id": wrong})).wantError(t, 400, "invalid_argument", "exec_id")
	}
}

func TestABusyShellSaysWhoseCommandItRuns(t *testing.T) {
	s := start(t)
	path := s.create(t)
	const cmd, waiting = "echo first; sleep 60", "dddddddddddddddddddddddddd"
	id := launch(t, s, path, cmd)
	ended := make(chan v1.ExecResponse, 1)
	go func() { ended <- s.run(t, path, map[string]any{"cmd": "echo next", "exec_id": waiting}) }()
	for s.do(t, "GET", path+"/execs/"+waiting, "").status == http.StatusNotFound {
	}
	want := v1.WaitsFor{ExecID: id, Command: cmd}
	var one v1.ExecDetail
	s.do(t, "GET", path+"/execs/"+waiting, "").into(t, 200, &one)
	if one.State != protocol.StateQueued || one.WaitsFor == nil || *one.WaitsFor != want {
		t.Errorf("the command that waits: %+v", one.ExecRecord)
	}
	var all []v1.ExecRecord
	s.do(t, "GET", path+"/execs", "").into(t, 200, &all)
	if len(all) != 2 || all[0].WaitsFor != nil || all[1].WaitsFor == nil || *all[1].WaitsFor != want {
		t.Errorf("the commands: %+v", all)
	}
	var shells []v1.Shell
	s.do(t, "GET", path+"/shells", "").into(t, 200, &shells)
	if len(shells) != 1 || shells[0].State != "busy" || shells[0].ExecID != id || shells[0].Command != cmd {
		t.Errorf("the shells: %+v", shells)
	}
	s.do(t, "POST", path+"/execs/"+id+"/cancel", "").into(t, 200, &v1.OK{})
	if r := <-ended; r.Output != "next\n" {
		t.Errorf("%+v", r)
	}
}

func TestExecInDestroyedSession(t *testing.T) {
	s := start(t)
	path := s.create(t)
	done := make(chan v1.ExecResponse, 1)
	id := launch(t, s, path, "echo first; sleep 60")
	go func() {
		var one v1.ExecDetail
		a := s.do(t, "GET", path+"/execs/"+id+"?wait_ms=60000", "")
		if a.status == 200 {
			a.into(t, 200, &one)
		}
		done <- v1.ExecResponse{Text: one.Text, End: v1.End{Cause: one.Cause}}
	}()
	s.do(t, "DELETE", path, "").into(t, 200, &v1.OK{})
	if r := <-done; r.Cause != "" && r.Cause != protocol.CauseSandboxGone {
		t.Errorf("%+v", r)
	}
	s.do(t, "GET", path+"/execs", "").wantError(t, 409, "conflict", "")
}
