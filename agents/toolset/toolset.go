// Package toolset is the tools of one agent: those that its sandbox block asks for,
// in the session that it names, within the limits that it sets.
package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/agents/spans"
	"github.com/sandkasten/sandkasten/agents/tools"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Options says for whom the tools work. Client, Run and Agent are required.
type Options struct {
	Client *sandkasten.Client
	Run    tools.Scope // whose sandboxes agents share, as workflow:run-1
	Agent  tools.Scope // of this run of the agent, for session isolated
	Images frontmatter.Images
	Files  tools.FileStore // nil leaves out the tools that need one

	Installers Installers // of packages; zero values are pip and npm
}

// Tool is one tool as a model is told of it.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // of the input
}

// Toolset is the tools of one agent. Its methods may be called concurrently.
type Toolset struct {
	sandbox *frontmatter.Sandbox
	opts    Options
	scope   tools.Scope
	tools   []Tool

	mu  sync.Mutex
	set *tools.Set // guarded by mu; nil until a call needs it

	failed error     // guarded by mu; of the last installation of packages
	until  time.Time // guarded by mu; is failed given without another try
}

// chosen are the fields of sandbox_open that an agent's sandbox block decides. A
// model that could send them would set its own limits.
var chosen = []string{"image", "limits", "network", "workspace"}

// New returns the tools of a sandbox block. Nothing is asked of the daemon before
// the first call.
func New(s *frontmatter.Sandbox, o Options) (*Toolset, error) {
	t := &Toolset{sandbox: s, opts: o, scope: o.Run}
	if s.Session == frontmatter.IsolatedSession {
		t.scope = o.Agent
	}
	// A set without packages, to check the options and to learn what tools there are.
	set, err := tools.New(t.setOptions(s.SessionOptions(o.Images)))
	if err != nil {
		return nil, err
	}
	for _, definition := range set.Tools() {
		if (definition.Name == "sandbox_run") != (s.Mode == frontmatter.Compute) {
			continue
		}
		schema := definition.Schema()
		if definition.Name == "sandbox_open" {
			schema = without(schema, chosen)
		}
		t.tools = append(t.tools, Tool{definition.Name, definition.Description, schema})
	}
	return t, nil
}

// Scope is where the tools' sandboxes belong.
func (t *Toolset) Scope() tools.Scope { return t.scope }

// Tools returns the definitions, in the order in which models are told of them.
func (t *Toolset) Tools() []Tool { return slices.Clone(t.tools) }

// Call runs a tool with arguments in JSON. What goes wrong is a result for the model.
func (t *Toolset) Call(ctx context.Context, name string, args json.RawMessage) tools.Result {
	if !slices.ContainsFunc(t.tools, func(one Tool) bool { return one.Name == name }) {
		return refuse(name, "there is no such tool; the tools are "+strings.Join(t.names(), ", "), "invalid_argument")
	}
	if name == "sandbox_open" || name == "sandbox_restore" {
		var problem string
		if args, problem = t.withKey(args); problem != "" {
			return refuse(name, problem, "invalid_argument")
		}
	}
	set, err := t.ready(ctx)
	if err != nil {
		return tools.Refusal(name, err)
	}
	return set.Call(ctx, name, args)
}

// Complete ends what the scope has, now or after a retention. A run calls it when it is over;
// again is no error.
func (t *Toolset) Complete(ctx context.Context, retention time.Duration) error {
	_, err := t.opts.Client.CompleteScope(ctx, t.scope.String(), &sandkasten.CompleteOptions{Retention: retention})
	return err
}

func (t *Toolset) names() []string {
	names := make([]string, len(t.tools))
	for i, one := range t.tools {
		names[i] = one.Name
	}
	return names
}

// withKey gives a call that opens a session the agent's own name of it. What is no
// object the tool itself refuses.
func (t *Toolset) withKey(args json.RawMessage) (with json.RawMessage, problem string) {
	fields := map[string]json.RawMessage{}
	if len(args) > 0 && json.Unmarshal(args, &fields) != nil {
		return args, ""
	}
	if fields == nil { // null
		fields = map[string]json.RawMessage{}
	}
	for _, name := range chosen {
		if _, sent := fields[name]; sent {
			return args, name + " is what the agent's prompt file says; leave it out"
		}
	}
	custom := t.sandbox.Session != frontmatter.SharedSession && t.sandbox.Session != frontmatter.IsolatedSession
	if _, sent := fields["session_key"]; !sent && custom {
		fields["session_key"], _ = json.Marshal(t.sandbox.Session)
	}
	with, err := json.Marshal(fields)
	if err != nil {
		return args, ""
	}
	return with, ""
}

// ready returns the set that calls go to. With packages it is there when these are
// installed; a failed installation is tried again by the first call after a while.
func (t *Toolset) ready(ctx context.Context) (*tools.Set, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set != nil {
		return t.set, nil
	}
	options := t.sandbox.SessionOptions(t.opts.Images)
	if time.Now().Before(t.until) {
		return nil, t.failed
	}
	if err := t.withPackages(ctx, &options); err != nil {
		if errors.Is(err, errInstaller) || errors.Is(err, sandkasten.ErrPermissionDenied) || errors.Is(err, sandkasten.ErrNotFound) {
			t.failed, t.until = err, time.Now().Add(retryInstallation)
		}
		return nil, err
	}
	set, err := tools.New(t.setOptions(options))
	t.set = set
	return set, err
}

func (t *Toolset) setOptions(session sandkasten.CreateOptions) tools.Options {
	o := tools.Options{
		Client: t.opts.Client, Scope: t.scope, Session: session, Files: t.opts.Files,
		MaxBytes: t.sandbox.MaxStdoutBytes, Timeout: t.sandbox.CommandTimeout(), Runtime: t.sandbox.Runtime,
		Observe: spans.Observe,
	}
	// Packages and an image of its own decide for all runtimes.
	if t.sandbox.Image == "" && session.RestoreSnapshotID == "" {
		o.Images = t.opts.Images.Runtimes
	}
	return o
}

// without removes properties of an object's schema.
func without(schema json.RawMessage, names []string) json.RawMessage {
	var object map[string]any
	if err := json.Unmarshal(schema, &object); err != nil {
		panic(fmt.Sprintf("toolset: schema of a tool: %v", err)) // only our own come here
	}
	properties, _ := object["properties"].(map[string]any)
	for _, name := range names {
		delete(properties, name)
	}
	changed, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("toolset: schema of a tool: %v", err))
	}
	return changed
}

func refuse(tool, message, code string) tools.Result {
	text, err := json.Marshal(struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{tool + ": " + message, code})
	if err != nil {
		panic(fmt.Sprintf("toolset: %v", err))
	}
	return tools.Result{JSON: text, IsError: true}
}
