package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sandkasten/sandkasten/agents/agent"
	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/model"
)

// A prompt that was changed while a step was interrupted is for the next time.
func TestStepGoesOnWithItsOwnPrompt(t *testing.T) {
	t.Parallel()
	script := &model.Script{Agents: map[string][][]model.Turn{"a": {{{Calls: []model.ScriptCall{{Tool: "x"}}}, {Text: "done"}}}}}
	a := &agent.Agent{Name: "a", Visit: 1, Prompt: &frontmatter.Prompt{Body: "Go.{{role \"user\"}}1{{role \"system\"}}2{{role \"user\"}}3"}, Model: script}
	history := []model.Message{{Role: model.System, Text: "Old."}, {Role: model.User, Text: "Begin."}, {Role: model.Assistant, Calls: []model.Call{{ID: "c", Name: "x"}}}}
	var added []string
	if _, err := a.Run(t.Context(), nil, history, func(m model.Message) error {
		added = append(added, m.Role)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{model.ToolRole, model.Assistant}, added); diff != "" {
		t.Error(diff)
	}
}

// A model that has left out its output is asked for it once, also by a run that goes on.
func TestOutputIsAskedForOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last, want string
	}{"and said": {`{"ok": true}`, `{"ok": true}`}, "and not said": {"I do not know.", ""}} {
		script := &model.Script{Agents: map[string][][]model.Turn{"a": {{{Text: "All is well."}, {Text: c.last}}}}}
		a := &agent.Agent{Name: "a", Visit: 1, Prompt: &frontmatter.Prompt{Body: "Go."}, Model: script, NeedsOutput: true}
		run := func(history []model.Message) (all []model.Message) {
			all = append(all, history...)
			result, err := a.Run(t.Context(), nil, history, func(m model.Message) error {
				all = append(all, m)
				return nil
			})
			if err != nil || string(result.Output) != c.want || result.Text != c.last {
				t.Fatalf("%s: %+v, %v", name, result, err)
			}
			return all
		}
		whole := run(nil)
		for i := range whole {
			if diff := cmp.Diff(whole, run(whole[:i])); diff != "" {
				t.Errorf("%s: interrupted behind %d: %s", name, i, diff)
			}
		}
	}
}

func TestLastObject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "",
		"none":                              "",
		`{"a": 1}`:                          `{"a": 1}`,
		`{"a": 1} then {"b": {"c": 2}} end`: `{"b": {"c": 2}}`,
		"```json\n{\"a\": \"}\"}\n```":      `{"a": "}"}`,
		`{"a": 1} and {broken`:              `{"a": 1}`,
		`{broken {"a": 1}`:                  `{"a": 1}`,
		`[1, 2]`:                            "",
	} {
		if got := string(agent.LastObject(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// endless is a model that calls a tool again and again.
type endless struct{}

func (endless) Generate(context.Context, model.Request) (model.Message, error) {
	return model.Message{Role: model.Assistant, Calls: []model.Call{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}}}, nil
}

func TestEndlessAgentEnds(t *testing.T) {
	t.Parallel()
	a := &agent.Agent{Prompt: &frontmatter.Prompt{Body: "Go."}, Model: endless{}, MaxTurns: 3}
	var recorded []model.Message
	_, err := a.Run(t.Context(), nil, nil, func(m model.Message) error {
		recorded = append(recorded, m)
		return nil
	})
	if !errors.Is(err, agent.ErrTooManyTurns) || len(recorded) != 2+3*3 {
		t.Errorf("%v after %d messages", err, len(recorded))
	}
}

// TestAgentGoesOnFromEveryMessage interrupts it behind each of them.
func TestAgentGoesOnFromEveryMessage(t *testing.T) {
	t.Parallel()
	script := &model.Script{Agents: map[string][][]model.Turn{"a": {{
		{Calls: []model.ScriptCall{{Tool: "x"}, {Tool: "y"}}},
		{Text: `done: {"a": 1}`},
	}}}}
	a := &agent.Agent{Name: "a", Visit: 1, Prompt: &frontmatter.Prompt{Body: "Go."}, Model: script}
	run := func(history []model.Message) (all []model.Message) {
		all = append(all, history...)
		result, err := a.Run(t.Context(), nil, history, func(m model.Message) error {
			all = append(all, m)
			return nil
		})
		if err != nil || string(result.Output) != `{"a": 1}` {
			t.Fatalf("%+v, %v", result, err)
		}
		return all
	}
	whole := run(nil)
	for i := range whole {
		if diff := cmp.Diff(whole, run(whole[:i])); diff != "" {
			t.Errorf("interrupted behind %d: %s", i, diff)
		}
	}
}
