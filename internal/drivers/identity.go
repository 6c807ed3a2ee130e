package drivers

import (
	"log/slog"
	"strings"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/installation"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/smallfile"
)

// identify returns what names all that a daemon has beside its data directory.
func identify(cfg config.Config, log *slog.Logger) (installation.ID, error) {
	bootID, err := smallfile.Read(stage.BootIDFile)
	if err != nil {
		return "", err
	}
	id, copied, err := installation.Open(cfg.NodeFile(), strings.TrimSpace(string(bootID)), func() (string, error) { return originalUses(cfg) })
	if copied {
		log.Warn("data_dir is a copy of another one: this installation has a new identity", "installation", id)
	}
	return id, err
}

// originalUses has words for what may still belong to the data directory that
// cfg's is a copy of.
func originalUses(cfg config.Config) (string, error) {
	for _, row := range table() {
		if words, err := row.Uses(cfg); words != "" || err != nil {
			return words, err
		}
	}
	return "", nil
}

// Limits are those of a configuration.
func Limits(l config.Limits) runtime.Limits {
	return runtime.Limits{CPU: l.CPU, MemoryMB: l.MemoryMB, Pids: l.Pids, DiskMB: l.DiskMB}
}
