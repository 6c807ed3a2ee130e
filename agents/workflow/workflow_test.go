package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/model"
	"github.com/sandkasten/sandkasten/agents/workflow"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestExampleIsRead(t *testing.T) {
	t.Parallel()
	w, err := workflow.Load("../examples/code-review/workflow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if w.ID != "code-review-and-fix" || len(w.Steps) != 5 || w.Steps[0].Next != "fix" || w.Steps[3].Transitions[1].Next != "fix" {
		t.Errorf("got %+v", w)
	}
}

func TestMistakesNameTheirLine(t *testing.T) {
	t.Parallel()
	const end = "  - {id: done, type: end}\n"
	const change = "  - id: s\n    type: switch\n    expression: "
	const ways = "    transitions: [{condition: \"true\", next: done}]\n"
	for name, c := range map[string]struct {
		text string
		line int
		want string
	}{
		"empty":                  {"", 1, "needs id and steps"},
		"no YAML":                {"id: a\nsteps: [\n", 2, "no YAML"},
		"no id":                  {"steps:\n" + end, 1, "no id"},
		"no steps":               {"id: a\n", 1, "no steps"},
		"unknown field":          {"id: a\nversion: 2\nsteps:\n" + end, 2, `no field "version"`},
		"steps as text":          {"id: a\nsteps: all\n", 2, "must be a list"},
		"unknown type":           {"id: a\nsteps:\n  - id: b\n    type: parallel\n" + end, 4, "one of agent, switch, end"},
		"a step without id":      {"id: a\nsteps:\n  - type: end\n", 3, "no id"},
		"a step without type":    {"id: a\nsteps:\n  - id: b\n", 3, "no type"},
		"an id with a dot":       {"id: a\nsteps:\n  - id: b.c\n    type: end\n", 3, "a name of letters"},
		"twice the same step":    {"id: a\nsteps:\n" + end + end, 4, "twice"},
		"an agent of a path":     {"id: a\nsteps:\n  - {id: b, type: agent, agent: ../c}\n" + end, 3, "a name of"},
		"agent without agent":    {"id: a\nsteps:\n  - {id: b, type: agent}\n" + end, 3, "needs agent"},
		"nothing behind":         {"id: a\nsteps:\n  - {id: b, type: agent, agent: c}\n", 3, "no step follows"},
		"unknown next":           {"id: a\nsteps:\n  - {id: b, type: agent, agent: c, next: d}\n" + end, 3, "no step d"},
		"an end with next":       {"id: a\nsteps:\n  - {id: b, type: end, next: b}\n", 3, "for type agent"},
		"switch without ways":    {"id: a\nsteps:\n" + change + "\"1\"\n" + end, 3, "needs transitions"},
		"no expression":          {"id: a\nsteps:\n" + change + "\"1 +\"\n" + ways + end, 5, "no expression"},
		"a name that is not":     {"id: a\nsteps:\n" + change + "\"step.b.output\"\n" + ways + end, 5, "unknown name step"},
		"an agent that is not":   {"id: a\nsteps:\n" + change + "\"steps.b.output\"\n" + ways + end, 5, "unknown field b"},
		"an id with a dash":      {"id: a\nsteps:\n  - {id: a-b, type: agent, agent: c}\n" + change + "\"steps.a-b.output\"\n" + ways + end, 6, `steps["a-b"]`},
		"a text without quotes":  {"id: a\nsteps:\n" + change + "\"1\"\n    transitions:\n      - condition: \"done\"\n        next: done\n" + end, 7, `'"done"'`},
		"value in an expression": {"id: a\nsteps:\n" + change + "\"value\"\n" + ways + end, 5, "unknown name value"},
		"a condition as flag":    {"id: a\nsteps:\n" + change + "\"1\"\n    transitions:\n      - condition: true\n        next: done\n" + end, 7, "quotes"},
		"a transition to itself": {"id: a\nsteps:\n" + change + "\"1\"\n    transitions:\n      - condition: \"true\"\n" + end, 7, "needs condition and next"},
		"an agent that switches": {"id: a\nsteps:\n  - {id: b, type: agent, agent: c, expression: \"1\"}\n" + end, 3, "not for type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := workflow.Parse("w.yaml", c.text)
			var mistake *frontmatter.Mistake
			if !errors.As(err, &mistake) {
				t.Fatalf("got %v", err)
			}
			if mistake.Line != c.line || !strings.Contains(mistake.Message, c.want) {
				t.Errorf("want line %d and %q, got %v", c.line, c.want, err)
			}
		})
	}
}

// says is a model that says one thing.
type says string

func (s says) Generate(context.Context, model.Request) (model.Message, error) {
	return model.Message{Role: model.Assistant, Text: string(s)}, nil
}

// daemon answers only completions, and counts them.
func daemon(t *testing.T, completed *atomic.Int64) *sandkasten.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/complete") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var lease struct {
			Seconds int `json:"retention_seconds"`
		}
		if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
			t.Error(err)
		}
		if lease.Seconds == 0 {
			completed.Add(1)
		}
		_ = json.NewEncoder(w).Encode(sandkasten.Completed{Scope: "workflow:run"})
	}))
	t.Cleanup(server.Close)
	client, err := sandkasten.New(sandkasten.Options{URL: server.URL, APIKey: "key"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runSwitch runs an agent without a sandbox and a switch with two ways, to the agents
// left and right.
func runSwitch(t *testing.T, said, expression, condition string) (workflow.Outcome, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.prompt"), "---\nmodel: first\n---\nGo.\n")
	write(t, filepath.Join(dir, "right.prompt"), "---\nmodel: right\n---\nGo.\n")
	w, err := workflow.Parse("w.yaml", "id: w\nsteps:\n- {id: a, type: agent, agent: a}\n- id: s\n  type: switch\n  expression: '"+expression+
		"'\n  transitions:\n  - {condition: '"+condition+"', next: right}\n- {id: right, type: agent, agent: right}\n- {id: done, type: end}\n")
	if err != nil {
		t.Fatal(err)
	}
	var completed atomic.Int64
	outcome, err := workflow.Run(t.Context(), w, "run", "in", workflow.Options{
		Client: daemon(t, &completed), Journals: dir, Prompts: []string{dir},
		Model: func(name string) (model.Model, error) {
			if name == "right" {
				return says("right"), nil
			}
			return says(said), nil
		},
	})
	if err == nil && completed.Load() != 1 {
		t.Errorf("the run was completed %d times", completed.Load())
	}
	return outcome, err
}

func TestConditions(t *testing.T) {
	t.Parallel()
	const fails = "no transition is for"
	for name, c := range map[string]struct{ said, expression, condition, want string }{
		"a flag":                  {`{"ok": true}`, "steps.a.output.ok", "true", ""},
		"the other flag":          {`{"ok": false}`, "steps.a.output.ok", "true", fails},
		"the last object counts":  {`{"ok": false} and {"ok": true}`, "steps.a.output.ok", "true", ""},
		"a number":                {`{"n": 3}`, "steps.a.output.n", "3", ""},
		"a negative number":       {`{"n": -1}`, "steps.a.output.n", "-1", ""},
		"a step by its id":        {`{"n": 3}`, `steps["a"].output.n`, "3", ""},
		"a text":                  {`{"s": "x"}`, "steps.a.output.s", `"x"`, ""},
		"a comparison":            {`{"n": 3}`, "steps.a.output.n", "value > 2", ""},
		"a false comparison":      {`{"n": 3}`, "steps.a.output.n", "value > 3", fails},
		"a comparison of a flag":  {`{"ok": false}`, "steps.a.output.ok", "value == false", ""},
		"the text":                {`all good`, `steps.a.text contains "good"`, "true", ""},
		"the input":               {``, `userInput`, `"in"`, ""},
		"visits":                  {``, `steps.a.visits`, `1`, ""},
		"no output":               {`nothing`, "steps.a.output.ok", "true", `step a said no JSON object; its last words were "nothing"`},
		"no output in a value":    {`nothing`, "steps.a.output", "value.ok", "step a said no JSON object"},
		"no output, and told":     {`nothing`, "steps.a.output?.ok", "nil", ""},
		"a step that comes later": {`{"ok": true}`, "steps.right.output.ok", "true", "step right has not run yet"},
		"a field that is not":     {`{}`, "steps.a.output.ok", "nil", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome, err := runSwitch(t, c.said, c.expression, c.condition)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && (outcome.Error != "" || outcome.Text != "right") {
				t.Errorf("got %+v", outcome)
			}
			if c.want != "" && !strings.Contains(outcome.Error, c.want) {
				t.Errorf("want %q, got %+v", c.want, outcome)
			}
		})
	}
}

// heard is a model that keeps what it was told first, by its prompt's model.
type heard struct {
	name string
	all  *sync.Map
}

func (h heard) Generate(_ context.Context, r model.Request) (model.Message, error) {
	h.all.LoadOrStore(h.name, r.Messages[0].Text)
	return model.Message{Role: model.Assistant, Text: "done"}, nil
}

// A prompt asks with {{#if}} for a step that has not run yet, and for itself.
func TestPromptsAskForStepsThatHaveRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(dir, name+".prompt"), "---\nmodel: "+name+"\n---\nSeen:{{#if steps.a}} a{{/if}}{{#if steps.b}} b{{/if}}\n")
	}
	w, err := workflow.Parse("w.yaml", "id: w\nsteps:\n- {id: a, type: agent, agent: a}\n- {id: b, type: agent, agent: b}\n- {id: done, type: end}\n")
	if err != nil {
		t.Fatal(err)
	}
	var completed atomic.Int64
	var all sync.Map
	outcome, err := workflow.Run(t.Context(), w, "run", "in", workflow.Options{
		Client: daemon(t, &completed), Journals: dir, Prompts: []string{dir},
		Model: func(name string) (model.Model, error) { return heard{name, &all}, nil },
	})
	if err != nil || outcome.Error != "" {
		t.Fatalf("%+v, %v", outcome, err)
	}
	for name, want := range map[string]string{"a": "Seen:", "b": "Seen: a"} {
		if got, _ := all.Load(name); got != want {
			t.Errorf("%s was told %q, want %q", name, got, want)
		}
	}
}

// loop is a workflow that goes on for ever.
const loop = "id: w\nsteps:\n- {id: a, type: agent, agent: a, next: a}\n"

func loopOptions(t *testing.T, completed *atomic.Int64) (*workflow.Workflow, workflow.Options) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.prompt"), "---\nmodel: x\n---\nGo.\n")
	w, err := workflow.Parse("w.yaml", loop)
	if err != nil {
		t.Fatal(err)
	}
	return w, workflow.Options{
		Client: daemon(t, completed), Journals: dir, Prompts: []string{dir}, MaxSteps: 5,
		Model: func(string) (model.Model, error) { return says("on"), nil },
	}
}

func TestEndlessLoopEnds(t *testing.T) {
	t.Parallel()
	var completed atomic.Int64
	w, o := loopOptions(t, &completed)
	outcome, err := workflow.Run(t.Context(), w, "run", "", o)
	if err != nil || outcome.Steps != 5 || !strings.Contains(outcome.Error, "5 steps") || completed.Load() != 1 {
		t.Errorf("got %+v, %v", outcome, err)
	}
}

func TestTornJournalGoesOn(t *testing.T) {
	t.Parallel()
	var completed atomic.Int64
	w, o := loopOptions(t, &completed)
	if _, err := workflow.Run(t.Context(), w, "whole", "", o); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(o.Journals, "whole.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for size := range len(whole) {
		if size%29 != 0 && whole[size] != '\n' && (size == 0 || whole[size-1] != '\n') {
			continue // each run takes many writes to the disk
		}
		write(t, filepath.Join(o.Journals, "whole.jsonl"), string(whole[:size]))
		outcome, err := workflow.Run(t.Context(), w, "whole", "", o)
		if err != nil || outcome.Steps != 5 || outcome.Text != "on" {
			t.Fatalf("cut at %d: %+v, %v", size, outcome, err)
		}
	}
}

func TestRunsAreNotMixedUp(t *testing.T) {
	t.Parallel()
	var completed atomic.Int64
	w, o := loopOptions(t, &completed)
	if _, err := workflow.Run(t.Context(), w, "run", "one", o); err != nil {
		t.Fatal(err)
	}
	other, err := workflow.Parse("w.yaml", loop+"# changed\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		w               *workflow.Workflow
		id, input, want string
	}{
		"another file":  {other, "run", "", "not the one with which"},
		"another input": {w, "run", "two", "another input"},
		"a path":        {w, "../run", "", "1 to 64"},
	} {
		if _, err := workflow.Run(t.Context(), c.w, c.id, c.input, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.Prompts = nil
	if _, err := workflow.Run(t.Context(), w, "new", "", o); err == nil || !strings.Contains(err.Error(), "a.prompt") {
		t.Errorf("without prompts: %v", err)
	}
	if err := workflow.End(t.Context(), "never", o); err == nil || !strings.Contains(err.Error(), "no run never") {
		t.Errorf("end: %v", err)
	}
}

func TestCancelledRunKeepsItsSandboxes(t *testing.T) {
	t.Parallel()
	var completed atomic.Int64
	w, o := loopOptions(t, &completed)
	ctx, cancel := context.WithCancel(t.Context())
	o.Model = func(string) (model.Model, error) {
		cancel()
		return says("on"), nil
	}
	if _, err := workflow.Run(ctx, w, "run", "", o); !errors.Is(err, context.Canceled) || completed.Load() != 0 {
		t.Errorf("%v, completed %d times", err, completed.Load())
	}
}
