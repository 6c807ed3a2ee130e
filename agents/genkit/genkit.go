// Package genkit gives agents of Genkit the sandbox tools that their prompt files
// ask for.
//
//	inject, err := genkit.New(toolset.Options{Client: client, Run: run, Agent: agent, Images: frontmatter.DefaultImages()})
//	list, err := inject.InjectSandboxTools(prompt.Sandbox, list)
package genkit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/api"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/agents/toolset"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Injector makes tools for the agents of one run.
type Injector struct{ opts toolset.Options }

// New returns an injector.
func New(o toolset.Options) *Injector { return &Injector{o} }

// Complete ends what the run's scope has, now or after a retention; of agents whose session is
// isolated, what that of the agent has.
func (i *Injector) Complete(ctx context.Context, retention time.Duration) error {
	var all []error
	for _, scope := range []tools.Scope{i.opts.Run, i.opts.Agent} {
		_, err := i.opts.Client.CompleteScope(ctx, scope.String(), &sandkasten.CompleteOptions{Retention: retention})
		all = append(all, err)
	}
	return errors.Join(all...)
}

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

// tool is one tool as Genkit calls it. Models are told of its schema, but Genkit does
// not check it: where a call does not fit, Genkit ends the agent, and the tool itself
// says what to send instead.
type tool struct {
	action
	schema map[string]any
}

// action is what Genkit makes of a function, with or without pictures in its answers.
type action interface {
	ai.Tool
	api.Action
}

// seen is the tool whose answers have pictures. Genkit calls such tools multipart.
const seen = "sandbox_run_code"

// anything is a schema that every call fits.
var anything = map[string]any{"additionalProperties": true}

func newTool(set *toolset.Toolset, one toolset.Tool) (*tool, error) {
	t := &tool{}
	if err := json.Unmarshal(one.Schema, &t.schema); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", one.Name, err)
	}
	call := func(ctx *ai.ToolContext, input any) (*ai.MultipartToolResponse, error) {
		args, err := json.Marshal(input)
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", one.Name, err)
		}
		result := set.Call(ctx, one.Name, args)
		var answer map[string]any
		if err := json.Unmarshal(result.JSON, &answer); err != nil {
			return nil, fmt.Errorf("answer of %s: %w", one.Name, err)
		}
		return &ai.MultipartToolResponse{Output: answer, Content: mediaParts(result.Images)}, nil
	}
	if one.Name == seen {
		t.action = ai.NewMultipartTool(one.Name, one.Description, call, ai.WithInputSchema(anything))
		return t, nil
	}
	plain := func(ctx *ai.ToolContext, input any) (any, error) {
		response, err := call(ctx, input)
		if err != nil {
			return nil, err
		}
		return response.Output, nil
	}
	t.action = ai.NewTool(one.Name, one.Description, plain, ai.WithInputSchema(anything))
	return t, nil
}

// mediaParts are pictures as Genkit gives them to models.
func mediaParts(images []tools.Image) []*ai.Part {
	var parts []*ai.Part
	for _, image := range images {
		parts = append(parts, ai.NewMediaPart(image.MIME, "data:"+image.MIME+";base64,"+base64.StdEncoding.EncodeToString(image.Data)))
	}
	return parts
}

// Desc is the tool as the registry shows it.
func (t *tool) Desc() api.ActionDesc {
	d := t.action.Desc()
	d.InputSchema = t.schema
	return d
}

// Definition is the tool as models are told of it.
func (t *tool) Definition() *ai.ToolDefinition {
	d := t.action.Definition()
	d.InputSchema = t.schema
	return d
}

// Register makes the tool known under its name.
func (t *tool) Register(r api.Registry) {
	r.RegisterAction(api.NewKey(api.ActionTypeToolV2, "", t.Name()), t)
}
