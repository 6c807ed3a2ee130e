package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// withHeaders sends headers with each request.
type withHeaders struct {
	header http.Header
	next   http.RoundTripper
}

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.header {
		r.Header[name] = values
	}
	return h.next.RoundTrip(r)
}

// overHTTP is the official client at the daemon's /mcp.
func overHTTP(d *blackbox.Daemon, scope string) mcp.Transport {
	header := http.Header{"Authorization": {"Bearer " + d.Key}}
	if scope != "" {
		header.Set("Sandkasten-Scope", scope)
	}
	return &mcp.StreamableClientTransport{Endpoint: d.URL + "/mcp", HTTPClient: &http.Client{Transport: withHeaders{header, &http.Transport{}}}, DisableStandaloneSSE: true}
}

// command is one of the command line.
func command(d *blackbox.Daemon, args ...string) *exec.Cmd {
	cmd := exec.Command(d.Program, args...)
	cmd.Env = append(slices.Clone(d.Env), "SANDKASTEN_URL="+d.URL, "SANDKASTEN_API_KEY="+d.Key)
	return cmd
}

// overPipes is sandkasten mcp.
func overPipes(d *blackbox.Daemon, args ...string) mcp.Transport {
	return &mcp.CommandTransport{Command: command(d, append([]string{"mcp"}, args...)...)}
}

func connect(t *testing.T, transport mcp.Transport, o *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "Test Client", Version: "1"}, o).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// use calls a tool.
func use(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) (got answer, failed bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &got); err != nil {
		t.Fatal(err)
	}
	return got, result.IsError
}

func TestMCPOnTheNativeDriver(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	for name, transport := range map[string]func(scope string) mcp.Transport{
		"HTTP": func(scope string) mcp.Transport { return overHTTP(d, scope) },
		"stdio": func(scope string) mcp.Transport {
			if scope == "" {
				return overPipes(d)
			}
			return overPipes(d, "--scope", scope)
		},
	} {
		t.Run(name, func(t *testing.T) { mcpSession(t, transport, "workflow:"+strings.ToLower(name)) })
	}
	t.Run("a wrong key", func(t *testing.T) {
		transport := &mcp.StreamableClientTransport{Endpoint: d.URL + "/mcp", HTTPClient: &http.Client{Transport: withHeaders{http.Header{"Authorization": {"Bearer wrong"}}, &http.Transport{}}}}
		if _, err := mcp.NewClient(&mcp.Implementation{Name: "thief"}, nil).Connect(t.Context(), transport, nil); err == nil {
			t.Error("it was let in")
		}
	})
	t.Run("cancelled", func(t *testing.T) { cancelled(t, d) })
}

func mcpSession(t *testing.T, transport func(scope string) mcp.Transport, scope string) {
	var told atomic.Int32
	s := connect(t, transport(scope), &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { told.Add(1) },
	})
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if schema, _ := tool.OutputSchema.(map[string]any); tool.Title == "" || schema["type"] != "object" {
			t.Errorf("%s has the title %q and answers %v", tool.Name, tool.Title, tool.OutputSchema)
		}
		if tool.Name == "sandbox_fs_read" && !tool.Annotations.ReadOnlyHint || tool.Name == "sandbox_fs_delete" && !*tool.Annotations.DestructiveHint {
			t.Errorf("%s has the hints %+v", tool.Name, tool.Annotations)
		}
	}
	if want := len(tools.Offered(false, false)); len(list.Tools) != want {
		t.Errorf("there are %d tools, want %d", len(list.Tools), want)
	}
	opened, failed := use(t, s, "sandbox_open", nil)
	if failed || !opened.Created {
		t.Fatalf("opened %+v", opened)
	}
	id := opened.SandboxID
	use(t, s, "sandbox_fs_write", in(id, m{"path": "dir/a.txt", "contents": "text"}))
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sandbox://" + id + "/dir/a.txt"})
	if err != nil || read.Contents[0].Text != "text" {
		t.Errorf("read %+v, %v", read, err)
	}
	use(t, s, "sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "head -c 2000000 /dev/zero > big"}}))
	for _, name := range []string{"big", "none"} {
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sandbox://" + id + "/" + name}); err == nil {
			t.Errorf("read %s", name)
		}
	}
	if wrong, failed := use(t, s, "sandbox_exec", m{"sandbox_id": id, "cmd": "ls"}); !failed || !strings.Contains(wrong.Error, "array") {
		t.Errorf("a wrong call: %+v", wrong)
	}
	long := &mcp.CallToolParams{Name: "sandbox_exec", Arguments: in(id, m{"cmd": []string{"sleep", "11"}})}
	long.SetProgressToken("token")
	if result, err := s.CallTool(t.Context(), long); err != nil || result.IsError || told.Load() == 0 {
		t.Errorf("sleep: %+v, %v, told %d times", result, err, told.Load())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again := connect(t, transport(scope), nil)
	if opened, _ := use(t, again, "sandbox_open", nil); opened.Created || opened.SandboxID != id {
		t.Errorf("a new connection got %+v", opened)
	}
	// Without a scope there is one of the client's program, and the argument.
	free := connect(t, transport(""), nil)
	own, _ := use(t, free, "sandbox_open", nil)
	same, _ := use(t, free, "sandbox_open", m{"scope": scope})
	if own.SandboxID == id || same.SandboxID != id {
		t.Errorf("its own is %+v, that of the scope %+v", own, same)
	}
	if _, failed := use(t, free, "sandbox_fs_read", in(id, m{"path": "dir/a.txt"})); !failed {
		t.Error("another scope has read the file")
	}
}

// Each version of the protocol that the documentation names, as its clients speak it.
func TestVersionsOfTheProtocol(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	post := func(t *testing.T, version, agent, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"User-Agent": agent, "Authorization": "Bearer " + d.Key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "sandbox_run",
		} {
			if version != "" || !strings.HasPrefix(name, "Mcp") {
				req.Header.Set(name, value)
			}
		}
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%d %s, %v", resp.StatusCode, answer, err)
		}
		return string(answer)
	}
	const run = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox_run","arguments":{"runtime":"bash","code":"echo in-a-sandbox"}%s}}`
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			begun := post(t, "", "old/1", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
			if !strings.Contains(begun, `"protocolVersion":"`+version+`"`) {
				t.Errorf("it speaks %s", begun)
			}
			if got := post(t, version, "old/1", fmt.Sprintf(run, "")); !strings.Contains(got, "in-a-sandbox") {
				t.Errorf("ran %s", got)
			}
			// Programs have sandboxes of their own, though a call does not say whose it is.
			const open = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"sandbox_open","arguments":{}}}`
			var ids []string
			for _, agent := range []string{"one/" + version, "two/" + version, "one/new (linux)"} {
				found := regexp.MustCompile(`"sandbox_id":"(\w+)"`).FindStringSubmatch(post(t, version, agent, open))
				if found == nil {
					t.Fatalf("%s has opened none", agent)
				}
				ids = append(ids, found[1])
			}
			if ids[0] == ids[1] || ids[0] != ids[2] {
				t.Errorf("one, two and one again have %q", ids)
			}
		})
	}
	t.Run("2026-07-28", func(t *testing.T) {
		meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"new","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		if got := post(t, "2026-07-28", "new/1", fmt.Sprintf(run, meta)); !strings.Contains(got, "in-a-sandbox") {
			t.Errorf("ran %s", got)
		}
	})
}

// A client is told of a file that it follows, however it is changed, and of no other.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	for name, transport := range map[string]mcp.Transport{"HTTP": overHTTP(d, "agent:http"), "stdio": overPipes(d, "--scope", "agent:stdio")} {
		t.Run(name, func(t *testing.T) {
			updated := make(chan string, 100)
			s := connect(t, transport, &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
			})
			opened, _ := use(t, s, "sandbox_open", nil)
			id := opened.SandboxID
			uri := "sandbox://" + id + "/log.txt"
			if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
			use(t, s, "sandbox_fs_write", in(id, m{"path": "other.txt", "contents": "x"}))
			// The client does not wait until the server has begun to watch.
			told := false
			for deadline := time.Now().Add(30 * time.Second); !told && time.Now().Before(deadline); {
				use(t, s, "sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "echo more >>log.txt"}}))
				select {
				case got := <-updated:
					if told = true; got != uri {
						t.Errorf("told of %s", got)
					}
				case <-time.After(500 * time.Millisecond):
				}
			}
			if !told {
				t.Fatal("nothing was told")
			}
			if err := s.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
				t.Error(err)
			}
			for quiet := time.Now(); time.Since(quiet) < 3*time.Second; time.Sleep(50 * time.Millisecond) { // what was under way
				for len(updated) > 0 {
					<-updated
					quiet = time.Now()
				}
			}
			use(t, s, "sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", "echo more >>log.txt"}}))
			time.Sleep(500 * time.Millisecond)
			if len(updated) > 0 {
				t.Error("told after the end")
			}
		})
	}
}

// A client of sandkasten mcp does not learn that the daemon was away for a moment.
func TestMCPOutlivesARestart(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	s := connect(t, overPipes(d), nil)
	opened, _ := use(t, s, "sandbox_open", nil)
	use(t, s, "sandbox_fs_write", in(opened.SandboxID, m{"path": "a", "contents": "kept"}))
	d.Kill()
	read := make(chan *mcp.CallToolResult, 1)
	go func() {
		result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "sandbox_fs_read", Arguments: in(opened.SandboxID, m{"path": "a"})})
		if err != nil {
			t.Error(err)
		}
		read <- result
	}()
	select {
	case result := <-read:
		t.Errorf("without a daemon it answers %+v", result)
	case <-time.After(time.Second):
	}
	d.Start()
	if result := <-read; result == nil || result.IsError {
		t.Errorf("after a restart it answers %+v", result)
	}
}

// What one agent publishes another stages, and its owner downloads; nobody else gets it.
func TestFilesOfTheDaemon(t *testing.T) {
	t.Parallel()
	const other = "a-key-of-somebody-else"
	d := blackbox.Start(t, blackbox.Options{Config: "orchestrator: {enabled: true}\napi_keys: [{owner: bob, key: " + other + "}]\n"})
	from := connect(t, overHTTP(d, "agent:from"), nil)
	opened, _ := use(t, from, "sandbox_open", nil)
	use(t, from, "sandbox_fs_write", in(opened.SandboxID, m{"path": "report.csv", "contents": "a,b\n"}))
	published, failed := use(t, from, "sandbox_publish_file", in(opened.SandboxID, m{"source": "report.csv"}))
	if failed || published.FileKey == "" || published.SizeBytes != 4 {
		t.Fatalf("published %+v", published)
	}
	if named, failed := use(t, from, "sandbox_publish_file", in(opened.SandboxID, m{"source": "report.csv", "file_key": "mine"})); !failed || !strings.Contains(named.Error, "leave it out") {
		t.Errorf("with a key of its own: %+v", named)
	}
	to := connect(t, overHTTP(d, "agent:to"), nil)
	second, _ := use(t, to, "sandbox_open", nil)
	if staged, failed := use(t, to, "sandbox_stage_file", in(second.SandboxID, m{"file_key": published.FileKey, "destination": "in/r.csv"})); failed {
		t.Errorf("staged %+v", staged)
	}
	if read, _ := use(t, to, "sandbox_fs_read", in(second.SandboxID, m{"path": "in/r.csv"})); text(read.Contents) != "a,b\n" {
		t.Errorf("read %+v", read)
	}
	thief := connect(t, overHTTP(&blackbox.Daemon{URL: d.URL, Key: other}, "agent:from"), nil)
	own, _ := use(t, thief, "sandbox_open", nil)
	if staged, failed := use(t, thief, "sandbox_stage_file", in(own.SandboxID, m{"file_key": published.FileKey, "destination": "r"})); !failed || staged.Code != "not_found" && staged.Code != "invalid_argument" {
		t.Errorf("another owner staged %+v", staged)
	}
	for key, want := range map[string]int{d.Key: http.StatusOK, other: http.StatusNotFound} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL+"/api/sandbox/artifacts/"+published.FileKey+"/download", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("downloaded with %d, want %d", resp.StatusCode, want)
		}
	}
}

// What a script asks by a pipe that ends with its last question is answered.
func TestQuestionsOfAPipe(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	cmd := command(d, "mcp", "--scope", "agent:pipe")
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"pipe","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox_run","arguments":{"runtime":"bash","code":"sleep 1; echo in-a-sandbox"}}}
{"jsonrpc":"2.0","id":3,"method":"ping"}
`)
	out, err := cmd.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != 3 || !strings.Contains(string(out), "in-a-sandbox") || !regexp.MustCompile(`"serverInfo":\{[^}]*"version":"[^"]`).Match(out) {
		t.Errorf("%v: %s", err, out)
	}
	seen := map[float64]bool{}
	for _, line := range lines {
		var answer struct{ ID float64 }
		if err := json.Unmarshal([]byte(line), &answer); err != nil || seen[answer.ID] {
			t.Errorf("%s: %v", line, err)
		}
		seen[answer.ID] = true
	}
}

func cancelled(t *testing.T, d *blackbox.Daemon) {
	s := connect(t, overHTTP(d, "agent:cancelled"), nil)
	opened, _ := use(t, s, "sandbox_open", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "sandbox_exec", Arguments: in(opened.SandboxID, m{"cmd": []string{"sleep", "1234"}})}); err == nil {
		t.Error("it has ended by itself")
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if !strings.Contains(sleeps(t, s, opened.SandboxID), "1234") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the command goes on")
		}
	}
}

// sleeps are the command lines of the sandbox's sleeps.
func sleeps(t *testing.T, s *mcp.ClientSession, id string) string {
	t.Helper()
	got, _ := use(t, s, "sandbox_exec", in(id, m{"cmd": []string{"sh", "-c", `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done | grep '^sleep' || true`}}))
	return text(got.Stdout)
}

func TestDefinitionsOfTheDaemon(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{})
	for _, format := range tools.Formats {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.URL+"/v1/agent-tools?format="+string(format), nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: withHeaders{http.Header{"Authorization": {"Bearer " + d.Key}}, &http.Transport{}}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		text, err := tools.Definitions(format, tools.Offered(false, false)) // no orchestrator keeps files
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(want, got) {
			t.Errorf("%s: %s", format, cmp.Diff(want, got))
		}
	}
}
