package daemon

import (
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/docs"
	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/console"
	"github.com/sandkasten/sandkasten/internal/api/mcp"
	orchestratorapi "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	"github.com/sandkasten/sandkasten/internal/api/site"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/preview"
)

// issuer is the provider whose access tokens open /mcp, or empty.
func (d *Daemon) issuer() string {
	if d.oidc == nil {
		return ""
	}
	return d.oidc.Issuer()
}

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
			Usage:       d.usage,
			Inspections: d.looks,
			SignIns:     d.signIns,
			OIDC:        d.oidc,
			Home:        d.home(),
			Scopes:      d.scopes,
			AgentFiles:  d.artifacts != nil,
			Audit:       d.audit,
			History:     d.history,
			Findings:    d.findings,
			Version:     d.opts.Version,
			OutputBytes: d.cfg.Exec.OutputLimitBytes,
			UploadBytes: d.cfg.Files.MaxUploadMB << 20,
			SpoolDir:    d.cfg.SpoolDir(),
			Writable:    disk.Writable,
			DiskFull:    disk.Full,
			Registry:    registry,
			Metrics:     d.metrics,
		}),
		site.New(docs.FS, site.Options{Console: d.cfg.Console.Enabled}),
		mcp.New(mcp.Options{Version: d.opts.Version, Transport: d.inside.Transport(), Registry: registry, Issuer: d.issuer(), Files: d.artifacts, Log: d.log}),
	}
	if d.cfg.Console.Enabled {
		list = append(list, console.New(console.Built()))
	}
	if d.named == nil {
		return list
	}
	return append(list, orchestratorapi.New(orchestratorapi.Options{
		Service:      d.named,
		Title:        drivers.Title,
		Artifacts:    d.artifacts,
		Bucket:       d.cfg.Snapshots.Store == "s3",
		BucketPrefix: d.cfg.Snapshots.S3.Prefix,
		Manager:      d.manager,
		Accounts:     d.accounts,
		SignIns:      d.signIns,
		SignInLife:   d.cfg.SignIn.Most,
		Registration: d.cfg.Orchestrator.Registration,
		OutputBytes:  d.cfg.Exec.OutputLimitBytes,
		UploadBytes:  d.cfg.Files.MaxUploadMB << 20,
		SpoolDir:     d.cfg.SpoolDir(),
	}))
}

// home is the page that people have at this daemon.
func (d *Daemon) home() string {
	if d.cfg.Console.Enabled {
		return "/"
	}
	return "/docs/"
}
