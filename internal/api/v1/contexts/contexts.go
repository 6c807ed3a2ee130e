// Package contexts has the routes and handlers of /v1 for code that runs in kernels, and the
// shapes of contexts. What a run answers, and what comes of it, is internal/contexts'.
package contexts

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/contexts"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// Handlers answer the calls. Both fields are required.
type Handlers struct {
	Service *contexts.Service
	// Find returns the session of a path.
	Find func(context.Context, contract.SessionPath) (session.ID, error)
}

// ContextRequest is a new context.
type ContextRequest struct {
	Language string            `json:"language" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9._+#-]+$" doc:"The language of a kernel that the image has, or the kernel's name." example:"python"`
	Name     string            `json:"name,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9._+#-]*$" doc:"A name to use in the place of its id, unique among the session's contexts that run." example:"analysis"`
	Cwd      string            `json:"cwd,omitempty" maxLength:"4096" doc:"Where the kernel begins. Relative paths begin at /workspace, which is also the default." example:"data"`
	Env      map[string]string `json:"env,omitempty" doc:"Added to the session's variables."`
}

// CodeContext is a kernel that remembers what ran in it.
type CodeContext struct {
	ContextID      string         `json:"context_id" doc:"Also the exec_id of its process." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Name           string         `json:"name,omitempty" example:"analysis"`
	Language       string         `json:"language" example:"python"`
	Status         string         `json:"status" enum:"running,ended" example:"running"`
	Cause          protocol.Cause `json:"cause,omitempty" doc:"How its process ended; see exec."`
	CreatedAt      time.Time      `json:"created_at"`
	Kernel         string         `json:"kernel,omitempty" doc:"The name of its kernelspec. This and the rest is not in lists." example:"python3"`
	State          string         `json:"state,omitempty" enum:"starting,idle,busy,no_kernel" doc:"no_kernel: the kernel has ended, and the next run gets a new one." example:"idle"`
	RunID          string         `json:"run_id,omitempty" doc:"The run that it is at."`
	Queued         int            `json:"queued,omitempty" doc:"Runs that wait."`
	KernelsStarted int            `json:"kernels_started,omitempty" doc:"How many kernels it has had." example:"1"`
	PID            int            `json:"pid,omitempty" doc:"The kernel's, inside the sandbox." example:"42"`
}

func view(c contexts.Context) CodeContext {
	v := CodeContext{ContextID: c.ID, Name: c.Name, Language: c.Language, Status: "running", Cause: c.Cause, CreatedAt: c.CreatedAt.UTC()}
	if !c.Running {
		v.Status = "ended"
	}
	if k := c.Status; k != nil {
		v.Kernel, v.State, v.RunID, v.Queued, v.KernelsStarted, v.PID = k.Kernel, k.State, k.RunID, k.Queued, k.KernelsStarted, k.PID
	}
	return v
}

// CreateInput asks for a context.
type CreateInput struct {
	contract.SessionPath
	Body ContextRequest
}

// ContextOutput is a context as an answer.
type ContextOutput struct{ Body CodeContext }

// Create makes a context.
func (h *Handlers) Create(ctx context.Context, in *CreateInput) (*ContextOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	r := in.Body
	made, err := h.Service.Create(ctx, api.Caller(ctx), id, contexts.CreateRequest{Language: r.Language, Name: r.Name, Cwd: r.Cwd, Env: r.Env})
	return &ContextOutput{view(made)}, err
}

// ListOutput is a session's contexts.
type ListOutput struct {
	Body []CodeContext `nullable:"false"`
}

// List lists the contexts of a session.
func (h *Handlers) List(ctx context.Context, in *contract.SessionPath) (*ListOutput, error) {
	id, err := h.Find(ctx, *in)
	if err != nil {
		return nil, err
	}
	all, err := h.Service.List(ctx, api.Caller(ctx), id)
	if err != nil {
		return nil, err
	}
	out := &ListOutput{Body: make([]CodeContext, 0, len(all))}
	for _, c := range all {
		out.Body = append(out.Body, view(c))
	}
	return out, nil
}

// ContextPath is what every route of one context takes.
type ContextPath struct {
	contract.SessionPath
	Context string `path:"ctx" doc:"The context's id, or its name if it runs." example:"analysis"`
}

// Get describes a context.
func (h *Handlers) Get(ctx context.Context, in *ContextPath) (*ContextOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	found, err := h.Service.Get(ctx, api.Caller(ctx), id, in.Context)
	return &ContextOutput{view(found)}, err
}

// Interrupt interrupts what a context runs.
func (h *Handlers) Interrupt(ctx context.Context, in *ContextPath) (*contract.OKOutput, error) {
	return h.done(ctx, in, h.Service.Interrupt)
}

// Delete ends a context.
func (h *Handlers) Delete(ctx context.Context, in *ContextPath) (*contract.OKOutput, error) {
	return h.done(ctx, in, h.Service.Delete)
}

// Restart gives a context a new kernel.
func (h *Handlers) Restart(ctx context.Context, in *ContextPath) (*ContextOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	again, err := h.Service.Restart(ctx, api.Caller(ctx), id, in.Context)
	return &ContextOutput{view(again)}, err
}

// RunRequest is code for a context.
type RunRequest struct {
	Code      string `json:"code" maxLength:"1048576" doc:"At most 1 MiB as JSON." example:"1 + 1"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" minimum:"0" maximum:"86400000" doc:"From when it begins. Default and maximum are those of exec, at /v1/info. The kernel is interrupted then, and killed 5 s later if that is of no use." example:"30000"`
}

// RunCodeRequest is code for the default context of a language.
type RunCodeRequest struct {
	RunRequest
	Language string `json:"language,omitempty" maxLength:"56" pattern:"^[A-Za-z0-9._+#-]*$" doc:"python if it is left out." example:"python"`
}

func (r RunRequest) asked() contexts.RunRequest {
	return contexts.RunRequest{Code: r.Code, Timeout: time.Duration(r.TimeoutMS) * time.Millisecond}
}

func (r RunCodeRequest) language() string {
	if r.Language == "" {
		return "python"
	}
	return r.Language
}

// RunResult is a run as it is answered.
type RunResult struct {
	ContextID string `json:"context_id" example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	contexts.Answer
}

// RunOutput is the answer of a run.
type RunOutput struct{ Body RunResult }

func output(c contexts.Context, a contexts.Answer, err error) (*RunOutput, error) {
	if err != nil {
		return nil, err
	}
	if a.Results == nil {
		a.Results = []contexts.Result{}
	}
	return &RunOutput{RunResult{ContextID: c.ID, Answer: a}}, nil
}

// RunInput is code for a context.
type RunInput struct {
	ContextPath
	Body RunRequest
}

// RunCodeInput is code for a default context.
type RunCodeInput struct {
	contract.SessionPath
	Body RunCodeRequest
}

// RunPath is what every route of one run takes.
type RunPath struct {
	ContextPath
	RunID string `path:"run_id" doc:"The run's id, as its answer or its first event gives it." example:"k3m5n6p7r2s3t4u5f5q2bz7lq4"`
}

// GetRunInput asks for a run.
type GetRunInput struct {
	RunPath
	WaitMS int64 `query:"wait_ms" minimum:"0" maximum:"600000" doc:"How long to wait for its end."`
}

// FollowInput asks for the events of a run.
type FollowInput struct {
	RunPath
	LastEventID string `header:"Last-Event-ID" maxLength:"64" doc:"The id of the last event that arrived; without it, all that are kept come."`
}

// Run runs code and waits for its end.
func (h *Handlers) Run(ctx context.Context, in *RunInput) (*RunOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return output(h.Service.Run(ctx, api.Caller(ctx), id, in.Context, in.Body.asked(), nil))
}

// RunCode runs code in a default context.
func (h *Handlers) RunCode(ctx context.Context, in *RunCodeInput) (*RunOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return output(h.Service.RunCode(ctx, api.Caller(ctx), id, in.Body.language(), in.Body.asked(), nil))
}

// GetRun gives a run as it is, or at its end.
func (h *Handlers) GetRun(ctx context.Context, in *GetRunInput) (*RunOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if in.WaitMS > 0 {
		waiting, cancel := context.WithTimeout(ctx, time.Duration(in.WaitMS)*time.Millisecond)
		defer cancel()
		found, answer, err := h.Service.Follow(waiting, api.Caller(ctx), id, in.Context, in.RunID, 0, nil)
		if err == nil || waiting.Err() == nil || ctx.Err() != nil {
			return output(found, answer, err)
		}
	}
	return output(h.Service.Look(ctx, api.Caller(ctx), id, in.Context, in.RunID))
}

// RunStream runs code and tells what happens.
func (h *Handlers) RunStream(ctx context.Context, in *RunInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return stream(func(w *contexts.Watch) (contexts.Context, contexts.Answer, error) {
		return h.Service.Run(ctx, api.Caller(ctx), id, in.Context, in.Body.asked(), w)
	}), nil
}

// RunCodeStream is RunStream in a default context.
func (h *Handlers) RunCodeStream(ctx context.Context, in *RunCodeInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return stream(func(w *contexts.Watch) (contexts.Context, contexts.Answer, error) {
		return h.Service.RunCode(ctx, api.Caller(ctx), id, in.Body.language(), in.Body.asked(), w)
	}), nil
}

// endOfRun is where a stream has nothing behind it.
const endOfRun = "end"

// FollowRun tells what happens in a run that was begun before.
func (h *Handlers) FollowRun(ctx context.Context, in *FollowInput) (*kit.Stream, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	var after int64
	if in.LastEventID != "" {
		run, place, ok := strings.Cut(in.LastEventID, ":")
		if ok && run == in.RunID && place == endOfRun {
			return kit.Streaming(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), nil
		}
		after, err = strconv.ParseInt(place, 10, 64)
		if !ok || run != in.RunID || err != nil || after < 0 {
			return nil, errdefs.Invalid("Last-Event-ID", "must be the id of an event of this run")
		}
	}
	return stream(func(w *contexts.Watch) (contexts.Context, contexts.Answer, error) {
		return h.Service.Follow(ctx, api.Caller(ctx), id, in.Context, in.RunID, after, w)
	}), nil
}

type started struct {
	ContextID string `json:"context_id"`
	RunID     string `json:"run_id"`
}

type textEvent struct {
	Text string `json:"text"`
}

type resultEvent struct {
	*contexts.Result
	Updates bool `json:"updates,omitempty"` // it takes the place of the result of the same display_id
}

// stream answers with the events of a run.
func stream(run func(*contexts.Watch) (contexts.Context, contexts.Answer, error)) *kit.Stream {
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		var events *api.Events
		runID := ""
		found, answer, err := run(&contexts.Watch{
			Begin: func(contextID, id string) error {
				events, runID = api.StartEvents(w), id
				return events.Send("start", id+":0", started{contextID, id})
			},
			Event: func(seq int64, e contexts.Event) error {
				name, data := shown(e)
				if data == nil {
					return nil
				}
				return events.Send(name, runID+":"+strconv.FormatInt(seq, 10), data)
			},
		})
		if err != nil && events == nil {
			api.WriteError(w, r, err)
			return
		}
		if events == nil { // its context ended before it had the run
			events, runID = api.StartEvents(w), answer.RunID
		}
		defer events.Close()
		if err == nil {
			done, _ := output(found, answer, nil)
			err = events.Send("done", runID+":"+endOfRun, done.Body)
		} else if r.Context().Err() == nil {
			body, _ := api.ErrorForm(r.Context(), err)
			err = events.Send("error", "", body)
		}
		if err != nil {
			api.Failed(r.Context(), errors.Join(err, r.Context().Err()))
		}
	})
}

// shown is an event as clients see it, or nil for what they do not.
func shown(e contexts.Event) (name string, data any) {
	switch {
	case e.Type == "stdout" || e.Type == "stderr":
		return e.Type, textEvent{e.Text}
	case e.Type == "result" && e.Result != nil:
		return e.Type, resultEvent{e.Result, e.Updates}
	case e.Type == "error" && e.Error != nil:
		return "exception", e.Error
	case e.Type == "clear":
		return e.Type, struct{}{}
	}
	return "", nil
}

func (h *Handlers) done(ctx context.Context, in *ContextPath, do func(context.Context, auth.Principal, session.ID, string) error) (*contract.OKOutput, error) {
	id, err := h.Find(ctx, in.SessionPath)
	if err == nil {
		err = do(ctx, api.Caller(ctx), id, in.Context)
	}
	return contract.Done(), err
}
