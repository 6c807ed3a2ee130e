package tools_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/sdk/go"
)

var update = flag.Bool("update", false, "write the golden files")

// budget is what the definitions of all tools may cost a model in every turn. The
// module tokens counts them with a real vocabulary.
const budget = 4000

func TestGoldenDefinitions(t *testing.T) {
	for _, format := range tools.Formats {
		t.Run(string(format), func(t *testing.T) {
			compact, err := tools.Definitions(format, tools.All())
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, compact, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			name := filepath.Join("testdata", string(format)+".json")
			if *update {
				if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("the definitions are not those of %s: run go test -update and read the difference", name)
			}
			read := len(compact)
			if format == tools.MCP { // clients give models no titles, and no schemas of answers
				for _, tool := range tools.All() {
					read -= len(`"title":"",` + tool.Title + `"outputSchema":,` + string(tool.Output()))
				}
			}
			if tokens := read / 3; tokens > budget {
				t.Errorf("%d bytes are about %d tokens, over %d", read, tokens, budget)
			}
		})
	}
}

func TestUnknownFormatIsRefused(t *testing.T) {
	if _, err := tools.Definitions("yaml", tools.All()); err == nil || !strings.Contains(err.Error(), "openai") {
		t.Errorf("got %v", err)
	}
}

func TestToolsHavePlainNamesAndHonestHints(t *testing.T) {
	name := regexp.MustCompile(`^sandbox_[a-z_]+$`)
	for _, tool := range tools.All() {
		if !name.MatchString(tool.Name) || len(tool.Name) > 64 || tool.Description == "" || len(tool.Description) > 250 {
			t.Errorf("%s: %s", tool.Name, tool.Description)
		}
		if tool.Title == "" || len(tool.Title) > 40 || !strings.Contains(string(tool.Output()), `"anyOf"`) {
			t.Errorf("%s: %q, %s", tool.Name, tool.Title, tool.Output())
		}
		if tool.ReadOnly && tool.Destructive {
			t.Errorf("%s is read-only and destructive", tool.Name)
		}
	}
}

// newSet is of a daemon that knows one sandbox of another scope.
func newSet(t *testing.T, o tools.Options) *tools.Set {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/sessions/other" {
			json.NewEncoder(w).Encode(sandkasten.SessionInfo{ID: "other", Labels: map[string]string{tools.LabelScope: "workflow:other"}})
			return
		}
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte(`{"error":"no such session","code":"not_found","reason":"no_such_session"}`))
	}))
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	o.Client, o.Scope = client, tools.Scope{Namespace: "workflow", ID: "run-1"}
	set, err := tools.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// scripted is a set whose daemon answers as the function does.
func scripted(t *testing.T, o tools.Options, answer http.HandlerFunc) *tools.Set {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key", MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	o.Client, o.Scope = client, tools.Scope{Namespace: "workflow", ID: "r"}
	set, err := tools.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func answerWith(t *testing.T, w http.ResponseWriter, status int, text string) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := io.WriteString(w, text); err != nil {
		t.Error(err)
	}
}

// A run has the image of its runtime where there is one and nobody chose another.
func TestImageOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		options tools.Options
		args    string
		want    string // image of the session that is asked for
	}{
		"python":   {args: `{"code":"1"}`, want: "python"},
		"node":     {args: `{"code":"1","runtime":"node"}`, want: ""}, // which the daemon does not have
		"bash":     {args: `{"code":"1","runtime":"bash"}`, want: ""},
		"chosen":   {options: tools.Options{Session: sandkasten.CreateOptions{Image: "mine"}}, args: `{"code":"1"}`, want: "mine"},
		"by kind":  {options: tools.Options{Images: map[string]string{"python": "mine"}}, args: `{"code":"1"}`, want: "mine"},
		"restored": {options: tools.Options{Session: sandkasten.CreateOptions{RestoreSnapshotID: "s"}}, args: `{"code":"1"}`, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			var images []string
			set := scripted(t, c.options, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/v1/images":
					answerWith(t, w, http.StatusOK, `{"images":[{"names":["base","tools"]}]}`)
					return
				case "/v1/images/python":
					answerWith(t, w, http.StatusOK, `{"names":["python"]}`)
					return
				case "/v1/images/node":
					answerWith(t, w, http.StatusNotFound, `{"code":"not_found","reason":"no_such_image","error":"there is none"}`)
					return
				}
				var body struct{ Image string }
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				images = append(images, body.Image)
				answerWith(t, w, http.StatusNotFound, `{"code":"not_found","reason":"no_such_image","error":"there is no image"}`)
			})
			result := set.Call(t.Context(), "sandbox_run", json.RawMessage(c.args))
			if got := strings.Join(images, ","); len(images) != 1 || got != c.want || !strings.Contains(result.Text(), "images are base, tools") {
				t.Errorf("asked for %q, want %q; %s", got, c.want, result.Text())
			}
		})
	}
}

// Nobody comes back to look after the sandboxes of tools, whatever the program asks for its own.
func TestSandboxesOfToolsAreDestroyedAtTheirEnd(t *testing.T) {
	var asked []string
	set := scripted(t, tools.Options{Session: sandkasten.CreateOptions{OnExpiry: "stop"}}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			var body struct {
				OnExpiry string `json:"on_expiry"`
			}
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			asked = append(asked, body.OnExpiry)
			answerWith(t, w, http.StatusForbidden, `{"code":"permission_denied","error":"none is made here"}`)
		case r.URL.Path == "/v1/sessions":
			answerWith(t, w, http.StatusOK, `[]`)
		default:
			answerWith(t, w, http.StatusOK, `{"names":["python"]}`)
		}
	})
	for tool, args := range map[string]string{"sandbox_open": `{}`, "sandbox_run": `{"code":"1"}`} {
		set.Call(t.Context(), tool, json.RawMessage(args))
	}
	if got := strings.Join(asked, " "); got != "destroy destroy" {
		t.Errorf("asked for %q", got)
	}
}

// A workspace that another sandbox uses stays, which is no failure: the sandbox has ended.
func TestCloseBesideAnotherUserOfTheWorkspace(t *testing.T) {
	set := scripted(t, tools.Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/workspaces"):
			answerWith(t, w, http.StatusConflict, `{"code":"conflict","error":"it is in use; use force"}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			answerWith(t, w, http.StatusOK, `{"id":"x","workspace_id":"w","labels":{"sandkasten.scope":"workflow:r"}}`)
		}
	})
	r := set.Call(t.Context(), "sandbox_close", json.RawMessage(`{"sandbox_id":"x","delete_workspace":true}`))
	if r.IsError || !strings.Contains(r.Text(), "another sandbox uses it") {
		t.Error(r.Text())
	}
}

// No tool says ok for what was not done: the file was not there, the workspace stays, and the
// sandbox that is there is another one than the call asks for.
func TestWhatWasNotDoneIsSaid(t *testing.T) {
	const session = `{"id":"x","name":"scope-sojxywk3hl7c3qtws5zncu6kx6buhjfx","status":"running","image":"base","network_mode":"none","limits":{"memory_mb":512},"workspace_id":"w","labels":{"sandkasten.scope":"workflow:r"}}`
	set := scripted(t, tools.Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/fs/stat"):
			answerWith(t, w, http.StatusNotFound, `{"code":"not_found","reason":"no_such_file","error":"there is none"}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/v1/sessions":
			answerWith(t, w, http.StatusOK, "["+session+"]")
		default:
			answerWith(t, w, http.StatusOK, session)
		}
	})
	for _, c := range []struct{ tool, args, want string }{
		{"sandbox_fs_delete", `{"sandbox_id":"x","path":"a"}`, `{"ok":false,"deleted":"","hint":"nothing is deleted: there is no a;`},
		{"sandbox_close", `{"sandbox_id":"x"}`, `{"ok":true,"workspace_kept":true}`},
		{"sandbox_close", `{"sandbox_id":"x","delete_workspace":true}`, `{"ok":true}`},
		{"sandbox_open", `{"image":"base","network":"none","limits":{"memory_mb":512}}`, `"created":false,"network":"none"}`},
		{"sandbox_open", `{"image":"node","network":"internet","limits":{"memory_mb":1024}}`, `was there already, with an image, a network, limits of its own`},
	} {
		if r := set.Call(t.Context(), c.tool, json.RawMessage(c.args)); r.IsError || !strings.Contains(r.Text(), c.want) {
			t.Errorf("%s %s: %s", c.tool, c.args, r.Text())
		}
	}
}

// A run says with what it has at hand that it is over.
func TestSetCompletesItsScope(t *testing.T) {
	asked := ""
	set := scripted(t, tools.Options{}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = r.Method + " " + r.URL.Path + " " + string(body)
		answerWith(t, w, http.StatusOK, `{"scope":"workflow:r"}`)
	})
	if err := set.Complete(t.Context(), time.Hour); err != nil || asked != `POST /v1/scopes/workflow/r/complete {"retention_seconds":3600}` {
		t.Errorf("asked for %s, %v", asked, err)
	}
}

// The first match is in an answer however much is around it.
func TestGrepShowsAMatch(t *testing.T) {
	set := scripted(t, tools.Options{MaxBytes: 1024}, func(w http.ResponseWriter, r *http.Request) {
		text := `{"id":"x","labels":{"sandkasten.scope":"workflow:r"}}`
		if strings.HasSuffix(r.URL.Path, "/grep") {
			around := `["` + strings.Repeat("n", 600) + `"]`
			text = `{"matches":[{"path":"a","line":7,"text":"found","before":` + around + `,"after":` + around + `},{"path":"b","line":1,"text":"found"}],"binary_files":2}`
		}
		answerWith(t, w, http.StatusOK, text)
	})
	const want = `{"matches":[{"path":"a","line":7,"text":"found"}],"binary_files_skipped":2,"truncated":true,"hint":"there are more; send a narrower pattern, path or include, or less context"}`
	if r := set.Call(t.Context(), "sandbox_fs_grep", json.RawMessage(`{"sandbox_id":"x","pattern":"found","context":1}`)); r.IsError || r.Text() != want {
		t.Errorf("got %s", r.Text())
	}
}

// TestMalformedCallsGetTheNextStep makes the mistakes that models make.
func TestMalformedCallsGetTheNextStep(t *testing.T) {
	set := newSet(t, tools.Options{ScopeArgument: true})
	const x = `"sandbox_id":"x"`
	calls := []struct{ tool, args, want string }{
		{"sandbox_exce", `{}`, "sandbox_exec"},
		{"exec", `{}`, "the tools are"},
		{"sandbox_exec", `not json`, "one JSON object"},
		{"sandbox_exec", `["ls"]`, "one JSON object"},
		{"sandbox_exec", `"ls"`, "one JSON object"},
		{"sandbox_exec", `{}`, `send {"sandbox_id"`},
		{"sandbox_exec", `null`, "sandbox_id is required"},
		{"sandbox_exec", `{` + x + `}`, "cmd is required"},
		{"sandbox_exec", `{` + x + `,"cmd":"ls -la"}`, `["sh", "-c"`},
		{"sandbox_exec", `{` + x + `,"cmd":[]}`, "a program and its arguments"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls",1]}`, "array of strings"},
		{"sandbox_exec", `{` + x + `,"cmd":[""]}`, "a program"},
		{"sandbox_exec", `{` + x + `,"command":["ls"]}`, "the fields are sandbox_id, cmd"},
		{"sandbox_exec", `{"sandboxId":"x","sandbox_id":"x","cmd":["ls"]}`, "did you mean sandbox_id"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"timeout":5}`, "did you mean timeout_seconds"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"timeout_seconds":"5"}`, "without quotes"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"timeout_seconds":0}`, "between 1 and 3600"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"timeout_seconds":1.5}`, "whole number"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"timeout_seconds":99999}`, "between 1 and 3600"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"env":{"A":1}}`, "values are strings"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"env":["A=1"]}`, "values are strings"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"stream":"true"}`, "without quotes"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"cwd":"../etc"}`, "must not contain .."},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"]}`, "sandbox_open first"},
		{"sandbox_exec", `{"sandbox_id":"other","cmd":["ls"]}`, "sandbox_open first"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls",null]}`, "array of strings"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"env":{"A":null}}`, "values are strings"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"timeout_seconds":1e30}`, "1e30 and must be between 1 and 3600"},
		{"sandbox_exec", `{` + x + `,"cmd":["ls"],"timeout_seconds":1e999}`, "between 1 and 3600"},
		{"sandbox_exec", `{"sandbox_id":"../../info","cmd":["ls"]}`, "one that a tool has returned"},
		{"sandbox_exec_read", `{` + x + `,"exec_id":".."}`, "one that a tool has returned"},
		{"sandbox_restore", `{"snapshot_id":"../x"}`, "one that a tool has returned"},
		{"sandbox_run", `{"code":"1","files":{"main.py":"2"}}`, "code is main.py"},
		{"sandbox_run", `{"code":"1","files":{"":"2"}}`, "one more file"},
		{"sandbox_run", `{"code":"1","files":{"a":"1","/workspace/a":"2"}}`, "each file has one name"},
		{"sandbox_run", `{"code":"1","files":{"a":null}}`, "values are strings"},
		{"sandbox_exec", `{"sandbox_id":"","cmd":["ls"]}`, "must not be empty"},
		{"sandbox_exec", `{"sandbox_id":7,"cmd":["ls"]}`, "string in quotes"},
		{"sandbox_exec_read", `{` + x + `}`, "exec_id is required"},
		{"sandbox_exec_read", `{` + x + `,"exec_id":"e","since_seq":-1}`, "between 0"},
		{"sandbox_exec_wait", `{` + x + `,"exec_id":"e","timeout_seconds":601}`, "between 1 and 600"},
		{"sandbox_fs_read", `{` + x + `,"path":"/etc/passwd"}`, "outside of /workspace"},
		{"sandbox_fs_read", `{` + x + `,"path":"a/../../etc/passwd"}`, "must not contain .."},
		{"sandbox_fs_read", `{` + x + `,"path":"/workspace/../etc/passwd"}`, "must not contain .."},
		{"sandbox_fs_read", `{` + x + `,"path":"a\u0000b"}`, "NUL"},
		{"sandbox_fs_read", `{` + x + `,"file_path":"a","path":"a"}`, "the fields are"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","contents_b64":"!"}`, "standard base64"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","contents":"a","contents_b64":"YQ=="}`, "not both"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","mode":"rw"}`, "octal"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","mode":"7777"}`, "octal"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","mode":"0"}`, "chmod"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","contents":"\ud800"}`, "contents holds half of a surrogate pair"},
		{"sandbox_exec", `{` + x + `,"cmd":["echo","\udc00"]}`, "cmd holds half of a surrogate pair"},
		{"sandbox_open", `{"limits":{"\ud800":1}}`, "limits holds half of a surrogate pair"},
		{"sandbox_shell", `{` + x + `,"command":"` + "\xff" + `"}`, "UTF-8"},
		{"sandbox_fs_write", `{` + x + `,"path":"/workspace"}`, "must name a file"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","content":"text"}`, "did you mean contents"},
		{"sandbox_fs_write", `{` + x + `,"path":"a","contents":["a"]}`, "string in quotes"},
		{"sandbox_fs_edit", `{` + x + `,"path":"a","old":"","new":"b"}`, "exact text to replace"},
		{"sandbox_fs_edit", `{` + x + `,"path":"a","old":"b"}`, "new is required"},
		{"sandbox_fs_delete", `{` + x + `,"path":"."}`, "workspace itself"},
		{"sandbox_fs_delete", `{` + x + `,"path":"workspace/"}`, "workspace itself"},
		{"sandbox_run", `{"runtime":"ruby","code":"puts 1"}`, "python, node, bash"},
		{"sandbox_run", `{"runtime":"python"}`, "code is required"},
		{"sandbox_run", `{"code":"1","files":{"../a":"b"}}`, "must not contain .."},
		{"sandbox_open", `{"session_key":"a b"}`, "leave it out"},
		{"sandbox_open", `{"limits":{"memory":1}}`, "limits.memory (did you mean memory_mb?)"},
		{"sandbox_open", `{"limits":"small"}`, "must be an object"},
		{"sandbox_open", `{"limits":{"memory_mb":1}}`, "between 16"},
		{"sandbox_open", `{"scope":"team:1"}`, "workflow:run-1"},
		{"sandbox_open", `{"scope":"workflow:a b"}`, "workflow:run-1"},
		{"sandbox_expose_port", `{` + x + `,"port":"80"}`, "without quotes"},
		{"sandbox_expose_port", `{` + x + `,"port":70000}`, "65535"},
		{"sandbox_close", `{"sandbox_id":"gone"}`, "no sandbox gone"},
		{"sandbox_restore", `{}`, "snapshot_id is required"},
	}
	for _, call := range calls {
		result := set.Call(t.Context(), call.tool, json.RawMessage(call.args))
		var answer struct{ Error, Code string }
		if err := json.Unmarshal(result.JSON, &answer); err != nil {
			t.Fatal(err)
		}
		if !result.IsError || answer.Code == "" || !strings.Contains(answer.Error, call.want) || !strings.HasPrefix(answer.Error, call.tool+": ") {
			t.Errorf("%s %s: %s, want an error with %q", call.tool, call.args, result.Text(), call.want)
		}
	}
	if len(calls) < 40 {
		t.Errorf("these are %d mistakes", len(calls))
	}
}

func TestScopes(t *testing.T) {
	for text, ok := range map[string]bool{
		"workflow:run-1": true, "agent:a.b_c": true, "user:alice@example.net": true, "workflow:a:b": true,
		"workflow:": false, "workflow": false, "team:a": false, "user:a/b": false, "": false, "user:" + strings.Repeat("a", 129): false,
	} {
		scope, err := tools.ParseScope(text)
		if (err == nil) != ok || ok && scope.String() != text {
			t.Errorf("%q: %v, %v", text, scope, err)
		}
	}
}

func TestFileToolsNeedAStore(t *testing.T) {
	for _, tool := range newSet(t, tools.Options{}).Tools() {
		if strings.HasSuffix(tool.Name, "_file") {
			t.Errorf("there is %s without a store", tool.Name)
		}
	}
}

// A command that looked for a host in a sandbox without a network is told so, and how to
// get one. In one with a network, and where nothing looked for a host, nothing is.
func TestMissingNetworkIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		mode, stderr string
		code         int
		hint         bool
	}{
		"curl":               {"none", "curl: (6) Could not resolve host: example.org", 6, true},
		"python":             {"none", "socket.gaierror: [Errno -3] Temporary failure in name resolution", 1, true},
		"node":               {"none", "Error: getaddrinfo EAI_AGAIN example.org", 1, true},
		"a raw address":      {"none", "connect: Network is unreachable", 1, true},
		"it went well":       {"none", "Could not resolve host: example.org", 0, false},
		"another failure":    {"none", "no such file", 1, false},
		"there is a network": {"internet", "curl: (6) Could not resolve host: example.org", 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			set := scripted(t, tools.Options{}, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/processes") {
					answerWith(t, w, 200, fmt.Sprintf(`{"exec_id":"e","status":"completed","cause":"exited","exit_code":%d,"stderr":%q}`, c.code, c.stderr))
					return
				}
				answerWith(t, w, 200, `{"id":"box","status":"running","network_mode":"`+c.mode+`","labels":{"sandkasten.scope":"workflow:r"}}`)
			})
			got := set.Call(t.Context(), "sandbox_exec", json.RawMessage(`{"sandbox_id":"box","cmd":["x"]}`))
			var answer struct{ Hint string }
			if err := json.Unmarshal(got.JSON, &answer); err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(answer.Hint, "no network") && strings.Contains(answer.Hint, "sandkasten network allow box HOST"); has != c.hint {
				t.Errorf("%s", got.JSON)
			}
		})
	}
}
