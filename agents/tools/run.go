package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

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
	StdoutB64  string    `json:"stdout_b64,omitempty"` // of what is no text, where bytes are asked for
	StderrB64  string    `json:"stderr_b64,omitempty"`
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
	return a.with(result, missingNetwork(ctx, session, result.ExitCode, result.Stdout+result.Stderr), c.flag("bytes", false))
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

// with adds how the run ended, and the bytes of what is no text if they are asked for.
func (a runAnswer) with(result sandkasten.ProcessResult, hint string, exact bool) (runAnswer, error) {
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
	switch {
	case exact:
		a.StdoutB64, a.StderrB64 = exactBytes(result.Stdout, result.StdoutBase64), exactBytes(result.Stderr, result.StderrBase64)
	case a.Lossy:
		a.Hint = "U+FFFD stands for bytes that are no text. bytes true has them."
	}
	for _, encoded := range []*string{&a.StdoutB64, &a.StderrB64} {
		if most := a.Limits.MaxStdoutBytes / 3 * 4; len(*encoded) > most { // of bytes that begin it
			*encoded, a.Truncated = (*encoded)[:most], true
		}
	}
	return a, errors.Join(err, stderrErr)
}
