package model

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
)

// anthropic is a model behind a messages API.
type anthropic struct {
	model string
	api   endpoint
}

// maxTokens is how long an answer may be where the prompt file does not say. The API
// wants a number.
const maxTokens = 8192

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   any             `json:"content,omitempty"` // of a tool's result: a text, or blocks
	IsError   bool            `json:"is_error,omitempty"`

	Source *anthropicSource `json:"source,omitempty"`
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

// toolContent is what a tool has answered: a text, or with pictures blocks.
func toolContent(m Message) any {
	if len(m.Images) == 0 {
		return m.Text
	}
	blocks := []anthropicBlock{{Type: "text", Text: m.Text}}
	for _, image := range m.Images {
		blocks = append(blocks, anthropicBlock{Type: "image", Source: &anthropicSource{"base64", image.MIME, image.Data}})
	}
	return blocks
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	System    string             `json:"system,omitempty"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     []anthropicTool    `json:"tools,omitempty"`

	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	Stop        []string `json:"stop_sequences,omitempty"`
}

func (m *anthropic) Generate(ctx context.Context, r Request) (Message, error) {
	body := anthropicRequest{
		Model: m.model, MaxTokens: cmp.Or(r.Config.MaxOutputTokens, maxTokens),
		Temperature: r.Config.Temperature, TopP: r.Config.TopP, Stop: r.Config.StopSequences,
	}
	for _, tool := range r.Tools {
		body.Tools = append(body.Tools, anthropicTool{tool.Name, tool.Description, tool.Schema})
	}
	for _, one := range r.Messages {
		if one.Role == System {
			body.System = joinText(body.System, one.Text)
			continue
		}
		body.add(one)
	}
	var answer struct {
		anthropicMessage

		StopReason string `json:"stop_reason"`
	}
	if err := m.api.post(ctx, "/v1/messages", body, &answer); err != nil {
		return Message{}, err
	}
	message := Message{Role: Assistant}
	for _, block := range answer.Content {
		switch block.Type {
		case "text":
			message.Text = joinText(message.Text, block.Text)
		case "tool_use":
			message.Calls = append(message.Calls, Call{block.ID, block.Name, arguments(string(block.Input))})
		}
	}
	if answer.StopReason == "refusal" {
		return message, message.whole(false, cmp.Or(message.Text, "it gave no reason"))
	}
	if len(answer.Content) == 0 {
		return message, errEmpty
	}
	cut := answer.StopReason == "max_tokens" || answer.StopReason == "model_context_window_exceeded"
	if cut && answer.Content[len(answer.Content)-1].Type == "tool_use" {
		// The API closes what it cut: an object without the fields that were to come.
		message.Calls[len(message.Calls)-1].Args = cutArguments
	}
	return message, message.whole(cut, "")
}

// add appends a message. The API wants all answers to one message's calls in one
// message of the user.
func (r *anthropicRequest) add(m Message) {
	role := m.Role
	var blocks []anthropicBlock
	switch {
	case m.Role == ToolRole:
		role = User
		blocks = append(blocks, anthropicBlock{Type: "tool_result", ToolUseID: m.CallID, Content: toolContent(m), IsError: m.Error})
	case strings.TrimSpace(m.Text) != "": // the API takes no other, which models say at times
		blocks = append(blocks, anthropicBlock{Type: "text", Text: m.Text})
	}
	for _, call := range m.Calls {
		input := call.Args
		if len(input) == 0 || input[0] != '{' { // the API takes only objects
			input = json.RawMessage("{}")
		}
		blocks = append(blocks, anthropicBlock{Type: "tool_use", ID: call.ID, Name: call.Name, Input: input})
	}
	if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == role {
		r.Messages[last].Content = append(r.Messages[last].Content, blocks...)
		return
	}
	r.Messages = append(r.Messages, anthropicMessage{role, blocks})
}

func joinText(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}
