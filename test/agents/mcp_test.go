package agents

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
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

// overPipes is sandkasten mcp.
func overPipes(d *blackbox.Daemon, args ...string) mcp.Transport {
	cmd := exec.Command(d.Program, append([]string{"mcp"}, args...)...)
	cmd.Env = append(slices.Clone(d.Env), "SANDKASTEN_URL="+d.URL, "SANDKASTEN_API_KEY="+d.Key)
	return &mcp.CommandTransport{Command: cmd}
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
	long := &mcp.CallToolParams{Name: "sandbox_exec", Arguments: in(id, m{"cmd": []string{"sleep", "6"}})}
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
		text, err := tools.Definitions(format, tools.All())
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
