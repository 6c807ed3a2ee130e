package genkit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	firebase "github.com/firebase/genkit/go/genkit"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/genkit"
	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/agents/toolset"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func injector(t *testing.T) *genkit.Injector {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	return genkit.New(toolset.Options{
		Client: client, Images: frontmatter.DefaultImages(),
		Run: tools.Scope{Namespace: "workflow", ID: "r"}, Agent: tools.Scope{Namespace: "agent", ID: "r"},
	})
}

func TestInjectedToolsFollowTheMode(t *testing.T) {
	t.Parallel()
	other := ai.NewTool("other", "Another tool.", func(*ai.ToolContext, struct{}) (string, error) { return "", nil })
	for name, c := range map[string]struct {
		cfg   *frontmatter.Sandbox
		first string
		least int
	}{
		"no sandbox": {nil, "", 1},
		"compute":    {&frontmatter.Sandbox{Mode: frontmatter.Compute}, "sandbox_run", 2},
		"code":       {&frontmatter.Sandbox{Mode: frontmatter.Code}, "sandbox_open", 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := injector(t).InjectSandboxTools(c.cfg, []ai.Tool{other})
			if err != nil || len(list) < c.least || list[0].Name() != "other" {
				t.Fatalf("%d tools, %v", len(list), err)
			}
			if c.first != "" && list[1].Name() != c.first {
				t.Errorf("the first is %s", list[1].Name())
			}
		})
	}
}

// TestGenkitCallsTheTools has a model of Genkit call them, well and badly.
func TestGenkitCallsTheTools(t *testing.T) {
	t.Parallel()
	ctx, g := t.Context(), firebase.Init(t.Context())
	calls := []map[string]any{
		{"sandbox_id": "x", "cmd": []string{"ls"}},
		{"sandbox_id": "x", "cmd": "ls -l"},
		{"sandbox_id": "x"},
		{"sandbox_id": "x", "cmd": []string{"ls"}, "timeout_seconds": 1e6},
	}
	var answers []string
	firebase.DefineModelAction(g, "test/model", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}},
		func(_ context.Context, r *ai.ModelRequest, _ map[string]any, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
			if len(r.Tools) < 10 || r.Tools[0].InputSchema["properties"] == nil {
				t.Errorf("the model is told of %d tools", len(r.Tools))
			}
			turn := 0
			for _, m := range r.Messages {
				for _, part := range m.Content {
					if part.IsToolResponse() {
						turn++
						answers = append(answers, part.ToolResponse.Output.(map[string]any)["error"].(string))
					}
				}
			}
			if turn == len(calls) {
				return &ai.ModelResponse{Request: r, Message: ai.NewModelTextMessage("done")}, nil
			}
			return &ai.ModelResponse{Request: r, Message: ai.NewModelMessage(
				ai.NewToolRequestPart(&ai.ToolRequest{Name: "sandbox_exec", Input: calls[turn]}))}, nil
		})
	list, err := injector(t).InjectSandboxTools(&frontmatter.Sandbox{Mode: frontmatter.Code}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var refs []ai.ToolRef
	for _, tool := range list {
		refs = append(refs, tool)
	}
	response, err := firebase.Generate(ctx, g, ai.WithModelName("test/model"), ai.WithPrompt("Work."), ai.WithTools(refs...))
	if err != nil || response.Text() != "done" {
		t.Fatalf("%v, %v", response, err)
	}
	said := strings.Join(answers, "\n")
	for _, want := range []string{"sandbox_exec: ", `["sh", "-c"`, "cmd is required", "between 1 and 3600"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
}

// TestGenkitGivesPictures has a model of Genkit run code that draws.
func TestGenkitGivesPictures(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = sandkasten.SessionInfo{ID: "s", Labels: map[string]string{tools.LabelScope: "workflow:r"}}
		if strings.HasSuffix(r.URL.Path, "/run-code") {
			answer = sandkasten.CodeRun{Cause: "completed", Results: []sandkasten.CodeResult{{Data: map[string]any{"image/png": "iVBORw0KGgo="}}}}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	inject := genkit.New(toolset.Options{
		Client: client, Images: frontmatter.DefaultImages(),
		Run: tools.Scope{Namespace: "workflow", ID: "r"}, Agent: tools.Scope{Namespace: "agent", ID: "r"},
	})
	list, err := inject.InjectSandboxTools(&frontmatter.Sandbox{Mode: frontmatter.Code}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(one ai.Tool) bool { return one.Name() == "sandbox_run_code" })
	if at < 0 {
		t.Fatal("there is no sandbox_run_code")
	}
	answer, err := list[at].RunRawMultipart(t.Context(), map[string]any{"sandbox_id": "s", "code": "plot()"})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Content) != 1 || !answer.Content[0].IsMedia() || answer.Content[0].Text != "data:image/png;base64,iVBORw0KGgo=" {
		t.Errorf("%+v with %+v", answer.Output, answer.Content)
	}
	if list[at].Definition().InputSchema["properties"] == nil {
		t.Error("the model is told of no fields")
	}
}
