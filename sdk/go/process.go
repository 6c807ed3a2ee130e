package sandkasten

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

const (
	stdinPiece = 512 << 10       // the API takes 1 MiB of input at once
	waitPiece  = 5 * time.Minute // that one request waits; the API's limit is 10
)

// ProcessOptions says how a program runs.
type ProcessOptions struct {
	Cwd        string            `json:"cwd,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	User       string            `json:"user,omitempty"`         // a name or number, with :group if wanted
	Stdin      []byte            `json:"stdin_base64,omitempty"` // what it reads; at most 1 MiB
	OpenStdin  bool              `json:"open_stdin,omitempty"`   // for WriteStdin
	Timeout    time.Duration     `json:"-"`                      // after which it is ended; whole milliseconds
	TTY        bool              `json:"tty,omitempty"`          // a terminal, of Rows and Cols
	Rows       uint16            `json:"rows,omitempty"`
	Cols       uint16            `json:"cols,omitempty"`
	Stderr     string            `json:"stderr,omitempty"`      // merged: one output for both, as they were written
	RawOutput  bool              `json:"raw_output,omitempty"`  // keep escape sequences and line ends as written
	OutputFile string            `json:"output_file,omitempty"` // in the sandbox, for all of the output

	OnDisconnect string `json:"on_disconnect,omitempty"` // kill: it ends when the connection breaks, too
	ExecID       string `json:"exec_id,omitempty"`       // 26 random characters of a-z and 2-7; empty is a new one
}

type processRequest struct {
	Cmd        []string `json:"cmd"`
	TimeoutMS  int64    `json:"timeout_ms,omitempty"`
	Background bool     `json:"background,omitempty"`
	ProcessOptions
}

func newProcessRequest(cmd []string, o *ProcessOptions) processRequest {
	options := value(o)
	options.ExecID = cmp.Or(options.ExecID, newExecID())
	return processRequest{Cmd: cmd, TimeoutMS: options.Timeout.Milliseconds(), ProcessOptions: options}
}

// ProcessResult is how a program ended, with its output.
type ProcessResult struct {
	ExecEnd

	Status       string `json:"status"` // completed, running
	PID          int    `json:"pid,omitempty"`
	Stdout       string `json:"stdout"` // U+FFFD stands for what is not UTF-8
	StdoutBase64 string `json:"stdout_base64,omitempty"`
	Stderr       string `json:"stderr"`
	StderrBase64 string `json:"stderr_base64,omitempty"`
	Output       string `json:"output,omitempty"` // of a terminal, and of merged outputs, instead of the two
	OutputBase64 string `json:"output_base64,omitempty"`
	Truncated    bool   `json:"truncated"`
}

// StdoutBytes is the output exactly as it was written.
func (r ProcessResult) StdoutBytes() ([]byte, error) { return exact(r.Stdout, r.StdoutBase64) }

// StderrBytes is what was written to stderr, exactly.
func (r ProcessResult) StderrBytes() ([]byte, error) { return exact(r.Stderr, r.StderrBase64) }

// ShellCode is a program that runs shell code: RunProcess(ctx, ShellCode("make; make test"), nil).
// The shell is bash or, in an image without, sh. It is a new one each time: to keep
// directory and variables use Exec.
func ShellCode(code string) []string {
	return []string{"sh", "-c", `exec "$(command -v bash || echo sh)" -c "$0"`, code}
}

// RunProcess runs a program without a shell, and returns when it has ended. When ctx
// ends first, so does the program; when the connection breaks, the program goes on.
func (s *Session) RunProcess(ctx context.Context, cmd []string, o *ProcessOptions) (ProcessResult, error) {
	body := newProcessRequest(cmd, o)
	var result ProcessResult
	err := s.run(ctx, "/processes", body.ExecID, body, &result)
	return result, err
}

// StreamProcess runs a program whose output is there as it is written; each chunk
// says its stream. It begins with the first use of the stream.
func (s *Session) StreamProcess(cmd []string, o *ProcessOptions) *ExecStream {
	body := newProcessRequest(cmd, o)
	return &ExecStream{session: s, raw: body.RawOutput, first: post(s.path+"/processes/stream", body), own: body.ExecID}
}

// StartProcess starts a program and leaves it running.
func (s *Session) StartProcess(ctx context.Context, cmd []string, o *ProcessOptions) (*Process, error) {
	body := newProcessRequest(cmd, o)
	body.Background = true
	var started ProcessResult
	if err := s.client.call(ctx, post(s.path+"/processes", body), &started); err != nil {
		return nil, err
	}
	p := s.Process(started.ExecID)
	p.PID = started.PID
	return p, nil
}

// ExecRecord is one command or process as the session remembers it.
type ExecRecord struct {
	ExecEnd

	ExitCode  *int      `json:"exit_code,omitempty"` // nil until it has ended
	Kind      string    `json:"kind"`                // shell, process
	Shell     string    `json:"shell"`               // empty for a process
	Cmd       string    `json:"cmd"`                 // its beginning
	State     string    `json:"state"`               // queued, running, ended
	WaitsFor  *WaitsFor `json:"waits_for,omitempty"` // of a queued command: the one that its shell runs
	StartedAt time.Time `json:"started_at,omitzero"`
	PID       int       `json:"pid,omitempty"`
	TTY       bool      `json:"tty,omitempty"`
}

// WaitsFor is a command behind which others wait.
type WaitsFor struct {
	ExecID string `json:"exec_id"`
	Cmd    string `json:"cmd"` // its beginning
}

// End is how the command or process ended, and false before it has.
func (r ExecRecord) End() (end ExecEnd, ended bool) {
	end = r.ExecEnd
	if r.ExitCode != nil {
		end.ExitCode = *r.ExitCode
	}
	return end, r.State == "ended"
}

// ExecDetail is a command or process with what is kept of its output.
type ExecDetail struct {
	ExecRecord
	Text
}

// ListExecs returns the commands and processes that the session still knows,
// oldest first.
func (s *Session) ListExecs(ctx context.Context) ([]ExecRecord, error) {
	var list []ExecRecord
	err := s.client.call(ctx, get(s.path+"/execs"), &list)
	return list, err
}

// ListProcesses returns the processes that the session still knows, oldest first.
func (s *Session) ListProcesses(ctx context.Context) ([]ExecRecord, error) {
	var list []ExecRecord
	err := s.client.call(ctx, get(s.path+"/processes"), &list)
	return list, err
}

// Process calls a program while it runs, and for some minutes after its end. A
// command of a shell can be reached by its id in the same way.
type Process struct {
	ID  string
	PID int // inside the sandbox; 0 unless StartProcess made the Process

	session *Session
	path    string
}

// Process returns a process by its id without asking the daemon for it.
func (s *Session) Process(execID string) *Process {
	return &Process{ID: execID, session: s, path: s.execPath(execID)}
}

func (s *Session) execPath(execID string) string { return s.path + "/execs/" + segment(execID) }

// Get returns what is known of the process, with what is kept of its output until
// now.
func (p *Process) Get(ctx context.Context, o *AttachOptions) (ExecDetail, error) {
	return p.get(ctx, 0, value(o).RawOutput)
}

// Wait returns when the process has ended, however long that takes.
func (p *Process) Wait(ctx context.Context) (ExecDetail, error) {
	for {
		detail, err := p.get(ctx, waitPiece, false)
		if err != nil || detail.State == "ended" {
			return detail, err
		}
	}
}

func (p *Process) get(ctx context.Context, wait time.Duration, raw bool) (ExecDetail, error) {
	r := get(p.path)
	r.setFlag("raw_output", raw)
	r.setNumber("wait_ms", wait.Milliseconds())
	var detail ExecDetail
	err := p.session.client.call(ctx, r, &detail)
	return detail, err
}

// Stream follows the process from its start to its end.
func (p *Process) Stream(o *AttachOptions) *ExecStream { return p.session.Attach(p.ID, o) }

// OutputOptions selects output.
type OutputOptions struct {
	SinceSeq  int64         // NextSeq of the page before
	MaxChunks int           // 0 is the daemon's default
	Wait      time.Duration // so long for the first byte or the end; whole milliseconds
}

// OutputPage is a part of a process's output.
type OutputPage struct {
	Chunks   []OutputChunk `json:"chunks"`
	NextSeq  int64         `json:"next_seq"`
	Dropped  int64         `json:"dropped"` // bytes before the first chunk that are not kept
	Done     bool          `json:"done"`    // nothing comes behind
	Status   string        `json:"status"`
	ExitCode *int          `json:"exit_code,omitempty"`
	Cause    string        `json:"cause,omitempty"`
	DiskFull bool          `json:"disk_full,omitempty"` // as in ExecEnd
}

// OutputChunk is a piece of output with its number.
type OutputChunk struct {
	Seq    int64  `json:"seq"`
	Stream string `json:"stream"`
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"` // instead of Text, of what is not UTF-8
}

// Bytes is the piece exactly as it was written.
func (c OutputChunk) Bytes() ([]byte, error) { return exact(c.Text, c.Base64) }

// Output returns the process's output page by page.
func (p *Process) Output(ctx context.Context, o *OutputOptions) (OutputPage, error) {
	options := value(o)
	r := get(p.path + "/output")
	r.set("since_seq", strconv.FormatInt(options.SinceSeq, 10))
	r.setNumber("max_chunks", int64(options.MaxChunks))
	r.setNumber("wait_ms", options.Wait.Milliseconds())
	var page OutputPage
	err := p.session.client.call(ctx, r, &page)
	return page, err
}

// WriteStdin writes to the process's standard input, which must be open, until
// the end of content or ctx, and returns when the process has taken all of it.
func (p *Process) WriteStdin(ctx context.Context, content io.Reader) error {
	piece := make([]byte, stdinPiece)
	for {
		n, err := content.Read(piece)
		if err := p.give(ctx, piece[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what is for stdin: %w", err)
		}
	}
}

func (p *Process) give(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		var reply struct {
			Accepted int `json:"accepted_bytes"`
		}
		body := map[string]string{"data_base64": base64.StdEncoding.EncodeToString(data)}
		if err := p.session.client.call(ctx, post(p.path+"/stdin", body), &reply); err != nil {
			return err
		}
		if reply.Accepted < 0 || reply.Accepted > len(data) {
			return fmt.Errorf("the daemon says that %d bytes of %d were taken", reply.Accepted, len(data))
		}
		data = data[reply.Accepted:]
	}
	return nil
}

// CloseStdin ends the process's standard input.
func (p *Process) CloseStdin(ctx context.Context) error {
	return p.post(ctx, "/stdin", map[string]bool{"close": true})
}

// Signal sends a signal by its name, with or without SIG, or its number.
func (p *Process) Signal(ctx context.Context, signal string) error {
	if number, err := strconv.Atoi(signal); err == nil {
		return p.post(ctx, "/signal", map[string]int{"signal": number})
	}
	return p.post(ctx, "/signal", map[string]string{"signal": signal})
}

// Resize changes the size of the process's terminal.
func (p *Process) Resize(ctx context.Context, rows, cols uint16) error {
	return p.session.client.call(ctx, postSame(p.path+"/resize", map[string]uint16{"rows": rows, "cols": cols}), nil)
}

// Kill ends the process with all that it started: TERM, and soon KILL. Again, or
// after its end, is no error.
func (p *Process) Kill(ctx context.Context) error {
	return p.session.client.call(ctx, postSame(p.path+"/cancel", nil), nil)
}

func (p *Process) post(ctx context.Context, path string, body any) error {
	return p.session.client.call(ctx, post(p.path+path, body), nil)
}
