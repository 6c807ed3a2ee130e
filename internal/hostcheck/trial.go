package hostcheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// trial is the drivers of a configuration with a data directory of their own, which
// is on the same file system and ends with the trial.
type trial struct {
	cfg     config.Config // with the trial's data directory
	store   *images.Store // nil if there is none yet
	drivers *drivers.Set
}

// newTrial makes the directory beside cfg's, or where that would be.
func newTrial(ctx context.Context, cfg config.Config, store *images.Store) (*trial, error) {
	beside := filepath.Dir(cfg.DataDir)
	for beside != filepath.Dir(beside) {
		if _, err := os.Stat(beside); err == nil {
			break
		}
		beside = filepath.Dir(beside)
	}
	if _, err := os.Stat(cfg.DataDir); err == nil { // which may be a mount
		beside = cfg.DataDir
	}
	dir, err := os.MkdirTemp(beside, ".sandkasten-doctor-")
	if err != nil {
		return nil, err
	}
	t := &trial{cfg: cfg, store: store}
	// A pool is made once, and as large as it is configured: not for a trial.
	t.cfg.DataDir, t.cfg.Disk.PoolMB = dir, 0
	if store == nil { // the drivers want one
		if store, err = datadir.OpenImages(t.cfg, nil); err != nil {
			return nil, errors.Join(err, t.close())
		}
	}
	if t.drivers, err = drivers.Open(ctx, t.cfg, store, slog.New(slog.DiscardHandler)); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// close removes what the trial has made.
func (t *trial) close() (err error) {
	if t.drivers != nil {
		err = t.drivers.Close()
	}
	return errors.Join(err, os.RemoveAll(t.cfg.DataDir))
}

// examine has a finding of each driver: what its check says, and then what happens
// to a sandbox.
func (t *trial) examine(ctx context.Context) []doctor.Finding {
	findings := Drivers(ctx, t.drivers)
	first := t.drivers.Parts[0]
	p, ok := first.Driver.(runtime.Preparer)
	if !ok || findings[0].Status != doctor.OK {
		return findings
	}
	if err := t.create(ctx, p); err != nil {
		findings[0].Status, findings[0].Found, findings[0].Mend = doctor.Fail, "a sandbox could not be made: "+err.Error(), first.Mend
	}
	return findings
}

// create makes a sandbox of the default image and removes it. Without that image it
// makes what needs none.
func (t *trial) create(ctx context.Context, p runtime.Preparer) error {
	if t.store != nil {
		if digest, err := t.store.Resolve(ctx, t.cfg.DefaultImage); err == nil {
			id := runtime.ID(strings.ToLower(rand.Text()))
			_, err := t.drivers.Driver.Create(ctx, id, runtime.Spec{Image: digest, Seccomp: runtime.SeccompMode(t.cfg.Security.Seccomp)})
			if destroyed := t.drivers.Driver.Destroy(ctx, id); destroyed != nil {
				err = errors.Join(err, fmt.Errorf("remove the sandbox of the trial: %w", destroyed))
			}
			return err
		}
	}
	return p.Prepare(ctx)
}
