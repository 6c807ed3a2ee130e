package kit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/execstream"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
)

// rpc is another product's API over the same sessions: verbs in the path, ids in
// the body, and errors of its own shape. It is shapes and handlers, and nothing else.
type rpc struct{ manager *session.Manager }

// fault is its dialect.
func fault(e api.ErrorBody, status int) (body any, as int) {
	if status == http.StatusBadRequest {
		status = http.StatusUnprocessableEntity
	}
	return map[string]any{"ok": false, "fault": map[string]any{"kind": e.Code, "says": e.Error, "about": e.Field}}, status
}

func (s rpc) surface() api.Surface {
	k := kit.New(kit.Options{Name: "rpc", Prefix: "/rpc/", Dialect: fault})
	kit.Route(k, kit.Row{
		Pattern: "POST /rpc/box.open", Scope: api.Key,
		Doc: kit.Doc{ID: "box-open", Summary: "Open a box", Status: http.StatusCreated},
	}, s.open)
	kit.Route(k, kit.Row{
		Pattern: "POST /rpc/box.run", Scope: api.Key, Class: api.Long, MaxBody: 512,
		Doc: kit.Doc{ID: "box-run", Summary: "Run a line in a box"},
	}, s.run)
	kit.Route(k, kit.Row{
		Pattern: "GET /rpc/box.follow", Scope: api.Key, Class: api.Long,
		Doc: kit.Doc{ID: "box-follow", Summary: "Run a line and follow it", Media: "text/event-stream"},
	}, s.follow)
	return k.Surface()
}

type box struct {
	Body struct {
		Box session.ID `json:"box"`
	}
}

func (s rpc) open(ctx context.Context, _ *struct{}) (*box, error) {
	made, err := s.manager.Sessions.Create(ctx, api.Caller(ctx), session.CreateRequest{})
	out := &box{}
	out.Body.Box = made.ID
	return out, err
}

type runInput struct{ Body runRequest }

type runRequest struct {
	Box  session.ID `json:"box" minLength:"26" maxLength:"26"`
	Line string     `json:"line" minLength:"1"`
	Tags []string   `json:"tags,omitempty" maxItems:"2"`
}

type ran struct {
	Body struct {
		Code int    `json:"code"`
		Text string `json:"text"`
	}
}

func (s rpc) run(ctx context.Context, in *runInput) (*ran, error) {
	output := execstream.NewCollector(1<<10, false)
	result, err := s.manager.Execs.Run(ctx, api.Caller(ctx), string(in.Body.Box), ops.ExecRequest{Command: in.Body.Line}, output)
	if err != nil {
		return nil, err
	}
	text, _, err := output.Bytes()
	out := &ran{}
	out.Body.Code, out.Body.Text = result.ExitCode, string(text)
	return out, err
}

type followInput struct {
	Box  session.ID `query:"box" required:"true"`
	Line string     `query:"line" default:"echo nothing"`
}

func (s rpc) follow(ctx context.Context, in *followInput) (*kit.Stream, error) {
	return kit.Streaming(func(w http.ResponseWriter, _ *http.Request) {
		events := execstream.NewEvents(false)
		err := events.Begin(w, execstream.Place{})
		if err == nil {
			_, err = s.manager.Execs.Run(ctx, api.Caller(ctx), string(in.Box), ops.ExecRequest{Command: in.Line}, events)
		}
		if err = errors.Join(err, events.End(map[string]bool{"ok": err == nil})); err != nil {
			api.Failed(ctx, err)
		}
	}), nil
}

// A second surface, with another dialect and style of paths, needs no more than
// its shapes and handlers: the kit decodes, bounds, collects and streams for it.
func TestASecondSurface(t *testing.T) {
	server := httptest.NewServer(api.Handler(api.Options{}, rpc{newManager(t)}.surface()))
	defer server.Close()
	call := func(method, target, body string, status int, says string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+target, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != status || !strings.Contains(string(text), says) {
			t.Errorf("%s %s %s: %d %s, %v; want %d and %s", method, target, body, answer.StatusCode, text, err, status, says)
		}
		return string(text)
	}
	var opened struct{ Box string }
	if err := json.Unmarshal([]byte(call("POST", "/rpc/box.open", "", 201, `"box"`)), &opened); err != nil {
		t.Fatal(err)
	}
	call("POST", "/rpc/box.open", "{}", 201, `"box"`)
	call("POST", "/rpc/box.open", `{"force":true}`, 422, `{"fault":{"about":"force","kind":"invalid_argument","says":"force is not a field of this request; it has none"},"ok":false}`)
	call("POST", "/rpc/box.open", `[1]`, 422, `the request body must be an object`)
	call("POST", "/rpc/box.open", `force=true`, 422, `"kind":"invalid_argument"`)
	call("POST", "/rpc/box.open", strings.Repeat(" ", 5000), 413, `"kind":"too_large"`)
	call("POST", "/rpc/box.run", `{"box":"`+opened.Box+`","line":"echo hi; exit 3"}`, 200, `{"code":3,"text":"hi\n"}`)
	call("GET", "/rpc/box.follow?line=echo+hi&box="+opened.Box, "", 200, `{"chunk":"hi\n"`)
	call("POST", "/rpc/box.run", `{"box":"x","lime":"y"}`, 422, `{"fault":{"about":"box","kind":"invalid_argument","says":"box must have a length of at least 26; line is required; lime is not a field of this request; did you mean line?"},"ok":false}`)
	call("POST", "/rpc/box.run", `{"line":"`+strings.Repeat("x", 512)+`"}`, 413, `"kind":"too_large"`)
	call("POST", "/rpc/box.run", `{"box":"aaaaaaaaaaaaaaaaaaaaaaaaaa","line":"true"}`, 404, `"kind":"not_found"`)
	call("GET", "/rpc/box.follow", "", 422, `"about":"box"`)
	call("GET", "/rpc/nothing", "", 404, `{"fault":`)
	call("GET", "/rpc/box.run", "", 405, `{"fault":`)
	call("GET", "/elsewhere", "", 404, `{"error":`)
}
