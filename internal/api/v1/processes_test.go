package v1_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/protocol"
)

type fields = map[string]any

// process runs a program that must be accepted, in the foreground.
func (s *server) process(tb testing.TB, path string, request fields) v1.ProcessResponse {
	tb.Helper()
	var r v1.ProcessResponse
	s.do(tb, "POST", path+"/processes", js(tb, request)).into(tb, http.StatusOK, &r)
	return r
}

// background starts a program and returns its path.
func (s *server) background(tb testing.TB, path string, request fields) string {
	tb.Helper()
	request["background"] = true
	var r v1.ProcessResponse
	s.do(tb, "POST", path+"/processes", js(tb, request)).into(tb, http.StatusCreated, &r)
	if r.Status != "running" || r.PID == 0 || r.ExitCode != nil || r.Stdout != "" {
		tb.Errorf("%+v", r)
	}
	return path + "/processes/" + r.ExecID
}

func text(s *string) string {
	if s == nil {
		return "absent"
	}
	return *s
}

func TestProcess(t *testing.T) {
	s := start(t)
	path := s.create(t)
	sh := func(code string, args ...string) []string { return append([]string{"sh", "-c", code}, args...) }
	tests := []struct {
		name           string
		request        fields
		stdout, stderr string
		code           int
		cause          protocol.Cause
	}{
		{"streams apart", fields{"cmd": sh("echo out; echo err >&2; exit 3")}, "out\n", "err\n", 3, protocol.CauseExited},
		{"arguments as they are", fields{"cmd": []string{"printf", "%s|", "a b", "", "'$x'", "\u00e4\n"}}, "a b||'$x'|\u00e4\n|", "", 0, protocol.CauseExited},
		{"no standard input", fields{"cmd": []string{"cat"}}, "", "", 0, protocol.CauseExited},
		{"standard input", fields{"cmd": []string{"cat"}, "stdin": "in\n"}, "in\n", "", 0, protocol.CauseExited},
		{"standard input of bytes", fields{"cmd": []string{"wc", "-c"}, "stdin_base64": base64.StdEncoding.EncodeToString([]byte("\xff\x00\x01"))}, "3\n", "", 0, protocol.CauseExited},
		{"variables", fields{"cmd": sh(`echo "$A$B"`), "env": map[string]string{"A": "1", "B": "=\n2"}}, "1=\n2\n", "", 0, protocol.CauseExited},
		{"directory", fields{"cmd": []string{"pwd"}, "cwd": "/usr"}, "/usr\n", "", 0, protocol.CauseExited},
		{"signal", fields{"cmd": sh("kill -9 $$")}, "", "", 137, protocol.CauseSignaled},
		{"timeout", fields{"cmd": sh("echo before; sleep 600"), "timeout_ms": 200}, "before\n", "", 124, protocol.CauseTimeout},
		{"colours go", fields{"cmd": sh(`printf '\033[1mx\r\n'; printf 'e\r\n' >&2`)}, "x\n", "e\n", 0, protocol.CauseExited},
		{"colours stay", fields{"cmd": sh(`printf '\033[1mx\r\n'`), "raw_output": true}, "\x1b[1mx\r\n", "", 0, protocol.CauseExited},
	}
	for _, tt := range tests {
		r := s.process(t, path, tt.request)
		if r.Stdout != tt.stdout || r.Stderr != tt.stderr || r.Output != nil || r.ExitCode == nil || *r.ExitCode != tt.code || r.Cause != tt.cause {
			t.Errorf("%s: %q, %q, %+v", tt.name, r.Stdout, r.Stderr, r)
		}
		if r.Status != "completed" || r.Truncated || r.DroppedBytes != 0 || r.TimedOut != (tt.cause == protocol.CauseTimeout) {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
}

func TestProcessOnATerminal(t *testing.T) {
	s := start(t)
	path := s.create(t)
	r := s.process(t, path, fields{"cmd": []string{"sh", "-c", "stty size; echo err >&2"}, "tty": true, "rows": 33})
	if text(r.Output) != "33 80\nerr\n" || r.Stdout != "" || r.Stderr != "" {
		t.Errorf("%+v, %q", r, text(r.Output))
	}
}

func TestProcessOfBytes(t *testing.T) {
	s := start(t, func(o *setup) { o.v1.OutputBytes = 1000 })
	path := s.create(t)
	r := s.process(t, path, fields{"cmd": []string{"sh", "-c", `printf 'a\377'; printf 'b' >&2`}})
	if r.StdoutEncoding != "base64" || r.StdoutBase64 != "Yf8=" || r.Stdout != "a\ufffd" || r.StderrEncoding != "" || r.Stderr != "b" {
		t.Errorf("%+v", r)
	}
	r = s.process(t, path, fields{"cmd": []string{"sh", "-c", `seq 1 1000; echo err >&2`}})
	if !r.Truncated || r.DroppedBytes == 0 || !strings.HasPrefix(r.Stdout, "1\n2\n") || !strings.HasSuffix(r.Stdout, "999\n1000\n") || r.Stderr != "err\n" {
		t.Errorf("%+v", r)
	}
}

func TestProcessRefused(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Maxima.ExecTimeout = time.Minute })
	path := s.create(t)
	long := strings.Repeat("x", 200<<10)
	many := make([]string, 18)
	for i := range many {
		many[i] = long[:120<<10]
	}
	for _, tt := range []struct {
		name    string
		request string
		status  int
		code    string
		field   string
	}{
		{"no program", `{"cmd":[]}`, 400, "invalid_argument", "cmd"},
		{"nothing", `{}`, 400, "invalid_argument", "cmd"},
		{"an empty program", `{"cmd":[""]}`, 400, "invalid_argument", "cmd"},
		{"a line", `{"cmd":"ls -l"}`, 400, "invalid_argument", "cmd"},
		{"NUL", `{"cmd":["a\u0000"]}`, 400, "invalid_argument", "cmd"},
		{"a long argument", js(t, fields{"cmd": []string{"echo", long}}), 413, "too_large", "cmd"},
		{"long arguments", js(t, fields{"cmd": append([]string{"echo"}, many...)}), 413, "too_large", "cmd"},
		{"a variable's name", `{"cmd":["true"],"env":{"a=b":"c"}}`, 400, "invalid_argument", "env"},
		{"a variable's value", `{"cmd":["true"],"env":{"a":"\u0000"}}`, 400, "invalid_argument", "env"},
		{"a user", `{"cmd":["true"],"user":"a b"}`, 400, "invalid_argument", "user"},
		{"a directory", `{"cmd":["true"],"cwd":"a\u0000"}`, 400, "invalid_argument", "cwd"},
		{"both stdins", `{"cmd":["true"],"stdin":"a","stdin_base64":"YQ=="}`, 400, "invalid_argument", "stdin"},
		{"no base64", `{"cmd":["true"],"stdin_base64":"*"}`, 400, "invalid_argument", "stdin_base64"},
		{"a timeout", `{"cmd":["true"],"timeout_ms":3600000}`, 400, "invalid_argument", "timeout_ms"},
		{"a timeout in the background", `{"cmd":["true"],"timeout_ms":3600000,"background":true}`, 400, "invalid_argument", "timeout_ms"},
		{"an output file", `{"cmd":["true"],"output_file":"/etc/x"}`, 400, "invalid_argument", "output_file"},
		{"no such program", `{"cmd":["no-such-program"]}`, 422, "unprocessable", "cmd"},
		{"no such program in the background", `{"cmd":["no-such-program"],"background":true}`, 422, "unprocessable", "cmd"},
		{"no such directory", `{"cmd":["true"],"cwd":"/no/such"}`, 422, "unprocessable", "cwd"},
		{"no such user", `{"cmd":["true"],"user":"nobodyknows"}`, 422, "unprocessable", "user"},
		{"a directory as a program", `{"cmd":["/usr"]}`, 422, "unprocessable", "cmd"},
	} {
		a := s.do(t, "POST", path+"/processes", tt.request)
		if a.status != tt.status {
			t.Errorf("%s: %d %s", tt.name, a.status, a.body)
			continue
		}
		a.wantError(t, tt.status, tt.code, tt.field)
	}
	s.do(t, "POST", path+"/processes/stream", `{"cmd":["true"],"background":true}`).wantError(t, 400, "invalid_argument", "background")
}

// TestBackground is the life of a process that nobody waits for.
func TestBackground(t *testing.T) {
	s := start(t)
	path := s.create(t)
	p := s.background(t, path, fields{"cmd": []string{"sh", "-c", `echo ready; while read x; do echo "got $x"; done; echo end >&2; exit 4`}, "open_stdin": true})
	var out v1.OutputResponse
	s.do(t, "GET", p+"/output?wait_ms=60000", "").into(t, 200, &out)
	if len(out.Chunks) != 1 || out.Chunks[0].Text != "ready\n" || out.Chunks[0].Stream != "stdout" || out.NextSeq != 6 || out.Done || out.Status != "running" {
		t.Fatalf("%+v", out)
	}
	var in v1.StdinResponse
	s.do(t, "POST", p+"/stdin", `{"data":"a\nb\n"}`).into(t, 200, &in)
	if in.AcceptedBytes != 4 || in.Closed {
		t.Errorf("%+v", in)
	}
	s.do(t, "POST", p+"/stdin", `{"data_base64":"Ywo=","close":true}`).into(t, 200, &in)
	if in.AcceptedBytes != 2 || !in.Closed {
		t.Errorf("%+v", in)
	}
	var r v1.ExecRecord
	s.do(t, "POST", p+"/wait", "").into(t, 200, &r)
	if r.ExitCode == nil || *r.ExitCode != 4 || r.Kind != "process" || r.Shell != "" || r.PID == 0 || r.Usage == nil || !strings.HasPrefix(r.Command, "sh -c") {
		t.Errorf("%+v", r)
	}
	got := map[string]string{}
	for seq := out.NextSeq; !out.Done; seq = out.NextSeq {
		s.do(t, "GET", fmt.Sprintf("%s/output?since_seq=%d&max_chunks=1", p, seq), "").into(t, 200, &out)
		for _, c := range out.Chunks {
			got[c.Stream] += c.Text
		}
	}
	if got["stdout"] != "got a\ngot b\ngot c\n" || got["stderr"] != "end\n" || *out.ExitCode != 4 || out.Cause != protocol.CauseExited || out.Status != "completed" {
		t.Errorf("%q, %+v", got, out)
	}
	s.do(t, "POST", p+"/stdin", `{"data":"late"}`).wantError(t, 409, "conflict", "")
	s.do(t, "POST", p+"/signal", `{"signal":"TERM"}`).wantError(t, 409, "conflict", "")
	s.do(t, "POST", p+"/resize", `{"rows":1,"cols":1}`).wantError(t, 409, "conflict", "")
	s.do(t, "POST", p+"/cancel", "").into(t, 200, &v1.OK{})

	var list []v1.ExecRecord
	s.exec(t, path, "true")
	s.do(t, "GET", path+"/processes", "").into(t, 200, &list)
	if len(list) != 1 || list[0].ExecID != r.ExecID {
		t.Errorf("%+v", list)
	}
	s.do(t, "GET", path+"/execs", "").into(t, 200, &list)
	if len(list) != 2 || list[1].Kind != "shell" || list[1].Shell != "default" {
		t.Errorf("%+v", list)
	}
}

func TestSignals(t *testing.T) {
	s := start(t)
	path := s.create(t)
	p := s.background(t, path, fields{
		"cmd": []string{"sh", "-c", `trap 'echo hup' HUP; echo ready; while :; do read x; done`}, "open_stdin": true,
	})
	s.do(t, "GET", p+"/output?wait_ms=60000", "").into(t, 200, &v1.OutputResponse{})
	s.do(t, "POST", p+"/signal", `{"signal":"HUP"}`).into(t, 200, &v1.OK{})
	var out v1.OutputResponse
	s.do(t, "GET", p+"/output?since_seq=6&wait_ms=60000", "").into(t, 200, &out)
	if len(out.Chunks) != 1 || out.Chunks[0].Text != "hup\n" {
		t.Errorf("%+v", out)
	}
	s.do(t, "POST", p+"/signal", `{"signal":9}`).into(t, 200, &v1.OK{})
	var r v1.ExecRecord
	s.do(t, "POST", p+"/wait", `{"timeout_ms":60000}`).into(t, 200, &r)
	if r.Cause != protocol.CauseSignaled || r.Signal != 9 {
		t.Errorf("%+v", r)
	}
	p = s.background(t, path, fields{"cmd": []string{"sleep", "600"}})
	s.do(t, "DELETE", p, "").into(t, 200, &v1.OK{})
	s.do(t, "POST", p+"/wait", `{"timeout_ms":60000}`).into(t, 200, &r)
	if r.Cause != protocol.CauseCanceled {
		t.Errorf("%+v", r)
	}
	for _, bad := range []string{`{"signal":"NONE"}`, `{"signal":0}`, `{"signal":true}`, `{}`} {
		s.do(t, "POST", p+"/signal", bad).wantError(t, 400, "invalid_argument", "signal")
	}
}

func TestWaitIsBounded(t *testing.T) {
	s := start(t)
	path := s.create(t)
	p := s.background(t, path, fields{"cmd": []string{"sleep", "600"}})
	var r v1.ExecRecord
	s.do(t, "POST", p+"/wait", `{"timeout_ms":1}`).into(t, 200, &r)
	if r.State != protocol.StateRunning || r.ExitCode != nil {
		t.Errorf("%+v", r)
	}
	var out v1.OutputResponse
	s.do(t, "GET", p+"/output?wait_ms=1", "").into(t, 200, &out)
	if len(out.Chunks) != 0 || out.Chunks == nil || out.Done || out.NextSeq != 0 {
		t.Errorf("%+v", out)
	}
	s.do(t, "POST", p+"/wait", `{"timeout_ms":600001}`).wantError(t, 400, "invalid_argument", "timeout_ms")
	s.do(t, "GET", p+"/output?since_seq=-1", "").wantError(t, 400, "invalid_argument", "since_seq")
	s.do(t, "POST", p+"/stdin", `{"data":"x"}`).wantError(t, 409, "conflict", "")
	s.do(t, "POST", p+"/stdin", `{}`).wantError(t, 400, "invalid_argument", "data")
	s.do(t, "DELETE", p, "")
}

func TestProcessStream(t *testing.T) {
	s := start(t)
	path := s.create(t)
	c := collect(t, s.open(t, "POST", path+"/processes/stream", strings.NewReader(
		`{"cmd":["sh","-c","echo out; echo err >&2; exit 6"]}`)))
	if c.last.name != "done" || !strings.Contains(string(c.last.data), `"exit_code":6`) || len(c.output) != 8 {
		t.Errorf("%q, %s %s", c.output, c.last.name, c.last.data)
	}
	s.do(t, "POST", path+"/processes/stream", `{"cmd":["no-such-program"]}`).wantError(t, 422, "unprocessable", "cmd")
}

// TestOutputFile keeps what an answer leaves out.
func TestOutputFile(t *testing.T) {
	s := start(t, func(o *setup) { o.v1.OutputBytes = 100 })
	path := s.create(t)
	r := s.run(t, path, fields{"cmd": "seq 1 1000", "output_file": "logs/shell"})
	if !r.Truncated || r.OutputFile == "" {
		t.Errorf("%+v", r)
	}
	p := s.process(t, path, fields{"cmd": []string{"seq", "1", "1000"}, "output_file": "/workspace/logs/process"})
	if !p.Truncated || p.OutputFile == "" {
		t.Errorf("%+v", p)
	}
	if r := s.exec(t, path, "seq 1 1000 | cmp - logs/shell; seq 1 1000 | cmp - logs/process"); r.Output != "" {
		t.Errorf("the files differ: %s", r.Output)
	}
}

func TestShells(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.run(t, path, fields{"cmd": "cd /usr", "shell": "build"})
	s.run(t, path, fields{"cmd": "x=5", "shell": "default"})
	if r := s.exec(t, path, "echo $x"); r.Output != "5\n" {
		t.Errorf("default is not the default shell: %q", r.Output)
	}
	running := launch(t, s, path, "echo begun; sleep 600")
	var shells []v1.Shell
	s.do(t, "GET", path+"/shells", "").into(t, 200, &shells)
	byName := map[string]v1.Shell{}
	for _, one := range shells {
		byName[one.Name] = one
	}
	if b := byName["build"]; len(shells) != 2 || b.State != "idle" || b.Cwd != "/usr" || b.PID == 0 || b.CreatedAt.IsZero() {
		t.Errorf("%+v", shells)
	}
	if d := byName["default"]; d.State != "busy" || d.ExecID != running {
		t.Errorf("%+v", shells)
	}
	s.do(t, "DELETE", path+"/shells/default", "").into(t, 200, &v1.OK{})
	var r v1.ExecRecord
	s.do(t, "POST", path+"/execs/"+running+"/wait", `{"timeout_ms":60000}`).into(t, 200, &r)
	if r.Cause != protocol.CauseCanceled {
		t.Errorf("%+v", r)
	}
	if r := s.exec(t, path, "echo ${x-gone}"); r.Output != "gone\n" {
		t.Errorf("a closed shell is the same: %q", r.Output)
	}
	s.do(t, "DELETE", path+"/shells/build", "").into(t, 200, &v1.OK{})
	s.do(t, "DELETE", path+"/shells/build", "").wantError(t, 404, "not_found", "")
	s.do(t, "DELETE", path+"/shells/a%20b", "").wantError(t, 404, "not_found", "")
}
