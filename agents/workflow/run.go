package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/sandkasten/sandkasten/agents/agent"
	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/model"
	"github.com/sandkasten/sandkasten/agents/spans"
	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/agents/toolset"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Options says how workflows run. Client, Journals and Model are required.
type Options struct {
	Client    *sandkasten.Client
	Journals  string                                 // directory of the journals
	Prompts   []string                               // directories of the prompt files, the first that has one wins
	Model     func(name string) (model.Model, error) // by the name in the prompt file
	Images    frontmatter.Images
	Files     tools.FileStore // for sandbox_stage_file and sandbox_publish_file; nil leaves them out
	MaxSteps  int             // of a run, loops counted: 100
	MaxTurns  int             // of a model in one step: 100
	Retention time.Duration   // of the sandboxes after the run
	Lease     time.Duration   // of the sandboxes after the end of a program that did not end its run: tools.Lease
	Log       *slog.Logger
}

const defaultSteps = 100

var runID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckRun refuses what is no id of a run.
func CheckRun(id string) error {
	if !runID.MatchString(id) {
		return fmt.Errorf("the run %q must be 1 to 64 of a-z, A-Z, 0-9 and . _ -", id)
	}
	return nil
}

// Outcome is how a run ended.
type Outcome struct {
	Run    string          `json:"run"`
	Error  string          `json:"error,omitempty"`  // empty is success
	Output json.RawMessage `json:"output,omitempty"` // of the last agent
	Text   string          `json:"text,omitempty"`   // of the last agent
	Steps  int             `json:"steps"`
}

// failure ends a run for good: it would fail again in the same way. After any other
// error the run can go on.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// run is one run under way.
type run struct {
	Options
	workflow *Workflow
	id       string
	journal  *journal
	state
}

// Run takes a run of a workflow to its end, from its beginning or from where its
// journal says that it was. The sandboxes of the run end with it, or a lease after its
// program.
//
// An error leaves the run as it is, to be gone on with. A run that failed for good
// is an Outcome with an Error.
func Run(ctx context.Context, w *Workflow, id, input string, o Options) (outcome Outcome, err error) {
	if err := CheckRun(id); err != nil {
		return outcome, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &run{Options: o, workflow: w, id: id, state: newState()}
	if err := r.checkPrompts(); err != nil {
		return outcome, err
	}
	if err := r.open(); err != nil {
		return outcome, err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	if !r.begun {
		if err := r.write(record{Kind: recordBegin, Run: id, Digest: w.Digest, Input: input, Next: w.Steps[0].ID}); err != nil {
			return outcome, err
		}
	}
	if r.digest != w.Digest {
		return outcome, fmt.Errorf("the workflow's file is not the one with which the run %s began; bring it back, or begin another run", id)
	}
	if input != "" && input != r.input {
		return outcome, fmt.Errorf("the run %s has begun with another input; leave the input out to go on, or begin another run", id)
	}
	ctx, end := spans.Start(ctx, "workflow "+w.ID, "run", id)
	defer func() { end(err) }()
	if err := r.toItsEnd(ctx); err != nil {
		return r.outcome(), err
	}
	return r.outcome(), r.clean(ctx)
}

// toItsEnd takes the steps that are left, and keeps the run's sandboxes meanwhile.
func (r *run) toItsEnd(ctx context.Context) error {
	if r.ended {
		return nil
	}
	release, err := r.hold(ctx, r.scope())
	if err != nil {
		return err
	}
	defer release()
	for !r.ended {
		if err := r.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) hold(ctx context.Context, scope tools.Scope) (release func(), err error) {
	return tools.Hold(ctx, r.Client, scope, r.Lease, func(err error) { r.Log.Warn("the daemon does not answer", "run", r.id, "err", err) })
}

// End gives up a run and ends its sandboxes. Again is no error.
func End(ctx context.Context, id string, o Options) (err error) {
	if err := CheckRun(id); err != nil {
		return err
	}
	there, err := hasJournal(o.Journals, id)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no run %s in %s", id, o.Journals)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &run{Options: o, id: id, state: newState()}
	if err := r.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	if !r.ended {
		if err := r.write(record{Kind: recordEnd, Error: "it was given up"}); err != nil {
			return err
		}
	}
	return r.clean(ctx)
}

// open reads the journal. The caller closes it.
func (r *run) open() error {
	j, records, err := openJournal(r.Journals, r.id)
	if err != nil {
		return err
	}
	r.journal = j
	for _, one := range records {
		r.apply(one)
	}
	return nil
}

// checkPrompts reads all prompts once, so that a mistake in the last one does not
// wait for the others.
func (r *run) checkPrompts() error {
	var all []error
	for _, s := range r.workflow.Steps {
		if s.Type != AgentStep {
			continue
		}
		if _, err := r.prompt(s.Agent); err != nil {
			all = append(all, fmt.Errorf("step %s: %w", s.ID, err))
		}
	}
	return errors.Join(all...)
}

// write records what happens, and lets it happen.
func (r *run) write(one record) error {
	if err := r.journal.write(one); err != nil {
		return err
	}
	r.apply(one)
	return nil
}

// step takes the run one step on.
func (r *run) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := r.workflow.step(r.next)
	if s == nil {
		return fmt.Errorf("the journal of the run names the step %q, which is not in the workflow", r.next)
	}
	most := r.MaxSteps
	if most <= 0 {
		most = defaultSteps
	}
	if r.steps >= most {
		return r.write(record{Kind: recordEnd, Error: fmt.Sprintf("the run has taken %d steps and does not come to an end", most)})
	}
	if err := r.do(ctx, s); err != nil {
		var final failure
		if errors.As(err, &final) {
			return r.write(record{Kind: recordEnd, Error: fmt.Sprintf("step %s: %v", s.ID, err)})
		}
		return fmt.Errorf("step %s: %w", s.ID, err)
	}
	return nil
}

func (r *run) do(ctx context.Context, s *Step) error {
	switch s.Type {
	case EndStep:
		return r.write(record{Kind: recordEnd, Step: s.ID})
	case SwitchStep:
		next, err := s.choose(r.environment(true))
		if err != nil {
			return failure{err}
		}
		r.Log.Info("switch", "run", r.id, "step", s.ID, "next", next)
		return r.write(record{Kind: recordDone, Step: s.ID, Next: next})
	}
	return r.runAgent(ctx, s)
}

// environment is what expressions and prompts can name. Expressions name also steps that have
// not run yet, which prompts ask for with {{#if}}.
func (r *run) environment(unvisited bool) map[string]any {
	steps := map[string]any{}
	for _, s := range r.workflow.Steps {
		if one, done := r.outputs[s.ID]; s.Type == AgentStep && (done || unvisited) {
			steps[s.ID] = map[string]any{"output": one.Output, "text": one.Text, "visits": r.visits[s.ID]}
		}
	}
	return map[string]any{"userInput": r.input, "input": r.input, "steps": steps}
}

func (r *run) runAgent(ctx context.Context, s *Step) error {
	prompt, err := r.prompt(s.Agent)
	if err != nil {
		return err
	}
	if r.current == "" {
		visit := r.visits[s.ID] + 1
		isolated := prompt.Sandbox != nil && prompt.Sandbox.Session == frontmatter.IsolatedSession
		if err := r.write(record{Kind: recordStep, Step: s.ID, Visit: visit, Isolated: isolated}); err != nil {
			return err
		}
	}
	visit := r.visits[s.ID]
	r.Log.Info("agent", "run", r.id, "step", s.ID, "agent", s.Agent, "visit", visit, "messages", len(r.messages))
	one := &agent.Agent{Name: s.Agent, Visit: visit, Prompt: prompt, MaxTurns: r.MaxTurns, NeedsOutput: r.workflow.readsOutput(s.ID)}
	if one.Model, err = r.Model(prompt.Model); err != nil {
		return err
	}
	if prompt.Sandbox != nil {
		one.Tools, err = toolset.New(prompt.Sandbox, toolset.Options{
			Client: r.Client, Run: r.scope(), Agent: r.agentScope(s.ID, visit), Images: r.Images, Files: r.Files,
		})
		if err != nil {
			return err
		}
	}
	result, err := r.converse(ctx, one, s.ID, visit)
	if errors.Is(err, agent.ErrTooManyTurns) {
		return failure{err}
	}
	if err != nil {
		return err
	}
	if r.isApart(one) {
		if _, err := r.Client.CompleteScope(ctx, one.Tools.Scope().String(), nil); err != nil {
			return fmt.Errorf("end the agent's own sandbox: %w", err)
		}
	}
	return r.write(record{Kind: recordDone, Step: s.ID, Visit: visit, Next: s.Next, Text: result.Text, Output: result.Output})
}

// converse takes an agent to its result, and keeps the sandboxes of its own meanwhile.
func (r *run) converse(ctx context.Context, one *agent.Agent, step string, visit int) (agent.Result, error) {
	if r.isApart(one) {
		release, err := r.hold(ctx, one.Tools.Scope())
		if err != nil {
			return agent.Result{}, err
		}
		defer release()
	}
	return one.Run(ctx, r.environment(false), r.messages, func(m model.Message) error {
		return r.write(record{Kind: recordMessage, Step: step, Visit: visit, Message: &m})
	})
}

// isApart reports whether an agent has sandboxes of its own.
func (r *run) isApart(one *agent.Agent) bool {
	return one.Tools != nil && one.Tools.Scope() != r.scope()
}

// prompt finds an agent's prompt file.
func (r *run) prompt(name string) (*frontmatter.Prompt, error) {
	for _, dir := range r.Prompts {
		file := filepath.Join(dir, name+".prompt")
		if _, err := os.Stat(file); err == nil {
			return frontmatter.Load(file)
		}
	}
	return nil, fmt.Errorf("there is no %s.prompt in %v", name, r.Prompts)
}

func (r *run) scope() tools.Scope { return tools.Scope{Namespace: "workflow", ID: r.id} }

func (r *run) agentScope(step string, visit int) tools.Scope {
	return tools.Scope{Namespace: "agent", ID: fmt.Sprintf("%s:%s:%d", r.id, step, visit)}
}

// cleaning is how long the end of a run's sandboxes may be asked for.
const cleaning = time.Minute

// clean is the hook of a run's completion: it ends what the run had, also where the
// run was asked to stop meanwhile.
func (r *run) clean(ctx context.Context) error {
	if r.cleaned {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	for _, scope := range append(r.isolated(), r.scope()) {
		done, err := r.Client.CompleteScope(ctx, scope.String(), &sandkasten.CompleteOptions{Retention: r.Retention})
		if err != nil {
			return fmt.Errorf("end the sandboxes of %s: %w", scope, err)
		}
		r.Log.Info("complete", "scope", scope.String(), "left", done.Sessions)
	}
	return r.write(record{Kind: recordClean})
}

func (r *run) isolated() []tools.Scope {
	var scopes []tools.Scope
	for _, one := range r.apart {
		scopes = append(scopes, r.agentScope(one.Step, one.Visit))
	}
	return scopes
}
