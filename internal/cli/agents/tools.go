package agents

import (
	"fmt"

	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/internal/cli"
)

// ToolsCmd is `sandkasten tools`.
type ToolsCmd struct {
	Format string `enum:"openai,anthropic,mcp,table" default:"openai" placeholder:"FORM" help:"For which API: openai, anthropic or mcp; or a table for people."`
}

// Help is what --help adds.
func (ToolsCmd) Help() string {
	return `Prints the definitions that a model's API takes, as JSON.

  sandkasten tools --format anthropic
  sandkasten tools --format table`
}

// Run implements the command.
func (c ToolsCmd) Run(a *cli.App) error {
	text := tools.Table(tools.All())
	if c.Format != "table" {
		definitions, err := tools.Definitions(tools.Format(c.Format), tools.All())
		if err != nil {
			return err
		}
		text = string(definitions) + "\n"
	}
	_, err := fmt.Fprint(a.Out, text)
	return err
}
