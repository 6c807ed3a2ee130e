package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/sdk/go"
)

const (
	completed = "completed"
	running   = "running"
)

// ended is what the answers about a command that has ended have in common.
type ended struct {
	Cause         string                     `json:"cause,omitempty"` // unless it exited by itself
	TimedOut      bool                       `json:"timed_out,omitempty"`
	DiskFull      bool                       `json:"disk_full,omitempty"`
	NetworkDenied []sandkasten.NetworkDenial `json:"network_denied,omitempty"`
	DurationMS    int64                      `json:"duration_ms,omitempty"`
	Hint          string                     `json:"hint,omitempty"`
}

func newEnded(end sandkasten.ExecEnd) ended {
	e := ended{TimedOut: end.TimedOut, DiskFull: end.DiskFull, NetworkDenied: end.NetworkDenied, DurationMS: end.DurationMS}
	if end.Cause != "exited" {
		e.Cause = end.Cause
	}
	switch {
	case end.TimedOut:
		e.Hint = "It was ended at its timeout. Send a longer timeout_seconds, or stream true for a program that goes on."
	case end.Cause == "oom_killed":
		e.Hint = "It needed more memory than the sandbox has. Work on less at once; limits are those of the opening, so a larger limits.memory_mb needs another session_key."
	case end.Cause == "sandbox_gone":
		e.Hint = "The sandbox ended meanwhile. Call sandbox_open and use the sandbox_id that it returns."
	case end.DiskFull:
		e.Hint = "The sandbox's disk is full. Delete files that are not needed."
	case len(end.NetworkDenied) > 0:
		e.Hint = networkHint(end.NetworkDenied)
	}
	return e
}

// networkHint says what opens what the network refused, which is the user's to decide.
func networkHint(denied []sandkasten.NetworkDenial) string {
	var entries []string
	for _, d := range denied {
		if d.Entry != "" && !slices.Contains(entries, d.Entry) {
			entries = append(entries, d.Entry)
		}
	}
	const refused = "The sandbox's network does not allow these hosts. Use what is installed"
	if len(entries) == 0 {
		return refused + ": why says what refuses them, and no entry of the network's allow list would open them."
	}
	return refused + ", or ask the user to add to the network's allow list: " + strings.Join(entries, ", ") + "."
}

// unreached is in what programs print that look for a host and find no network: they are
// told as much as a program without a name server is.
var unreached = regexp.MustCompile(`(?i)could(n't| not) resolve|name resolution|name or service not known|no address associated|network is unreachable|network unreachable|getaddrinfo|ENOTFOUND|EAI_AGAIN|no such host`)

// missingNetwork is the hint where a command has failed that looked for a host in a sandbox
// without a network, or nothing. The daemon cannot tell: such a sandbox asks nobody.
func missingNetwork(ctx context.Context, session *sandkasten.Session, exitCode int, output string) string {
	if exitCode == 0 || !unreached.MatchString(output) {
		return ""
	}
	info, err := session.Refresh(ctx)
	if err != nil || info.NetworkMode != "none" {
		return ""
	}
	return "The sandbox has no network, so no host is reached from it. Use what is installed, ask the user to allow hosts (sandkasten network allow " + info.ID + " HOST), or open another sandbox: sandbox_open with another session_key and network internet, if that is allowed."
}

type execAnswer struct {
	ExecID    string  `json:"exec_id"`
	Status    string  `json:"status"`
	ExitCode  *int    `json:"exit_code,omitempty"`
	Stdout    *string `json:"stdout,omitempty"`
	Stderr    *string `json:"stderr,omitempty"`
	Lossy     bool    `json:"lossy,omitempty"`
	Truncated bool    `json:"truncated,omitempty"`
	ended
}

// readOn says how to read what an answer has no room for. Of long output the daemon
// keeps only the beginning and the end.
func readOn(end sandkasten.ExecEnd) string {
	const read = "sandbox_exec_read with this exec_id and since_seq 0 reads "
	if end.DroppedBytes == 0 {
		return read + "all"
	}
	return fmt.Sprintf("%sits beginning and end; %d more bytes of output are lost: run it again with its output to a file", read, end.DroppedBytes)
}

// oddBytes is the hint where an output has bytes that are no text.
const oddBytes = "U+FFFD stands for bytes that are no text. sandbox_exec_read with this exec_id and bytes true has them."

func execTool(ctx context.Context, c *call) (any, error) {
	cmd := c.texts("cmd")
	if len(cmd) == 0 || cmd[0] == "" {
		return nil, wrongInput(`cmd must have a program and its arguments, such as ["python3", "main.py"]; a line for a shell is ["sh", "-c", "..."]`)
	}
	cwd, err := directory(c.text("cwd"))
	if err != nil {
		return nil, err
	}
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	options := sandkasten.ProcessOptions{Cwd: cwd, Env: c.mapping("env"), Timeout: c.seconds("timeout_seconds", c.set.opts.Timeout)}
	if c.flag("stream", false) {
		options.Timeout = c.seconds("timeout_seconds", 0) // servers have none
		process, err := session.StartProcess(ctx, cmd, &options)
		if err != nil {
			return nil, err
		}
		return execAnswer{ExecID: process.ID, Status: running, ended: ended{Hint: "sandbox_exec_read follows it, sandbox_exec_wait waits for its end."}}, nil
	}
	options.OnDisconnect = "kill"
	var result sandkasten.ProcessResult
	err = tell(ctx, strings.Join(cmd, " "), func() error {
		result, err = session.RunProcess(ctx, cmd, &options)
		return err
	})
	if err != nil {
		return nil, err
	}
	a, err := newExecAnswer(result, c.set.opts.MaxBytes)
	a.Hint = orElse(a.Hint, missingNetwork(ctx, session, result.ExitCode, result.Stdout+result.Stderr))
	return a, err
}

func newExecAnswer(r sandkasten.ProcessResult, most int) (execAnswer, error) {
	a := execAnswer{ExecID: r.ExecID, Status: completed, ExitCode: &r.ExitCode, ended: newEnded(r.ExecEnd)}
	stdout, lossy, cut, err := stream(r.Stdout, r.StdoutBase64, most, readOn(r.ExecEnd))
	if err != nil {
		return a, err
	}
	stderr, errLossy, errCut, err := stream(r.Stderr, r.StderrBase64, most, readOn(r.ExecEnd))
	a.Stdout, a.Stderr = &stdout, &stderr
	a.Lossy, a.Truncated = lossy || errLossy, r.Truncated || cut || errCut
	if a.Lossy {
		a.Hint = orElse(a.Hint, oddBytes)
	}
	return a, err
}

// directory is where a command begins. A command may be anywhere, so absolute paths
// are taken as they are.
func directory(cwd string) (string, error) {
	if strings.HasPrefix(cwd, "/") {
		return cwd, nil
	}
	return workspacePath("cwd", cwd)
}

// tellEvery is between two words of a call's progress.
const tellEvery = 5 * time.Second

// tell does something that may take long, and says so meanwhile to whom the context
// names.
func tell(ctx context.Context, what string, do func() error) error {
	progress, ok := ctx.Value(progressKey{}).(Progress)
	if !ok {
		return do()
	}
	what, _ = shorten(what, 200, "more")
	start, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				progress(time.Since(start), "running: "+what)
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return do()
}

type chunk struct {
	Seq     int64  `json:"seq"`
	Stream  string `json:"stream"`
	Text    string `json:"text,omitempty"`
	Lossy   bool   `json:"lossy,omitempty"`
	TextB64 string `json:"text_b64,omitempty"` // of what is no text, where bytes are asked for
}

type readAnswer struct {
	Chunks       []chunk `json:"chunks"`
	Done         bool    `json:"done"`
	NextSeq      int64   `json:"next_seq"`
	DroppedBytes int64   `json:"dropped_bytes,omitempty"`
	Status       string  `json:"status"`
	ExitCode     *int    `json:"exit_code,omitempty"`
	Cause        string  `json:"cause,omitempty"`
}

// readWait is how long a read waits for output, so that a model need not ask often.
const readWait = 2 * time.Second

func execReadTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	page, err := session.Process(c.text("exec_id")).Output(ctx, &sandkasten.OutputOptions{
		SinceSeq: c.number("since_seq", 0), MaxChunks: int(c.number("max_chunks", 0)), Wait: readWait,
	})
	if err != nil {
		return nil, err
	}
	a := readAnswer{
		Chunks: []chunk{}, Done: page.Done, NextSeq: page.NextSeq, DroppedBytes: page.Dropped, Status: running, ExitCode: page.ExitCode, Cause: page.Cause,
	}
	if page.ExitCode != nil {
		a.Status = completed
	}
	total := 0
	for _, one := range page.Chunks {
		shown, size, cut, err := newChunk(one, 2*c.set.opts.MaxBytes-total, c.flag("bytes", false))
		if err != nil {
			return nil, err
		}
		if size > 0 {
			a.Chunks = append(a.Chunks, shown)
		}
		total += size
		if cut { // the rest is for the next call
			a.Done, a.NextSeq = false, shown.Seq
			break
		}
	}
	return a, nil
}

// newChunk is a chunk as models are given it, of at most so many bytes, and how many it
// has. Its seq counts bytes, so a chunk can end anywhere.
func newChunk(one sandkasten.OutputChunk, most int, binary bool) (shown chunk, size int, cut bool, err error) {
	data, err := one.Bytes()
	if err != nil {
		return chunk{}, 0, false, fmt.Errorf("decode output: %w", err)
	}
	text := utf8.Valid(data) && !bytes.ContainsRune(data, 0)
	if binary = binary && !text; binary {
		most = most * 3 / 4
	}
	part := data
	if cut = len(data) > most; cut {
		part = data[:max(most, 0)]
		if whole := wholeRunes(part); len(whole) > 0 {
			part = whole
		}
	}
	shown = chunk{Seq: one.Seq - int64(len(data)-len(part)), Stream: one.Stream}
	if binary {
		shown.TextB64 = base64.StdEncoding.EncodeToString(part)
	} else {
		shown.Text, shown.Lossy = readable(part)
	}
	return shown, len(shown.Text) + len(shown.TextB64), cut, nil
}

type waitAnswer struct {
	Done     bool `json:"done"`
	ExitCode *int `json:"exit_code,omitempty"`
	ended
}

func execWaitTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	process := session.Process(c.text("exec_id"))
	waiting, cancel := context.WithTimeout(ctx, c.seconds("timeout_seconds", time.Minute))
	defer cancel()
	var detail sandkasten.ExecDetail
	err = tell(ctx, "waiting for "+process.ID, func() error {
		detail, err = process.Wait(waiting)
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return waitAnswer{ended: ended{Hint: "It is still running. Call again to go on waiting, or read its output with sandbox_exec_read."}}, nil
	}
	if err != nil {
		return nil, err
	}
	end, _ := detail.End()
	return waitAnswer{Done: true, ExitCode: &end.ExitCode, ended: newEnded(end)}, nil
}

type shellAnswer struct {
	ExecID    string `json:"exec_id"`
	ExitCode  int    `json:"exit_code"`
	Output    string `json:"output"`
	Lossy     bool   `json:"lossy,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Cwd       string `json:"cwd"`
	Restarted bool   `json:"shell_restarted,omitempty"`
	ended
}

func shellTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	options := sandkasten.ExecOptions{
		Timeout: c.seconds("timeout_seconds", c.set.opts.Timeout), Stdin: c.text("stdin"), Shell: c.text("shell"), OnDisconnect: "kill",
	}
	var r sandkasten.ExecResult
	err = tell(ctx, c.text("command"), func() error {
		r, err = session.Exec(ctx, c.text("command"), &options)
		return err
	})
	if err != nil {
		return nil, err
	}
	a := shellAnswer{ExecID: r.ExecID, ExitCode: r.ExitCode, Cwd: r.Cwd, Restarted: r.ShellRestarted, ended: newEnded(r.ExecEnd)}
	a.Hint = orElse(a.Hint, missingNetwork(ctx, session, r.ExitCode, r.Output))
	a.Output, a.Lossy, a.Truncated, err = stream(r.Output, r.OutputBase64, c.set.opts.MaxBytes, readOn(r.ExecEnd))
	if a.Lossy {
		a.Hint = orElse(a.Hint, oddBytes)
	}
	a.Truncated = a.Truncated || r.Truncated
	return a, err
}

const defaultRuntime = "python"

// runtimes are what sandbox_run runs code with.
var runtimes = map[string]runtime{
	"python": {"main.py", "python3", "python"},
	"node":   {"main.js", "node", "node"},
	"bash":   {"main.sh", "bash", ""},
}

// runtime is what code is run with. Its image is the one that Sandkasten's own recipes
// make for it, and is taken where nobody has chosen another and the daemon has it.
type runtime struct{ file, program, image string }

type runAnswer struct {
	OK         bool      `json:"ok"`
	Runtime    string    `json:"runtime"`
	ExitCode   int       `json:"exit_code"`
	DurationMS int64     `json:"duration_ms"`
	Stdout     string    `json:"stdout"`
	Stderr     string    `json:"stderr"`
	Lossy      bool      `json:"lossy,omitempty"`
	Truncated  bool      `json:"truncated,omitempty"`
	Error      string    `json:"error,omitempty"`
	Limits     runLimits `json:"limits"`
	ended
}

type runLimits struct {
	TimeoutSeconds int64 `json:"timeout_seconds"`
	MaxStdoutBytes int   `json:"max_stdout_bytes"`
}

// closing is how long the removal of a run's sandbox may take.
const closing = 30 * time.Second

func runTool(ctx context.Context, c *call) (answer any, err error) {
	kind := orElse(c.text("runtime"), c.set.opts.Runtime)
	how, timeout := runtimes[kind], c.seconds("timeout_seconds", c.set.opts.Timeout)
	files, err := c.runFiles(how.file)
	if err != nil {
		return nil, err
	}
	session, err := c.runSession(ctx, kind, timeout+time.Minute)
	if err != nil {
		return nil, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		// What the code has done stays done: an error would have it run again.
		if session.Destroy(ending) != nil {
			if a, ran := answer.(runAnswer); ran {
				a.Hint = "Its sandbox could not be removed; it ends by itself."
				answer = a
			}
		}
	}()
	for _, name := range sortedKeys(files) {
		if err := session.Write(ctx, name, strings.NewReader(files[name]), nil); err != nil {
			return nil, err
		}
	}
	var result sandkasten.ProcessResult
	err = tell(ctx, kind, func() error {
		cmd := append([]string{how.program, workspace + "/" + how.file}, c.texts("args")...)
		result, err = session.RunProcess(ctx, cmd, &sandkasten.ProcessOptions{Env: c.mapping("env"), Timeout: timeout, OnDisconnect: "kill"})
		return err
	})
	a := runAnswer{Runtime: kind, Limits: runLimits{int64(timeout / time.Second), c.set.opts.MaxBytes}}
	if reasonOf(err) == sandkasten.ReasonProgramNotFound {
		a.ExitCode, a.Error = -1, "the image of the sandbox has no "+how.program+"; use another runtime, or a sandbox whose image has it"
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	return a.with(result, missingNetwork(ctx, session, result.ExitCode, result.Stdout+result.Stderr))
}

// runSession makes the sandbox of a run. Where nobody has chosen an image it is the one
// of the runtime, or the daemon's default if there is none of that name. It is looked for
// first: an engine would go and pull what it does not have.
func (c *call) runSession(ctx context.Context, kind string, ttl time.Duration) (*sandkasten.Session, error) {
	options := c.set.opts.Session
	options.Labels = map[string]string{LabelScope: c.scope.String()}
	options.TTL, options.OnExpiry = ttl, expires
	options.Image = orElse(c.set.opts.Images[kind], options.Image)
	if usual := runtimes[kind].image; usual != "" && options.Image == "" && options.RestoreSnapshotID == "" {
		if _, err := c.set.opts.Client.GetImage(ctx, usual); err == nil {
			options.Image = usual
		}
	}
	return c.set.opts.Client.CreateSession(ctx, &options)
}

// reasonOf is the daemon's reason for an error, if it has one.
func reasonOf(err error) sandkasten.Reason {
	var refused *sandkasten.APIError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}

// runFiles is what a run begins with, by path: its code, and further files.
func (c *call) runFiles(code string) (map[string]string, error) {
	files := map[string]string{workspace + "/" + code: c.text("code")}
	for name, text := range c.mapping("files") {
		place, err := workspacePath("files", name)
		if err != nil {
			return nil, err
		}
		if _, taken := files[place]; taken || place == workspace {
			return nil, wrongInput("files has the name %q, which must be that of one more file: code is %s, and each file has one name", name, code)
		}
		files[place] = text
	}
	return files, nil
}

func (a runAnswer) with(result sandkasten.ProcessResult, hint string) (any, error) {
	const print = "print less"
	var lossy, errLossy, cut, errCut bool
	var err, stderrErr error
	a.Stdout, lossy, cut, err = stream(result.Stdout, result.StdoutBase64, a.Limits.MaxStdoutBytes, print)
	a.Stderr, errLossy, errCut, stderrErr = stream(result.Stderr, result.StderrBase64, a.Limits.MaxStdoutBytes, print)
	a.Lossy, a.Truncated = lossy || errLossy, result.Truncated || cut || errCut
	a.OK, a.ExitCode, a.DurationMS = result.ExitCode == 0, result.ExitCode, result.DurationMS
	a.ended = newEnded(result.ExecEnd)
	switch { // the hints name tools and fields that a run does not have
	case result.TimedOut:
		a.Hint = "It was ended at its timeout. Send a longer timeout_seconds, or do less in one run."
	case result.Cause == "oom_killed":
		a.Hint = "It needed more memory than the sandbox has. Work on less at once."
	case result.Cause == "sandbox_gone":
		a.Hint = "The sandbox ended meanwhile. Run it again."
	}
	if a.Error, a.Hint = a.Hint, ""; a.Error == "" && !a.OK {
		a.Error = orElse(hint, "the program failed; see stderr")
		if result.Signal > 0 {
			a.Error = fmt.Sprintf("the program was ended by signal %d", result.Signal)
		}
	}
	return a, errors.Join(err, stderrErr)
}

// decodeBase64 reads bytes that a model has sent.
func decodeBase64(field, text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, wrongInput("%s must be standard base64 with padding: %v; send text as contents", field, err)
	}
	return data, nil
}
