package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-test"

// serve answers requests that match pattern and carry the key.
func serve(t *testing.T, pattern string, handle http.HandlerFunc) *client.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("Authorization = %q", got)
		}
		handle(w, r)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL+"/", key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestNewRefusesWhatIsNoAddress(t *testing.T) {
	for _, base := range []string{"", "127.0.0.1:8787", "ftp://x", "http://", "http://[::1"} {
		if _, err := client.New(base, ""); err == nil {
			t.Errorf("New(%q) was accepted", base)
		}
	}
}

func TestCreateSendsOnlyWhatWasChosen(t *testing.T) {
	c := serve(t, "POST /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if got, want := string(body), `{"image":"python","ttl_seconds":60,"limits":{"memory_mb":64}}`; got != want {
			t.Errorf("body = %s, want %s", got, want)
		}
		answer(http.StatusCreated, `{"id":"abc","image":"python","status":"running","created_at":"2026-01-02T03:04:05Z"}`)(w, r)
	})
	s, err := c.Create(t.Context(), client.CreateRequest{Image: "python", TTLSeconds: 60, Limits: client.Limits{MemoryMB: 64}})
	if err != nil {
		t.Fatal(err)
	}
	if s.ID != "abc" || s.Status != "running" || s.CreatedAt.Year() != 2026 {
		t.Errorf("session = %+v", s)
	}
}

func TestErrorsCarryStatusCodeAndText(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		want   client.Error
		text   string
	}{
		"ours":         {404, `{"error":"no such session","code":"not_found","request_id":"r1"}`, client.Error{Status: 404, Code: "not_found", Message: "no such session", RequestID: "r1"}, "no such session"},
		"a proxy's":    {502, "<html>bad gateway</html>", client.Error{Status: 502}, "the daemon answered 502 Bad Gateway"},
		"empty":        {500, "", client.Error{Status: 500}, "the daemon answered 500 Internal Server Error"},
		"not followed": {304, "", client.Error{Status: 304}, "the daemon answered 304 Not Modified"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := serve(t, "GET /v1/sessions/{id}", answer(test.status, test.body))
			_, err := c.Session(t.Context(), "abc")
			got, ok := errors.AsType[*client.Error](err)
			if !ok {
				t.Fatalf("error = %v, want a *client.Error", err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Error(diff)
			}
			if err.Error() != test.text {
				t.Errorf("text = %q, want %q", err.Error(), test.text)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	srv := httptest.NewServer(nil)
	srv.Close()
	c, err := client.New(srv.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Sessions(t.Context(), client.Living)
	if away, ok := errors.AsType[*client.UnreachableError](err); !ok || away.URL != srv.URL {
		t.Errorf("Sessions = %v, want UnreachableError", err)
	}
	_, err = c.Terminal(t.Context(), "abc", client.TerminalRequest{Term: "xterm"})
	if _, ok := errors.AsType[*client.UnreachableError](err); !ok {
		t.Errorf("Terminal = %v, want UnreachableError", err)
	}
}

func TestAnswerThatIsNotJSON(t *testing.T) {
	c := serve(t, "GET /v1/sessions", answer(200, "hello"))
	if _, err := c.Sessions(t.Context(), client.Living); err == nil || !strings.Contains(err.Error(), "decode") {
		t.Errorf("Sessions = %v", err)
	}
}

func TestIDsAreEscaped(t *testing.T) {
	c := serve(t, "DELETE /v1/sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		if got := r.PathValue("id"); got != "../x?y" {
			t.Errorf("id = %q", got)
		}
		answer(200, `{"ok":true}`)(w, r)
	})
	if err := c.Delete(t.Context(), "../x?y"); err != nil {
		t.Error(err)
	}
}

func TestCauseOfACanceledContextComesThrough(t *testing.T) {
	stopped := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, "POST /v1/sessions/{id}/exec", func(_ http.ResponseWriter, r *http.Request) {
		// Only behind a body that was read does a server see the client go.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		cancel(stopped)
		<-r.Context().Done()
	})
	if _, err := c.Exec(ctx, "abc", client.ExecRequest{Cmd: "sleep 60"}); !errors.Is(err, stopped) {
		t.Errorf("Exec = %v, want %v", err, stopped)
	}
}

func TestExecStream(t *testing.T) {
	const binary = "\xff\x00\x1b"
	tests := map[string]struct {
		events string
		output string
		result client.ExecResult
		fails  string
	}{
		"whole": {
			"event: chunk\ndata: {\"chunk\":\"one\\n\"}\n\n: heartbeat\n\nid: 4\nevent: chunk\ndata: {\"chunk\":\"two\"}\n\nevent: done\ndata: {\"exit_code\":3,\"cwd\":\"/tmp\",\"cause\":\"exited\"}\n\n",
			"one\ntwo",
			client.ExecResult{ExitCode: 3, Cwd: "/tmp", Cause: "exited"},
			"",
		},
		"binary": {
			fmt.Sprintf("event: chunk\ndata: {\"chunk_base64\":%q}\n\nevent: done\ndata: {}\n\n", base64.StdEncoding.EncodeToString([]byte(binary))),
			binary,
			client.ExecResult{},
			"",
		},
		"error": {
			"event: start\ndata: {\"exec_id\":\"e1\"}\n\nevent: chunk\ndata: {\"chunk\":\"x\"}\n\nevent: error\ndata: {\"error\":\"gone\",\"code\":\"not_found\"}\n\n",
			"x",
			client.ExecResult{ID: "e1"},
			"gone",
		},
		"broken off":         {"event: chunk\ndata: {\"chunk\":\"x\"}\n\n", "x", client.ExecResult{}, "closed the stream"},
		"cut in an event":    {"event: done\ndata: {\"exit_code\":0}\n", "", client.ExecResult{}, "closed the stream"},
		"not JSON":           {"event: chunk\ndata: x\n\n", "", client.ExecResult{}, "decode output"},
		"data in two":        {"event: done\ndata: {\"exit_code\":\ndata: 5}\n\n", "", client.ExecResult{ExitCode: 5}, ""},
		"no base64":          {"event: chunk\ndata: {\"chunk_base64\":\"*\"}\n\n", "", client.ExecResult{}, "decode output"},
		"unknown is skipped": {"event: news\ndata: {}\n\nevent: done\ndata: {\"exit_code\":1}\n\n", "", client.ExecResult{ExitCode: 1}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := serve(t, "POST /v1/sessions/{id}/exec/stream", answer(200, test.events))
			var out strings.Builder
			result, err := c.ExecStream(t.Context(), "abc", client.ExecRequest{Cmd: "x"}, &out)
			if out.String() != test.output {
				t.Errorf("output = %q, want %q", out.String(), test.output)
			}
			if (test.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("error = %v, want %q in it", err, test.fails)
			}
			if diff := cmp.Diff(test.result, result); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExecStreamEndsWhenTheOutputCannotBeWritten(t *testing.T) {
	c := serve(t, "POST /v1/sessions/{id}/exec/stream", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprint(w, "event: chunk\ndata: {\"chunk\":\"x\"}\n\n")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	})
	full := errors.New("full")
	if _, err := c.ExecStream(t.Context(), "abc", client.ExecRequest{}, failingWriter{full}); !errors.Is(err, full) {
		t.Errorf("error = %v, want %v", err, full)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func TestWriteSendsBytesAndMode(t *testing.T) {
	content := []byte("a\x00\xffb")
	c := serve(t, "POST /v1/sessions/{id}/fs/write", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]string
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		want := map[string]string{"path": "a b", "content_base64": base64.StdEncoding.EncodeToString(content), "mode": "0755"}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Error(diff)
		}
		answer(200, `{"ok":true}`)(w, r)
	})
	if err := c.Write(t.Context(), "abc", "a b", 0o755|fs.ModeSetuid, content); err != nil {
		t.Error(err)
	}
}

func TestReadGivesBytesAndMode(t *testing.T) {
	for header, want := range map[string]fs.FileMode{"0750": 0o750, "": 0o644, "4755": 0o755} {
		c := serve(t, "GET /v1/sessions/{id}/fs/read", func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("path") != "/x&y" || r.FormValue("raw") != "1" {
				t.Errorf("query = %s", r.URL.RawQuery)
			}
			w.Header().Set("X-File-Mode", header)
			answer(200, "a\x00\xff")(w, r)
		})
		content, err := c.Read(t.Context(), "abc", "/x&y")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(content)
		if err != nil || string(got) != "a\x00\xff" || content.Mode != want {
			t.Errorf("Read = %q, %v, mode %v, want mode %v", got, err, content.Mode, want)
		}
		if err := content.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestReadOfAnAnswerThatBreaksOff(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/fs/read", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	})
	content, err := c.Read(t.Context(), "abc", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if _, err := io.ReadAll(content); err == nil {
		t.Error("a broken answer was taken for a whole file")
	}
}

func TestUploadStreams(t *testing.T) {
	want := strings.Repeat("2", 1<<20)
	c := serve(t, "POST /v1/sessions/{id}/fs/upload", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(2 << 20); err != nil {
			t.Error(err)
			return
		}
		file, _, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		got, err := io.ReadAll(file)
		if err != nil || string(got) != want || r.FormValue("path") != "/workspace/in" {
			t.Errorf("upload to %q of %d bytes, %v", r.FormValue("path"), len(got), err)
		}
		answer(200, `{"ok":true,"paths":["/workspace/in"]}`)(w, r)
	})
	if err := c.Upload(t.Context(), "abc", "/workspace/in", strings.NewReader(want)); err != nil {
		t.Fatal(err)
	}
}

func TestUploadTellsWhyItBrokeOff(t *testing.T) {
	gone := errors.New("disk is gone")
	c := serve(t, "POST /v1/sessions/{id}/fs/upload", func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("the daemon took the body for whole")
		}
	})
	if err := c.Upload(t.Context(), "abc", "/x", iotest.ErrReader(gone)); !errors.Is(err, gone) {
		t.Errorf("Upload = %v, want %v", err, gone)
	}
}

func TestUploadRefusedBeforeItWasRead(t *testing.T) {
	c := serve(t, "POST /v1/sessions/{id}/fs/upload", answer(413, `{"error":"too large","code":"too_large"}`))
	err := c.Upload(t.Context(), "abc", "/x", strings.NewReader(strings.Repeat("x", 8<<20)))
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "too_large" {
		t.Errorf("Upload = %v, want too_large", err)
	}
}

func TestList(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/fs/list", answer(200, `{"path":"/x","entries":[{"name":"a","type":"file","size":3}],"truncated":true}`))
	entries, truncated, err := c.List(t.Context(), "abc", "/x")
	if err != nil || !truncated {
		t.Errorf("List = %v, %v", truncated, err)
	}
	if diff := cmp.Diff([]client.Entry{{Name: "a", Type: "file", Size: 3}}, entries); diff != "" {
		t.Error(diff)
	}
}

func TestExecOutputOfBytes(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/execs/{exec}", answer(200, `{"exec_id":"e1","state":"ended","exit_code":0,"output":"?","output_base64":"/w=="}`))
	r, err := c.ExecOutput(t.Context(), "abc", "e1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Bytes()
	if err != nil || string(got) != "\xff" || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("output = %q, %v, exit code %v", got, err, r.ExitCode)
	}
}

func TestTerminal(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/terminal", func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.URL.RawQuery, "cols=80&rows=24&term=xterm"; got != want {
			t.Errorf("query = %s, want %s", got, want)
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		if err := conn.Write(r.Context(), websocket.MessageText, []byte(`{"started":{"terminal_id":"t1","reattached":false,"seq":40}}`)); err != nil {
			t.Error(err)
		}
		for {
			kind, data, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			reply := data
			if kind == websocket.MessageText {
				reply = []byte(`{"exit":{"exit_code":7}}`)
				if got, want := string(data), `{"resize":{"rows":50,"cols":100}}`; got != want {
					t.Errorf("message = %s, want %s", got, want)
				}
			}
			if err := conn.Write(r.Context(), kind, reply); err != nil {
				return
			}
		}
	})
	term, err := c.Terminal(t.Context(), "abc", client.TerminalRequest{Term: "xterm", Size: client.Size{Rows: 24, Cols: 80}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if _, err := term.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(io.MultiReader(readOnly{term}), got[:2]); err != nil || string(got[:2]) != "he" {
		t.Fatalf("Read = %q, %v", got, err)
	}
	if _, err := io.ReadFull(readOnly{term}, got[2:]); err != nil || string(got) != "hello" {
		t.Fatalf("Read = %q, %v", got, err)
	}
	if term.ID() != "t1" || term.Seq() != 45 {
		t.Errorf("terminal %q at %d, want t1 at 45", term.ID(), term.Seq())
	}
	if err := term.Resize(client.Size{Rows: 50, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	_, err = term.Read(got)
	if exit, ok := errors.AsType[*client.ExitError](err); !ok || exit.Code != 7 {
		t.Errorf("Read = %v, want exit code 7", err)
	}
}

type readOnly struct{ io.Reader }

func TestTerminalRefused(t *testing.T) {
	c := serve(t, "GET /v1/sessions/{id}/terminal", answer(404, `{"error":"no such session","code":"not_found"}`))
	_, err := c.Terminal(t.Context(), "abc", client.TerminalRequest{Term: "xterm"})
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "not_found" {
		t.Errorf("Terminal = %v, want not_found", err)
	}
}
