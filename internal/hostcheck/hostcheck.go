// Package hostcheck puts together what stands in the way of a daemon on this host:
// what the doctor finds, the image store, and the drivers, which are tried. It
// decides nothing: the daemon and the command doctor do.
package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/network/hostcas"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Examine is all that `sandkasten doctor` tells of a host: the doctor's
// checks, whether a daemon is running, the image store, and whether the drivers can
// do what a create needs, which is tried. It leaves nothing behind, and makes no
// data directory.
func Examine(ctx context.Context, cfg config.Config) []doctor.Finding {
	h := Host(cfg)
	findings := append(doctor.Examine(h), doctor.Daemon(h), authorities(cfg.Network))
	store, err := openExistingImages(cfg)
	if err != nil {
		return append(findings, doctor.Finding{Check: "images", Status: doctor.Fail, Found: err.Error(), Mend: "run it as the owner of " + cfg.DataDir})
	}
	return append(append(findings, Image(ctx, store, cfg.DefaultImage)), examineDrivers(ctx, cfg, store)...)
}

// openExistingImages opens the image store of cfg, or returns nil if there is none yet.
func openExistingImages(cfg config.Config) (*images.Store, error) {
	if _, err := os.Stat(cfg.ImageDir()); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return datadir.OpenImages(cfg, nil)
}

// Host is where the doctor looks for cfg.
func Host(cfg config.Config) doctor.Host {
	h := doctor.ThisHost()
	h.DataDir, h.MaxSessions, h.Pool = cfg.DataDir, cfg.MaxSessions, cfg.Disk.PoolMB > 0
	makes, most := drivers.HostKernel(cfg)
	h.Engine, h.MaxIDs = !makes, most
	return h
}

// authorities has a finding of the authorities that this host trusts beside those that
// everybody does: behind a network that signs TLS anew, sandboxes need them, too.
func authorities(cfg config.Network) doctor.Finding {
	f := doctor.Finding{Check: "authorities", Status: doctor.OK, Found: "this host trusts none of its own, so sandboxes need none"}
	passed, err := hostcas.Of(cfg.TrustHostCAs, cfg.CAFiles)
	known, hostErr := hostcas.Read(hostcas.Dirs, nil)
	switch {
	case err != nil:
		f.Status, f.Found, f.Mend = doctor.Warn, err.Error(), "correct network.ca_files or network.trust_host_cas; without it sandboxes trust none of them"
	case len(passed) > 0:
		f.Found = fmt.Sprintf("sandboxes with a network trust %d of this host's and of network.ca_files", len(passed))
	case hostErr == nil && len(known) > 0:
		f.Status = doctor.Warn
		f.Found = fmt.Sprintf("this host trusts %d of its own, and sandboxes do not", len(known))
		f.Mend = "if its network signs TLS anew, set network.trust_host_cas to true, or sandboxes cannot download"
	}
	return f
}

var errNoImages error = errdefs.New(errdefs.NotFound, "there are no images yet")

// Image has a finding of the image that sessions get when they ask for none.
func Image(ctx context.Context, store *images.Store, name string) doctor.Finding {
	f := doctor.Finding{Check: "default image", Status: doctor.OK, Found: name}
	err := errNoImages
	if store != nil {
		_, err = store.Resolve(ctx, name)
	}
	if err != nil {
		f.Status, f.Found = doctor.Warn, errdefs.MessageOf(err)
		f.Command = "sandkasten image build " + name
		f.Mend = f.Command + ", or set default_image to one that there is"
	}
	return f
}

func examineDrivers(ctx context.Context, cfg config.Config, store *images.Store) []doctor.Finding {
	if _, held, err := dirlock.Holder(cfg.DataDir); err == nil && held {
		return []doctor.Finding{{Check: "driver", Status: doctor.OK, Found: "in use by the running daemon"}}
	}
	trial, err := newTrial(ctx, cfg, store)
	if err != nil {
		return []doctor.Finding{{Check: "driver", Status: doctor.Fail, Found: err.Error(), Mend: "run it as root"}}
	}
	findings := trial.examine(ctx)
	if err := trial.close(); err != nil {
		findings = append(findings, doctor.Finding{Check: "driver", Status: doctor.Warn, Found: err.Error()})
	}
	return findings
}

// checkTime is how long what is not on this host may take to say whether it can work.
const checkTime = 10 * time.Second

// check is the driver's Check, which is Unavailable if it takes too long.
func check(ctx context.Context, part drivers.Part) error {
	if part.HostKernel {
		return part.Driver.Check(ctx)
	}
	return runtime.InTime(ctx, checkTime, part.Driver.Check, "the driver %s does not answer", part.Name)
}

// Drivers has a finding of each driver. An extra one that does not answer is no
// reason to keep the sessions of the others waiting.
func Drivers(ctx context.Context, set *drivers.Set) []doctor.Finding {
	var findings []doctor.Finding
	for i, part := range set.Parts {
		f := doctor.Finding{Check: "driver " + part.Name, Status: doctor.OK, Found: "it can make sandboxes here"}
		err := check(ctx, part)
		if err == nil && !set.DiskLimited(part.Name, false) {
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
