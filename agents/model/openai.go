package model

import (
	"context"
	"encoding/json"
)

// openAI is a model behind a chat completions API.
type openAI struct {
	model string
	api   endpoint
}

type openAIMessage struct {
	Role      string       `json:"role"`
	Content   *string      `json:"content"`
	ToolCalls []openAICall `json:"tool_calls,omitempty"`
	CallID    string       `json:"tool_call_id,omitempty"`
}

type openAICall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type openAITool struct {
	Type     string             `json:"type"`
	Function openAIToolFunction `json:"function"`
}

type openAIToolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type openAIRequest struct {
	Model    string          `json:"model"`
	Messages []openAIMessage `json:"messages"`
	Tools    []openAITool    `json:"tools,omitempty"`
}

func (m *openAI) Generate(ctx context.Context, r Request) (Message, error) {
	body := openAIRequest{Model: m.model}
	for _, tool := range r.Tools {
		body.Tools = append(body.Tools, openAITool{"function", openAIToolFunction{tool.Name, tool.Description, tool.Schema}})
	}
	for _, one := range r.Messages {
		message := openAIMessage{Role: one.Role, CallID: one.CallID}
		if one.Text != "" || len(one.Calls) == 0 {
			message.Content = &one.Text
		}
		for _, call := range one.Calls {
			message.ToolCalls = append(message.ToolCalls, openAICall{call.ID, "function", openAIFunction{call.Name, string(call.Args)}})
		}
		body.Messages = append(body.Messages, message)
	}
	var answer struct {
		Choices []struct{ Message openAIMessage }
	}
	if err := m.api.post(ctx, "/chat/completions", body, &answer); err != nil {
		return Message{}, err
	}
	if len(answer.Choices) == 0 {
		return Message{}, errEmpty
	}
	said := answer.Choices[0].Message
	message := Message{Role: Assistant}
	if said.Content != nil {
		message.Text = *said.Content
	}
	for _, call := range said.ToolCalls {
		message.Calls = append(message.Calls, Call{call.ID, call.Function.Name, arguments(call.Function.Arguments)})
	}
	return message, nil
}

// arguments are what a model wrote, which may be no JSON. As a string they are, and
// the tool says what is wrong with them.
func arguments(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}
