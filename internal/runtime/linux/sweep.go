package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Sweep frees what a crash can leave without a sandbox's directory naming it:
// control groups, runners, loop devices and half-built templates of disks. The daemon calls it at its
// start, before it creates anything.
func (d *Driver) Sweep(ctx context.Context) error {
	var errs []error
	exists := func(id string) bool {
		_, err := os.Lstat(d.dir(runtime.ID(id)))
		return !errors.Is(err, fs.ErrNotExist) // unknown is not absent
	}
	groups, err := d.cgroups.List()
	errs = append(errs, err)
	claimed, err := d.groupsInUse()
	errs = append(errs, err)
	for _, id := range groups {
		if !claimed[id] && !exists(id) {
			errs = append(errs, d.Destroy(ctx, runtime.ID(id)))
		}
	}
	errs = append(errs, d.endStrays(ctx, os.Getpid()), failpoint.Hit("linux.sweep.groups"), d.emptyScratch(), failpoint.Hit("linux.sweep.scratch"))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// groupsInUse are the control groups that sandboxes have.
func (d *Driver) groupsInUse() (map[string]bool, error) {
	entries, err := os.ReadDir(d.sandboxes)
	used := make(map[string]bool, len(entries))
	for _, e := range entries {
		if s, err := d.readState(runtime.ID(e.Name())); err == nil {
			used[s.groupName()] = true
		}
	}
	return used, err
}

func (d *Driver) emptyScratch() error {
	entries, err := os.ReadDir(d.scratch)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(d.scratch, e.Name())))
	}
	return errors.Join(errs...)
}
