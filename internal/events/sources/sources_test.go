package sources_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/events/sources"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/pool"
)

func follow(t *testing.T) (*events.Hub, func() []*events.Stored) {
	t.Helper()
	hub := events.NewHub(events.Options{})
	s, err := hub.Subscribe(events.Filter{Daemon: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	return hub, func() []*events.Stored {
		b, err := s.Next(t.Context(), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return b.Events
	}
}

// Each state of a job is told, and of its progress no more than two reports a second.
func TestImageJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, told := follow(t)
		tell := sources.ImageJobs(hub)
		job := jobs.Job{ID: "a", State: jobs.Queued}
		tell(job)
		job.State = jobs.Running
		for i := range 100 {
			job.Progress = images.Progress{Done: int64(i)}
			tell(job)
			time.Sleep(20 * time.Millisecond)
		}
		job.State = jobs.Done
		tell(job)
		got := told()
		if len(got) < 5 || len(got) > 7 {
			t.Errorf("%d events in 2 s", len(got))
		}
		if last := got[len(got)-1].Data.(jobs.Job); last.State != jobs.Done || last.Progress.Done != 99 {
			t.Errorf("the last is %+v", last)
		}
	})
}

// The pool is told with what it has when it is told, and once in a second at most.
func TestPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, told := follow(t)
		var ready atomic.Int64
		tell := sources.Pool(hub, func() pool.Status { return pool.Status{Ready: int(ready.Load())} })
		for range 30 {
			ready.Add(1)
			tell()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		got := told()
		if len(got) < 3 || len(got) > 5 {
			t.Errorf("%d events in 3 s", len(got))
		}
		if last := got[len(got)-1].Data.(pool.Status); last.Ready != 30 {
			t.Errorf("the last is %+v", last)
		}
	})
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	hub, told := follow(t)
	sources.Accounts(hub)("alice", "k")
	if got := told(); len(got) != 1 || got[0].Type != events.AccountChanged || got[0].Data != (sources.Account{User: "alice", KeyID: "k"}) {
		t.Errorf("got %+v", got)
	}
}
