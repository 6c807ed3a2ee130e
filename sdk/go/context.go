package sandkasten

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"time"
)

// CodeContext is a kernel of a session which remembers what ran in it.
type CodeContext struct {
	ContextInfo

	session *Session
}

// ContextInfo is a context as it was when the daemon was asked.
type ContextInfo struct {
	ContextID      string    `json:"context_id"`
	Name           string    `json:"name,omitempty"`
	Language       string    `json:"language"`
	Status         string    `json:"status"`          // running, ended
	Cause          string    `json:"cause,omitempty"` // how its process ended
	CreatedAt      time.Time `json:"created_at"`
	Kernel         string    `json:"kernel,omitempty"` // of its kernelspec; this and the rest is not in lists
	State          string    `json:"state,omitempty"`  // starting, idle, busy, no_kernel
	RunID          string    `json:"run_id,omitempty"` // the run that it is at
	Queued         int       `json:"queued,omitempty"` // runs that wait
	KernelsStarted int       `json:"kernels_started,omitempty"`
	PID            int       `json:"pid,omitempty"` // the kernel's, inside
}

// ContextOptions says how a context is made.
type ContextOptions struct {
	Name string            `json:"name,omitempty"` // to use in the place of its id
	Cwd  string            `json:"cwd,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
}

type contextRequest struct {
	Language string `json:"language"`
	ContextOptions
}

// RunCodeOptions says how code runs. Each callback, if it is set, is told what the code
// shows while it runs; the result has all of it in any case.
type RunCodeOptions struct {
	Language string        // of Session.RunCode: python if it is empty
	Timeout  time.Duration // after which it is interrupted; whole milliseconds

	OnStart  func(contextID, runID string)
	OnStdout func(text string)
	OnStderr func(text string)
	OnResult func(CodeResult)
	OnUpdate func(CodeResult) // takes the place of the result with its DisplayID
	OnClear  func()           // what came before is not shown any more
	OnError  func(CodeError)
}

func (o *RunCodeOptions) streams() bool {
	return o.OnStart != nil || o.OnStdout != nil || o.OnStderr != nil || o.OnResult != nil || o.OnUpdate != nil || o.OnClear != nil || o.OnError != nil
}

// CodeRun is what came of code.
type CodeRun struct {
	ContextID      string       `json:"context_id"`
	RunID          string       `json:"run_id"`
	Cause          string       `json:"cause"`   // running, completed, error, interrupted, timeout, kernel_died, oom_killed, canceled, sandbox_gone
	Results        []CodeResult `json:"results"` // what it displayed, and at last the value of its last expression
	Stdout         string       `json:"stdout"`
	Stderr         string       `json:"stderr"`
	Error          *CodeError   `json:"error,omitempty"` // the exception, if it raised one
	ExecutionCount int          `json:"execution_count"`
	DurationMS     int64        `json:"duration_ms"`
	StateLost      bool         `json:"state_lost"` // the kernel ended in this run: variables are gone
	NewKernel      bool         `json:"new_kernel"` // not that of before: variables of before are gone
	DiskFull       bool         `json:"disk_full,omitempty"`

	PeakMemoryBytes int64 `json:"peak_memory_bytes,omitempty"` // of the kernel's process in the run

	StdoutDroppedBytes int64  `json:"stdout_dropped_bytes,omitempty"`
	StdoutFile         string `json:"stdout_file,omitempty"` // in the sandbox, with all of a long stdout
	StdoutFileError    string `json:"stdout_file_error,omitempty"`
	StderrDroppedBytes int64  `json:"stderr_dropped_bytes,omitempty"`
	StderrFile         string `json:"stderr_file,omitempty"`
	StderrFileError    string `json:"stderr_file_error,omitempty"`
	DroppedResults     int    `json:"dropped_results,omitempty"`

	KernelExitCode int    `json:"kernel_exit_code,omitempty"` // of a kernel that died
	KernelSignal   int    `json:"kernel_signal,omitempty"`
	KernelLog      string `json:"kernel_log,omitempty"`
}

// main is the value of the last expression, or nil.
func (r *CodeRun) main() *CodeResult {
	for i := range r.Results {
		if r.Results[i].IsMainResult {
			return &r.Results[i]
		}
	}
	return nil
}

// Text is the value of the last expression as text, or empty.
func (r *CodeRun) Text() string {
	if main := r.main(); main != nil {
		return main.Text()
	}
	return ""
}

// PNG is the last picture that the code showed, or nil.
func (r *CodeRun) PNG() ([]byte, error) {
	for i := len(r.Results) - 1; i >= 0; i-- {
		if png, err := r.Results[i].PNG(); png != nil || err != nil {
			return png, err
		}
	}
	return nil, nil
}

// CodeResult is one thing that code displayed, in several forms.
type CodeResult struct {
	Data         map[string]any    `json:"data"` // by MIME type; pictures are base64
	IsMainResult bool              `json:"is_main_result"`
	DisplayID    string            `json:"display_id,omitempty"`
	Chart        *CodeChart        `json:"chart,omitempty"` // what a figure shows, as numbers
	Table        *CodeTable        `json:"table,omitempty"` // the beginning of a data frame
	Note         string            `json:"note,omitempty"`
	FilePaths    map[string]string `json:"file_paths,omitempty"` // forms that were too large, in the sandbox
	DroppedBytes int64             `json:"dropped_bytes,omitempty"`
}

// Text is its form for people, text/plain, or empty.
func (r *CodeResult) Text() string {
	text, _ := r.Data["text/plain"].(string)
	return text
}

// PNG is its picture, or nil.
func (r *CodeResult) PNG() ([]byte, error) {
	text, ok := r.Data["image/png"].(string)
	if !ok {
		return nil, nil
	}
	return base64.StdEncoding.DecodeString(text)
}

// CodeError is an exception.
type CodeError struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback"`
}

// CodeTable is the beginning of a data frame.
type CodeTable struct {
	Columns []CodeColumn `json:"columns"`
	Rows    [][]any      `json:"rows"`
	Index   []any        `json:"index,omitempty"`
	Shape   []int64      `json:"shape"` // rows and columns of the whole frame
}

// CodeColumn is one of a data frame.
type CodeColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// CodeChart is a figure as numbers.
type CodeChart struct {
	Library string     `json:"library"`
	Type    string     `json:"type"`
	Title   string     `json:"title"`
	Axes    []CodeAxes `json:"axes"`
}

// CodeAxes is one plot of a chart.
type CodeAxes struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	XLabel string       `json:"x_label"`
	YLabel string       `json:"y_label"`
	XScale string       `json:"x_scale"`
	YScale string       `json:"y_scale"`
	Series []CodeSeries `json:"series"`
}

// CodeSeries is what belongs together in a plot.
type CodeSeries struct {
	Type   string  `json:"type"`
	Label  string  `json:"label,omitempty"`
	Points int     `json:"points,omitempty"` // how many there are; X and Y have the first 1000
	X      []any   `json:"x,omitempty"`
	Y      []any   `json:"y,omitempty"`
	Shape  []int64 `json:"shape,omitempty"` // of an image
}

type runRequest struct {
	Code      string `json:"code"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

type runCodeRequest struct {
	runRequest
	Language string `json:"language,omitempty"`
}

// RunCode runs code in the session's default context of a language, where variables and
// imports stay from one call to the next, and returns when it has ended. That the code
// fails is no error: see Cause and Error of the result.
func (s *Session) RunCode(ctx context.Context, code string, o *RunCodeOptions) (CodeRun, error) {
	options := value(o)
	return s.runCode(ctx, s.path+"/run-code", runCodeRequest{runRequest{code, options.Timeout.Milliseconds()}, options.Language}, &options)
}

// CreateContext starts a kernel and returns when it is ready.
func (s *Session) CreateContext(ctx context.Context, language string, o *ContextOptions) (*CodeContext, error) {
	c := &CodeContext{session: s}
	err := s.client.call(ctx, post(s.path+"/contexts", contextRequest{language, value(o)}), &c.ContextInfo)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ListContexts returns the contexts that run, or ended not long ago, oldest first.
func (s *Session) ListContexts(ctx context.Context) ([]*CodeContext, error) {
	var infos []ContextInfo
	if err := s.client.call(ctx, get(s.path+"/contexts"), &infos); err != nil {
		return nil, err
	}
	list := make([]*CodeContext, len(infos))
	for i, info := range infos {
		list[i] = &CodeContext{info, s}
	}
	return list, nil
}

// Context returns a context by its id or name, without asking whether it is there.
func (s *Session) Context(id string) *CodeContext {
	return &CodeContext{ContextInfo{ContextID: id}, s}
}

func (c *CodeContext) path() string { return c.session.path + "/contexts/" + segment(c.ContextID) }

// Refresh asks for the context as it is now, and keeps the answer.
func (c *CodeContext) Refresh(ctx context.Context) (ContextInfo, error) {
	var info ContextInfo
	err := c.session.client.call(ctx, get(c.path()), &info)
	if err == nil {
		c.ContextInfo = info
	}
	return info, err
}

// Run runs code after what was sent before it, and returns when it has ended. When ctx
// is done it goes on, and GetRun has its result.
func (c *CodeContext) Run(ctx context.Context, code string, o *RunCodeOptions) (CodeRun, error) {
	options := value(o)
	return c.session.runCode(ctx, c.path()+"/run", runRequest{code, options.Timeout.Milliseconds()}, &options)
}

// GetRun returns a run that was begun before: its end, if it comes within wait, or what
// there is until then.
func (c *CodeContext) GetRun(ctx context.Context, runID string, wait time.Duration) (CodeRun, error) {
	var run CodeRun
	r := get(c.path() + "/runs/" + segment(runID))
	r.setNumber("wait_ms", wait.Milliseconds())
	err := c.session.client.call(ctx, r, &run)
	return run, err
}

// FollowRun follows a run that was begun before from its start, by the callbacks of o,
// and returns at its end.
func (c *CodeContext) FollowRun(ctx context.Context, runID string, o *RunCodeOptions) (CodeRun, error) {
	options := value(o)
	f := runFollower{session: c.session, options: &options, contextID: c.ContextID, runID: runID}
	return f.follow(ctx)
}

// Interrupt interrupts the run that the context is at and keeps its variables.
func (c *CodeContext) Interrupt(ctx context.Context) error {
	return c.session.client.call(ctx, postSame(c.path()+"/interrupt", nil), nil)
}

// Restart gives the context a new kernel, without variables.
func (c *CodeContext) Restart(ctx context.Context) error {
	return c.session.client.call(ctx, post(c.path()+"/restart", nil), &c.ContextInfo)
}

// Delete ends the context with all that its kernel started.
func (c *CodeContext) Delete(ctx context.Context) error {
	return c.session.client.call(ctx, remove(c.path()), nil)
}

func (s *Session) runCode(ctx context.Context, path string, body any, o *RunCodeOptions) (CodeRun, error) {
	if !o.streams() {
		var run CodeRun
		err := s.client.call(ctx, post(path, body), &run)
		return run, err
	}
	f := runFollower{session: s, options: o, first: post(path+"/stream", body)}
	return f.follow(ctx)
}

// runFollower reads the events of a run. A connection that breaks is taken up behind the
// last event.
type runFollower struct {
	session   *Session
	options   *RunCodeOptions
	first     request // starts the run; unused if runID was given
	contextID string
	runID     string
	lastID    string
}

func (f *runFollower) follow(ctx context.Context) (CodeRun, error) {
	p := patience{client: f.session.client}
	for {
		before := f.lastID
		run, err := f.connect(ctx)
		if err == nil {
			return run, nil
		}
		if f.lastID != before {
			p.progress()
		}
		if f.runID != "" {
			err = p.resume(ctx, err)
		}
		if err != nil {
			return CodeRun{}, err
		}
	}
}

func (f *runFollower) connect(ctx context.Context) (CodeRun, error) {
	r := f.first
	if f.runID != "" {
		r = get(f.session.Context(f.contextID).path() + "/runs/" + segment(f.runID) + "/stream")
		if f.lastID != "" {
			r.header = http.Header{"Last-Event-Id": {f.lastID}}
		}
	}
	for e, err := range f.session.client.events(ctx, r) {
		if err != nil {
			return CodeRun{}, err
		}
		switch e.name {
		case "done":
			var run CodeRun
			err := e.decode(&run)
			return run, err
		case "error":
			return CodeRun{}, newAPIError(0, nil, e.data)
		}
		if err := f.tell(e); err != nil {
			return CodeRun{}, err
		}
		if e.id != "" {
			f.lastID = e.id
		}
	}
	return CodeRun{}, errors.New("the events of the run ended") // which events says with an error
}

// tell calls back for one event.
func (f *runFollower) tell(e event) error {
	var told struct {
		ContextID string `json:"context_id"`
		RunID     string `json:"run_id"`
		Text      string `json:"text"`
		Updates   bool   `json:"updates"`
		CodeResult
		CodeError
	}
	if err := e.decode(&told); err != nil {
		return err
	}
	o := f.options
	switch {
	case e.name == "start" && f.lastID == "":
		f.contextID, f.runID = told.ContextID, told.RunID
		if o.OnStart != nil {
			o.OnStart(told.ContextID, told.RunID)
		}
	case e.name == "stdout" && o.OnStdout != nil:
		o.OnStdout(told.Text)
	case e.name == "stderr" && o.OnStderr != nil:
		o.OnStderr(told.Text)
	case e.name == "result" && told.Updates:
		if o.OnUpdate != nil {
			o.OnUpdate(told.CodeResult)
		}
	case e.name == "result" && o.OnResult != nil:
		o.OnResult(told.CodeResult)
	case e.name == "clear" && o.OnClear != nil:
		o.OnClear()
	case e.name == "exception" && o.OnError != nil:
		o.OnError(told.CodeError)
	}
	return nil
}
