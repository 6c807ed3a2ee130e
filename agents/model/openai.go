package model

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
)

// openAI is a model behind a chat completions API.
type openAI struct {
	model string
	api   endpoint
}

type openAIMessage struct {
	Role      string       `json:"role"`
	Content   any          `json:"content"` // a text, parts, or null
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
	Model       string          `json:"model"`
	Messages    []openAIMessage `json:"messages"`
	Tools       []openAITool    `json:"tools,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"top_p,omitempty"`
	Stop        []string        `json:"stop,omitempty"`

	// OpenAI's own models know the first and refuse the second, and compatible
	// servers often know only the second.
	MaxCompletionTokens int `json:"max_completion_tokens,omitempty"`
	MaxTokens           int `json:"max_tokens,omitempty"`
}

// ownOpenAI is the address of OpenAI's own API.
const ownOpenAI = "https://api.openai.com/v1"

// request is what is sent.
func (m *openAI) request(r Request) openAIRequest {
	body := openAIRequest{Model: m.model, Temperature: r.Config.Temperature, TopP: r.Config.TopP, Stop: r.Config.StopSequences}
	if m.api.base == ownOpenAI {
		body.MaxCompletionTokens = r.Config.MaxOutputTokens
	} else {
		body.MaxTokens = r.Config.MaxOutputTokens
	}
	for _, tool := range r.Tools {
		body.Tools = append(body.Tools, openAITool{"function", openAIToolFunction{tool.Name, tool.Description, tool.Schema}})
	}
	var seen []openAIPart // pictures, which the API takes of no tool, but behind all answers of a turn
	for i, one := range r.Messages {
		message := openAIMessage{Role: one.Role, CallID: one.CallID}
		if one.Text != "" || len(one.Calls) == 0 {
			message.Content = one.Text
		}
		for _, call := range one.Calls {
			message.ToolCalls = append(message.ToolCalls, openAICall{call.ID, "function", openAIFunction{call.Name, string(call.Args)}})
		}
		body.Messages = append(body.Messages, message)
		for _, image := range one.Images {
			seen = append(seen, openAIPart{Type: "image_url", ImageURL: &openAIImage{"data:" + image.MIME + ";base64," + base64.StdEncoding.EncodeToString(image.Data)}})
		}
		if len(seen) > 0 && (i+1 == len(r.Messages) || r.Messages[i+1].Role != ToolRole) {
			text := openAIPart{Type: "text", Text: "The pictures that the tools made, in their order."}
			body.Messages = append(body.Messages, openAIMessage{Role: User, Content: append([]openAIPart{text}, seen...)})
			seen = nil
		}
	}
	return body
}

type openAIPart struct {
	Type     string       `json:"type"`
	Text     string       `json:"text,omitempty"`
	ImageURL *openAIImage `json:"image_url,omitempty"`
}

type openAIImage struct {
	URL string `json:"url"`
}

func (m *openAI) Generate(ctx context.Context, r Request) (Message, error) {
	var answer struct {
		Choices []struct {
			Message struct {
				openAIMessage

				Refusal string
			}
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := m.api.post(ctx, "/chat/completions", m.request(r), &answer); err != nil {
		return Message{}, err
	}
	if len(answer.Choices) == 0 {
		return Message{}, errEmpty
	}
	said := answer.Choices[0].Message
	message := Message{Role: Assistant}
	if text, ok := said.Content.(string); ok {
		message.Text = text
	}
	for _, call := range said.ToolCalls {
		message.Calls = append(message.Calls, Call{call.ID, call.Function.Name, arguments(call.Function.Arguments)})
	}
	why := answer.Choices[0].FinishReason
	if why == "content_filter" {
		return message, message.whole(false, cmp.Or(said.Refusal, "its filter of contents has cut the answer"))
	}
	return message, message.whole(why == "length", said.Refusal)
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
