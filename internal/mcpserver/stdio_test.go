package mcpserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/mcpserver"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// frame is what a client reads on a line.
type frame struct {
	ID     any
	Result struct {
		ServerInfo   struct{ Version string }
		Capabilities map[string]any
	}
	Error *struct{ Code int64 }
}

// answers are what a client reads that writes these lines and closes its side.
func answers(t *testing.T, daemon http.RoundTripper, lines ...string) map[string]frame {
	t.Helper()
	client, err := sandkasten.New(sandkasten.Options{URL: "http://daemon", APIKey: "key", MaxRetries: -1, RetryTime: -1, HTTPClient: &http.Client{Transport: daemon}})
	if err != nil {
		t.Fatal(err)
	}
	server := mcpserver.New(mcpserver.Options{Version: "v1.2.3", Sets: func(mcpserver.Caller) (*tools.Set, error) {
		return tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "workflow", ID: "run-1"}})
	}})
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(t.Context(), mcpserver.Stdio(io.NopCloser(strings.NewReader(strings.Join(lines, "\n")+"\n")), in))
		in.Close()
	}()
	got := map[string]frame{}
	for s := bufio.NewScanner(out); s.Scan(); {
		var f frame
		if err := json.Unmarshal(s.Bytes(), &f); err != nil {
			t.Errorf("%s: %v", s.Text(), err)
		}
		id := fmt.Sprint(f.ID)
		if _, twice := got[id]; twice || f.ID == nil {
			t.Errorf("a second frame, or one that nobody asked for: %s", s.Text())
		}
		got[id] = f
	}
	<-ended // with how the client's side ended, which is no matter here
	return got
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	listFiles   = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sandbox_fs_list","arguments":{"sandbox_id":"s"}}}`
)

// slowly is a daemon that needs a minute for each answer.
type slowly struct{ oneSession }

func (d slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Minute):
		return d.oneSession.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// A client that closes its side with its last question still gets all answers, each once. A
// question that it takes back is not waited for.
func TestAllQuestionsAreAnsweredBeforeTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		got := answers(t, slowly{}, initialize, initialized, fmt.Sprintf(listFiles, 1), fmt.Sprintf(listFiles, 2), fmt.Sprintf(listFiles, 3),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, `{"jsonrpc":"2.0","id":4,"method":"ping"}`, `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`)
		for _, id := range []string{"begin", "1", "2", "4", "5"} {
			if _, ok := got[id]; !ok {
				t.Errorf("no answer to %s", id)
			}
		}
		if took := time.Since(begun); took < time.Minute || took > 5*time.Minute || len(got) > 6 {
			t.Errorf("%d answers after %s", len(got), took)
		}
		if v := got["begin"].Result.ServerInfo.Version; v != "v1.2.3" {
			t.Errorf("the server is of version %q", v)
		}
	})
}

// What the server does not announce it does not know, and what it announces it does.
func TestMethodsOfTheCapabilities(t *testing.T) {
	t.Parallel()
	lines := []string{initialize, initialized}
	methods := map[string]bool{ // that are announced
		`"tools/list"`: true, `"resources/list"`: true, `"resources/templates/list"`: true,
		`"prompts/list"`: false, `"prompts/get","params":{"name":"x"}`: false, `"logging/setLevel","params":{"level":"info"}`: false,
		`"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}`: false, `"tasks/list"`: false,
	}
	names := map[string]string{}
	for method := range methods {
		id := fmt.Sprint(len(lines))
		names[id] = method
		lines = append(lines, `{"jsonrpc":"2.0","id":`+id+`,"method":`+method+`}`)
	}
	got := answers(t, oneSession{}, lines...)
	for id, method := range names {
		f, ok := got[id]
		if refused := f.Error != nil && f.Error.Code == jsonrpc.CodeMethodNotFound; !ok || refused == methods[method] || f.Error != nil && !refused {
			t.Errorf("%s: %+v", method, f)
		}
	}
	said := got["begin"].Result.Capabilities
	resources, _ := said["resources"].(map[string]any)
	if len(said) != 2 || said["tools"] == nil || resources["subscribe"] != true {
		t.Errorf("it announces %v", said)
	}
}
