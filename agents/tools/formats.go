package tools

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Format is a way to tell a model's API of tools.
type Format string

// The formats.
const (
	OpenAI    Format = "openai"
	Anthropic Format = "anthropic"
	MCP       Format = "mcp"
)

// Formats are all of them.
var Formats = []Format{OpenAI, Anthropic, MCP}

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type mcpTool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	Annotations mcpAnnotations  `json:"annotations"`
}

type mcpAnnotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

// Definitions is the list of tools in a format, as JSON.
func Definitions(format Format, list []Tool) (json.RawMessage, error) {
	all := make([]any, len(list))
	for i, t := range list {
		switch format {
		case OpenAI:
			all[i] = openAITool{"function", openAIFunction{t.Name, t.Description, t.Schema()}}
		case Anthropic:
			all[i] = anthropicTool{t.Name, t.Description, t.Schema()}
		case MCP:
			all[i] = mcpTool{
				t.Name, t.Title, t.Description, t.Schema(), t.Output(), mcpAnnotations{ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent},
			}
		default:
			return nil, fmt.Errorf("the format %q must be one of openai, anthropic and mcp", string(format))
		}
	}
	return encode(all), nil
}

// Table is the tools as a table in Markdown, for documents.
func Table(list []Tool) string {
	var b strings.Builder
	b.WriteString("| Tool | Input | What it does |\n| --- | --- | --- |\n")
	for _, t := range list {
		var fields []string
		for _, f := range t.input {
			name := "`" + f.name + "`"
			if f.required {
				name = "**" + name + "**"
			}
			fields = append(fields, name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", t.Name, strings.Join(fields, ", "), strings.ReplaceAll(t.Description, "|", "\\|"))
	}
	return b.String()
}
