// Package execwatch publishes as events that execs begin and end. The end of each is
// told once, whoever hears of it first: the request that waits for it, another that
// asks, or for execs that nobody waits for a watch of its own.
package execwatch

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

const (
	// summaryBytes of a command are shown, as in the runner's records.
	summaryBytes = 256
	// mostWatched is how many execs are watched to their end that no request waits for.
	// Others that have begun meanwhile are told to have ended when somebody asks.
	mostWatched = 256
	// mostRuns bounds the execs whose end is to be told.
	mostRuns = 16384
	// watchRetry is between attempts to hear of an exec's end.
	watchRetry = time.Second
	// mostWait is how long one question for an exec's end waits.
	mostWait = 10 * time.Minute
)

// Session is a session with execs.
type Session interface {
	Now() Now
}

// Now is a session as it is.
type Now struct {
	ID, Owner string
	BootID    string
	Cwd       string               // of the default shell
	Alive     bool                 // its processes live
	Gone      bool                 // they do not, and never will again
	AllFiles  bool                 // the calls for files reach all of it, not only the workspace
	Client    *runnerclient.Client // nil while there is no way into the sandbox
	Over      <-chan struct{}      // closed when the session has ended
}

// Watch knows the execs that are told to have begun. Its methods may be called
// concurrently. Close ends it.
type Watch struct {
	// Events takes what happens. Nil takes none, and nothing is watched.
	Events *events.Hub

	mu      sync.Mutex
	open    map[execKey]*run // guarded by mu
	watched int              // guarded by mu
	closed  chan struct{}    // guarded by mu; closed by close
	group   sync.WaitGroup
}

// execKey names an exec. Clients may choose its id, so that two sessions can have the same.
type execKey struct{ session, exec string }

type run struct {
	began   protocol.Record
	watched bool
}

func (r *Watch) begin(key execKey, record protocol.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = make(map[execKey]*run)
	}
	if len(r.open) < mostRuns {
		r.open[key] = &run{began: record}
	}
}

// end forgets an exec, and returns what was known of it if its end is to be told.
func (r *Watch) end(key execKey) (began protocol.Record, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.open[key]
	if known == nil {
		return protocol.Record{}, false
	}
	delete(r.open, key)
	return known.began, true
}

// watch runs do beside everything else, if the end of the exec is to be told, nobody
// watches it yet and not too many are watched.
func (r *Watch) watch(key execKey, do func(began protocol.Record, closed <-chan struct{})) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.open[key]
	if known == nil || known.watched || r.watched >= mostWatched {
		return
	}
	if r.closed == nil {
		r.closed = make(chan struct{})
	}
	closed := r.closed
	select {
	case <-closed:
		return
	default:
	}
	known.watched = true
	r.watched++
	r.group.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.watched--
		}()
		do(known.began, closed)
	})
}

// Close ends all watching.
func (r *Watch) Close() {
	r.mu.Lock()
	if r.closed == nil {
		r.closed = make(chan struct{})
	}
	select {
	case <-r.closed:
	default:
		close(r.closed)
	}
	r.mu.Unlock()
	r.group.Wait()
}

// Summary is the beginning of a command, for people.
func Summary(command string) string {
	if len(command) <= summaryBytes {
		return command
	}
	n := summaryBytes
	for n > 0 && !utf8.RuneStart(command[n]) {
		n--
	}
	return command[:n]
}

// Began tells that an exec has begun.
func (r *Watch) Began(of Session, record protocol.Record) {
	if r.Events == nil {
		return
	}
	now := of.Now()
	r.begin(execKey{now.ID, record.ID}, record)
	r.publish(now, events.ExecStarted, record)
}

// Ended tells that an exec has ended, once.
func (r *Watch) Ended(of Session, record protocol.Record) {
	began, first := r.end(execKey{of.Now().ID, record.ID})
	if !first {
		return
	}
	if record.Command == "" {
		record.Command = began.Command
	}
	r.publish(of.Now(), events.ExecFinished, record)
}

func (r *Watch) publish(of Now, what events.Type, record protocol.Record) {
	r.Events.Publish(events.Event{
		Type: what, Owner: of.Owner, Session: of.ID, Data: record, Size: len(record.Command) + len(record.Cwd) + len(record.OutputFile),
	})
}

// Left has the end of an exec told that no request waits for any more. That goes on when
// ctx is done.
func (r *Watch) Left(ctx context.Context, of Session, id string) {
	r.watch(execKey{of.Now().ID, id}, func(began protocol.Record, closed <-chan struct{}) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		over := of.Now().Over
		go func() {
			select {
			case <-closed:
			case <-over:
			case <-ctx.Done():
			}
			cancel()
		}()
		if record, ok := awaitEnd(ctx, of, began); ok {
			r.Ended(of, record)
		}
	})
}

// GoneExitCode is that of a command whose sandbox died: what a shell reports
// after SIGKILL, since that is what the kernel sends to all that is inside.
const GoneExitCode = 137

// awaitEnd returns the record of an exec's end. It is no use of the session. Without
// one, as where the daemon stops, ok is false.
func awaitEnd(ctx context.Context, of Session, began protocol.Record) (record protocol.Record, ok bool) {
	ended := began
	ended.State = protocol.StateEnded
	gone := ended
	gone.Cause, gone.ExitCode = protocol.CauseSandboxGone, GoneExitCode
	boot := of.Now().BootID
	for {
		now := of.Now()
		if now.Gone || now.BootID != boot {
			return gone, true
		}
		if now.Client != nil {
			record, err := now.Client.Wait(ctx, began.ID, mostWait)
			switch {
			case err == nil && record.State == protocol.StateEnded:
				return record, true
			case err == nil:
				continue
			case errdefs.Is(err, errdefs.NotFound) && of.Now().Alive:
				return ended, true // it never began, or its record is forgotten
			}
		}
		select {
		case <-time.After(watchRetry):
		case <-ctx.Done():
			return gone, of.Now().Gone
		}
	}
}
