// Package contexts runs code in kernels which remember: a context is a Jupyter kernel in
// the sandbox of a session, with a bridge before it. To the session the bridge is a
// process like others, in the background and with its stdin open, so that limits, pause,
// stop and a restart of the daemon are what they are for processes. The daemon keeps
// nothing of a context: which there are it reads from the processes, and what a run
// answered the bridge keeps. What comes from a bridge is as hostile as all that comes
// from a sandbox.
package contexts

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/keylock"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

// bridgeFiles are the bridge, one program in the order of their names.
//
//go:embed bridge/*.py
var bridgeFiles embed.FS

//go:embed describe.py
var describeSource string

// Execs is what a context is made of: ops.Execs.
type Execs interface {
	List(ctx context.Context, p auth.Principal, id string) ([]protocol.Record, error)
	Get(ctx context.Context, p auth.Principal, id string, execID string) (protocol.Record, error)
	StartProcess(ctx context.Context, p auth.Principal, id string, req ops.ProcessRequest) (protocol.Record, error)
	WriteStdin(ctx context.Context, p auth.Principal, id string, execID string, data []byte, last bool) (protocol.Taken, error)
	Attach(ctx context.Context, p auth.Principal, id string, execID string, offset int64, out io.Writer) (protocol.Record, error)
	Cancel(ctx context.Context, p auth.Principal, id string, execID string) error
	Wait(ctx context.Context, p auth.Principal, id string, execID string, wait time.Duration) (protocol.Record, error)
}

// Options configures a Service. All fields are required but Grace.
type Options struct {
	Execs Execs
	// Image is the name of the image that a session began with.
	Image func(ctx context.Context, p auth.Principal, id session.ID) (string, error)
	// Timeouts are those of a principal's runs: of one that asks for none, and at most.
	Timeouts func(p auth.Principal) (usual, most time.Duration)
	// Grace is how long a run may take to follow an interrupt: 5 s.
	Grace time.Duration
}

// Service makes contexts and runs code in them. Its methods may be called concurrently.
type Service struct {
	opts  Options
	locks *keylock.Locks // one create at a time per session, for names are unique
	room  *room
}

// New returns a Service.
func New(o Options) *Service {
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	return &Service{opts: o, locks: keylock.New(), room: newRoom()}
}

// Context is a kernel in a session which remembers.
type Context struct {
	ID        string // also that of its process
	Name      string
	Language  string
	Running   bool
	Cause     protocol.Cause // why it ended
	CreatedAt time.Time
	Status    *Status // where the bridge was asked

	offset int64 // in the output of its process, of what is not written yet
}

// Status is what a bridge says of its kernel.
type Status struct {
	Kernel         string `json:"kernel"`
	State          string `json:"state"`
	RunID          string `json:"run_id"`
	Queued         int    `json:"queued"`
	KernelsStarted int    `json:"kernels_started"`
	PID            int    `json:"pid"`
}

// CreateRequest is for a new context.
type CreateRequest struct {
	Language string
	Name     string // unique among the session's contexts that run; "" is none
	Cwd      string // "" is the workspace
	Env      map[string]string
}

// What programs a bridge's process has. The first 256 bytes of its command, which the
// session shows, say that it is a context, and which.
const (
	loader = "import sys;sys.path[:]=filter(None,sys.path);exec(sys.stdin.buffer.read(int(sys.argv[2])))"
	marker = "sandkasten-context"
)

// bridgeProgram is what the loader reads and runs.
var bridgeProgram = joinBridge()

func joinBridge() (program []byte) {
	entries, err := bridgeFiles.ReadDir("bridge")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, entry := range entries {
		text, err := bridgeFiles.ReadFile("bridge/" + entry.Name())
		if err != nil {
			panic(err)
		}
		program = append(program, text...)
	}
	return append(program, "\nbridge("+strconv.QuoteToASCII(describeSource)+")\n"...)
}

// startTime is how long a kernel may take to answer. The bridge gives up before.
const startTime = 90 * time.Second

// Create makes a context and returns when its kernel answers. A session without a kernel
// for the language is Unprocessable, and the message says what to do about it.
func (s *Service) Create(ctx context.Context, p auth.Principal, id session.ID, req CreateRequest) (Context, error) {
	if err := checkWord("language", req.Language); err != nil {
		return Context{}, err
	}
	if req.Name != "" {
		if err := checkWord("name", req.Name); err != nil {
			return Context{}, err
		}
	}
	release, err := s.locks.Acquire(ctx, string(id))
	if err != nil {
		return Context{}, err
	}
	defer release()
	return s.create(ctx, p, id, req)
}

// create is Create for who has the session's lock.
func (s *Service) create(ctx context.Context, p auth.Principal, id session.ID, req CreateRequest) (Context, error) {
	all, err := s.List(ctx, p, id)
	if err != nil {
		return Context{}, err
	}
	for _, c := range all {
		if req.Name != "" && c.Running && c.Name == req.Name {
			taken := errdefs.New(errdefs.AlreadyExists, "the session has a context named %q, %s; use it, delete it or take another name", c.Name, c.ID)
			taken.Field = "name"
			return Context{}, taken
		}
	}
	start := startFrame{Language: req.Language, GraceMS: s.opts.Grace.Milliseconds()}
	if req.Name == DefaultName(req.Language) {
		start.Remembers = req.Name
	}
	first := frameFor(start)
	stdin, err := appendLine(bridgeProgram[:len(bridgeProgram):len(bridgeProgram)], first)
	if err != nil {
		return Context{}, err
	}
	record, err := s.opts.Execs.StartProcess(ctx, p, string(id), ops.ProcessRequest{
		Args: []string{"python3", "-c", loader, marker, strconv.Itoa(len(bridgeProgram)), req.Language, cmp.Or(req.Name, "-")},
		Env:  req.Env, Cwd: req.Cwd, Stdin: stdin, OpenStdin: true,
	})
	if missingPython(err) {
		return Context{}, s.noKernel(ctx, p, id, req.Language, "has no python3, which contexts need", nil)
	}
	if err != nil {
		return Context{}, err
	}
	c := Context{ID: record.ID, Name: req.Name, Language: req.Language, Running: true, CreatedAt: time.UnixMilli(record.StartedUnixMS)}
	if c.Status, err = s.awaitKernel(ctx, p, id, c, first.tag()); err != nil {
		s.removeFailed(ctx, p, id, c.ID)
		return Context{}, err
	}
	return c, nil
}

// awaitKernel waits for the first answer of a bridge.
func (s *Service) awaitKernel(ctx context.Context, p auth.Principal, id session.ID, c Context, tag string) (*Status, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var answer frame
	reader := &frameReader{tag: tag, room: s.room, owner: p.Owner, take: func(f frame) (bool, error) { answer = f; return true, nil }}
	defer reader.release()
	record, err := s.opts.Execs.Attach(ctx, p, string(id), c.ID, 0, reader)
	switch {
	case reader.done && answer.Kind == kindReady && answer.Status != nil:
		return answer.Status, nil
	case reader.done && (answer.Reason == "no_kernel" || answer.Reason == "no_client"):
		why := "has no kernel for " + c.Language
		if answer.Reason == "no_client" {
			why = "has no Jupyter client (jupyter_client) for its python3"
		}
		return nil, s.noKernel(ctx, p, id, c.Language, why, answer.Kernels)
	case reader.done:
		return nil, kernelFailed(answer.Log)
	case err != nil:
		return nil, err
	}
	return nil, kernelFailed(fmt.Sprintf("its process ended with exit code %d (%s)", record.ExitCode, record.Cause))
}

// removeFailed ends a context that nobody has heard of.
func (s *Service) removeFailed(ctx context.Context, p auth.Principal, id session.ID, contextID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = s.opts.Execs.Cancel(ctx, p, string(id), contextID) // if it fails, the session or the process is gone
}

// List returns the contexts that the session still knows, oldest first. Those that have
// ended are among them for as long as their processes are known. Asking is not activity.
func (s *Service) List(ctx context.Context, p auth.Principal, id session.ID) ([]Context, error) {
	records, err := s.opts.Execs.List(ctx, p, string(id))
	if err != nil {
		return nil, err
	}
	var found []Context
	for _, r := range records {
		if c, ok := contextOf(r); ok {
			found = append(found, c)
		}
	}
	return found, nil
}

// Running returns how many contexts run in a session. One that cannot be asked has none.
func (s *Service) Running(ctx context.Context, p auth.Principal, id session.ID) (n int) {
	all, err := s.List(ctx, p, id)
	if err != nil {
		return 0
	}
	for _, c := range all {
		if c.Running {
			n++
		}
	}
	return n
}

// contextOf is the context that a process is, if it is one.
func contextOf(r protocol.Record) (Context, bool) {
	words, ok := strings.CutPrefix(r.Command, "python3 -c "+loader+" "+marker+" ")
	fields := strings.Fields(words)
	if !ok || r.Kind != protocol.KindProcess || len(fields) != 3 || checkWord("", fields[1]) != nil || checkWord("", fields[2]) != nil {
		return Context{}, false
	}
	c := Context{ID: r.ID, Language: fields[1], Name: fields[2], Running: r.State != protocol.StateEnded, Cause: r.Cause, CreatedAt: time.UnixMilli(r.StartedUnixMS), offset: r.OutputBytes}
	if c.Name == "-" {
		c.Name = ""
	}
	return c, true
}

// Find returns a context by its id, or by its name among those that run.
func (s *Service) Find(ctx context.Context, p auth.Principal, id session.ID, ref string) (Context, error) {
	if ids.Is(ref) {
		record, err := s.opts.Execs.Get(ctx, p, string(id), ref)
		if c, ok := contextOf(record); err == nil && ok {
			return c, nil
		}
		if err != nil && reasonOf(err) != errdefs.NoSuchExec {
			return Context{}, err
		}
	}
	all, err := s.List(ctx, p, id)
	if err != nil {
		return Context{}, err
	}
	for _, c := range all {
		if c.Running && c.Name == ref && ref != "" {
			return c, nil
		}
	}
	return Context{}, errdefs.New(errdefs.NotFound, "the session has no context %q; GET contexts lists those that it has", ref).Because(errdefs.NoSuchContext)
}

// Get is Find, and asks a context that runs for its kernel's state.
func (s *Service) Get(ctx context.Context, p auth.Principal, id session.ID, ref string) (Context, error) {
	c, err := s.Find(ctx, p, id, ref)
	if err != nil || !c.Running {
		return c, err
	}
	answer, err := s.ask(ctx, p, id, c, "status")
	c.Status = answer.Status
	return c, err
}

// Interrupt interrupts the run that a context is at, as Ctrl-C does, and keeps its state.
// Runs that wait come after it. Without a run nothing happens.
func (s *Service) Interrupt(ctx context.Context, p auth.Principal, id session.ID, ref string) error {
	c, err := s.living(ctx, p, id, ref)
	if err == nil {
		_, err = s.ask(ctx, p, id, c, "interrupt")
	}
	return err
}

// Restart gives a context a new kernel, and returns when that answers. Runs that wait or
// are underway are canceled.
func (s *Service) Restart(ctx context.Context, p auth.Principal, id session.ID, ref string) (Context, error) {
	c, err := s.living(ctx, p, id, ref)
	if err != nil {
		return Context{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	answer, err := s.ask(ctx, p, id, c, "restart")
	c.Status = answer.Status
	return c, err
}

// Delete ends a context with all that its kernel started. One that has ended is no error.
func (s *Service) Delete(ctx context.Context, p auth.Principal, id session.ID, ref string) error {
	c, err := s.Find(ctx, p, id, ref)
	if err != nil || !c.Running {
		return err
	}
	if err := s.opts.Execs.Cancel(ctx, p, string(id), c.ID); err != nil {
		return err
	}
	_, err = s.opts.Execs.Wait(ctx, p, string(id), c.ID, deleteTime)
	return err
}

// deleteTime is how long the end of a context is waited for, so that its name is free
// then. It is more than its programs get to follow a TERM.
const deleteTime = 30 * time.Second

// living is Find of a context that runs.
func (s *Service) living(ctx context.Context, p auth.Principal, id session.ID, ref string) (Context, error) {
	c, err := s.Find(ctx, p, id, ref)
	if err == nil && !c.Running {
		return c, errEnded(c)
	}
	return c, err
}

func errEnded(c Context) error {
	return errdefs.New(errdefs.Conflict, "context %s has ended (%s); make another", c.ID, cmp.Or(c.Cause, protocol.CauseExited))
}

// ask sends a request that one frame answers.
func (s *Service) ask(ctx context.Context, p auth.Principal, id session.ID, c Context, op string) (answer frame, err error) {
	request := frameFor(opFrame{Op: op})
	err = s.exchange(ctx, p, id, c, request, func(f frame) (bool, error) {
		answer = f
		return true, refusal(f)
	})
	return answer, err
}

// words are names and languages: they are shown in a line that spaces divide.
const wordLimit = 64

func checkWord(field, word string) error {
	if len(word) == 0 || len(word) > wordLimit || strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+#-") != "" {
		return errdefs.Invalid(field, "must have 1 to %d of a-z, A-Z, 0-9, '.', '_', '+', '#' and '-'", wordLimit)
	}
	return nil
}
