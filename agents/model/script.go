package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Script is a model that says what a file has. It has no memory: what it says
// depends on the conversation alone, so a run that was interrupted goes on with it.
//
//	agents:
//	  code-fixer:            # the name of the prompt file, without .prompt
//	    - - calls:           # the first time that the agent is begun
//	          - {tool: sandbox_open}
//	      - calls:
//	          - {tool: sandbox_exec, args: {sandbox_id: "${sandbox_id}", cmd: [make]}}
//	      - text: '{"exit_code": ${exit_code}}'
//
// ${NAME} is the field of the newest answer of a tool that has it. An agent that is
// begun more often than the script knows does what it did last.
type Script struct {
	Agents map[string][][]Turn `yaml:"agents"`
}

// Turn is one message of a script.
type Turn struct {
	Text  string       `yaml:"text"`
	Calls []ScriptCall `yaml:"calls"`
}

// ScriptCall is a call of a tool.
type ScriptCall struct {
	Tool string         `yaml:"tool"`
	Args map[string]any `yaml:"args"`
}

// LoadScript reads a script.
func LoadScript(file string) (*Script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the script: %w", err)
	}
	var s Script
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the script %s: %w", file, err)
	}
	return &s, nil
}

// Generate returns the turn that follows those that the agent has taken.
func (s *Script) Generate(_ context.Context, r Request) (Message, error) {
	visits := s.Agents[r.Agent]
	if len(visits) == 0 {
		return Message{}, fmt.Errorf("the script has no agent %q", r.Agent)
	}
	turns := visits[min(max(r.Visit, 1), len(visits))-1]
	taken := 0
	for _, m := range r.Messages {
		if m.Role == Assistant {
			taken++
		}
	}
	if taken >= len(turns) {
		return Message{}, fmt.Errorf("the script of %s ends after %d turns, and the last one calls tools; add one with a text", r.Agent, len(turns))
	}
	turn, known := turns[taken], answered(r.Messages)
	m := Message{Role: Assistant, Text: fill(turn.Text, known, false)}
	for i, call := range turn.Calls {
		args := json.RawMessage("{}")
		if call.Args != nil {
			text, err := json.Marshal(call.Args)
			if err != nil {
				return Message{}, fmt.Errorf("arguments of %s in the script: %w", call.Tool, err)
			}
			args = json.RawMessage(fill(string(text), known, true))
		}
		m.Calls = append(m.Calls, Call{fmt.Sprintf("call-%d-%d", taken+1, i+1), call.Tool, args})
	}
	return m, nil
}

// answered is all fields of tools' answers, the newest of each name.
func answered(messages []Message) map[string]any {
	known := map[string]any{}
	for _, m := range messages {
		if m.Role == ToolRole {
			_ = json.Unmarshal([]byte(m.Text), &known) // what is no object has no fields
		}
	}
	return known
}

var placeholder = regexp.MustCompile(`\$\{[a-z_0-9]+\}`)

// fill puts fields in. Within JSON, placeholders are in strings already.
func fill(text string, known map[string]any, quoted bool) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		value, found := known[name[2:len(name)-1]]
		if !found {
			return name
		}
		plain, isText := value.(string)
		if isText && !quoted {
			return plain
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return name
		}
		if isText {
			return string(encoded[1 : len(encoded)-1])
		}
		return string(encoded)
	})
}
