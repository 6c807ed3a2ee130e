// Command sandkasten-agent runs agents and workflows of agents with sandboxes of a
// Sandkasten daemon, which it finds by SANDKASTEN_URL and SANDKASTEN_API_KEY.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/agents/agent"
	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/model"
	"github.com/sandkasten/sandkasten/agents/spans"
	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/agents/toolset"
	"github.com/sandkasten/sandkasten/agents/workflow"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type cli struct {
	Run      runCommand `cmd:"" help:"Run an agent's prompt file."`
	Workflow struct {
		Run workflowCommand `cmd:"" help:"Run a workflow, or go on with a run of it."`
		End endCommand      `cmd:"" help:"Give up a run and end its sandboxes."`
	} `cmd:"" help:"Workflows of agents."`
}

// common is what agents need, alone or in a workflow.
type common struct {
	Model    string            `help:"Instead of the prompt files' own: openai/NAME, anthropic/NAME or script:FILE."`
	Input    string            `help:"What the user says; - reads it from standard input."`
	Images   map[string]string `help:"Aliases of images, as python:3.13=my-python." placeholder:"NAME=IMAGE"`
	Files    string            `help:"Directory of files that agents stage and publish." type:"existingdir"`
	MaxTurns int               `help:"Of a model in one agent." default:"100"`
}

// store is that of the directory of files, or nil. The caller ends it.
func (c *common) store() (store tools.FileStore, end func() error, err error) {
	if c.Files == "" {
		return nil, func() error { return nil }, nil
	}
	dir, err := tools.OpenDir(c.Files)
	if err != nil {
		return nil, nil, err
	}
	return dir, dir.Close, nil
}

func (c *common) images() frontmatter.Images { return frontmatter.DefaultImages().With(c.Images) }

func (c *common) newModel(ofPrompt string) (model.Model, error) {
	if c.Model != "" {
		return model.New(c.Model)
	}
	if ofPrompt == "" {
		return nil, errors.New("the prompt file names no model; add one, or say --model")
	}
	return model.New(ofPrompt)
}

func (c *common) input() (string, error) {
	if c.Input != "-" {
		return c.Input, nil
	}
	text, err := io.ReadAll(os.Stdin)
	return strings.TrimSpace(string(text)), err
}

type runCommand struct {
	common
	File string `arg:"" help:"Prompt file."`
}

type workflowCommand struct {
	common
	File      string        `arg:"" help:"Workflow file."`
	ID        string        `name:"run" help:"Id of the run. One that was interrupted goes on."`
	Prompts   []string      `help:"Directories of the prompt files: that of the workflow, and agents in it."`
	Journals  string        `help:"Directory of the runs' journals." env:"SANDKASTEN_AGENT_JOURNALS"`
	MaxSteps  int           `help:"Of the run." default:"100"`
	Retention time.Duration `help:"How long the sandboxes stay after the run."`
	Lease     time.Duration `help:"How long they stay if this program is killed." default:"${lease}"`
}

type endCommand struct {
	ID       string `arg:"" name:"run" help:"Id of the run."`
	Journals string `help:"Directory of the runs' journals." env:"SANDKASTEN_AGENT_JOURNALS"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var c cli
	command := kong.Parse(&c, kong.Name("sandkasten-agent"), kong.Description("Runs agents and workflows of agents in sandboxes."),
		kong.UsageOnError(), kong.BindTo(ctx, (*context.Context)(nil)), kong.Vars{"lease": tools.Lease.String()})
	err := traced(ctx, func() error { return command.Run() })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandkasten-agent:", err)
		os.Exit(1)
	}
}

// traced sends the traces of do where the environment says.
func traced(ctx context.Context, do func() error) error {
	stop, err := spans.Export(ctx, "sandkasten-agent")
	if err != nil {
		return err
	}
	err = do()
	if lost := stop(); lost != nil {
		fmt.Fprintln(os.Stderr, "sandkasten-agent:", lost)
	}
	return err
}

// newClient is the daemon of the environment. Its spans come below ours.
func newClient() (*sandkasten.Client, error) {
	return sandkasten.New(sandkasten.Options{WrapTransport: spans.Transport})
}

func (c *runCommand) Run(ctx context.Context) (err error) {
	prompt, err := frontmatter.Load(c.File)
	if err != nil {
		return err
	}
	one := &agent.Agent{Name: strings.TrimSuffix(filepath.Base(c.File), ".prompt"), Visit: 1, Prompt: prompt, MaxTurns: c.MaxTurns}
	if one.Model, err = c.newModel(prompt.Model); err != nil {
		return err
	}
	input, err := c.input()
	if err != nil {
		return err
	}
	set, end, err := c.tools(ctx, prompt.Sandbox)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	one.Tools = set
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	result, err := one.Run(ctx, map[string]any{"userInput": input, "input": input}, nil, func(m model.Message) error {
		for _, call := range m.Calls {
			log.Info("call", "tool", call.Name)
		}
		if m.Error {
			log.Warn("a tool refused", "answer", m.Text)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, result.Text)
	return err
}

// tools are those of a sandbox block, or nil without one. The caller ends what they
// have made.
func (c *runCommand) tools(ctx context.Context, s *frontmatter.Sandbox) (set *toolset.Toolset, end func() error, err error) {
	if s == nil {
		return nil, func() error { return nil }, nil
	}
	client, err := newClient()
	if err != nil {
		return nil, nil, err
	}
	files, closeFiles, err := c.store()
	if err != nil {
		return nil, nil, err
	}
	scope := tools.Scope{Namespace: "agent", ID: newRun("run")}
	set, err = toolset.New(s, toolset.Options{Client: client, Run: scope, Agent: scope, Images: c.images(), Files: files})
	if err != nil {
		return nil, nil, errors.Join(err, closeFiles())
	}
	release, err := tools.Hold(ctx, client, scope, 0, func(err error) { slog.Warn("the daemon does not answer", "err", err) })
	if err != nil {
		return nil, nil, errors.Join(err, closeFiles())
	}
	return set, func() error {
		release()
		return errors.Join(complete(ctx, client, scope), closeFiles())
	}, nil
}

// complete ends an agent's sandboxes, also where it was asked to stop.
func complete(ctx context.Context, client *sandkasten.Client, scope tools.Scope) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, err := client.CompleteScope(ctx, scope.String(), nil); err != nil {
		return fmt.Errorf("end the sandboxes of %s: %w", scope, err)
	}
	return nil
}

func (c *workflowCommand) Run(ctx context.Context) (err error) {
	w, err := workflow.Load(c.File)
	if err != nil {
		return err
	}
	input, err := c.input()
	if err != nil {
		return err
	}
	client, err := newClient()
	if err != nil {
		return err
	}
	journals, err := journalDir(c.Journals)
	if err != nil {
		return err
	}
	files, end, err := c.store()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	id := c.ID
	if id == "" {
		id = newRun(w.ID)
		fmt.Fprintf(os.Stderr, "run %s; if it is interrupted, --run %s goes on with it\n", id, id)
	}
	prompts := c.Prompts
	if len(prompts) == 0 {
		dir := filepath.Dir(c.File)
		prompts = []string{dir, filepath.Join(dir, "agents")}
	}
	outcome, err := workflow.Run(ctx, w, id, input, workflow.Options{
		Client: client, Journals: journals, Prompts: prompts, Model: c.newModel, Images: c.images(), Files: files,
		MaxSteps: c.MaxSteps, MaxTurns: c.MaxTurns, Retention: c.Retention, Lease: c.Lease, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return fmt.Errorf("the run %s is interrupted: %w", id, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
		return err
	}
	if outcome.Error != "" {
		return fmt.Errorf("the run %s has failed: %s", id, outcome.Error)
	}
	return nil
}

func (c *endCommand) Run(ctx context.Context) error {
	client, err := newClient()
	if err != nil {
		return err
	}
	journals, err := journalDir(c.Journals)
	if err != nil {
		return err
	}
	return workflow.End(ctx, c.ID, workflow.Options{Client: client, Journals: journals})
}

// journalDir is where the user's programs keep their state.
func journalDir(asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "sandkasten", "runs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for journals; say --journals: %w", err)
	}
	return filepath.Join(home, ".local", "state", "sandkasten", "runs"), nil
}

func newRun(name string) string {
	return fmt.Sprintf("%s-%s", name, strings.ToLower(rand.Text()[:12]))
}
