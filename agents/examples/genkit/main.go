// Command genkit is an agent of Genkit that runs its code in a sandbox. It works without a
// model's key, with a model whose answers are written down:
//
//	go run ./examples/genkit
//
// For a real one, give Genkit its plugin and name the model in Generate.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	sandbox "github.com/sandkasten/sandkasten/agents/genkit"
	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/agents/toolset"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// program is what the scripted model runs.
const program = "print([n for n in range(2, 30) if all(n % d for d in range(2, n))])"

func main() {
	client, err := sandkasten.New(sandkasten.Options{}) // of SANDKASTEN_URL and SANDKASTEN_API_KEY
	if err == nil {
		err = run(context.Background(), client, os.Stdout) //nolint:forbidigo // it is the whole program
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // nothing is left to clean up
	}
}

func run(ctx context.Context, client *sandkasten.Client, out io.Writer) (err error) {
	g := genkit.Init(ctx)
	genkit.DefineModelAction(g, "scripted/model", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, scripted)
	id := rand.Text()
	inject := sandbox.New(toolset.Options{
		Client: client, Images: frontmatter.DefaultImages(), Run: tools.Scope{Namespace: "workflow", ID: id}, Agent: tools.Scope{Namespace: "agent", ID: id},
	})
	list, err := inject.InjectSandboxTools(&frontmatter.Sandbox{Mode: frontmatter.Compute, Runtime: "python"}, nil)
	if err != nil {
		return err
	}
	var refs []ai.ToolRef
	for _, tool := range list {
		refs = append(refs, tool)
	}
	answer, err := genkit.Generate(ctx, g, ai.WithModelName("scripted/model"), ai.WithPrompt("Print the first 10 prime numbers."), ai.WithTools(refs...))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, answer.Text())
	return err
}

// scripted calls sandbox_run once, and repeats what that answers.
func scripted(_ context.Context, r *ai.ModelRequest, _ map[string]any, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	for _, m := range r.Messages {
		for _, part := range m.Content {
			if !part.IsToolResponse() {
				continue
			}
			text, err := json.Marshal(part.ToolResponse.Output)
			if err != nil {
				return nil, err
			}
			return &ai.ModelResponse{Request: r, Message: ai.NewModelTextMessage("The sandbox answered: " + string(text))}, nil
		}
	}
	call := &ai.ToolRequest{Name: "sandbox_run", Input: map[string]any{"code": program}}
	return &ai.ModelResponse{Request: r, Message: ai.NewModelMessage(ai.NewToolRequestPart(call))}, nil
}
