package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
)

func manager(t *testing.T) *jobs.Manager {
	t.Helper()
	m := jobs.New(t.Context(), nil)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// wait is a job's end.
func wait(t *testing.T, m *jobs.Manager, id string) jobs.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	job, err := m.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// held is work that goes on until the channel is closed.
func held(until <-chan struct{}) jobs.Work {
	return func(ctx context.Context, report images.ProgressFunc) (images.Image, error) {
		report(images.Progress{Phase: "working", Done: 1, Total: 2})
		select {
		case <-until:
			return images.Image{Digest: "sha256:1"}, nil
		case <-ctx.Done():
			return images.Image{}, errors.New("interrupted")
		}
	}
}

func TestJobEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		img   images.Image
		err   error
		state jobs.State
	}{
		"done":   {images.Image{Digest: "sha256:1"}, nil, jobs.Done},
		"failed": {images.Image{}, errdefs.New(errdefs.NotFound, "no"), jobs.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := manager(t)
			job, err := m.Start(jobs.Pull, "a", "", func(context.Context, images.ProgressFunc) (images.Image, error) { return tt.img, tt.err })
			if err != nil || job.State != jobs.Queued {
				t.Fatalf("%+v, %v", job, err)
			}
			end := wait(t, m, job.ID)
			if end.State != tt.state || !errors.Is(end.Err, tt.err) || end.EndedAt.IsZero() {
				t.Errorf("%+v", end)
			}
			if (end.Image != nil) != (tt.err == nil) {
				t.Errorf("image %+v", end.Image)
			}
		})
	}
}

func TestJobIsWatchedAndCanceled(t *testing.T) {
	t.Parallel()
	m := manager(t)
	job, err := m.Start(jobs.Build, "a", "", held(nil))
	if err != nil {
		t.Fatal(err)
	}
	for {
		now, changed, err := m.Look(job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.Progress.Phase == "working" {
			break
		}
		<-changed
	}
	end, err := m.Cancel(t.Context(), job.ID)
	if err != nil || end.State != jobs.Canceled || end.Err != nil {
		t.Errorf("%+v, %v", end, err)
	}
	if again, err := m.Cancel(t.Context(), job.ID); err != nil || again.State != jobs.Canceled {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := m.Cancel(t.Context(), "other"); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("an unknown job: %v", err)
	}
}

func TestSameRequestIsOneJob(t *testing.T) {
	t.Parallel()
	m := manager(t)
	until := make(chan struct{})
	first, err := m.Start(jobs.Pull, "a", "ref", held(until))
	if err != nil {
		t.Fatal(err)
	}
	same, err := m.Start(jobs.Pull, "a", "ref", held(until))
	if err != nil || same.ID != first.ID {
		t.Errorf("the same request: %+v, %v", same, err)
	}
	other, err := m.Start(jobs.Pull, "a", "other", held(until))
	if err != nil || other.ID == first.ID {
		t.Errorf("another request: %+v, %v", other, err)
	}
	close(until)
	wait(t, m, first.ID)
	wait(t, m, other.ID)
	later, err := m.Start(jobs.Pull, "a", "ref", held(until))
	if err != nil || later.ID == first.ID {
		t.Errorf("after its end: %+v, %v", later, err)
	}
	wait(t, m, later.ID)
}

func TestOpenJobsAreBounded(t *testing.T) {
	t.Parallel()
	m := manager(t)
	var err error
	started := 0
	for ; err == nil && started < 100; started++ {
		_, err = m.Start(jobs.Pull, string(rune('A'+started)), "", held(nil))
	}
	if !errdefs.Is(err, errdefs.ResourceExhausted) || started < 10 {
		t.Errorf("after %d jobs: %v", started, err)
	}
	running := 0
	for _, j := range m.List() {
		if j.State == jobs.Running {
			running++
		}
	}
	if running > 2 {
		t.Errorf("%d jobs run at once", running)
	}
}
