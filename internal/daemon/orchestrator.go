package daemon

import (
	"cmp"
	"log/slog"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/session"
)

// newOrchestrator returns nil if there is none.
func newOrchestrator(cfg config.Config, rows orchestrator.Store, manager *session.Manager, log *slog.Logger) *orchestrator.Service {
	o := cfg.Orchestrator
	if !o.Enabled {
		return nil
	}
	return orchestrator.New(orchestrator.Options{
		Store:        rows,
		Sessions:     manager.Sessions,
		Snapshots:    manager.Snapshots,
		Ready:        manager.Ready,
		Drivers:      cfg.Drivers(),
		DefaultMode:  o.DefaultMode,
		Modes:        o.Modes,
		DefaultImage: cmp.Or(o.DefaultImage, cfg.DefaultImage),
		ImageAliases: o.ImageAliases,
		IdleTimeout:  o.IdleTimeout,
		MaxLifetime:  o.MaxLifetime,
		Every:        o.ReaperInterval,
		KeepAuto:     o.KeepAuto,
		Log:          log,
	})
}
