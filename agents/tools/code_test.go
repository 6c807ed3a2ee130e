package tools_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// TestRunCodeShowsWhatModelsRead holds that pictures come as pictures, and that what is
// too long for a model is cut and says so.
func TestRunCodeShowsWhatModelsRead(t *testing.T) {
	rows := make([][]any, 100)
	for i := range rows {
		rows[i] = []any{i}
	}
	runs := map[string]sandkasten.CodeRun{
		"plot": {Cause: "completed", Results: []sandkasten.CodeResult{{
			Data:  map[string]any{"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"},
			Chart: &sandkasten.CodeChart{Type: "line", Title: "Growth", Axes: []sandkasten.CodeAxes{{Series: []sandkasten.CodeSeries{{Type: "line", Label: "a", Points: 3}}}}},
		}}},
		"table": {Cause: "completed", Results: []sandkasten.CodeResult{{
			Data:         map[string]any{"text/plain": "n", "text/html": "<table>"},
			IsMainResult: true,
			Table:        &sandkasten.CodeTable{Columns: []sandkasten.CodeColumn{{Name: "n", Type: "int64"}}, Rows: rows, Shape: []int64{100, 1}},
		}}},
		"wide":  {Cause: "completed", Results: []sandkasten.CodeResult{{Data: map[string]any{"text/plain": "n"}, Table: &sandkasten.CodeTable{Rows: [][]any{{strings.Repeat("x", 10_000)}}}}}},
		"many":  {Cause: "completed", Results: make([]sandkasten.CodeResult, 23), DroppedResults: 2},
		"long":  {Cause: "completed", Stdout: strings.Repeat("x", 100_000), StdoutFile: "/workspace/out.txt"},
		"error": {Cause: "error", Error: &sandkasten.CodeError{Name: "ValueError", Value: "no", Traceback: "Traceback: line 1"}},
		"oom":   {Cause: "oom_killed", StateLost: true},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			json.NewEncoder(w).Encode(sandkasten.SessionInfo{ID: "s", Labels: map[string]string{tools.LabelScope: "workflow:1"}})
			return
		}
		var asked struct{ Code, Language string }
		json.NewDecoder(r.Body).Decode(&asked)
		if r.URL.Path != "/v1/sessions/s/run-code" || asked.Language != "python" {
			t.Errorf("%s with %+v", r.URL.Path, asked)
		}
		json.NewEncoder(w).Encode(runs[asked.Code])
	}))
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "workflow", ID: "1"}, MaxBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for code, wants := range map[string][]string{
		"plot":  {`"image":1`, `"type":"line"`, `line a (3 points)`, `"ok":true`},
		"table": {`"shape":[100,1]`, `"truncated":true`, `[19]]`, `"cut":"all rows but the first 20"`},
		"wide":  {`"cut":"the table as data, which is too wide: choose columns"`, `"text":"n"`},
		"many":  {`"cut":"5 further results"`, `"truncated":true`},
		"long":  {`all is in the file /workspace/out.txt`, `"truncated":true`},
		"error": {`"ok":false`, `"error":"ValueError: no"`, `Traceback: line 1`},
		"oom":   {`"ok":false`, `more memory than the sandbox has`},
	} {
		result := set.Call(t.Context(), "sandbox_run_code", json.RawMessage(`{"sandbox_id": "s", "code": "`+code+`"}`))
		for _, want := range wants {
			if !strings.Contains(result.Text(), want) {
				t.Errorf("%s: %s lacks %s", code, result.Text(), want)
			}
		}
		if len(result.Text()) > 8<<10 || result.IsError {
			t.Errorf("%s: %d bytes, %v", code, len(result.Text()), result.IsError)
		}
		if want := code == "plot"; (len(result.Images) == 1) != want {
			t.Errorf("%s: %d images", code, len(result.Images))
		}
	}
}
