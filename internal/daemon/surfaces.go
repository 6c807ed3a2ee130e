package daemon

import (
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/docs"
	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/mcp"
	orchestratorapi "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	"github.com/sandkasten/sandkasten/internal/api/sessionmetrics"
	"github.com/sandkasten/sandkasten/internal/api/site"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/preview"
)

// surfaces is the list of public APIs.
func (d *Daemon) surfaces(previews *preview.Previews, registry *prometheus.Registry) []api.Surface {
	disk := admission.NewDisk(d.cfg.DataDir, filepath.Dir(d.cfg.DBPath))
	list := []api.Surface{
		v1.New(v1.Options{
			Manager:     d.manager,
			Previews:    previews,
			Pool:        d.pool,
			Images:      d.library,
			Accounts:    d.accounts,
			Scopes:      d.scopes,
			Version:     d.opts.Version,
			OutputBytes: d.cfg.Exec.OutputLimitBytes,
			UploadBytes: d.cfg.Files.MaxUploadMB << 20,
			SpoolDir:    d.cfg.SpoolDir(),
			Writable:    disk.Writable,
			DiskFull:    disk.Full,
			Registry:    registry,
			Metrics:     sessionmetrics.New(registry, d.manager),
		}),
		site.New(docs.FS),
		mcp.New(mcp.Options{Version: d.opts.Version, Transport: d.inside.Transport(), Log: d.log}),
	}
	if d.named == nil {
		return list
	}
	return append(list, orchestratorapi.New(orchestratorapi.Options{
		Service:     d.named,
		Manager:     d.manager,
		OutputBytes: d.cfg.Exec.OutputLimitBytes,
		UploadBytes: d.cfg.Files.MaxUploadMB << 20,
		SpoolDir:    d.cfg.SpoolDir(),
	}))
}
