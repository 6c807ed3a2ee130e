package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/session"
)

// newOrchestrator returns nil if there is none.
func newOrchestrator(cfg config.Config, rows orchestrator.Store, manager *session.Manager, kept *artifacts.Service, set *drivers.Set, log *slog.Logger) *orchestrator.Service {
	o := cfg.Orchestrator
	if !o.Enabled {
		return nil
	}
	suffix := ""
	if cfg.Snapshots.Encrypted() {
		suffix = ".enc"
	}
	return orchestrator.New(orchestrator.Options{
		Store:        rows,
		Sessions:     manager.Sessions,
		Snapshots:    manager.Snapshots,
		Ready:        manager.Ready,
		Drivers:      cfg.Drivers(),
		Keeper:       set.WorkspaceDriver,
		DefaultMode:  o.DefaultMode,
		Modes:        o.Modes,
		Planned:      drivers.Planned,
		DefaultImage: cmp.Or(o.DefaultImage, cfg.DefaultImage),
		ImageAliases: o.ImageAliases,
		Workspace:    keptWorkspace(o),
		IdleTimeout:  o.IdleTimeout,
		MaxLifetime:  o.MaxLifetime,
		Every:        o.ReaperInterval,
		KeepAuto:     o.KeepAuto,
		Retention:    o.Retention,

		DiskLimited:      set.DiskLimited,
		UnsavedRetention: cmp.Or(o.UnsavedRetention, cfg.StoppedFor),
		MemoryEvery:      o.MemoryInterval,
		InMemory: func(driver string) bool {
			return drivers.InMemory(cfg, driver)
		},

		Forget:        kept.RemoveSession,
		ArchiveSuffix: suffix,
		Log:           log,
	})
}

// registerOrchestrator adds the metrics of the orchestrator, if there is one.
func (d *Daemon) registerOrchestrator(registry *prometheus.Registry) {
	if d.named != nil {
		registry.MustRegister(d.named)
	}
}

// openArtifacts returns nil if there is no orchestrator.
func openArtifacts(ctx context.Context, cfg config.Config, rows artifacts.Store, stores datadir.Stores, credentials auth.Credentials, log *slog.Logger) (*artifacts.Service, error) {
	o := cfg.Orchestrator
	if !o.Enabled {
		return nil, nil //nolint:nilnil // there is none
	}
	secret, _, err := auth.KeyFile(cfg.ArtifactSecretFile())
	if err != nil {
		return nil, err
	}
	kept := artifacts.New(artifacts.Options{
		Store:     rows,
		Blobs:     stores.Artifacts,
		SpoolDir:  cfg.SpoolDir(),
		Secret:    []byte(secret),
		Link:      storeLink(cfg, stores),
		BaseURL:   o.ArtifactBaseURL,
		LinkLife:  o.ArtifactLinkLife,
		MaxBytes:  cfg.Files.MaxUploadMB << 20,
		Quota:     o.ArtifactQuotaMB << 20,
		Retention: o.ArtifactRetention,
		Log:       log,

		Credentials: credentials,
	})
	if err := kept.Recover(ctx); err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	return kept, nil
}

// storeLink makes links of the bucket, or is nil if the daemon makes its own.
func storeLink(cfg config.Config, stores datadir.Stores) func(context.Context, string, time.Duration, artifacts.Artifact) (string, error) {
	if cfg.Orchestrator.ArtifactLinks != "store" || stores.Bucket == nil {
		return nil
	}
	return func(ctx context.Context, key string, life time.Duration, a artifacts.Artifact) (string, error) {
		return stores.Bucket.Link(ctx, key, life, url.Values{
			"response-content-type":        {a.ContentType},
			"response-content-disposition": {api.Attachment(a.Filename)},
		})
	}
}

// keptWorkspace is the workspace that all sessions of a user share, if they do.
func keptWorkspace(o config.Orchestrator) string {
	switch o.Workspace {
	case config.WorkspaceOfUser:
		return "sandbox-user"
	case config.WorkspaceStatic:
		return o.WorkspaceName
	}
	return ""
}
