package v1

import (
	"context"
	"encoding/json"

	"github.com/sandkasten/sandkasten/agents/tools"
)

// AgentTool is the definition of a tool: with function for OpenAI, input_schema for
// Anthropic and inputSchema for MCP.
type AgentTool struct {
	Type           string         `json:"type,omitempty" doc:"Of format openai: function." example:"function"`
	Function       *AgentFunction `json:"function,omitempty" doc:"Of format openai."`
	Name           string         `json:"name,omitempty" doc:"Of the other formats."`
	Title          string         `json:"title,omitempty" doc:"Of format mcp."`
	Description    string         `json:"description,omitempty" doc:"Of the other formats."`
	InputSchema    map[string]any `json:"input_schema,omitempty" doc:"Of format anthropic."`
	MCPInputSchema map[string]any `json:"inputSchema,omitempty" doc:"Of format mcp."`
	OutputSchema   map[string]any `json:"outputSchema,omitempty" doc:"Of format mcp."`
	Annotations    map[string]any `json:"annotations,omitempty" doc:"Of format mcp."`
}

// AgentFunction is a tool as OpenAI's API has it.
type AgentFunction struct {
	Name        string         `json:"name" example:"sandbox_open"`
	Description string         `json:"description" example:"Open or resume a Linux sandbox."`
	Parameters  map[string]any `json:"parameters" doc:"The JSON schema of its input." example:"{\"type\":\"object\"}"`
}

type agentToolsInput struct {
	Format string `query:"format" enum:"openai,anthropic,mcp" default:"openai" doc:"Whose form they have."`
}

type agentToolsOutput struct {
	Body []AgentTool `nullable:"false"`
}

func (s *surface) agentTools(_ context.Context, in *agentToolsInput) (*agentToolsOutput, error) {
	text, err := tools.Definitions(tools.Format(in.Format), tools.Offered(false, s.opts.AgentFiles))
	if err != nil {
		return nil, err
	}
	out := &agentToolsOutput{}
	return out, json.Unmarshal(text, &out.Body)
}
