// Package drivers is the table of the drivers that there are, and what the
// configuration means to each: this is the one place that knows their names and
// types. It opens those that a daemon has, as one. What a driver does is its own
// package's.
package drivers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// table has the drivers, the default first. To add one is to add its row.
func table() []Row { return []Row{nativeRow(), dockerRow()} }

// Row is what the rest of the program knows of a driver before there is one.
type Row struct {
	Name  string // in the configuration, in ids and in the API
	Title string // in sentences for people

	// Open makes the driver that cfg wants. The caller closes it. Ctx is of the call.
	Open func(ctx context.Context, cfg config.Config, store *images.Store, log *slog.Logger) (HostDriver, error)

	// Inspect is what there is of its sandboxes beside a daemon of that process, or
	// 0, seen without opening the driver. A driver that is opened for it has none.
	Inspect func(cfg config.Config, daemon int) (runtime.Inspection, error)

	// Uses has words for what may still belong to the data directory that cfg's is
	// a copy of, or "".
	Uses func(cfg config.Config) (string, error)

	HostKernel   bool   // this host's kernel makes its sandboxes: the doctor looks at what that takes
	MaxSandboxes int    // on a host; 0 is no limit of its own
	LoadsImages  bool   // it is a runtime.ImageLoader
	OwnImages    bool   // it is a runtime.ImageResolver: what its sessions have is not in the store
	Workspaces   bool   // it is a runtime.WorkspaceKeeper
	Mend         string // what to do where no sandbox can be made for a trial
}

// HostDriver is a driver with what belongs to a process rather than to a sandbox.
type HostDriver interface {
	runtime.Driver

	// Sweep removes what an earlier process left and no sandbox owns. It is
	// called once, before anything is created, and not waited for long where the
	// sandboxes are not this host's.
	Sweep(ctx context.Context) error

	// Close lets go of what this process holds. Sandboxes live on.
	Close() error
}

// Names are the drivers that a configuration can name, the default first.
func Names() []string {
	var names []string
	for _, row := range table() {
		names = append(names, row.Name)
	}
	return names
}

// planned are drivers that the API has names for and no build has, with their titles.
func planned() map[string]string { return map[string]string{"k8s": "Kubernetes"} }

// Planned reports whether a name is that of a driver that no build has yet.
func Planned(name string) bool { return planned()[name] != "" }

// Title is what people call a driver, or "" if there is none of that name.
func Title(name string) string {
	row, err := Find(name)
	if err != nil {
		return planned()[name]
	}
	return row.Title
}

// Find returns the row of a driver, of the table or of more.
func Find(name string, more ...Row) (Row, error) {
	rows := append(table(), more...)
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name }); i >= 0 {
		return rows[i], nil
	}
	return Row{}, fmt.Errorf("no driver %q: there is %s", name, strings.Join(Names(), ", "))
}

// rowsOf are the rows of the drivers of a configuration, in its order.
func rowsOf(cfg config.Config, more ...Row) ([]Row, error) {
	var rows []Row
	for _, name := range cfg.Drivers() {
		row, err := Find(name, more...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// HostKernel reports whether this host's kernel makes sandboxes of cfg's daemon,
// and how many of those there can be at one time: 0 is as many as there are
// sessions.
func HostKernel(cfg config.Config) (makes bool, most int) {
	for _, row := range table() {
		if row.HostKernel && slices.Contains(cfg.Drivers(), row.Name) {
			makes, most = true, max(most, row.MaxSandboxes)
		}
	}
	return makes, most
}

// LoadsImages reports whether images have to be brought to a driver.
func LoadsImages(name string) bool {
	row, err := Find(name)
	return err == nil && row.LoadsImages
}

// WorkspaceDriver is the driver of cfg that keeps the workspaces, or "": the first one
// that can.
func WorkspaceDriver(cfg config.Config, more ...Row) string {
	for _, name := range cfg.Drivers() {
		if row, err := Find(name, more...); err == nil && row.Workspaces {
			return name
		}
	}
	return ""
}

// OwnImages reports whether the images of a driver's sessions are not in the store.
func OwnImages(name string, more ...Row) bool {
	row, err := Find(name, more...)
	return err == nil && row.OwnImages
}
