// Package jobs does work on an image store that takes minutes: it pulls, builds and
// commits images beside the requests that ask for them, so that a client that goes
// away takes nothing with it. Jobs live in memory: one that a restart interrupts is
// gone, and its finished layers wait in the store for the next try.
package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

// Kind is what a job does.
type Kind string

// The kinds of jobs.
const (
	Pull   Kind = "pull"
	Build  Kind = "build"
	Commit Kind = "commit"
)

// State is how far a job is.
type State string

// The states of a job: the first two go on, the others have ended.
const (
	Queued   State = "queued"
	Running  State = "running"
	Done     State = "done"
	Failed   State = "failed"
	Canceled State = "canceled"
)

// Job is a job as it was at one moment.
type Job struct {
	ID        string
	Kind      Kind
	Name      string // of the image
	State     State
	Progress  images.Progress
	Image     *images.Image // of a job that is done
	Err       error         // of a job that failed
	CreatedAt time.Time
	EndedAt   time.Time // zero until then
}

// Ended reports whether nothing of the job will change any more.
func (j Job) Ended() bool { return j.State != Queued && j.State != Running }

const (
	atOnce    = 2   // jobs that run; each takes a processor and the disk
	mostOpen  = 16  // jobs that have not ended
	keptEnded = 100 // jobs that have
)

// Work makes the image of a job. Its context ends when the job is canceled.
type Work func(context.Context, images.ProgressFunc) (images.Image, error)

// Manager runs jobs. Its methods may be called concurrently.
type Manager struct {
	log   *slog.Logger
	ctx   context.Context // of all jobs
	stop  context.CancelFunc
	slots chan struct{}
	group sync.WaitGroup

	// Changed is told each change of a job, and must not block. It is set before the
	// first job; nil is told nothing.
	Changed func(Job)

	mu     sync.Mutex
	jobs   map[string]*entry // guarded by mu
	closed bool              // guarded by mu
}

// entry is a job under way or ended.
type entry struct {
	job     Job
	request string // equal for jobs that would do the same
	cancel  context.CancelFunc
	changed chan struct{} // closed and replaced at every change
}

// New returns a manager without jobs. Its jobs have the values of ctx and end with
// Close, which the caller calls.
func New(ctx context.Context, log *slog.Logger) *Manager {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &Manager{log: log, ctx: ctx, stop: stop, slots: make(chan struct{}, atOnce), jobs: map[string]*entry{}}
}

// Close cancels all jobs and waits for them.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.group.Wait()
	return nil
}

// Start begins a job, or returns the one under way of the same kind, name and
// request, so that a request that is repeated does nothing twice. The error is
// ResourceExhausted when too many jobs wait.
func (m *Manager) Start(kind Kind, name, request string, work Work) (Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Job{}, errdefs.New(errdefs.Unavailable, "the daemon is stopping")
	}
	request = strings.Join([]string{string(kind), name, request}, "\n")
	open := 0
	for _, e := range m.jobs {
		if e.job.Ended() {
			continue
		}
		if e.request == request {
			return e.job, nil
		}
		open++
	}
	if open >= mostOpen {
		return Job{}, errdefs.New(errdefs.ResourceExhausted, "%d jobs for images wait or run; wait for one to end, or cancel one", open)
	}
	m.forget()
	ctx, cancel := context.WithCancel(m.ctx)
	e := &entry{
		job:     Job{ID: strings.ToLower(rand.Text()), Kind: kind, Name: name, State: Queued, CreatedAt: time.Now()},
		request: request, cancel: cancel, changed: make(chan struct{}),
	}
	m.jobs[e.job.ID] = e
	m.tell(e)
	m.group.Go(func() { m.run(ctx, e, work) })
	return e.job, nil
}

// forget drops the oldest of too many ended jobs. The caller holds mu.
func (m *Manager) forget() {
	ended := slices.DeleteFunc(m.all(), func(j Job) bool { return !j.Ended() })
	for ; len(ended) >= keptEnded; ended = ended[1:] {
		delete(m.jobs, ended[0].ID)
	}
}

// all returns the jobs, oldest first. The caller holds mu.
func (m *Manager) all() []Job {
	list := make([]Job, 0, len(m.jobs))
	for _, e := range m.jobs {
		list = append(list, e.job)
	}
	slices.SortFunc(list, func(a, b Job) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return list
}

func (m *Manager) run(ctx context.Context, e *entry, work Work) {
	defer e.cancel()
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		m.finish(e, images.Image{}, ctx.Err())
		return
	}
	m.change(e, func(j *Job) { j.State = Running })
	img, err := work(ctx, func(p images.Progress) { m.change(e, func(j *Job) { j.Progress = p }) })
	if ctx.Err() != nil && err != nil {
		err = context.Canceled // whatever the work made of it
	}
	m.finish(e, img, err)
}

func (m *Manager) finish(e *entry, img images.Image, err error) {
	m.change(e, func(j *Job) {
		j.EndedAt = time.Now()
		switch {
		case err == nil:
			j.State, j.Image = Done, &img
		case errors.Is(err, context.Canceled):
			j.State = Canceled
		default:
			j.State, j.Err = Failed, err
		}
	})
	m.log.Info("image job ended", "job", e.job.ID, "kind", e.job.Kind, "image", e.job.Name, "state", e.job.State, "err", err)
}

func (m *Manager) change(e *entry, set func(*Job)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set(&e.job)
	close(e.changed)
	e.changed = make(chan struct{})
	m.tell(e)
}

// tell tells Changed. The caller holds mu.
func (m *Manager) tell(e *entry) {
	if m.Changed != nil {
		m.Changed(e.job)
	}
}

// List returns the jobs that are known, oldest first.
func (m *Manager) List() []Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all()
}

// Get returns a job, or NotFound.
func (m *Manager) Get(id string) (Job, error) {
	job, _, err := m.Look(id)
	return job, err
}

// Look returns a job and a channel that is closed when it has changed.
func (m *Manager) Look(id string) (job Job, changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.jobs[id]
	if !ok {
		return Job{}, nil, errdefs.New(errdefs.NotFound, "no such image job: jobs are forgotten when the daemon restarts")
	}
	return e.job, e.changed, nil
}

// Wait returns a job when it has ended.
func (m *Manager) Wait(ctx context.Context, id string) (Job, error) {
	for {
		job, changed, err := m.Look(id)
		if err != nil || job.Ended() {
			return job, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return job, ctx.Err()
		}
	}
}

// Cancel ends a job; one that has ended stays as it is. It returns when the job
// has let go of the store.
func (m *Manager) Cancel(ctx context.Context, id string) (Job, error) {
	m.mu.Lock()
	e, ok := m.jobs[id]
	m.mu.Unlock()
	if ok {
		e.cancel()
	}
	return m.Wait(ctx, id)
}
