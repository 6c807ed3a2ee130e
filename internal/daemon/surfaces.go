package daemon

import (
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/docs"
	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/api"
	orchestratorapi "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	"github.com/sandkasten/sandkasten/internal/api/sessionmetrics"
	"github.com/sandkasten/sandkasten/internal/api/site"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/preview"
	"github.com/sandkasten/sandkasten/internal/session"
)

// surfaces is the list of public APIs.
func surfaces(cfg config.Config, version string, manager *session.Manager, named *orchestrator.Service, previews *preview.Previews, ready *pool.Pool, library *jobs.Library, registry *prometheus.Registry) []api.Surface {
	disk := admission.NewDisk(cfg.DataDir, filepath.Dir(cfg.DBPath))
	list := []api.Surface{
		v1.New(v1.Options{
			Manager:     manager,
			Previews:    previews,
			Pool:        ready,
			Images:      library,
			Version:     version,
			OutputBytes: cfg.Exec.OutputLimitBytes,
			UploadBytes: cfg.Files.MaxUploadMB << 20,
			SpoolDir:    cfg.SpoolDir(),
			Writable:    disk.Writable,
			DiskFull:    disk.Full,
			Registry:    registry,
			Metrics:     sessionmetrics.New(registry, manager),
		}),
		site.New(docs.FS),
	}
	if named == nil {
		return list
	}
	return append(list, orchestratorapi.New(orchestratorapi.Options{
		Service:     named,
		Manager:     manager,
		OutputBytes: cfg.Exec.OutputLimitBytes,
		UploadBytes: cfg.Files.MaxUploadMB << 20,
		SpoolDir:    cfg.SpoolDir(),
	}))
}
