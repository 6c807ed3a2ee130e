package daemon

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/findings"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/hostcheck"
	"github.com/sandkasten/sandkasten/internal/maintenance"
)

// openFindings opens what tells its operator what is wrong. The drivers are not tried: that
// makes a sandbox, or a part of one, and a working daemon does so all the time.
func (d *Daemon) openFindings() {
	d.findings = findings.New(findings.Options{
		Doctor: func(ctx context.Context) []doctor.Finding {
			return append(doctor.Examine(hostcheck.Host(d.cfg)), hostcheck.Image(ctx, d.images, d.cfg.DefaultImage))
		},
		Fsck: func(ctx context.Context) ([]fsck.Difference, error) { return maintenance.Fsck(ctx, d.cfg) },
	})
}
