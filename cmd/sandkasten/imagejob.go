package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// imageDaemon is the client of the daemon that works on the images: the one of
// --url, or the configuration's if that runs. It is nil if nobody does, and the
// store is this command's.
func imageDaemon(ctx context.Context, a *cli.App) (*sandkasten.Client, error) {
	if a.URL != "" {
		return a.Client()
	}
	cfg, err := a.Configuration()
	if err != nil {
		return nil, err
	}
	// Whoever may not look into the data directory may not work in it either.
	if _, held, err := dirlock.Holder(cfg.DataDir); !held && err == nil {
		return nil, nil
	}
	if err := awaitDaemon(ctx, a); err != nil {
		return nil, err
	}
	return a.Client()
}

// awaitDaemon waits until a daemon answers that may have only just begun to start. Before its
// first answer nobody listens yet, and a first one has not made its key. If it takes
// too long, the next request tells what is wrong.
func awaitDaemon(ctx context.Context, a *cli.App) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	waiting, done := context.WithTimeout(ctx, readyTime)
	defer done()
	for {
		_, err := cl.Info(waiting)
		if lost, ok := errors.AsType[*sandkasten.ConnectionError](err); !ok || lost.Sent {
			return ctx.Err()
		}
		select {
		case <-waiting.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// How long an interrupted command still waits for the daemon.
const (
	startTime  = 2 * time.Second // to say what job it began
	cancelTime = 10 * time.Second
)

// readyTime is how long a command waits for a daemon that starts.
const readyTime = 10 * time.Second

// lingering returns a context that ends startTime after ctx.
func lingering(ctx context.Context) (lingers context.Context, done func()) {
	lingers, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(startTime, func() { cancel(context.Cause(ctx)) })
	})
	return lingers, func() { stop(); cancel(nil) }
}

// followImageJob starts a job and shows it until its end. An interrupt cancels it; a
// client that is killed, or loses its connection, does not.
func followImageJob(ctx context.Context, a *cli.App, cl *sandkasten.Client, detach bool, start func(context.Context) (sandkasten.ImageJob, error)) error {
	// An interrupt does not end the request at once: without the job's id nobody can
	// cancel the job, which runs before its id is here.
	starting, done := lingering(ctx)
	job, err := start(starting)
	done()
	if err != nil {
		return err
	}
	if detach {
		_, err := fmt.Fprintln(a.Out, job.ID)
		return err
	}
	p := show.NewProgress(a.Err)
	end, err := cl.WaitImageJob(ctx, job.ID, func(now sandkasten.ImageProgress) {
		if now.Phase != "" {
			p.Show(images.Progress{Phase: now.Phase, Done: now.DoneBytes, Total: now.TotalBytes})
		}
	})
	p.End()
	if ctx.Err() != nil {
		canceling, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer done()
		if _, err := cl.CancelImageJob(canceling, job.ID); err != nil {
			a.Say("The job %s may go on: `sandkasten image cancel %s` ends it.", job.ID, job.ID)
		}
		return context.Cause(ctx)
	}
	if err != nil {
		a.Say("The job %s goes on: `sandkasten image jobs` shows it.", job.ID)
		return err
	}
	return printJob(a, end)
}

// printJob is the end of a command whose job has ended.
func printJob(a *cli.App, job sandkasten.ImageJob) error {
	switch {
	case job.Status == sandkasten.JobFailed:
		return errdefs.New(errdefs.Code(job.Code), "%s", job.Error)
	case job.Image == nil:
		return errdefs.New(errdefs.Conflict, "another client canceled the job %s", job.ID)
	}
	return printImage(a, *job.Image, nil)
}

type imageJobsCmd struct{ cli.ListFlags }

func (c imageJobsCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	list, err := cl.ListImageJobs(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "KIND", "IMAGE", "STATUS", "AGE", "PROGRESS"}}
	for _, job := range list {
		progress := job.Progress.Phase
		switch {
		case job.Error != "":
			progress = job.Error
		case job.EndedAt != nil:
			progress = ""
		case job.Progress.TotalBytes > 0:
			progress += fmt.Sprintf(" %s of %s", show.Size(job.Progress.DoneBytes), show.Size(job.Progress.TotalBytes))
		}
		rows = append(rows, []string{job.ID, job.Kind, job.Name, job.Status, show.Span(time.Since(job.CreatedAt)), show.Printable(progress)})
	}
	return c.Print(a, list, rows, "No image jobs since the daemon's start.")
}

type imageCancelCmd struct {
	Jobs []string `arg:"" help:"Job ids."`
}

func (c imageCancelCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	for _, id := range c.Jobs {
		if _, err := cl.CancelImageJob(ctx, id); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.Out, id); err != nil {
			return err
		}
	}
	return nil
}
