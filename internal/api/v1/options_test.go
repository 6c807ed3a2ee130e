package v1_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// A command has variables of its own, and a directory to begin in, whatever is in
// them and in it.
func TestExecWithDirectoryAndVariables(t *testing.T) {
	s := start(t)
	path := s.create(t)
	run := func(body map[string]any) v1.ExecResponse {
		t.Helper()
		var r v1.ExecResponse
		s.do(t, "POST", path+"/exec", js(t, body)).into(t, http.StatusOK, &r)
		return r
	}
	s.exec(t, path, "mkdir -p src \"it's\" ./-; start=$PWD; export B=outer; CDPATH=/")
	tests := []struct {
		body   map[string]any
		output string
		code   int
	}{
		{map[string]any{"cmd": `cd "$start"; echo "$A" "$B"`, "env": map[string]string{"A": "it's $B `x` \"\n", "B": "inner"}}, "it's $B `x` \"\n inner\n", 0},
		{map[string]any{"cmd": `sh -c 'echo $A'`, "env": map[string]string{"A": "exported"}}, "exported\n", 0},
		{map[string]any{"cmd": `echo "[$A] $B"`}, "[] outer\n", 0},
		{map[string]any{"cmd": `basename "$PWD"; cd "$start"`, "cwd": "src"}, "src\n", 0},
		{map[string]any{"cmd": `basename "$PWD"; cd "$start"`, "cwd": "it's"}, "it's\n", 0},
		{map[string]any{"cmd": `basename "$PWD"; cd "$start"`, "cwd": "-"}, "-\n", 0},
		{map[string]any{"cmd": "pwd; cd \"$start\"", "cwd": "/"}, "/\n", 0},
		{map[string]any{"cmd": "false || (exit 7)", "cwd": "."}, "", 7},
		{map[string]any{"cmd": "declare V=kept; f() { echo $V; }", "env": map[string]string{"A": "1"}, "cwd": "."}, "", 0},
		{map[string]any{"cmd": "f"}, "kept\n", 0},
	}
	for _, tt := range tests {
		if r := run(tt.body); r.Output != tt.output || r.ExitCode != tt.code {
			t.Errorf("%v: %d with %q, want %d with %q", tt.body, r.ExitCode, r.Output, tt.code, tt.output)
		}
	}
	if r := run(map[string]any{"cmd": "echo ran", "cwd": "absent"}); r.ExitCode != 1 || strings.Contains(r.Output, "ran") || !strings.Contains(r.Output, "absent") {
		t.Errorf("a directory that is not there: %d with %q", r.ExitCode, r.Output)
	}
	s.do(t, "POST", path+"/exec", `{"cmd":"true","env":{"A B":"x"}}`).wantError(t, 400, "invalid_argument", "env")
	s.do(t, "POST", path+"/exec", `{"cmd":"true","cwd":"a\u0000"}`).wantError(t, 400, "invalid_argument", "cwd")
}

// A program gets as many arguments as the kernel takes; more are refused in words.
func TestLongArguments(t *testing.T) {
	s := start(t)
	path := s.create(t)
	args := func(n int) string {
		cmd := []string{"sh", "-c", "echo $#", "sh"}
		for range n {
			cmd = append(cmd, strings.Repeat("x", 100_000))
		}
		return js(t, map[string]any{"cmd": cmd})
	}
	var r v1.ProcessResponse
	s.do(t, "POST", path+"/processes", args(19)).into(t, http.StatusOK, &r)
	if r.Stdout != "19\n" {
		t.Errorf("1.9 MB: %+v", r)
	}
	s.do(t, "POST", path+"/processes", args(22)).wantError(t, 413, "too_large", "cmd")
	many := js(t, map[string]any{"cmd": append([]string{"true"}, slices.Repeat([]string{"x"}, 250_000)...)})
	s.do(t, "POST", path+"/processes", many).wantError(t, 422, "unprocessable", "cmd")
}

// Merged outputs come in the order in which they were written.
func TestMergedOutputs(t *testing.T) {
	s := start(t)
	path := s.create(t)
	const program = `["sh","-c","for i in 1 2 3; do echo o$i; echo e$i >&2; done"]`
	const want = "o1\ne1\no2\ne2\no3\ne3\n"
	var r v1.ProcessResponse
	s.do(t, "POST", path+"/processes", `{"cmd":`+program+`,"stderr":"merged"}`).into(t, http.StatusOK, &r)
	if r.Output == nil || *r.Output != want || r.Stdout != "" || r.Stderr != "" || r.OutputBytes != int64(len(want)) || r.DroppedBytes != 0 {
		t.Errorf("merged: %+v", r)
	}
	stream := string(s.do(t, "POST", path+"/processes/stream", `{"cmd":`+program+`,"stderr":"merged"}`).body)
	if strings.Contains(stream, `"stream":`) || !strings.Contains(stream, `e3`) {
		t.Errorf("the stream: %s", stream)
	}
	r = v1.ProcessResponse{}
	s.do(t, "POST", path+"/processes", `{"cmd":`+program+`,"stderr":"separate"}`).into(t, http.StatusOK, &r)
	if r.Stdout != "o1\no2\no3\n" || r.Stderr != "e1\ne2\ne3\n" || r.Output != nil {
		t.Errorf("separate: %+v", r)
	}
}

// A command whose client goes away ends with it where it asked for that, and goes on
// otherwise.
func TestDisconnectEndsWhatAsksForIt(t *testing.T) {
	s := start(t)
	path := s.create(t)
	const program = `sleep 600`
	for name, request := range map[string]struct{ path, body string }{
		"exec":             {"/exec", `{"shell":"a","cmd":"` + program + `"`},
		"exec/stream":      {"/exec/stream", `{"shell":"b","cmd":"` + program + `"`},
		"processes":        {"/processes", `{"cmd":["sh","-c","` + program + `"]`},
		"processes/stream": {"/processes/stream", `{"cmd":["sh","-c","` + program + `"]`},
	} {
		for what, kills := range map[string]bool{`,"on_disconnect":"kill"}`: true, `,"on_disconnect":"continue"}`: false, "}": false} {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path+request.path, strings.NewReader(request.body+what))
				if err != nil {
					gone <- err
					return
				}
				r.Header.Set("Authorization", "Bearer "+aliceKey)
				r.Header.Set("Content-Type", "application/json")
				response, err := s.Client().Do(r)
				if err == nil {
					<-ctx.Done()
					err = response.Body.Close()
				}
				gone <- err
			}()
			id := s.awaitRunning(t, path)
			cancel()
			<-gone
			if kills {
				if got := s.awaitEnd(t, path, id, 10*time.Second); got.Cause != "canceled" {
					t.Errorf("%s%s: %+v", name, what, got)
				}
				continue
			}
			if got := s.awaitEnd(t, path, id, 200*time.Millisecond); got.State != "running" {
				t.Errorf("%s%s: %+v", name, what, got)
			}
			s.do(t, "POST", path+"/execs/"+id+"/cancel", "").into(t, http.StatusOK, &v1.OK{})
			s.awaitEnd(t, path, id, 10*time.Second)
		}
	}
}

// awaitRunning returns the id of the one exec that runs.
func (s *server) awaitRunning(t *testing.T, path string) string {
	t.Helper()
	id := ""
	testenv.Eventually(t, "an exec runs", func() bool {
		var list []v1.ExecRecord
		s.do(t, "GET", path+"/execs", "").into(t, http.StatusOK, &list)
		for _, record := range list {
			if record.State == "running" {
				id = record.ExecID
			}
		}
		return id != ""
	})
	return id
}

// awaitEnd waits so long for the end of an exec.
func (s *server) awaitEnd(t *testing.T, path, id string, most time.Duration) v1.ExecRecord {
	t.Helper()
	var record v1.ExecRecord
	s.do(t, "POST", path+"/execs/"+id+"/wait", js(t, map[string]any{"timeout_ms": most.Milliseconds()})).into(t, http.StatusOK, &record)
	return record
}
