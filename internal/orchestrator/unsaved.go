package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// A session whose files cannot be saved when it ends is unsaved: its row says so, and
// what it ran in is stopped with its disk. The reaper saves it when it can. A create or
// use that comes first goes on with that disk. Every step is in the row before it is
// done, so the reaper can go on after a crash at any place.

// How a session stopped being unsaved, in the log and in the metric.
const (
	unsavedSaved     = "saved"     // its snapshot was made later
	unsavedResumed   = "resumed"   // a create or use went on with its disk
	unsavedDiscarded = "discarded" // a client ended it with force
	unsavedExpired   = "expired"   // its time was up
	unsavedLost      = "lost"      // its sandbox is gone: somebody removed it, or it broke
)

var unsavedOutcomes = []string{unsavedSaved, unsavedResumed, unsavedDiscarded, unsavedExpired, unsavedLost}

// Unsaved reports whether x has files on the disk of its sandbox that no snapshot has.
func (x Session) Unsaved() bool { return !x.UnsavedSince.IsZero() }

// keep ends x without a snapshot and keeps its files where they are: the row says so,
// then its programs end. The caller has its lock.
func (s *Service) keep(ctx context.Context, x *Session, reason string) error {
	x.TerminatedReason = cmp.Or(reason, x.TerminatedReason)
	s.markUnsaved(ctx, x)
	if x.Status != Terminated {
		if err := x.to(Terminated); err != nil {
			return err
		}
	}
	if err := s.put(ctx, x); err != nil {
		return err
	}
	s.rest(ctx, *x)
	return nil
}

// markUnsaved notes since when x is unsaved. The caller writes the row.
func (s *Service) markUnsaved(ctx context.Context, x *Session) {
	if x.Unsaved() {
		return
	}
	x.UnsavedSince = time.Now().UTC()
	s.opts.Log.WarnContext(ctx, "the files of a session that ended are not saved; they are kept with its sandbox", "session", x.ID, "sandbox", x.Core,
		"until", x.UnsavedSince.Add(s.opts.UnsavedRetention), "reason", x.Error)
}

// rest ends the programs of what x ran in, and keeps its disk. Where a stop would lose
// the files, as those in memory, the programs stand still instead. What fails here
// costs memory, and no files: the next round tries again.
func (s *Service) rest(ctx context.Context, x Session) {
	var err error
	if s.opts.InMemory(s.driverOf(x)) {
		_, err = s.opts.Sessions.Pause(ctx, ownerOf(x), x.Core, session.MemoryRAM)
	} else {
		_, err = s.opts.Sessions.Stop(ctx, ownerOf(x), x.Core)
	}
	if err != nil {
		s.opts.Log.WarnContext(ctx, "a session has ended unsaved, and its sandbox is not stopped yet", "session", x.ID, "err", err)
	}
}

// hasFiles reports whether what x ran in last is still there.
func (s *Service) hasFiles(ctx context.Context, x Session) (bool, error) {
	if x.Core == "" {
		return false, nil
	}
	core, err := s.opts.Sessions.Get(ctx, ownerOf(x), x.Core)
	if errdefs.Is(err, errdefs.NotFound) {
		return false, nil
	}
	return err == nil && keepsFiles(core), err
}

// keepsFiles reports whether a session of the core has files that a client wrote, and
// is not on its way to an end.
func keepsFiles(core session.Session) bool {
	switch core.State {
	case session.Running, session.Paused, session.Stopped, session.Starting:
		return true
	case session.Stopping:
		return core.End == session.Stopped
	}
	return false
}

// labelOf is the label of the snapshot that x should have had.
func labelOf(x Session) string {
	switch x.TerminatedReason {
	case ReasonIdle, ReasonLifetime:
		return labelAuto + x.TerminatedReason
	}
	return labelStop
}

// saveLater saves an unsaved session if that is possible now, or removes what it ran in
// if its time is up. The caller has its lock.
func (s *Service) saveLater(ctx context.Context, x *Session) error {
	there, err := s.hasFiles(ctx, *x)
	if err != nil {
		return err
	}
	if !there {
		s.noteLost(ctx, x)
		return s.put(ctx, x)
	}
	late := time.Since(x.UnsavedSince) >= s.opts.UnsavedRetention
	if !late && !s.mayRetry(x.ID) {
		return nil
	}
	refused := "" // why it could not begin, which a save says nothing about
	if x.Status == Failed {
		refused = x.Error
	}
	if err := s.save(ctx, x, labelOf(*x)); err == nil {
		x.Error = refused
		return s.endUnsaved(ctx, x, unsavedSaved)
	}
	if late {
		x.Error = fmt.Sprintf("Its files could not be saved for %s and were removed. %s", s.opts.UnsavedRetention, x.Error)
		return s.endUnsaved(ctx, x, unsavedExpired)
	}
	x.Error = cmp.Or(refused, x.Error)
	s.rest(ctx, *x)
	return s.put(ctx, x)
}

// endUnsaved removes what an unsaved session ran in. The row says before why, and after
// that it is done: a crash in between repeats it, and the snapshot of one that is saved.
func (s *Service) endUnsaved(ctx context.Context, x *Session, outcome string) error {
	if err := s.put(ctx, x); err != nil {
		return err
	}
	if err := s.destroy(ctx, *x); err != nil {
		return err
	}
	s.settle(ctx, x, outcome)
	return s.put(ctx, x)
}

// noteLost notes that the files of an unsaved session are gone. What it begins with
// next is its latest snapshot.
func (s *Service) noteLost(ctx context.Context, x *Session) {
	why := "its sandbox is gone"
	if core, err := s.opts.Sessions.Get(ctx, ownerOf(*x), x.Core); err == nil {
		why = cmp.Or(core.EndReason, why)
	}
	x.Error = "Files that were not saved are lost: " + why
	s.settle(ctx, x, unsavedLost)
}

// settle ends that x is unsaved, and tells how.
func (s *Service) settle(ctx context.Context, x *Session, outcome string) {
	if !x.Unsaved() {
		return
	}
	log := s.opts.Log.InfoContext
	if outcome == unsavedExpired || outcome == unsavedLost {
		log = s.opts.Log.ErrorContext
	}
	log(ctx, "a session is not unsaved any more", "session", x.ID, "sandbox", x.Core, "outcome", outcome, "after", time.Since(x.UnsavedSince), "says", x.Error)
	x.UnsavedSince = time.Time{}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled[outcome]++
	delete(s.retries, x.ID)
}

// retry says when a session is to be saved again.
type retry struct {
	at   time.Time
	wait time.Duration
}

// maxRetryWait bounds the time between two tries to save one session. Each reads all of
// its files.
const maxRetryWait = 15 * time.Minute

// mayRetry reports whether it is time to save a session again, and if so plans the time
// after that.
func (s *Service) mayRetry(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.retries[id]
	if time.Now().Before(next.at) {
		return false
	}
	next.wait = min(max(2*next.wait, s.opts.Every), maxRetryWait)
	next.at = time.Now().Add(next.wait)
	s.retries[id] = next
	return true
}

// Holds reports whether a session of the core is not to end when its own time is up:
// its orchestrated session saves it first. What cannot be known is held.
func (s *Service) Holds(ctx context.Context, id session.ID) bool {
	x, err := s.opts.Store.GetOrchestrated(ctx, string(id))
	if errdefs.Is(err, errdefs.NotFound) {
		return false
	}
	return err != nil || x.Core == id && (x.Unsaved() || x.Status == Ready || x.Status == Starting)
}

// awaitSaved refuses to go on while an owner has unsaved sessions, having tried to save
// them.
func (s *Service) awaitSaved(ctx context.Context, all []Session) error {
	waiting := 0
	for _, x := range all {
		if !x.Unsaved() {
			continue
		}
		err := s.locked(ctx, x.ID, s.saveLater)
		if err != nil && !errdefs.Is(err, errdefs.NotFound) {
			return err
		}
		now, err := s.opts.Store.GetOrchestrated(ctx, x.ID)
		if err != nil && !errdefs.Is(err, errdefs.NotFound) {
			return err
		}
		if err == nil && now.Unsaved() {
			waiting++
		}
	}
	if waiting > 0 {
		return errdefs.New(errdefs.Unavailable, "%d sessions have files that could not be saved yet: wait until they are, for %s at most, or delete them with force", waiting, s.opts.UnsavedRetention)
	}
	return nil
}

// locked calls do with a row and its lock.
func (s *Service) locked(ctx context.Context, id string, do func(context.Context, *Session) error) error {
	release, err := s.locks.Acquire(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	x, err := s.opts.Store.GetOrchestrated(ctx, id)
	if err != nil || !x.Unsaved() {
		return err
	}
	return do(ctx, &x)
}

var (
	unsavedDesc = prometheus.NewDesc("sandkasten_orchestrator_unsaved_sessions", "Sessions of the orchestrator that ended and whose files are not saved yet.", nil, nil)
	settledDesc = prometheus.NewDesc("sandkasten_orchestrator_unsaved_ended_total",
		"Sessions of the orchestrator that stopped being unsaved: saved later, resumed by a client, discarded by one, expired, or lost with their sandbox.", []string{"outcome"}, nil)
)

// Describe is for the registry.
func (s *Service) Describe(out chan<- *prometheus.Desc) {
	out <- unsavedDesc
	out <- settledDesc
}

// Collect is for the registry.
func (s *Service) Collect(out chan<- prometheus.Metric) {
	live, err := s.opts.Store.LiveOrchestrated(context.Background()) //nolint:forbidigo // a registry has none
	if err != nil {
		out <- prometheus.NewInvalidMetric(unsavedDesc, errors.Join(errors.New("count unsaved sessions"), err))
	} else {
		unsaved := 0
		for _, x := range live {
			if x.Unsaved() {
				unsaved++
			}
		}
		out <- prometheus.MustNewConstMetric(unsavedDesc, prometheus.GaugeValue, float64(unsaved))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, outcome := range unsavedOutcomes {
		out <- prometheus.MustNewConstMetric(settledDesc, prometheus.CounterValue, float64(s.settled[outcome]), outcome)
	}
}
