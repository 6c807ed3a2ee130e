package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

// admit logs what has to be mended and refuses a host on which sandboxes
// cannot work.
func admit(ctx context.Context, log *slog.Logger, findings []doctor.Finding) error {
	var fatal []error
	for _, f := range findings {
		if f.Status == doctor.Fail && f.Creates {
			log.ErrorContext(ctx, "host check: what is there can be used and removed, and no session be made", "check", f.Check, "found", f.Found, "mend", f.Mend)
			continue
		}
		switch f.Status {
		case doctor.OK:
			log.DebugContext(ctx, "host check", "check", f.Check, "found", f.Found)
		case doctor.Warn:
			log.WarnContext(ctx, "host check", "check", f.Check, "found", f.Found, "mend", f.Mend)
		case doctor.Fail:
			fatal = append(fatal, errors.New(strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", f.Check, f.Found, f.Mend), ": ")))
		}
	}
	if len(fatal) == 0 {
		return nil
	}
	return fmt.Errorf("this host is not ready (`sandkasten doctor` tells all of it):\n%w", errors.Join(fatal...))
}

// admitSession asks for room for another session of an owner, where its driver makes it.
func (d *Daemon) admitSession(gate *admission.Gate) func(context.Context, session.Admission) error {
	turns := admission.NewTurns()
	return func(ctx context.Context, a session.Admission) error {
		if err := d.usage.Check(a.Owner); err != nil {
			return err
		}
		if a.Owner != "" && ctx.Done() != nil { // not for a snapshot, and what has no end cannot be counted
			if err := turns.During(ctx, a.Owner); err != nil {
				return err
			}
		}
		if err := roomOf(d.drivers, a.Driver, gate)(ctx); err != nil {
			return err
		}
		return d.ballast.Whole(ctx) // which holds the rows, wherever the sandbox is
	}
}

// admitTime is how long a remote driver may take to say whether it has room.
const admitTime = 10 * time.Second

// roomOf refuses another sandbox of a driver: this host's gate does, or the driver where
// its sandboxes are elsewhere.
func roomOf(set *drivers.Set, driver string, gate *admission.Gate) func(context.Context) error {
	remote := set.Elsewhere(driver)
	if remote == nil {
		return gate.Admit
	}
	return func(ctx context.Context) error {
		return runtime.InTime(ctx, admitTime, remote.Admit, "the driver %s does not say in time whether it has room for another session; try again", driver)
	}
}

// freed has admitSession look at the disk anew, on which a session has made room.
func (d *Daemon) freed(gate *admission.Gate) func() {
	return func() {
		gate.Forget()
		d.ballast.Forget()
	}
}
