// Package findings tells what is wrong with the host and the data of a daemon that works:
// what the doctor finds, and in what fsck finds that rows and things differ. It decides
// nothing about either; it sees that asking costs little.
package findings

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/fsck"
)

// Sources of findings.
const (
	Doctor = "doctor"
	Fsck   = "fsck"
)

// Finding is one thing that is wrong.
type Finding struct {
	Source   string
	Severity doctor.Status // Warn or Fail
	What     string        // the doctor's check, or the kind of thing
	Where    string        // of Fsck: its path, process or id
	Expected string        // of Fsck
	Found    string
	Mend     string // what to do; empty where nothing is known
	Command  string // that does it; empty where none does
}

// Report is what was found at a time, the gravest first.
type Report struct {
	At       time.Time
	Findings []Finding
}

const (
	// fresh is how long a report counts: a page that is open asks again and again.
	fresh = 10 * time.Second
	// longest is how long an examination may take. One that finds differences looks
	// several times, some seconds apart.
	longest = time.Minute
)

// Options configures an Examiner. Doctor and Fsck are required.
type Options struct {
	Doctor func(context.Context) []doctor.Finding
	Fsck   func(context.Context) ([]fsck.Difference, error)
	Now    func() time.Time
}

// Examiner examines when it is asked. It is safe for concurrent use.
type Examiner struct {
	opts Options

	mu      sync.Mutex
	last    Report        // guarded by mu
	running chan struct{} // guarded by mu; closed when the examination that runs is over, nil without one
}

// New returns an Examiner. Nothing runs until it is asked.
func New(o Options) *Examiner {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Examiner{opts: o}
}

// Report is what is found now, or was a few seconds ago. There is one examination at a
// time, for all who ask meanwhile. It goes on when who asked has left, for the next.
func (e *Examiner) Report(ctx context.Context) (Report, error) {
	for {
		e.mu.Lock()
		if !e.last.At.IsZero() && e.opts.Now().Sub(e.last.At) < fresh {
			defer e.mu.Unlock()
			return e.last, nil
		}
		if e.running == nil {
			e.running = make(chan struct{})
			go e.examine(context.WithoutCancel(ctx), e.running)
		}
		running := e.running
		e.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return Report{}, ctx.Err()
		}
	}
}

func (e *Examiner) examine(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	found := e.look(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, e.running = Report{At: e.opts.Now(), Findings: found}, nil
	close(done)
}

// look examines once. That the rows cannot be compared is a finding too.
func (e *Examiner) look(ctx context.Context) []Finding {
	var found []Finding
	for _, f := range e.opts.Doctor(ctx) {
		if f.Status != doctor.OK {
			found = append(found, Finding{Source: Doctor, Severity: f.Status, What: f.Check, Found: f.Found, Mend: f.Mend, Command: f.Command})
		}
	}
	differences, err := e.opts.Fsck(ctx)
	if err != nil {
		found = append(found, Finding{
			Source: Fsck, Severity: doctor.Fail, What: "comparison", Found: "what there is cannot be compared with the database: " + err.Error(),
			Mend: "mend what the error names; on the host, sandkasten fsck compares again", Command: "sandkasten fsck",
		})
	}
	for _, d := range differences {
		severity := doctor.Warn
		if d.Grave {
			severity = doctor.Fail
		}
		found = append(found, Finding{Source: Fsck, Severity: severity, What: d.What, Where: d.Where, Expected: d.Expected, Found: d.Found, Mend: d.Mend, Command: d.Command})
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return grave(b) - grave(a) })
	return found
}

func grave(f Finding) int {
	if f.Severity == doctor.Fail {
		return 1
	}
	return 0
}
