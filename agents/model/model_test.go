package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/model"
	"github.com/sandkasten/sandkasten/agents/toolset"
)

// api answers with texts, one after the other, and returns what it was asked.
func api(t *testing.T, answers ...string) (url string, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*asked = append(*asked, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("x-api-key")+" "+string(body))
		answer := answers[min(len(*asked), len(answers))-1]
		if code, text, is := strings.Cut(answer, "!"); is {
			w.WriteHeader(map[string]int{"busy": 429, "wrong": 400}[code])
			answer = text
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

var conversation = model.Request{
	Messages: []model.Message{
		{Role: model.System, Text: "You are A."},
		{Role: model.User, Text: "Work."},
		{Role: model.Assistant, Text: "Yes.", Calls: []model.Call{{ID: "c1", Name: "x", Args: json.RawMessage(`{"a":1}`)}, {ID: "c2", Name: "y", Args: json.RawMessage(`"{broken"`)}}},
		{Role: model.ToolRole, CallID: "c1", Text: `{"ok":true}`},
		{Role: model.ToolRole, CallID: "c2", Text: `{"error":"no"}`, Error: true},
	},
	Tools: []toolset.Tool{{Name: "x", Description: "X.", Schema: json.RawMessage(`{"type":"object"}`)}},
}

var wanted = model.Message{Role: model.Assistant, Text: "Next.", Calls: []model.Call{{ID: "c3", Name: "x", Args: json.RawMessage(`{"b":2}`)}}}

func TestModelsAreAsked(t *testing.T) {
	for name, c := range map[string]struct{ answer, asked string }{
		"openai": {
			`{"choices":[{"message":{"role":"assistant","content":"Next.","tool_calls":[{"id":"c3","type":"function","function":{"name":"x","arguments":"{\"b\":2}"}}]}}]}`,
			`/chat/completions Bearer secret {"model":"m/1","messages":[{"role":"system","content":"You are A."},{"role":"user","content":"Work."},` +
				`{"role":"assistant","content":"Yes.","tool_calls":[{"id":"c1","type":"function","function":{"name":"x","arguments":"{\"a\":1}"}},` +
				`{"id":"c2","type":"function","function":{"name":"y","arguments":"\"{broken\""}}]},` +
				`{"role":"tool","content":"{\"ok\":true}","tool_call_id":"c1"},{"role":"tool","content":"{\"error\":\"no\"}","tool_call_id":"c2"}],` +
				`"tools":[{"type":"function","function":{"name":"x","description":"X.","parameters":{"type":"object"}}}]}`,
		},
		"anthropic": {
			`{"role":"assistant","content":[{"type":"text","text":"Next."},{"type":"tool_use","id":"c3","name":"x","input":{"b":2}}]}`,
			`/v1/messages secret {"model":"m/1","max_tokens":8192,"system":"You are A.","messages":[{"role":"user","content":[{"type":"text","text":"Work."}]},` +
				`{"role":"assistant","content":[{"type":"text","text":"Yes."},{"type":"tool_use","id":"c1","name":"x","input":{"a":1}},{"type":"tool_use","id":"c2","name":"y","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"{\"ok\":true}"},` +
				`{"type":"tool_result","tool_use_id":"c2","content":"{\"error\":\"no\"}","is_error":true}]}],` +
				`"tools":[{"name":"x","description":"X.","input_schema":{"type":"object"}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := api(t, "busy!later", c.answer)
			t.Setenv(strings.ToUpper(name)+"_BASE_URL", url+"/")
			t.Setenv(strings.ToUpper(name)+"_API_KEY", "secret")
			m, err := model.New(name + "/m/1")
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.Generate(t.Context(), conversation)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Error(diff)
			}
			if len(*asked) != 2 {
				t.Fatalf("it was asked %d times", len(*asked))
			}
			if diff := cmp.Diff(c.asked, (*asked)[1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestModelsSeeThePicturesOfTools holds that each API gets pictures in the form that it takes:
// OpenAI's behind all answers of a turn, since it takes none of a tool.
func TestModelsSeeThePicturesOfTools(t *testing.T) {
	seeing := conversation
	seeing.Messages = slices.Clone(conversation.Messages)
	seeing.Messages[3].Images = []model.Image{{MIME: "image/png", Data: []byte("\x89PNG")}}
	for name, c := range map[string]struct{ answer, asked string }{
		"openai": {
			`{"choices":[{"message":{"role":"assistant","content":"Next."}}]}`,
			`{"role":"tool","content":"{\"error\":\"no\"}","tool_call_id":"c2"},{"role":"user","content":[{"type":"text","text":"The pictures that the tools made, in their order."},` +
				`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}]}]`,
		},
		"anthropic": {
			`{"role":"assistant","content":[{"type":"text","text":"Next."}],"stop_reason":"end_turn"}`,
			`{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"{\"ok\":true}"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]},` +
				`{"type":"tool_result","tool_use_id":"c2","content":"{\"error\":\"no\"}","is_error":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := api(t, c.answer)
			t.Setenv(strings.ToUpper(name)+"_BASE_URL", url)
			m, err := model.New(name + "/m")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Generate(t.Context(), seeing); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains((*asked)[0], c.asked) {
				t.Errorf("asked %s, which lacks %s", (*asked)[0], c.asked)
			}
		})
	}
}

func TestErrorsOfModels(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"refused":    {"wrong!no such model", "400 Bad Request: no such model"},
		"no JSON":    {"<html>", "not understood"},
		"no message": {`{"choices":[]}`, "no message"},
		"cut":        {`{"choices":[{"finish_reason":"length","message":{"content":"The answer is 4"}}]}`, "cut at its limit"},
		"unwilling":  {`{"choices":[{"finish_reason":"stop","message":{"content":null,"refusal":"Not that."}}]}`, "refuses: Not that."},

		"anthropic: no message": {`{"content":[]}`, "no message"},
		"anthropic: cut":        {`{"content":[{"type":"text","text":"The answer is 4"}],"stop_reason":"max_tokens"}`, "cut at its limit"},
		"filtered":              {`{"choices":[{"finish_reason":"content_filter","message":{"content":"The answer"}}]}`, "refuses: its filter"},
		"anthropic: no room":    {`{"content":[{"type":"text","text":"The"}],"stop_reason":"model_context_window_exceeded"}`, "cut at its limit"},
		"anthropic: unwilling":  {`{"content":[],"stop_reason":"refusal"}`, "refuses: it gave no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			url, asked := api(t, c.answer)
			provider := "openai"
			if strings.HasPrefix(name, "anthropic: ") {
				provider = "anthropic"
			}
			t.Setenv(strings.ToUpper(provider)+"_BASE_URL", url)
			m, err := model.New(provider + "/m")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Generate(t.Context(), conversation); err == nil || !strings.Contains(err.Error(), c.want) || len(*asked) != 1 {
				t.Errorf("%v, asked %d times", err, len(*asked))
			}
		})
	}
	for _, name := range []string{"", "gpt-4o", "openai/", "other/x", "script:/no/such/file"} {
		if _, err := model.New(name); err == nil {
			t.Errorf("%q is a model", name)
		}
	}
}

// The key goes to nobody but the API.
func TestNoRedirectIsFollowed(t *testing.T) {
	other, asked := api(t, `{"content":[{"type":"text","text":"x"}]}`)
	server := httptest.NewServer(http.RedirectHandler(other, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	t.Setenv("ANTHROPIC_BASE_URL", server.URL)
	m, err := model.New("anthropic/m")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), conversation); err == nil || !strings.Contains(err.Error(), "307") || len(*asked) > 0 {
		t.Errorf("%v, asked %d times", err, len(*asked))
	}
}

// What a prompt file says of the model is sent by the names of its API.
func TestConfigIsSent(t *testing.T) {
	zero, half := 0.0, 0.5
	r := model.Request{
		Config:   frontmatter.Config{MaxOutputTokens: 99, Temperature: &zero, TopP: &half, StopSequences: []string{"END"}},
		Messages: []model.Message{{Role: model.User, Text: "Work."}},
	}
	for provider, c := range map[string]struct{ answer, want string }{
		"openai":    {`{"choices":[{"message":{"content":"x"}}]}`, `"temperature":0,"top_p":0.5,"stop":["END"],"max_tokens":99}`},
		"anthropic": {`{"content":[{"type":"text","text":"x"}]}`, `"temperature":0,"top_p":0.5,"stop_sequences":["END"]}`},
	} {
		url, asked := api(t, c.answer)
		t.Setenv(strings.ToUpper(provider)+"_BASE_URL", url)
		m, err := model.New(provider + "/m")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := (*asked)[0]; !strings.Contains(got, c.want) || !strings.Contains(got, `"max_tokens":99`) {
			t.Errorf("%s was asked %s; want %s", provider, got, c.want)
		}
	}
}

// A cut call of a tool goes on: the tool says what is wrong with it.
func TestCutCalls(t *testing.T) {
	for provider, c := range map[string]struct{ answer, want string }{
		"openai": {`{"choices":[{"finish_reason":"length","message":{"content":null,"tool_calls":[{"id":"c3","function":{"name":"x","arguments":"{\"b\":"}}]}}]}`, `"{\"b\":"`},
		// Its answer is JSON whose last fields are missing.
		"anthropic": {`{"content":[{"type":"tool_use","id":"c3","name":"x","input":{"path":"main.py"}}],"stop_reason":"max_tokens"}`, `"cut at the limit of tokens"`},
	} {
		url, _ := api(t, c.answer)
		t.Setenv(strings.ToUpper(provider)+"_BASE_URL", url)
		m, err := model.New(provider + "/m")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Generate(t.Context(), conversation); err != nil || len(got.Calls) != 1 || string(got.Calls[0].Args) != c.want {
			t.Errorf("%s: %+v, %v", provider, got, err)
		}
	}
}

// Claude says a line end before a call at times, and its API refuses to read it.
func TestBlankTextIsNotSentBack(t *testing.T) {
	url, asked := api(t, `{"content":[{"type":"text","text":"x"}]}`)
	t.Setenv("ANTHROPIC_BASE_URL", url)
	m, err := model.New("anthropic/m")
	if err != nil {
		t.Fatal(err)
	}
	messages := []model.Message{
		{Role: model.User, Text: "Work."}, {Role: model.Assistant, Text: "\n\n", Calls: []model.Call{{ID: "c", Name: "x"}}}, {Role: model.ToolRole, CallID: "c", Text: "done"},
	}
	if _, err := m.Generate(t.Context(), model.Request{Messages: messages}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains((*asked)[0], `\n`) || !strings.Contains((*asked)[0], `"role":"assistant","content":[{"type":"tool_use"`) {
		t.Errorf("asked %s", (*asked)[0])
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script.yaml")
	const text = `
agents:
  a:
    - - calls: [{tool: x, args: {id: "${id}", n: "${n}", plain: '${none}'}}, {tool: y}]
      - text: '${id} {"n": ${n}, "ok": ${ok}}'
    - - text: again
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := model.New("script:" + file)
	if err != nil {
		t.Fatal(err)
	}
	r := model.Request{Agent: "a", Visit: 1, Messages: []model.Message{
		{Role: model.ToolRole, Text: `{"id":"old","n":1}`}, {Role: model.ToolRole, Text: `{"id":"a\"b","ok":true}`}, {Role: model.ToolRole, Text: "no JSON"},
	}}
	first, err := m.Generate(t.Context(), r)
	if err != nil || string(first.Calls[0].Args) != `{"id":"a\"b","n":"1","plain":"${none}"}` || string(first.Calls[1].Args) != "{}" {
		t.Errorf("got %+v, %v", first, err)
	}
	r.Messages = append(r.Messages, first)
	second, err := m.Generate(t.Context(), r)
	if err != nil || second.Text != `a"b {"n": 1, "ok": true}` {
		t.Errorf("got %+v, %v", second, err)
	}
	r.Messages = append(r.Messages, second)
	if _, err := m.Generate(t.Context(), r); err == nil || !strings.Contains(err.Error(), "ends after 2 turns") {
		t.Errorf("got %v", err)
	}
	r.Messages, r.Visit = nil, 7
	if last, err := m.Generate(t.Context(), r); err != nil || last.Text != "again" {
		t.Errorf("got %+v, %v", last, err)
	}
	r.Agent = "b"
	if _, err := m.Generate(t.Context(), r); err == nil {
		t.Error("an agent that the script does not know has a turn")
	}
}
