// Package agent runs one agent: a prompt, a model and the tools of its sandbox, in
// turns until the model calls no more tools.
package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/model"
	"github.com/sandkasten/sandkasten/agents/spans"
	"github.com/sandkasten/sandkasten/agents/toolset"
)

// ErrTooManyTurns is an agent that goes on and on.
var ErrTooManyTurns = errors.New("the agent does not come to an end")

// defaultTurns is how many answers of the model an agent may take.
const defaultTurns = 100

// Agent is one run of an agent.
type Agent struct {
	Name     string // of the prompt file, without .prompt
	Visit    int    // how often it has been begun in this run, from 1
	Prompt   *frontmatter.Prompt
	Model    model.Model
	Tools    *toolset.Toolset // nil without a sandbox
	MaxTurns int              // of the model: 100

	// NeedsOutput asks the model once more where its last words have no JSON object.
	NeedsOutput bool
}

// askOutput is what a model is told that has left out its output.
const askOutput = "Your last message has no JSON object, which the next step reads. Say it again as one JSON object."

// Result is what an agent has said last.
type Result struct {
	Text   string
	Output json.RawMessage // the last JSON object in it, or nil
}

// Run takes an agent to its end. History is what was recorded when it was
// interrupted, and empty else. Each message is recorded before the agent goes on; a
// call of a tool whose answer was not recorded is made again.
func (a *Agent) Run(ctx context.Context, input map[string]any, history []model.Message, record func(model.Message) error) (result Result, err error) {
	ctx, end := spans.Start(ctx, "agent "+a.Name)
	defer func() { end(err) }()
	messages := append([]model.Message(nil), history...)
	add := func(m model.Message) error {
		messages = append(messages, m)
		return record(m)
	}
	if lastSaid(history) < 0 { // else the prompt may be another one by now
		rendered, err := Render(a.Prompt.Body, input)
		if err != nil {
			return Result{}, err
		}
		for _, m := range rendered[min(len(history), len(rendered)):] {
			if err := add(m); err != nil {
				return Result{}, err
			}
		}
	}
	for {
		said := lastSaid(messages)
		if said >= 0 && said == len(messages)-1 && len(messages[said].Calls) == 0 {
			result := Result{messages[said].Text, LastObject(messages[said].Text)}
			if result.Output != nil || !a.NeedsOutput || wasAsked(messages) || turns(messages) >= a.maxTurns() {
				return result, nil
			}
			if err := add(model.Message{Role: model.User, Text: askOutput}); err != nil {
				return Result{}, err
			}
		}
		if err := a.answerCalls(ctx, messages, said, add); err != nil {
			return Result{}, err
		}
		if turns(messages) >= a.maxTurns() {
			return Result{}, fmt.Errorf("%w: it has taken %d turns", ErrTooManyTurns, a.maxTurns())
		}
		m, err := a.generate(ctx, messages)
		if err != nil {
			return Result{}, err
		}
		if err := add(m); err != nil {
			return Result{}, err
		}
	}
}

// generate asks the model for its next message.
func (a *Agent) generate(ctx context.Context, messages []model.Message) (m model.Message, err error) {
	ctx, end := spans.Start(ctx, "model")
	defer func() { end(err) }()
	return a.Model.Generate(ctx, model.Request{Agent: a.Name, Visit: a.Visit, Config: a.Prompt.Config, Messages: messages, Tools: a.definitions()})
}

// answerCalls makes the calls of the newest message that have no answer yet.
func (a *Agent) answerCalls(ctx context.Context, messages []model.Message, said int, add func(model.Message) error) error {
	if said < 0 {
		return nil
	}
	done := len(messages) - said - 1
	for _, call := range messages[said].Calls[min(done, len(messages[said].Calls)):] {
		m := model.Message{Role: model.ToolRole, CallID: call.ID, Text: `{"error":"this agent has no tools"}`, Error: true}
		if a.Tools != nil {
			result := a.Tools.Call(ctx, call.Name, call.Args)
			m.Text, m.Error = result.Text(), result.IsError
			for _, image := range result.Images {
				m.Images = append(m.Images, model.Image(image))
			}
		}
		if err := ctx.Err(); err != nil {
			return err // not what the model should read
		}
		if err := add(m); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) definitions() []toolset.Tool {
	if a.Tools == nil {
		return nil
	}
	return a.Tools.Tools()
}

func (a *Agent) maxTurns() int {
	if a.MaxTurns > 0 {
		return a.MaxTurns
	}
	return defaultTurns
}

func lastSaid(messages []model.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == model.Assistant {
			return i
		}
	}
	return -1
}

// wasAsked reports whether the model was asked for its output.
func wasAsked(messages []model.Message) bool {
	return slices.ContainsFunc(messages, func(m model.Message) bool { return m.Role == model.User && m.Text == askOutput })
}

func turns(messages []model.Message) int {
	n := 0
	for _, m := range messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

// LastObject returns the last JSON object in a text that is in no other one, or nil.
func LastObject(text string) json.RawMessage {
	var last json.RawMessage
	for rest := []byte(text); ; {
		start := bytes.IndexByte(rest, '{')
		if start < 0 {
			return last
		}
		rest = rest[start:]
		decoder := json.NewDecoder(bytes.NewReader(rest))
		var object json.RawMessage
		if decoder.Decode(&object) != nil {
			rest = rest[1:]
			continue
		}
		last, rest = object, rest[decoder.InputOffset():]
	}
}
