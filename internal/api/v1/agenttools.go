package v1

import (
	"context"
	"encoding/json"

	"github.com/sandkasten/sandkasten/agents/tools"
)

type agentToolsInput struct {
	Format string `query:"format" enum:"openai,anthropic,mcp" default:"openai" doc:"Whose form they have."`
}

type agentToolsOutput struct {
	Body []map[string]any `nullable:"false"`
}

func (s *surface) agentTools(_ context.Context, in *agentToolsInput) (*agentToolsOutput, error) {
	text, err := tools.Definitions(tools.Format(in.Format), tools.All())
	if err != nil {
		return nil, err
	}
	out := &agentToolsOutput{}
	return out, json.Unmarshal(text, &out.Body)
}
