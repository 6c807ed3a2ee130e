// Package genkit gives agents of Genkit the sandbox tools that their prompt files
// ask for.
//
//	inject, err := genkit.New(toolset.Options{Client: client, Run: run, Agent: agent, Images: frontmatter.DefaultImages()})
//	list, err := inject.InjectSandboxTools(prompt.Sandbox, list)
package genkit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/firebase/genkit/go/ai"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/toolset"
)

// Injector makes tools for the agents of one run.
type Injector struct{ opts toolset.Options }

// New returns an injector.
func New(o toolset.Options) *Injector { return &Injector{o} }

// InjectSandboxTools adds the tools of a sandbox block to others: sandbox_run in
// mode compute, the rest in mode code. Without a block it adds none.
func (i *Injector) InjectSandboxTools(cfg *frontmatter.Sandbox, list []ai.Tool) ([]ai.Tool, error) {
	if cfg == nil {
		return list, nil
	}
	set, err := toolset.New(cfg, i.opts)
	if err != nil {
		return nil, err
	}
	for _, one := range set.Tools() {
		tool, err := newTool(set, one)
		if err != nil {
			return nil, err
		}
		list = append(list, tool)
	}
	return list, nil
}

// newTool is one tool as Genkit calls it. It answers with an object also where it
// could not do it, for a model mends its call where Genkit would end the agent.
func newTool(set *toolset.Toolset, one toolset.Tool) (ai.Tool, error) {
	var schema map[string]any
	if err := json.Unmarshal(one.Schema, &schema); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", one.Name, err)
	}
	call := func(ctx *ai.ToolContext, input any) (any, error) {
		args, err := json.Marshal(input)
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", one.Name, err)
		}
		var answer map[string]any
		if err := json.Unmarshal(set.Call(context.Context(ctx), one.Name, args).JSON, &answer); err != nil {
			return nil, fmt.Errorf("answer of %s: %w", one.Name, err)
		}
		return answer, nil
	}
	return ai.NewTool(one.Name, one.Description, call, ai.WithInputSchema(schema)), nil
}
