// Package daemon is the composition root: the one place that knows every
// concrete type, in which order they start and in which they stop. It holds
// no behaviour of its own beyond that; what a part does is the part's.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
	"github.com/sandkasten/sandkasten/internal/accounts/oidc"
	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/sessionmetrics"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/events"
	"github.com/sandkasten/sandkasten/internal/events/sources"
	"github.com/sandkasten/sandkasten/internal/findings"
	"github.com/sandkasten/sandkasten/internal/fsck"
	"github.com/sandkasten/sandkasten/internal/history"
	"github.com/sandkasten/sandkasten/internal/hostcheck"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/maintenance"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/pool"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/reaper"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/service"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/usage"
)

// Options are what is not in the configuration.
type Options struct {
	Version string           // of the build
	Service *service.Manager // that started this process; nil is nobody
	Log     *slog.Logger

	// Drivers are those that a configuration may name beside the table's.
	Drivers []drivers.Row

	// StopSessions has Run stop the sessions of all owners, which keep their
	// files, and return. There is no pool then.
	StopSessions bool
}

// Daemon is all parts, put together.
type Daemon struct {
	cfg      config.Config
	opts     Options
	log      *slog.Logger
	listener net.Listener
	settled  chan struct{} // closed when the sessions of an earlier daemon have been taken up
	images   *images.Store
	library  *jobs.Library // of images
	groups   *groupAsker   // of images
	drivers  *drivers.Set
	pool     *pool.Pool // nil if there is none
	manager  *session.Manager
	reaper   *reaper.Reaper
	named    *orchestrator.Service // nil if there is none
	scopes   *scope.Service
	inside   *api.Inside // the server's second listener

	artifacts *artifacts.Service // of named
	server    *http.Server

	configured *auth.Keys
	accounts   *accounts.Accounts
	looks      *inspections.Inspections
	signIns    *browser.SignIns
	oidc       *oidc.Provider // nil if there is none
	quotas     auth.Quotas
	usage      *usage.Meter
	history    *history.Recorder
	answered   api.Answers
	metrics    *sessionmetrics.Metrics
	host       admission.Host
	findings   *findings.Examiner

	audit   *audit.Log // nil if there is none
	events  *events.Hub
	ballast *admission.Ballast

	closers []func() error // in the order in which they were opened
}

// New takes the data directory, checks the host, listens and opens all parts.
// Nothing runs before Run, but clients may connect and wait. The caller closes
// the daemon, also after Run.
func New(ctx context.Context, cfg config.Config, opts Options) (*Daemon, error) {
	cfg.Pool.Enabled = cfg.Pool.Enabled && !opts.StopSessions
	d := &Daemon{cfg: cfg, opts: opts, log: opts.Log, events: events.NewHub(events.Options{}), settled: make(chan struct{}), inside: api.NewInside()}
	if off := protection.Named(); len(off) > 0 {
		d.log.WarnContext(ctx, "this is a build for tests and protects nobody", "off", off)
	}
	for _, remark := range cfg.Remarks {
		d.log.WarnContext(ctx, remark)
	}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Daemon) open(ctx context.Context) error {
	// The lock comes before anything that writes into the directory, the
	// listener before anything that may take long.
	release, err := datadir.Lock(d.cfg)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, release)
	if err := d.listen(ctx); err != nil {
		return err
	}
	if err := admit(ctx, d.log, doctor.Examine(hostcheck.Host(d.cfg))); err != nil {
		return err
	}
	traces, err := d.trace(ctx)
	if err != nil {
		return err
	}
	keys, err := d.keys()
	if err != nil {
		return err
	}
	d.configured = keys
	gate, err := d.openSessions(ctx)
	if err != nil {
		return err
	}
	previews, err := d.previews(d.accounts.Authenticator(d.configured))
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	d.metrics = sessionmetrics.New(registry, d.manager)
	d.openFindings()
	if err := errors.Join(d.openAudit(registry), d.openDebug(ctx)); err != nil {
		return err
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gate, d.scopes, d.events)
	if d.pool != nil {
		registry.MustRegister(d.pool)
	}
	d.registerOrchestrator(registry)
	var tokens api.Tokens
	if d.oidc != nil {
		tokens = d.oidc
	}
	handler := api.Handler(api.Options{
		Log:           d.log,
		Tokens:        tokens,
		Inside:        d.inside,
		Authenticator: d.accounts.Authenticator(keys),
		Browsers:      d.signIns,
		HTTPS:         d.cfg.Preview.HTTPS,
		Hosts:         api.NewHosts(d.cfg.Listen, d.cfg.AllowedHosts...),
		Origins:       d.cfg.CORSOrigins,
		Proxies:       d.cfg.TrustedProxies,
		Site:          previews.Site,
		Quotas:        d.quotas,
		Concurrent:    concurrent(d.cfg.Requests),
		Registry:      registry,
		Answers:       &d.answered,
		Audit:         d.audit,
		Tracer:        traces,
	}, d.surfaces(previews, registry)...)
	d.server = api.NewServer(handler, d.log)
	d.server.RegisterOnShutdown(d.events.Close)
	connections := api.NewConnections(d.cfg.Requests.Connections, d.cfg.TrustedProxies)
	connections.Watch(d.server)
	d.listener = connections.Bound(d.listener)
	registry.MustRegister(connections)
	return nil
}

// openSessions opens what sessions are made of and kept in, without a way in
// for clients.
func (d *Daemon) openSessions(ctx context.Context) (*admission.Gate, error) {
	if err := d.makeRoom(ctx); err != nil {
		return nil, err
	}
	var err error
	if d.images, err = datadir.OpenImages(d.cfg, d.log); err != nil {
		return nil, err
	}
	if err := d.openDrivers(ctx, d.images); err != nil {
		return nil, err
	}
	d.groups = d.openGroups(ctx)
	d.library = d.openLibrary(ctx)
	if err := d.refuseLost(ctx); err != nil {
		return nil, err
	}
	rows, err := store.Open(ctx, d.cfg.DBPath)
	if err != nil {
		return nil, err
	}
	d.closers = append(d.closers, rows.Close)
	rows.MakeRoom = d.ballast.Spare
	living, err := rows.List(ctx, session.ListFilter{Helpers: true})
	if err != nil {
		return nil, err
	}
	if err := d.refuseUnnamed(ctx, fsck.Rows{Exists: true, Sessions: living}); err != nil {
		return nil, err
	}

	d.host = admission.Host{Proc: "/proc", DataDir: d.cfg.DataDir, PoolDir: d.drivers.PoolDir()}
	gate := admission.New(d.host.Read, admissionReserve(d.cfg, d.host))
	if err := d.openAccounts(ctx, rows); err != nil {
		return nil, err
	}
	d.quotas = d.accounts.Quotas(quotas(d.cfg))
	d.openUsage(rows)
	d.openHistory(rows)
	sessions := sessionOptions(d.cfg, rows, d.drivers, d.images, d.events, d.log)
	sessions.Store, sessions.Quotas, sessions.Networks.OverQuota = d.usage.Sessions(), d.quotas, d.usage.CheckNetwork
	stores, err := openStores(ctx, d.cfg)
	if err != nil {
		return nil, err
	}
	sessions.Snapshots = snapshotOptions(d.cfg, sources.Snapshots(rows, d.events), stores.Snapshots)
	if sessions.Secrets, err = secretOptions(d.cfg, rows); err != nil {
		return nil, err
	}
	if err := d.ballast.Hold(); err != nil {
		return nil, fmt.Errorf("hold room in data_dir: %w", err)
	}
	sessions.Networks.ImageGroups = d.groupsOf
	sessions.Admit, sessions.Freed, sessions.Snapshots.RoomToEnd = d.admitSession(gate), d.freed(gate), gate.RoomToEnd
	sessions.FetchImage = (&sourceImages{library: d.library, sources: maps.Collect(drivers.Able[runtime.ImageSource](d.drivers))}).fetch
	sessions.LookIn = d.lookIn
	sessions.Settled = func() {
		d.usage.Settled(ctx)
		close(d.settled)
	}
	sessions.Reserved = d.groups.owns
	sessions.Held = func(ctx context.Context, id session.ID) bool { return d.named != nil && d.named.Holds(ctx, id) }
	changed := sources.Pool(d.events, func() pool.Status { return d.pool.Status() })
	if d.pool = newPool(d.cfg, d.opts.Version, sessions, d.drivers, d.host, changed); d.pool != nil {
		sessions.Creator = d.pool
		sessions.Reserved = func(id runtime.ID) bool { return pool.Owns(id) || d.groups.owns(id) }
	}
	d.manager = session.New(sessions)
	if err := d.openBeside(ctx, rows, stores); err != nil {
		return nil, err
	}
	return gate, d.usage.Resume(ctx)
}

// makeRoom gives back what is held of a full disk, so that the database can be
// opened and sessions be removed.
func (d *Daemon) makeRoom(ctx context.Context) error {
	d.ballast = admission.NewBallast(d.cfg.DataDir)
	gave, err := d.ballast.GiveBack()
	if err != nil {
		return fmt.Errorf("make room in data_dir: %w", err)
	}
	if gave {
		d.log.ErrorContext(ctx, "the disk of data_dir is full: sessions can be used and removed, and none be made", "data_dir", d.cfg.DataDir)
	}
	return nil
}

func (d *Daemon) listen(ctx context.Context) error {
	listener, err := d.opts.Service.Listen(ctx, d.cfg.Listen)
	if err != nil {
		return fmt.Errorf("%w: stop what uses the address, or choose another for listen", err)
	}
	d.listener = listener
	// Serving closes it too, before this.
	d.closers = append(d.closers, func() error {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}

func (d *Daemon) openDrivers(ctx context.Context, imageStore *images.Store) error {
	set, err := drivers.Open(ctx, d.cfg, imageStore, d.log, d.opts.Drivers...)
	if err != nil {
		return err
	}
	d.drivers = set
	d.closers = append(d.closers, set.Close)
	findings := hostcheck.Drivers(ctx, set)
	if !set.Parts[0].OwnImages {
		findings = append(findings, hostcheck.Image(ctx, imageStore, d.cfg.DefaultImage))
	}
	return admit(ctx, d.log, findings)
}

func sessionOptions(cfg config.Config, rows *store.Store, set *drivers.Set, imageStore *images.Store, hub *events.Hub, log *slog.Logger) session.Options {
	return session.Options{
		Store:  rows,
		Driver: set.Driver, Drivers: cfg.Drivers(), DiskLimited: set.DiskLimited, Remote: set.IsElsewhere, WorkspaceDriver: set.WorkspaceDriver,
		Images: imageStore, ImagesOf: imagesOf(set, imageStore),
		Log: log,
		Defaults: session.Defaults{
			Image:        cfg.DefaultImage,
			TTL:          cfg.SessionTTL,
			OnExpiry:     session.OnExpiry(cfg.Sessions.OnExpiry),
			IdleTimeout:  cfg.SessionIdle,
			Retention:    cfg.StoppedFor,
			RetentionOf:  retentionOf(cfg),
			ExecTimeout:  cfg.Defaults.ExecTimeout,
			OutputBytes:  cfg.Exec.OutputLimitBytes,
			Limits:       drivers.Limits(cfg.Defaults.Limits),
			ReadonlyRoot: cfg.Defaults.ReadonlyRootfs,
		},
		Maxima: session.Maxima{
			TTL:         cfg.MaxSessionTTL,
			Lifetime:    cfg.MaxLifetime,
			ExecTimeout: cfg.Defaults.MaxExecTimeout,
			Limits:      drivers.Limits(cfg.Maximum),
			Sessions:    cfg.MaxSessions,
			FileBytes:   cfg.Files.MaxUploadMB << 20,
		},
		Events:                hub,
		Networks:              networkOptions(cfg, rows, set, log),
		Workspaces:            workspaceOptions(cfg.Workspace, set, sources.Workspaces(rows, hub)),
		KillGrace:             cfg.Exec.KillGrace,
		TerminalDetach:        cfg.Terminal.Detach,
		FilesOutsideWorkspace: cfg.Files.OutsideWorkspace,
		FileScopeOf:           fileScopeOf(cfg),
		Seccomp:               runtime.SeccompMode(cfg.Security.Seccomp),
	}
}

// URL is where clients on this machine reach the daemon.
func (d *Daemon) URL() string {
	cfg := d.cfg
	cfg.Listen = d.listener.Addr().String() // a configured port 0 has become one
	return cfg.URL()
}

// Run serves until ctx is done and then waits for requests to end, no longer
// than shutdown_grace_seconds. Sessions keep running. It returns the first
// failure of a part, which stops the others.
func (d *Daemon) Run(ctx context.Context) error {
	// Requests need the other parts to their end, so those stop later.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, inner := errgroup.WithContext(inner)
	g.Go(func() error {
		if err := d.drivers.Sweep(inner); err != nil && inner.Err() == nil {
			d.log.ErrorContext(inner, "cannot remove everything that a crash left", "err", err)
		}
		if d.pool != nil {
			g.Go(func() error { return d.pool.Run(inner) })
		}
		return d.manager.Run(inner)
	})
	g.Go(func() error { return d.reaper.Run(inner) })
	g.Go(func() error { return d.accounts.Run(inner, d.settled) })
	g.Go(func() error { return d.usage.Run(inner) })
	g.Go(func() error { return d.signIns.Run(inner) })
	g.Go(func() error { return d.recordHistory(inner) })
	if !d.opts.StopSessions {
		g.Go(func() error { return d.scopes.Run(inner) })
	}
	if d.named != nil && !d.opts.StopSessions {
		g.Go(func() error { return d.named.Run(inner) })
		g.Go(func() error { return d.artifacts.Run(inner) })
	}
	g.Go(func() error { return d.tellService(inner) })
	if d.audit != nil {
		g.Go(func() error { return d.audit.Run(inner) })
	}
	g.Go(func() error {
		d.sweepFiles(inner)
		return nil
	})
	g.Go(func() error {
		defer stop()
		return d.serve(ctx, inner)
	})
	if d.opts.StopSessions {
		g.Go(func() error {
			defer stop()
			return d.stopSessions(inner)
		})
	}
	return g.Wait()
}

// tellService says that the daemon works once it has taken up its sessions, and
// from then on for as long as it answers requests.
func (d *Daemon) tellService(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.settled:
	}
	if err := d.opts.Service.Notify(service.Ready); err != nil {
		d.log.WarnContext(ctx, err.Error())
	}
	return d.opts.Service.Watch(ctx, d.answers)
}

// answers asks the daemon what its clients ask, by the address that they use.
func (d *Daemon) answers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL()+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// sweepFiles removes what interrupted imports and uploads of earlier runs left,
// and images that nothing names, uses or was saved on any more.
func (d *Daemon) sweepFiles(ctx context.Context) {
	swept, err := d.images.GC(ctx, maintenance.ImagesNeeded(ctx, d.cfg, d.opts.Drivers...))
	if err != nil && ctx.Err() == nil {
		d.log.ErrorContext(ctx, "cannot sweep the image store", "err", err)
	}
	if swept != (images.Swept{}) {
		d.log.InfoContext(ctx, "swept the image store", "images", swept.Images, "layers", swept.Layers, "staging", swept.Staging)
	}
}

// closeTime is more than all parts take to end once requests have. The unit in deploy has
// it on top of the default grace.
const closeTime = 50 * time.Second

// serve answers requests until ctx or inner is done, and drains them.
func (d *Daemon) serve(ctx, inner context.Context) error {
	served, servedInside := make(chan error, 1), make(chan error, 1)
	go func() { served <- d.server.Serve(d.listener) }()
	go func() { servedInside <- d.server.Serve(d.inside) }()
	d.log.InfoContext(ctx, "listening", "url", d.URL(), "version", d.opts.Version, "data_dir", d.cfg.DataDir)
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve %s: %w", d.URL(), err), d.inside.Close())
	case <-ctx.Done():
	case <-inner.Done():
	}
	d.log.InfoContext(ctx, "stopping; sessions keep running", "why", context.Cause(ctx))
	if err := d.opts.Service.Notify(service.StoppingWithin(d.cfg.ShutdownGrace + closeTime)); err != nil {
		d.log.WarnContext(ctx, err.Error())
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.ShutdownGrace)
	defer cancel()
	err := d.server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		d.log.InfoContext(ctx, "cutting off requests that did not end in time")
		err = d.server.Close()
	}
	for _, ended := range []chan error{served, servedInside} {
		if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
	}
	return err
}

// Close frees what New took, the last first. It does not touch sessions.
func (d *Daemon) Close() error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	d.closers = nil
	return errors.Join(errs...)
}
