package sandkasten_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// patience is how long one case may take on a slow machine.
const patience = 2 * time.Minute

// TestContract runs the cases of ../contract, as its README says.
func TestContract(t *testing.T) {
	needDaemon(t)
	text, err := os.ReadFile(filepath.Join("..", "contract", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name  string
		Steps []step
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			run := newRun(t)
			for _, s := range c.Steps {
				run.step(s)
			}
		})
	}
}

// needDaemon skips a test that was not started by ../contract/run.
func needDaemon(t *testing.T) {
	t.Helper()
	if os.Getenv("SANDKASTEN_FLAKY_URL") == "" {
		t.Skip("no daemon: see sdk/contract/README.md") //nolint:forbidigo // testenv belongs to another module; the task starts a daemon
	}
}

type step struct {
	Do     string         `json:"do"`
	On     string         `json:"on"`
	Client string         `json:"client"`
	Key    string         `json:"key"`
	User   string         `json:"user"`
	With   map[string]any `json:"with"`
	As     string         `json:"as"`
	Expect any            `json:"expect"`
	Error  map[string]any `json:"error"`
}

// run is one case with what its steps have made.
type run struct {
	t          *testing.T
	ctx        context.Context
	results    map[string]any
	sessions   map[string]*sandkasten.Session
	processes  map[string]*sandkasten.Process
	made       []*sandkasten.Session
	workspaces map[string]bool
}

func newRun(t *testing.T) *run {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r := &run{
		t:          t,
		ctx:        ctx,
		results:    map[string]any{"unique": strings.ToLower(rand.Text()[:12])},
		sessions:   map[string]*sandkasten.Session{},
		processes:  map[string]*sandkasten.Process{},
		workspaces: map[string]bool{},
	}
	t.Cleanup(func() {
		defer cancel()
		for _, s := range r.made {
			if err := s.Destroy(ctx); err != nil {
				t.Errorf("destroy: %v", err)
			}
		}
		force := &sandkasten.DeleteWorkspaceOptions{Force: true}
		for id := range r.workspaces {
			err := r.client("").DeleteWorkspace(ctx, id, force)
			if err != nil && !errors.Is(err, sandkasten.ErrNotFound) {
				t.Errorf("delete workspace: %v", err)
			}
		}
	})
	return r
}

func (r *run) client(kind string) *sandkasten.Client {
	r.t.Helper()
	return r.connect(map[string]sandkasten.Options{
		"":          {MaxRetries: -1},
		"flaky":     {URL: os.Getenv("SANDKASTEN_FLAKY_URL")},
		"wrong_key": {APIKey: "wrong", MaxRetries: -1},
	}[kind])
}

// clientOf makes an ordinary client with an API key of its own.
func (r *run) clientOf(key string) *sandkasten.Client {
	r.t.Helper()
	return r.connect(sandkasten.Options{APIKey: key, MaxRetries: -1})
}

func (r *run) connect(o sandkasten.Options) *sandkasten.Client {
	r.t.Helper()
	c, err := sandkasten.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

func (r *run) step(s step) {
	r.t.Helper()
	where, _ := json.Marshal(s)
	args, _ := r.fill(s.With).(map[string]any)
	result, err := r.do(s, args)
	if s.Error != nil {
		got := plainError(r.t, err)
		if !matches(r.fill(s.Error), got) {
			r.t.Fatalf("%s\ngave the error %v: %v", where, err, got)
		}
		return
	}
	if err != nil {
		r.t.Fatalf("%s\n%v", where, err)
	}
	got := plain(r.t, result)
	if s.As != "" {
		r.results[s.As] = got
	}
	if s.Expect != nil && !matches(r.fill(s.Expect), got) {
		r.t.Fatalf("%s\ngave %.2000s", where, fmt.Sprint(got))
	}
}

func (r *run) do(s step, args map[string]any) (any, error) {
	for _, field := range []string{"workspace_id", "id"} {
		if id, ok := args[field].(string); ok && (field == "workspace_id" || s.Do == "create_workspace") {
			r.workspaces[id] = true
		}
	}
	c := call{run: r, args: args, client: r.client(s.Client), session: r.sessions[s.On], process: r.processes[s.On]}
	if key, _ := r.fill(s.Key).(string); key != "" {
		c.client = r.clientOf(key)
	}
	if s.User != "" {
		c.session = &sandkasten.Session{Files: *c.session.FilesAs(s.User)}
	}
	action, ok := actions[s.Do]
	if !ok {
		return nil, fmt.Errorf("a step of an unknown kind: %s", s.Do)
	}
	result, err := action(c)
	switch made := result.(type) {
	case *sandkasten.Session:
		r.keep(s.As, made)
	case []*sandkasten.Session:
		for i, session := range made {
			if s.Do == "fork" {
				r.keep(fmt.Sprint(s.As, i), session)
			}
		}
	case *sandkasten.Process:
		r.processes[s.As] = made
	}
	return result, err
}

func (r *run) keep(name string, s *sandkasten.Session) {
	if s != nil {
		r.sessions[name] = s
		r.made = append(r.made, s)
	}
}

var reference = regexp.MustCompile(`\$\{([\w.]+)\}`)

// fill puts earlier results into a value of a case.
func (r *run) fill(v any) any {
	switch v := v.(type) {
	case map[string]any:
		filled := map[string]any{}
		for name, item := range v {
			filled[name] = r.fill(item)
		}
		return filled
	case []any:
		filled := make([]any, len(v))
		for i, item := range v {
			filled[i] = r.fill(item)
		}
		return filled
	case string:
		if m := reference.FindStringSubmatch(v); m != nil && m[0] == v {
			return r.lookup(m[1])
		}
		return reference.ReplaceAllStringFunc(v, func(ref string) string {
			return fmt.Sprint(r.lookup(ref[2 : len(ref)-1]))
		})
	}
	return v
}

func (r *run) lookup(path string) any {
	var v any = r.results
	for name := range strings.SplitSeq(path, ".") {
		fields, _ := v.(map[string]any)
		item, ok := fields[name]
		if !ok {
			r.t.Fatalf("no result %s", path)
		}
		v = item
	}
	return v
}

// plain is a result as the API's JSON would have it.
func plain(t *testing.T, v any) any {
	t.Helper()
	switch made := v.(type) {
	case *sandkasten.Session:
		v = made.Info
	case *sandkasten.Workspace:
		v = made.Info
	case *sandkasten.Process:
		v = map[string]any{"exec_id": made.ID, "pid": made.PID}
	case []*sandkasten.Session:
		v = infos(made, func(s *sandkasten.Session) sandkasten.SessionInfo { return s.Info })
	case []*sandkasten.Workspace:
		v = infos(made, func(w *sandkasten.Workspace) sandkasten.WorkspaceInfo { return w.Info })
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func infos[T, I any](list []T, info func(T) I) []I {
	out := make([]I, len(list))
	for i, item := range list {
		out[i] = info(item)
	}
	return out
}

// meanings has the classes of the contract, by status.
var meanings = map[int]error{
	400: sandkasten.ErrInvalidArgument,
	401: sandkasten.ErrAuthentication,
	403: sandkasten.ErrPermissionDenied,
	404: sandkasten.ErrNotFound,
	409: sandkasten.ErrConflict,
	412: sandkasten.ErrPreconditionFailed,
	422: sandkasten.ErrUnprocessable,
	429: sandkasten.ErrRateLimit,
	501: sandkasten.ErrUnimplemented,
}

// plainError is an error by the API's names, if it is one of the daemon's and of
// the class for its code.
func plainError(t *testing.T, err error) map[string]any {
	t.Helper()
	var refused *sandkasten.APIError
	if !errors.As(err, &refused) {
		return map[string]any{}
	}
	if !errors.Is(err, meanings[refused.Status]) {
		t.Errorf("%v is no %v", err, meanings[refused.Status])
	}
	return map[string]any{
		"status":      float64(refused.Status),
		"code":        refused.Code,
		"message":     refused.Message,
		"field":       refused.Field,
		"reason":      string(refused.Reason),
		"request_id":  refused.RequestID,
		"retry_after": refused.RetryAfter.Seconds(),
	}
}

// matches compares a result with a pattern of a case.
func matches(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		for name, arg := range want {
			if pattern, ok := patterns[name]; ok {
				return pattern(arg, got)
			}
			fields, ok := got.(map[string]any)
			if !ok || !matches(arg, fields[name]) {
				return false
			}
		}
		_, ok := got.(map[string]any)
		return ok
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(want) {
			return false
		}
		for i := range want {
			if !matches(want[i], items[i]) {
				return false
			}
		}
		return true
	}
	return want == got
}

var patterns map[string]func(arg, got any) bool

func init() {
	patterns = map[string]func(arg, got any) bool{
		"$matches": func(arg, got any) bool {
			text, ok := got.(string)
			return ok && regexp.MustCompile(arg.(string)).MatchString(text)
		},
		"$contains": func(arg, got any) bool {
			text, ok := got.(string)
			return ok && strings.Contains(text, arg.(string))
		},
		"$length": func(arg, got any) bool {
			if text, ok := got.(string); ok {
				return float64(len([]rune(text))) == arg
			}
			items, ok := got.([]any)
			return ok && float64(len(items)) == arg
		},
		"$at_least": func(arg, got any) bool {
			n, ok := got.(float64)
			return ok && n >= arg.(float64)
		},
		"$has":   has,
		"$lacks": func(arg, got any) bool { return !has(arg, got) },
	}
}

func has(arg, got any) bool {
	items, _ := got.([]any)
	for _, item := range items {
		if matches(arg, item) {
			return true
		}
	}
	return false
}
