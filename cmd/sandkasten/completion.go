package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/client"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `Put the line of your shell into its startup file:

  bash:  source <(sandkasten completion bash)
  zsh:   source <(sandkasten completion zsh)
  fish:  sandkasten completion fish | source`
}

// scripts hand the words before the cursor, and the one at it, to
// __complete, which knows the commands: the scripts never grow old.
var scripts = map[string]string{
	"bash": `_sandkasten() {
	local IFS=$'\n'
	COMPREPLY=($(sandkasten __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _sandkasten sandkasten
`,
	"zsh": `#compdef sandkasten
_sandkasten() {
	local -a found
	found=("${(@f)$(sandkasten __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "$found" ]]; then compadd -- $found; else _files; fi
}
compdef _sandkasten sandkasten
`,
	"fish": `complete -c sandkasten -a '(sandkasten __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

func (c completionCmd) Run(a *cli.App) error {
	_, err := fmt.Fprint(a.Out, scripts[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"partial"`
}

func (c completeCmd) Run(ctx context.Context, a *cli.App, parser *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	node := follow(parser.Model.Node, words[:len(words)-1])
	for _, candidate := range c.candidates(ctx, a, node, last) {
		if strings.HasPrefix(candidate, last) {
			if _, err := fmt.Fprintln(a.Out, candidate); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow walks down the commands that words name, past flags and arguments.
func follow(node *kong.Node, words []string) *kong.Node {
	for _, word := range words {
		for _, child := range node.Children {
			if child.Name == word {
				node = child
				break
			}
		}
	}
	return node
}

func (c completeCmd) candidates(ctx context.Context, a *cli.App, node *kong.Node, last string) []string {
	var found []string
	if strings.HasPrefix(last, "-") {
		for _, flags := range node.AllFlags(true) {
			for _, f := range flags {
				found = append(found, "--"+f.Name)
			}
		}
		return found
	}
	for _, child := range node.Children {
		if !child.Hidden {
			found = append(found, child.Name)
		}
	}
	for _, arg := range node.Positional {
		switch arg.Name {
		case "session":
			found = append(found, c.sessions(ctx, a)...)
		case "exec":
			found = append(found, c.execs(ctx, a)...)
		}
	}
	return found
}

// execs lists the execs of the session among the words before.
func (c completeCmd) execs(ctx context.Context, a *cli.App) []string {
	var ids []string
	for _, session := range c.sessions(ctx, a) {
		if slices.Contains(c.Words, session) {
			ids = append(ids, c.execsOf(ctx, a, session)...)
		}
	}
	return ids
}

func (completeCmd) execsOf(ctx context.Context, a *cli.App, session string) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cl, err := a.Client()
	if err != nil {
		return nil
	}
	defer cl.Close()
	list, err := cl.Execs(ctx, session)
	if err != nil {
		return nil
	}
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = show.Printable(r.ID)
	}
	return ids
}

// patience is how long somebody who pressed Tab waits for a daemon.
const patience = time.Second

// sessions lists ids. Without a daemon there is nothing to offer.
func (completeCmd) sessions(ctx context.Context, a *cli.App) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cl, err := a.Client()
	if err != nil {
		return nil
	}
	defer cl.Close()
	list, err := cl.Sessions(ctx, client.Living)
	if err != nil {
		return nil
	}
	ids := make([]string, len(list))
	for i, s := range list {
		ids[i] = show.Printable(s.ID)
	}
	return ids
}
