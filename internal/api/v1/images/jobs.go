package images

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
)

// ImageJob is the contract's view of work on an image.
type ImageJob struct {
	ID        string       `json:"id" doc:"26 characters of a-z and 2-7." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
	Kind      jobs.Kind    `json:"kind" enum:"pull,build,commit" example:"pull"`
	Name      string       `json:"name" doc:"Of the image." example:"python:3.12-slim"`
	Status    jobs.State   `json:"status" enum:"queued,running,done,failed,canceled" doc:"The first two go on; the others are final." example:"running"`
	Progress  Progress     `json:"progress"`
	Image     *Image       `json:"image,omitempty" doc:"When the job is done."`
	Error     string       `json:"error,omitempty" doc:"Why the job failed."`
	Code      errdefs.Code `json:"code,omitempty" doc:"The code of that error." example:"unavailable"`
	CreatedAt time.Time    `json:"created_at"`
	EndedAt   *time.Time   `json:"ended_at,omitempty"`
}

// Progress is how far a job is.
type Progress struct {
	Phase      string `json:"phase" doc:"For people; empty before the first." example:"download"`
	DoneBytes  int64  `json:"done_bytes" example:"1048576"`
	TotalBytes int64  `json:"total_bytes" doc:"0 if nobody knows." example:"28230144"`
}

// ViewProgress is how far a job is, as it is shown.
func ViewProgress(p images.Progress) Progress {
	return Progress{Phase: p.Phase, DoneBytes: p.Done, TotalBytes: p.Total}
}

func (h *Handlers) viewJob(ctx context.Context, j jobs.Job) ImageJob {
	v := ImageJob{ID: j.ID, Kind: j.Kind, Name: j.Name, Status: j.State, Progress: ViewProgress(j.Progress), CreatedAt: j.CreatedAt.UTC()}
	if !j.EndedAt.IsZero() {
		ended := j.EndedAt.UTC()
		v.EndedAt = &ended
	}
	if j.Err != nil {
		body, _ := api.Describe(ctx, j.Err)
		api.Failed(ctx, nil) // the request did not
		v.Error, v.Code = body.Error, body.Code
	}
	if j.Image != nil {
		// One that was removed since is as it was, and may be used no more.
		allowed, err := h.Library.Store.Allowed(j.Image.Digest)
		made := view(jobs.Listed{Image: *j.Image, Allowed: allowed && err == nil})
		v.Image = &made
	}
	return v
}

// JobOutput is one job as the kit wants it.
type JobOutput struct{ Body ImageJob }

// started answers with a job that has just begun.
func (h *Handlers) started(ctx context.Context) func(jobs.Job, error) (*JobOutput, error) {
	return func(job jobs.Job, err error) (*JobOutput, error) {
		if err != nil {
			return nil, err
		}
		api.Made(ctx, "image_job", job.ID)
		return &JobOutput{h.viewJob(ctx, job)}, nil
	}
}

// JobPath is what every route of one job takes.
type JobPath struct {
	ID string `path:"id" doc:"The job's id." example:"k5n6p7r2s3t4u5f5q2bz7lq4m3"`
}

// ImageJobs is a list of them.
type ImageJobs struct {
	Jobs []ImageJob `json:"jobs" nullable:"false"`
}

// JobsOutput is a list as the kit wants it.
type JobsOutput struct{ Body ImageJobs }

// ListJobs answers with the jobs that are known.
func (h *Handlers) ListJobs(ctx context.Context, _ *struct{}) (*JobsOutput, error) {
	l, err := h.library()
	if err != nil {
		return nil, err
	}
	_, all, err := h.grant(ctx)
	if err != nil {
		return nil, err
	}
	known := l.Jobs.List()
	if prefix := own(api.Caller(ctx).Owner); !all {
		known = slices.DeleteFunc(known, func(j jobs.Job) bool { return !strings.HasPrefix(j.Name, prefix) })
	}
	out := &JobsOutput{ImageJobs{make([]ImageJob, 0, len(known))}}
	for _, job := range known {
		out.Body.Jobs = append(out.Body.Jobs, h.viewJob(ctx, job))
	}
	return out, nil
}

// GetJob answers with one.
func (h *Handlers) GetJob(ctx context.Context, in *JobPath) (*JobOutput, error) {
	if _, err := h.library(); err != nil {
		return nil, err
	}
	job, err := h.job(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &JobOutput{h.viewJob(ctx, job)}, nil
}

// CancelJob ends one.
func (h *Handlers) CancelJob(ctx context.Context, in *JobPath) (*JobOutput, error) {
	l, err := h.library()
	if err != nil {
		return nil, err
	}
	if _, err := h.job(ctx, in.ID); err != nil {
		return nil, err
	}
	job, err := l.Jobs.Cancel(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &JobOutput{h.viewJob(ctx, job)}, nil
}

// eventPause keeps a job that reports often from filling the stream.
const eventPause = 100 * time.Millisecond

// JobEvents follows a job to its end.
func (h *Handlers) JobEvents(ctx context.Context, in *JobPath) (*kit.Stream, error) {
	l, err := h.library()
	if err != nil {
		return nil, err
	}
	if _, err := h.job(ctx, in.ID); err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		events := api.StartEvents(w)
		defer events.Close()
		for {
			job, changed, err := l.Jobs.Look(in.ID)
			if err != nil {
				return
			}
			if job.Ended() {
				events.Send("done", "", h.viewJob(r.Context(), job)) //nolint:errcheck // nobody is left to be told
				return
			}
			if events.Send("progress", "", ViewProgress(job.Progress)) != nil {
				return
			}
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
			select {
			case <-time.After(eventPause):
			case <-r.Context().Done():
				return
			}
		}
	}), nil
}
