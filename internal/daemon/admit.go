package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/doctor"
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

// admitSession asks for room for another session of an owner.
func (d *Daemon) admitSession(gate *admission.Gate) func(context.Context, string) error {
	turns := admission.NewTurns()
	return func(ctx context.Context, owner string) error {
		if err := d.usage.Check(owner); err != nil {
			return err
		}
		if owner != "" && ctx.Done() != nil { // not for a snapshot, and what has no end cannot be counted
			if err := turns.During(ctx, owner); err != nil {
				return err
			}
		}
		if err := gate.Admit(ctx); err != nil {
			return err
		}
		return d.ballast.Whole(ctx)
	}
}

// freed has admitSession look at the disk anew, on which a session has made room.
func (d *Daemon) freed(gate *admission.Gate) func() {
	return func() {
		gate.Forget()
		d.ballast.Forget()
	}
}
