package contexts

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// The kinds of frames that a bridge writes, one JSON object on a line each.
const (
	kindReady   = "ready"
	kindEvent   = "event"
	kindEnd     = "end"
	kindRefused = "refused"
)

// frame is an answer of a bridge.
type frame struct {
	Tag     string          `json:"tag"`
	Kind    string          `json:"kind"`
	Status  *Status         `json:"status"`
	Reason  string          `json:"reason"`
	Kernels []Kernel        `json:"kernels"`
	Log     string          `json:"log"`
	Seq     int64           `json:"seq"`
	Event   json.RawMessage `json:"event"`
	Answer  json.RawMessage `json:"answer"`
}

// Kernel is one that a sandbox has.
type Kernel struct {
	Name     string `json:"name"`
	Language string `json:"language"`
}

// request is a frame for a bridge. Its tag is in all answers, by which they are told
// from those to others.
type request interface{ tag() string }

type tagged struct {
	Tag string `json:"tag"`
}

func (t tagged) tag() string { return t.Tag }

type startFrame struct {
	tagged
	Language  string `json:"language"`
	GraceMS   int64  `json:"grace_ms"`
	Remembers string `json:"remembers,omitempty"` // the name under which the next context of it knows that there was one
}

type opFrame struct {
	tagged
	Op string `json:"op"`
}

type runFrame struct {
	tagged
	Op        string `json:"op"`
	Run       string `json:"run"`
	Code      string `json:"code"`
	TimeoutMS int64  `json:"timeout_ms"`
	Events    bool   `json:"events"`
}

type followFrame struct {
	tagged
	Op     string `json:"op"`
	Run    string `json:"run"`
	After  int64  `json:"after"`
	Events bool   `json:"events"`
}

// frameFor gives a frame its tag.
func frameFor[F startFrame | opFrame | runFrame | followFrame](f F) request {
	tag := tagged{rand.Text()}
	switch f := any(f).(type) {
	case startFrame:
		f.tagged = tag
		return f
	case opFrame:
		f.tagged = tag
		return f
	case runFrame:
		f.tagged = tag
		return f
	case followFrame:
		f.tagged = tag
		return f
	}
	panic("unreachable: the type parameter has these types")
}

func appendLine(to []byte, r request) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(append(to, text...), '\n'), nil
}

// lineLimit is of one frame. A bridge that follows its own limits stays below.
const lineLimit = 24 << 20

// errTaken ends the reading of a bridge's output: what was to come has come.
var errTaken = errors.New("all answers have come")

// frameReader finds the answers to one request in a bridge's output. It is a
// runnerclient.Sink.
//
// The reading may begin in the middle of a line. Such a rest is no JSON object, since the
// brace that it ends with closes one that began before.
type frameReader struct {
	tag  string
	take func(frame) (last bool, err error)

	next  int64 // where the next bytes are to come from
	known bool  // next is known
	skip  bool  // what is read is of stderr
	line  []byte
	over  bool // the line is over the limit

	room  *room
	owner string
	held  int64 // of room

	gap  bool // bytes are missing, and perhaps answers
	done bool // the last answer came
	err  error
}

// At implements runnerclient.Sink.
func (r *frameReader) At(stream protocol.Stream, offset int64) {
	if r.known && offset != r.next {
		r.gap, r.line = true, nil
	}
	r.next, r.known = offset, true
	r.skip = stream == protocol.StreamStderr
}

// Write takes output, and fails when the last answer came or answers are missing.
func (r *frameReader) Write(p []byte) (int, error) {
	if r.gap {
		return 0, errTaken
	}
	n := len(p)
	r.next += int64(n)
	if r.skip {
		return n, nil
	}
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if r.over = r.over || !r.mayHold(len(r.line)+len(part)); !r.over {
			r.line = append(r.line, part...)
		}
		if whole {
			r.takeLine()
		}
		if r.done {
			return 0, errTaken
		}
	}
	return n, nil
}

// mayHold reports whether the line may have n bytes.
func (r *frameReader) mayHold(n int) bool {
	if n > lineLimit {
		return false
	}
	for n > shortLine && int64(n) > r.held {
		if !r.room.take(r.owner, roomIsAsked) {
			return false
		}
		r.held += roomIsAsked
	}
	return true
}

// release gives back what the line has.
func (r *frameReader) release() {
	if r.held > 0 {
		r.room.give(r.owner, r.held)
		r.line, r.held = nil, 0
	}
}

func (r *frameReader) takeLine() {
	defer r.release()
	line, over := r.line, r.over
	r.line, r.over = r.line[:0], false
	if over || !bytes.Contains(line[:min(len(line), 128)], []byte(r.tag)) {
		return
	}
	var f frame
	if json.Unmarshal(line, &f) != nil || f.Tag != r.tag {
		return
	}
	r.done, r.err = r.take(f)
	r.done = r.done || r.err != nil
}

// exchange sends a request to a context and reads its answers until take says that it
// has the last, or fails.
func (s *Service) exchange(ctx context.Context, p auth.Principal, id session.ID, c Context, req request, take func(frame) (bool, error)) error {
	line, err := appendLine(nil, req)
	if err != nil {
		return err
	}
	if len(line) > protocol.MaxCommand {
		return errdefs.OverLimit("code", protocol.MaxCommand)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader := &frameReader{tag: req.tag(), take: take, next: c.offset, known: true, room: s.room, owner: p.Owner}
	defer reader.release()
	type ending struct {
		record protocol.Record
		err    error
	}
	read := make(chan ending, 1)
	go func() {
		record, err := s.opts.Execs.Attach(ctx, p, string(id), c.ID, c.offset, reader)
		read <- ending{record, err}
	}()
	if err := s.send(ctx, p, id, c, line); err != nil {
		cancel()
		<-read
		return err
	}
	end := <-read
	switch {
	case reader.done:
		return reader.err
	case reader.gap:
		return errGap
	case end.err != nil:
		return end.err
	}
	return contextEnded{end.record}
}

func (s *Service) send(ctx context.Context, p auth.Principal, id session.ID, c Context, line []byte) error {
	taken, err := s.opts.Execs.WriteStdin(ctx, p, string(id), c.ID, line, false)
	if err == nil && taken.Bytes < int64(len(line)) {
		err = errdefs.New(errdefs.Unavailable, "context %s takes no requests; restart or delete it", c.ID)
	}
	return err
}

// errGap says that a part of a bridge's output was not kept. A question for the same run
// brings what it was.
var errGap = errors.New("a part of the output of a context's bridge was dropped")

// contextEnded says that a context ended before it answered.
type contextEnded struct{ record protocol.Record }

// Error implements error.
func (e contextEnded) Error() string { return "the context ended: " + string(e.record.Cause) }

// refusal is the error that a frame says, if it is a refusal.
func refusal(f frame) error {
	if f.Kind != kindRefused {
		return nil
	}
	switch f.Reason {
	case "queue_full":
		return errdefs.New(errdefs.ResourceExhausted, "as many runs wait for this context as may; wait for one to end, or make another context")
	case "no_run":
		return errdefs.New(errdefs.NotFound, "the context has no run of this id; it keeps the last 32").Because(errdefs.NoSuchRun)
	}
	return kernelFailed(f.Log)
}

func kernelFailed(log string) error {
	if len(log) > 2000 {
		log = log[len(log)-2000:]
	}
	return errdefs.New(errdefs.Unprocessable, "the kernel did not start: %s", strings.ToValidUTF8(log, "\uFFFD"))
}

// missingPython reports whether a bridge could not be started for want of its program.
func missingPython(err error) bool {
	known, ok := errors.AsType[*errdefs.Error](err)
	return ok && (known.Reason == errdefs.ProgramNotFound || known.Reason == errdefs.NotExecutable)
}

// RecipeLine is what a recipe says to have the Python kernel in its image. The image
// python has the same.
const RecipeLine = "pip: [ipykernel==7.4.0, matplotlib-inline==0.2.2]"

// noKernel says that a session has no kernel for a language, which it has, and how to
// come by one.
func (s *Service) noKernel(ctx context.Context, p auth.Principal, id session.ID, language, why string, kernels []Kernel) error {
	image, err := s.opts.Image(ctx, p, id)
	if err != nil {
		return err
	}
	there := "It has no kernels"
	if len(kernels) > 0 {
		names := make([]string, 0, len(kernels))
		for _, k := range kernels {
			names = append(names, k.Name+" ("+k.Language+")")
		}
		there = "It has the kernels " + strings.ToValidUTF8(strings.Join(names[:min(len(names), 32)], ", "), "\uFFFD")
	}
	advice := "install one that Jupyter knows in the image"
	if strings.EqualFold(language, "python") || why != "has no kernel for "+language {
		advice = "use the image python, or add to its recipe: " + RecipeLine
	}
	refused := errdefs.New(errdefs.Unprocessable, "the image %s %s. %s; %s", image, why, there, advice).Because(errdefs.NoKernel)
	refused.Field = "language"
	return refused
}
