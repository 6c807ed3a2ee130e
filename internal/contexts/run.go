package contexts

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/check"
	"github.com/sandkasten/sandkasten/internal/session/ids"
	"github.com/sandkasten/sandkasten/internal/tracing"
	"github.com/sandkasten/sandkasten/protocol"
)

// RunRequest is code for a context.
type RunRequest struct {
	Code    string
	Timeout time.Duration // 0 is the default of commands
}

// Watch is told what happens in a run, by the goroutine that follows it. What it fails
// with ends the following, not the run.
type Watch struct {
	Begin func(contextID, runID string) error
	Event func(seq int64, event Event) error
}

// DefaultName is that of the context that RunCode makes for a language.
func DefaultName(language string) string { return "default-" + language }

// RunCode is Run in the session's default context of a language, which the first call makes.
func (s *Service) RunCode(ctx context.Context, p auth.Principal, id session.ID, language string, req RunRequest, watch *Watch) (Context, Answer, error) {
	if err := checkWord("language", language); err != nil {
		return Context{}, Answer{}, err
	}
	c, err := s.defaultContext(ctx, p, id, language)
	if err != nil {
		return Context{}, Answer{}, err
	}
	answer, err := s.run(ctx, p, id, c, req, watch)
	return c, answer, err
}

func (s *Service) defaultContext(ctx context.Context, p auth.Principal, id session.ID, language string) (Context, error) {
	name := DefaultName(language)
	if err := checkWord("language", name); err != nil {
		return Context{}, err
	}
	release, err := s.locks.Acquire(ctx, string(id))
	if err != nil {
		return Context{}, err
	}
	defer release()
	c, err := s.Find(ctx, p, id, name)
	if errdefs.Is(err, errdefs.NotFound) && reasonOf(err) == errdefs.NoSuchContext {
		return s.create(ctx, p, id, CreateRequest{Language: language, Name: name})
	}
	return c, err
}

func reasonOf(err error) errdefs.Reason {
	known, ok := errors.AsType[*errdefs.Error](err)
	if !ok {
		return ""
	}
	return known.Reason
}

// Run runs code in a context, after what came before it, and returns its answer. That
// code fails is no error, nor that it is out of time. When ctx is done the run goes on.
// watch may be nil.
func (s *Service) Run(ctx context.Context, p auth.Principal, id session.ID, ref string, req RunRequest, watch *Watch) (Context, Answer, error) {
	c, err := s.living(ctx, p, id, ref)
	if err != nil {
		return Context{}, Answer{}, err
	}
	answer, err := s.run(ctx, p, id, c, req, watch)
	return c, answer, err
}

func (s *Service) run(ctx context.Context, p auth.Principal, id session.ID, c Context, req RunRequest, watch *Watch) (_ Answer, err error) {
	ctx, span := tracing.Start(ctx, tracing.Manager, "run_code")
	defer func() { span.End(err) }()
	usual, most := s.opts.Timeouts(p)
	timeout, err := check.Timeout(req.Timeout, usual, most)
	if err != nil {
		return Answer{}, err
	}
	runID := ids.New()
	f := following{service: s, p: p, session: id, context: c, run: runID, watch: watch}
	return f.follow(ctx, frameFor(runFrame{Op: "run", Run: runID, Code: req.Code, TimeoutMS: timeout.Milliseconds(), Events: watch != nil}))
}

// Follow follows a run that was begun before, behind the event after, and returns its
// answer. watch may be nil.
func (s *Service) Follow(ctx context.Context, p auth.Principal, id session.ID, ref, runID string, after int64, watch *Watch) (Context, Answer, error) {
	c, err := s.living(ctx, p, id, ref)
	if err != nil {
		return Context{}, Answer{}, err
	}
	if err := checkRunID(runID); err != nil {
		return Context{}, Answer{}, err
	}
	f := following{service: s, p: p, session: id, context: c, run: runID, after: after, watch: watch}
	answer, err := f.follow(ctx, f.again())
	return c, answer, err
}

// Look returns a run as it is: its answer, or what there is until now.
func (s *Service) Look(ctx context.Context, p auth.Principal, id session.ID, ref, runID string) (Context, Answer, error) {
	c, err := s.living(ctx, p, id, ref)
	if err != nil {
		return Context{}, Answer{}, err
	}
	if err := checkRunID(runID); err != nil {
		return Context{}, Answer{}, err
	}
	f := following{service: s, p: p, session: id, context: c, run: runID}
	answer, err := f.follow(ctx, frameFor(followFrame{Op: "look", Run: runID}))
	return c, answer, err
}

func checkRunID(id string) error {
	if !ids.Is(id) {
		return errdefs.New(errdefs.NotFound, "the context has no run of this id").Because(errdefs.NoSuchRun)
	}
	return nil
}

// following is the state of somebody who follows a run.
type following struct {
	service *Service
	p       auth.Principal
	session session.ID
	context Context
	run     string
	after   int64 // the last event that was taken
	watch   *Watch

	begun  bool
	answer Answer
}

// tries is how often a run is asked for again without an event in between.
const tries = 3

// follow sends a request and follows its run, which it asks for again where an answer
// was lost on the way: the request itself is sent once.
func (f *following) follow(ctx context.Context, first request) (Answer, error) {
	for left, req := tries, first; ; req = f.again() {
		before := f.after
		err := f.service.exchange(ctx, f.p, f.session, f.context, req, f.take)
		var ended contextEnded
		switch {
		case err == nil:
			return f.cleared(ctx), nil
		case errors.As(err, &ended):
			return f.ended(ended.record), nil
		case !errors.Is(err, errGap):
			return Answer{}, err
		}
		if left--; f.after > before {
			left = tries
		}
		if f.context, err = f.service.living(ctx, f.p, f.session, f.context.ID); err != nil {
			return Answer{}, err
		}
		if left == 0 {
			return Answer{}, errdefs.New(errdefs.Unavailable, "the answers of context %s are lost on their way; ask for run %s again", f.context.ID, f.run)
		}
	}
}

func (f *following) again() request {
	return frameFor(followFrame{Op: "follow", Run: f.run, After: f.after, Events: f.watch != nil})
}

// take takes one frame of the run.
func (f *following) take(one frame) (last bool, err error) {
	switch one.Kind {
	case kindEvent:
		var event Event
		if json.Unmarshal(one.Event, &event) != nil || f.watch == nil || one.Seq <= f.after {
			return false, nil // nothing that a bridge of ours sends
		}
		f.after = one.Seq
		if err := f.begin(); err != nil {
			return true, err
		}
		return false, f.watch.Event(one.Seq, event)
	case kindEnd:
		if err := json.Unmarshal(one.Answer, &f.answer); err != nil || !f.answer.Cause.known() {
			return true, errdefs.Wrap(err, errdefs.Unavailable, "what context %s answered is no answer; restart or delete it", f.context.ID)
		}
		f.answer.RunID = f.run
		return true, f.begin()
	}
	return true, refusal(one)
}

// begin tells the watch once that the run is known to the context.
func (f *following) begin() error {
	if f.begun || f.watch == nil {
		return nil
	}
	f.begun = true
	return f.watch.Begin(f.context.ID, f.run)
}

const sigkill = 9

// cleared is the answer, with the cause that the bridge cannot know: a kernel that the
// kernel of the host killed because the memory was used up.
func (f *following) cleared(ctx context.Context) Answer {
	if f.answer.Cause != CauseKernelDied || f.answer.KernelSignal != sigkill {
		return f.answer
	}
	records, err := f.service.opts.Execs.List(ctx, f.p, string(f.session))
	if err != nil {
		return f.answer // it says enough without
	}
	for _, r := range records {
		if r.ID == f.context.ID && r.OOMKills > 0 {
			f.answer.Cause = CauseOOMKilled
		}
	}
	return f.answer
}

// ended is the answer of a run whose context ended before it.
func (f *following) ended(r protocol.Record) Answer {
	a := Answer{RunID: f.run, Cause: CauseKernelDied, Results: []Result{}, StateLost: true, KernelLog: "the context ended: " + string(r.Cause)}
	switch r.Cause {
	case protocol.CauseSandboxGone:
		a.Cause = CauseSandboxGone
	case protocol.CauseCanceled:
		a.Cause = CauseCanceled
	case protocol.CauseOOMKilled:
		a.Cause = CauseOOMKilled
	}
	return a
}
