// Package tools is what agents do with sandboxes: one table of tools, each with a
// name, a description and a schema for models and a handler over the Go SDK. MCP
// servers, model APIs and agent frameworks are given the same table.
//
//	set, err := tools.New(tools.Options{Client: client, Scope: tools.Scope{Namespace: "workflow", ID: "run-7"}})
//	result := set.Call(ctx, "sandbox_open", nil)
//
// A [Set] works in one [Scope]. A sandbox that was not opened in it does not exist
// for its tools. A call never fails as such: what goes wrong is a [Result] for the
// model, which says the next step.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Tool is one tool as a model sees it.
type Tool struct {
	Name        string
	Title       string // for people
	Description string
	ReadOnly    bool // it changes nothing
	Destructive bool // it may remove or replace what is there
	Idempotent  bool // the same call again changes nothing more

	needsFiles bool // only with a FileStore
	input      []field
	answer     any // a zero value of what handle returns
	handle     func(ctx context.Context, c *call) (any, error)
}

func (t Tool) hasField(name string) bool {
	return slices.ContainsFunc(t.input, func(f field) bool { return f.name == name })
}

// Schema is the JSON schema of the tool's input.
func (t Tool) Schema() json.RawMessage {
	return encode(objectSchema(t.input))
}

// Output is the JSON schema of the tool's answers, errors included.
func (t Tool) Output() json.RawMessage { return encode(answerSchema(t.answer)) }

// FileStore holds files that must not pass through the model.
type FileStore interface {
	// Open returns a file and its size. The caller closes it. A key that is
	// unknown is an error that wraps fs.ErrNotExist.
	Open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// Put stores a file, under a key of its own if key is empty.
	Put(ctx context.Context, key, name string, content io.Reader) (stored string, size int64, err error)
}

// Options configures a Set. Client and Scope are required.
type Options struct {
	Client *sandkasten.Client
	Scope  Scope

	// ScopeArgument adds a field scope to every tool, for callers that have no other
	// way to say it. A model that may choose its scope can reach the sandboxes of
	// all scopes of its API key.
	ScopeArgument bool

	Session  sandkasten.CreateOptions // what sandbox_open does not say
	Images   map[string]string        // of sandbox_run, by runtime; the daemon's default otherwise
	Runtime  string                   // of sandbox_run that says none: python
	Files    FileStore                // nil leaves out sandbox_stage_file and sandbox_publish_file
	MaxBytes int                      // of each output in an answer: 16 KiB; less than 256 is 256
	Timeout  time.Duration            // of a command that has none: 2 minutes

	Observe Observer // is told of each call; nil is nobody
}

// Set is the tools of one scope. Its methods may be called concurrently.
type Set struct {
	opts  Options
	tools []Tool

	mu    sync.Mutex
	known map[string]Scope // guarded by mu; where sandboxes were seen to belong
}

// New returns the tools of a scope.
func New(o Options) (*Set, error) {
	if o.Client == nil {
		return nil, errors.New("tools: Options.Client is missing")
	}
	if err := o.Scope.Check(); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 10
	}
	o.MaxBytes = max(o.MaxBytes, leastBytes)
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	o.Runtime = orElse(o.Runtime, defaultRuntime)
	return &Set{opts: o, tools: withDefaults(Offered(o.ScopeArgument, o.Files != nil), o), known: map[string]Scope{}}, nil
}

// leastBytes is room for what an answer must have to lead on, such as one character of
// an output.
const leastBytes = 256

// withDefaults has definitions say what the options decide. A model that sends what it
// was told to be the default would undo them otherwise.
func withDefaults(list []Tool, o Options) []Tool {
	for _, t := range list {
		for i, f := range t.input {
			seconds := int64(o.Timeout / time.Second)
			switch {
			case f.name == timeout.name && t.hasField("stream"):
				t.input[i] = unlessStreamed(seconds)
			case f.name == "runtime":
				t.input[i] = f.or(o.Runtime)
			case f.name == timeout.name && f.fallback == timeout.fallback:
				t.input[i] = f.between(1, max(f.maximum, seconds)).or(seconds)
			}
		}
	}
	return list
}

// Tools returns the definitions, in the order in which models are told of them.
func (s *Set) Tools() []Tool { return s.tools }

// Complete ends what the scope has, now or after a retention, which the daemon does also if
// the caller is gone by then. A run calls it when it is over; again is no error.
func (s *Set) Complete(ctx context.Context, retention time.Duration) error {
	_, err := s.opts.Client.CompleteScope(ctx, s.opts.Scope.String(), &sandkasten.CompleteOptions{Retention: retention})
	return err
}

// All returns the definitions of all tools.
func All() []Tool { return table() }

// Result is what a tool says to a model.
type Result struct {
	JSON    json.RawMessage // an object
	IsError bool            // the tool could not do it; the object's error says what to do instead

	Images []Image // that belong to it, for models that see
}

// Image is a picture that a tool made.
type Image struct {
	MIME string // image/png or image/jpeg
	Data []byte
}

// pictured is an answer with images.
type pictured interface{ images() []Image }

// Text is the result as a model reads it.
func (r Result) Text() string { return string(r.JSON) }

// Progress is told of a call that takes long.
type Progress func(elapsed time.Duration, message string)

type progressKey struct{}

// WithProgress has calls with this context tell how they go on, every few seconds.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// call is one call of a tool.
type call struct {
	set   *Set
	scope Scope
	args  map[string]any
}

// Call runs a tool with arguments in JSON. Where ctx ends, a command that the call
// waits for ends too.
func (s *Set) Call(ctx context.Context, name string, args json.RawMessage) Result {
	c := &call{set: s, scope: s.opts.Scope}
	tool, known := s.find(name)
	var err error
	if !known {
		err = wrongInput("there is no such tool; the tools are %s", strings.Join(s.names(), ", "))
	} else if c.args, err = decode(tool.input, args); err == nil {
		err = c.takeScope()
	}
	if s.opts.Observe == nil {
		return c.run(ctx, tool, name, err)
	}
	info := CallInfo{Tool: name, Scope: c.scope}
	if !known {
		info.Tool = unknownTool
	}
	ctx, ended := s.opts.Observe(ctx, info)
	result := c.run(ctx, tool, name, err)
	ended(outcome(result, c.args))
	return result
}

// run does what a call asks for, unless there is an error in how it asks.
func (c *call) run(ctx context.Context, tool Tool, name string, err error) Result {
	var answer any
	if err == nil {
		answer, err = tool.handle(ctx, c)
	}
	if err != nil {
		return failure(tool, name, c.withImages(ctx, err))
	}
	result := Result{JSON: encode(answer)}
	if p, ok := answer.(pictured); ok {
		result.Images = p.images()
	}
	return result
}

// takeScope has the call work in the scope that it names, if it does.
func (c *call) takeScope() error {
	text := c.text("scope")
	if text == "" {
		return nil
	}
	scope, err := ParseScope(text)
	if err == nil {
		c.scope = scope
	}
	return err
}

func (s *Set) find(name string) (Tool, bool) {
	for _, t := range s.tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

func (s *Set) names() []string {
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Name
	}
	return names
}

func (c *call) text(name string) string {
	value, _ := c.args[name].(string)
	return value
}

func (c *call) number(name string, fallback int64) int64 {
	if value, ok := c.args[name].(int64); ok {
		return value
	}
	return fallback
}

func (c *call) flag(name string, fallback bool) bool {
	if value, ok := c.args[name].(bool); ok {
		return value
	}
	return fallback
}

func (c *call) texts(name string) []string {
	value, _ := c.args[name].([]string)
	return value
}

func (c *call) mapping(name string) map[string]string {
	value, _ := c.args[name].(map[string]string)
	return value
}

func (c *call) seconds(name string, fallback time.Duration) time.Duration {
	return time.Duration(c.number(name, int64(fallback/time.Second))) * time.Second
}

// encode is JSON as models are given it: compact, and without escapes for HTML.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("tools: encode %T: %v", v, err)) // only our own types come here
	}
	return bytes.TrimSpace(b.Bytes())
}

// Offered returns the definitions that a Set has, with or without the field scope and
// a store of files.
func Offered(scopeArgument, files bool) []Tool {
	var list []Tool
	for _, t := range table() {
		if t.needsFiles && !files {
			continue
		}
		if scopeArgument {
			t.input = append(t.input, may("scope", typeString, "workflow:ID, agent:ID or user:ID; the same in all calls."))
		}
		list = append(list, t)
	}
	return list
}
