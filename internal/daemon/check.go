package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux"
)

// Examine is all that `sandkasten doctor` tells of a host: the doctor's
// checks, whether a daemon is running, the image store, and whether the drivers can
// do what a create needs, which is tried. It leaves nothing behind, and makes no
// data directory.
func Examine(ctx context.Context, cfg config.Config) []doctor.Finding {
	h := host(cfg)
	findings := append(doctor.Examine(h), doctor.Daemon(h))
	store, err := storeThatIs(cfg)
	if err != nil {
		return append(findings, doctor.Finding{Check: "images", Status: doctor.Fail, Found: err.Error(), Mend: "run it as the owner of " + cfg.DataDir})
	}
	return append(append(findings, examineImage(ctx, store, cfg.DefaultImage)), examineDrivers(ctx, cfg, store)...)
}

// storeThatIs opens the image store of cfg, or returns nil if there is none yet.
func storeThatIs(cfg config.Config) (*images.Store, error) {
	if _, err := os.Stat(imageDir(cfg)); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return openImages(cfg, slog.New(slog.DiscardHandler))
}

func host(cfg config.Config) doctor.Host {
	h := doctor.ThisHost()
	h.DataDir, h.MaxSessions, h.Pool = cfg.DataDir, cfg.MaxSessions, cfg.Disk.PoolMB > 0
	if h.Engine = !slices.Contains(cfg.Drivers(), runtime.Native); !h.Engine {
		h.MaxIDs = linux.MaxSandboxes
	}
	return h
}

var errNoImages error = errdefs.New(errdefs.NotFound, "there are no images yet")

func examineImage(ctx context.Context, store *images.Store, name string) doctor.Finding {
	f := doctor.Finding{Check: "default image", Status: doctor.OK, Found: name}
	err := errNoImages
	if store != nil {
		_, err = store.Resolve(ctx, name)
	}
	if err != nil {
		f.Status, f.Found = doctor.Warn, errdefs.MessageOf(err)
		f.Mend = "sandkasten image build " + name + ", or set default_image to one that there is"
	}
	return f
}

func examineDrivers(ctx context.Context, cfg config.Config, store *images.Store) []doctor.Finding {
	if _, held, err := dirlock.Holder(cfg.DataDir); err == nil && held {
		return []doctor.Finding{{Check: "driver", Status: doctor.OK, Found: "in use by the running daemon"}}
	}
	trial, err := newTrial(cfg, store)
	if err != nil {
		return []doctor.Finding{{Check: "driver", Status: doctor.Fail, Found: err.Error(), Mend: "run it as root"}}
	}
	findings := trial.examine(ctx)
	if err := trial.close(); err != nil {
		findings = append(findings, doctor.Finding{Check: "driver", Status: doctor.Warn, Found: err.Error()})
	}
	return findings
}

// checkDrivers has a finding of each driver. An extra one that does not answer
// is no reason to keep the sessions of the others waiting.
func checkDrivers(ctx context.Context, cfg config.Config, d hostDriver) []doctor.Finding {
	parts := []hostDriver{d}
	if all, ok := d.(hostDrivers); ok {
		parts = all.parts
	}
	var findings []doctor.Finding
	for i, name := range cfg.Drivers() {
		f := doctor.Finding{Check: "driver " + name, Status: doctor.OK, Found: "it can make sandboxes here"}
		err := parts[i].Check(ctx)
		if l, ok := parts[i].(diskLimiter); ok && err == nil && !l.LimitsDisk(false) {
			f.Found += "; without limits of the disk, for its storage has no quotas"
		}
		if err != nil {
			f.Status, f.Found = doctor.Fail, err.Error()
			if i > 0 && errdefs.Is(err, errdefs.Unavailable) {
				f.Status, f.Mend = doctor.Warn, "its sessions wait until it answers; no restart is needed then"
			}
		}
		findings = append(findings, f)
	}
	return findings
}

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
