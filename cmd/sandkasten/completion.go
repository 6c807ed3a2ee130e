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
	"github.com/sandkasten/sandkasten/sdk/go"
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
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	node := follow(parser.Model.Node, words[:len(words)-1])
	candidates, isValue := c.values(ctx, a, node, before, last)
	if !isValue {
		candidates = c.candidates(ctx, a, node, last)
	}
	for _, candidate := range candidates {
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

// offers are what completes arguments and flags of these names.
func (c completeCmd) offers(name string) func(context.Context, *cli.App) []string {
	return map[string]func(context.Context, *cli.App) []string{
		"session": c.sessions, "exec": c.execs, "workspace": c.workspaces, "secret": c.secrets, "user": c.users, "key": c.keys,
		"image": c.images, "images": c.images, "snapshot": c.snapshots, "restore": c.snapshots,
	}[name]
}

// values are those of the flag that is the word before, if it names what it takes.
func (c completeCmd) values(ctx context.Context, a *cli.App, node *kong.Node, before, last string) (found []string, ok bool) {
	for _, flags := range node.AllFlags(true) {
		for _, f := range flags {
			offer := c.offers(f.Name)
			switch {
			case "--"+f.Name != before && (f.Short == 0 || "-"+string(f.Short) != before) || f.IsBool():
			case offer != nil:
				return offer(ctx, a), true
			case f.Enum != "":
				head := ""
				if f.IsSlice() {
					head = last[:strings.LastIndexByte(last, ',')+1] // of a list
				}
				for value := range strings.SplitSeq(f.Enum, ",") {
					if value != "" {
						found = append(found, head+value)
					}
				}
				return found, true
			}
		}
	}
	return nil, false
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
		if offer := c.offers(arg.Name); offer != nil {
			found = append(found, offer(ctx, a)...)
		}
	}
	return found
}

// execs lists the execs of the session among the words before.
func (c completeCmd) execs(ctx context.Context, a *cli.App) []string {
	var found []string
	for _, session := range c.sessions(ctx, a) {
		if slices.Contains(c.Words, session) {
			found = append(found, ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]sandkasten.ExecRecord, error) {
				return cl.Session(session).ListExecs(ctx)
			}, func(r sandkasten.ExecRecord) string { return r.ExecID })...)
		}
	}
	return found
}

// sessions are the ids of all, and their names.
func (completeCmd) sessions(ctx context.Context, a *cli.App) []string {
	var names []string
	found := ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]*sandkasten.Session, error) {
		return cl.ListSessions(ctx, &sandkasten.ListSessionsOptions{Mine: true})
	}, func(s *sandkasten.Session) string {
		if s.Info.Name != "" {
			names = append(names, s.Info.Name)
		}
		return s.ID
	})
	return append(found, names...)
}

func (completeCmd) secrets(ctx context.Context, a *cli.App) []string {
	return ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]sandkasten.Secret, error) {
		return cl.ListSecrets(ctx)
	}, func(s sandkasten.Secret) string { return s.Name })
}

func (completeCmd) users(ctx context.Context, a *cli.App) []string {
	return ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]sandkasten.User, error) {
		return cl.ListUsers(ctx)
	}, func(u sandkasten.User) string { return u.Name })
}

func (completeCmd) keys(ctx context.Context, a *cli.App) []string {
	return ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]sandkasten.Key, error) {
		return cl.ListKeys(ctx, "")
	}, func(k sandkasten.Key) string { return k.ID })
}

// images are the names of all.
func (completeCmd) images(ctx context.Context, a *cli.App) []string {
	var names []string
	ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]sandkasten.Image, error) {
		return cl.ListImages(ctx)
	}, func(i sandkasten.Image) string {
		names = append(names, i.Names...)
		return ""
	})
	return names
}

func (completeCmd) snapshots(ctx context.Context, a *cli.App) []string {
	return ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]sandkasten.Snapshot, error) {
		return cl.ListSnapshots(ctx, nil)
	}, func(s sandkasten.Snapshot) string { return s.ID })
}

func (completeCmd) workspaces(ctx context.Context, a *cli.App) []string {
	return ids(ctx, a, func(ctx context.Context, cl *sandkasten.Client) ([]*sandkasten.Workspace, error) {
		return cl.ListWorkspaces(ctx)
	}, func(w *sandkasten.Workspace) string { return w.ID })
}

// patience is how long somebody who pressed Tab waits for a daemon.
const patience = time.Second

// ids asks the daemon for ids. Without one there is nothing to offer.
func ids[T any](ctx context.Context, a *cli.App, list func(context.Context, *sandkasten.Client) ([]T, error), id func(T) string) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cl, err := a.Client()
	if err != nil {
		return nil
	}
	defer cl.Close()
	all, err := list(ctx, cl)
	if err != nil {
		return nil
	}
	found := make([]string, len(all))
	for i, one := range all {
		found[i] = show.Printable(id(one))
	}
	return found
}
