package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Orchestrator is about the API below /api/sandbox, whose sessions have names of
// their clients' choice and outlive their sandboxes.
type Orchestrator struct {
	Enabled        bool
	DefaultMode    string            // of sessions whose client names none; empty: the one of driver
	Modes          map[string]string // the driver of a mode, where it has not its name
	DefaultImage   string            // empty: default_image
	ImageAliases   map[string]string // our names of images that clients call otherwise
	IdleTimeout    time.Duration
	MaxLifetime    time.Duration
	ReaperInterval time.Duration
	KeepAuto       int           // snapshots of one session that nobody asked for
	Retention      time.Duration // of sessions that have ended; 0: for ever

	UnsavedRetention time.Duration // of files that cannot be saved; 0: StoppedFor
	MemoryInterval   time.Duration // between snapshots of files in memory

	ArtifactBaseURL   string        // of links; empty: signed ones
	ArtifactLinks     string        // daemon, store
	ArtifactLinkLife  time.Duration // of a signed one
	ArtifactQuotaMB   int64         // of one owner; 0: none
	ArtifactRetention time.Duration // 0: for ever

	Workspace     string // whose files sessions begin with: session, user, static
	WorkspaceName string // of static
	Registration  bool
}

// Whose files a session of the orchestrator begins with: its own, all sessions' of its
// user, or those of one name.
const (
	WorkspaceOfSession = "session"
	WorkspaceOfUser    = "user"
	WorkspaceStatic    = "static"
)

// orchestratorOptions are its keys. Its modes have the names of drivers.
func (c *Config) orchestratorOptions(drivers []string) []option {
	o := &c.Orchestrator
	return []option{
		{"orchestrator.enabled", boolean(&o.Enabled), "Serve the sandbox orchestrator's API below `/api/sandbox/`, too: see docs/orchestrator.md. It needs `snapshots.enabled`."},
		{"orchestrator.default_mode", oneOf(&o.DefaultMode, drivers...), "Mode of a session whose client names none. When it is not set: the one of `driver`."},
		{"orchestrator.modes", choices(&o.Modes, drivers), "Drivers of modes that have not the driver of their name. `{docker: native}` gives clients that ask for Docker the native driver."},
		{"orchestrator.default_image", text(&o.DefaultImage), "Image of a session whose client names none. When it is not set: `default_image`."},
		{"orchestrator.image_aliases", pairs(&o.ImageAliases), "This daemon's names of images that clients call otherwise."},
		{"orchestrator.idle_timeout_seconds", seconds(&o.IdleTimeout, 60, year), "Idle time after which a session is saved and ended, unless its client sets one."},
		{"orchestrator.max_lifetime_seconds", seconds(&o.MaxLifetime, 300, 10*year), "Age at which a session is saved and ended, active or not, unless its client sets one."},
		{"orchestrator.reaper_interval_seconds", seconds(&o.ReaperInterval, 1, 3600), "Interval at which the daemon looks for such sessions."},
		{"orchestrator.keep_auto_snapshots", integer(&o.KeepAuto, 1, 1000), "Snapshots of one session that were taken when it ended; older ones are removed. Those that clients asked for stay."},
		{"orchestrator.retention_days", days(&o.Retention, 0, 3650), "Sessions that ended are forgotten after this long, with their snapshots and artifacts. 0 is never, but for those that have neither: 30 days."},
		{"orchestrator.unsaved_retention_seconds", seconds(&o.UnsavedRetention, 0, 10*year), "How long the files of a session that ended are kept with its sandbox while they cannot be saved, as when the store of snapshots is down. 0 is `stopped_retention_seconds`."},
		{"orchestrator.memory_snapshot_seconds", seconds(&o.MemoryInterval, 10, 86400), "Time between two snapshots of a session that is used and whose files are in memory (`docker.workspace: memory`): what a crash of its container loses at most."},
		{"orchestrator.artifact_base_url", baseAddress(&o.ArtifactBaseURL), "Begins the links to artifacts, instead of signed links: a file's path in the sandbox follows."},
		{"orchestrator.artifact_links", oneOf(&o.ArtifactLinks, "daemon", "store"), "Who serves the signed links: this daemon, or the bucket of `snapshots.s3_bucket`, which clients have to reach then."},
		{"orchestrator.artifact_link_seconds", seconds(&o.ArtifactLinkLife, 60, 7*day), "Life of a signed link. Every answer that has one has a new one."},
		{"orchestrator.artifact_quota_mb", integer(&o.ArtifactQuotaMB, 0, 1<<30), "MiB of the artifacts of one owner. The same content counts once. 0 is no maximum."},
		{"orchestrator.artifact_retention_days", days(&o.ArtifactRetention, 0, 3650), "Artifacts are removed after this long. 0 is never."},
		{"orchestrator.workspace", oneOf(&o.Workspace, WorkspaceOfSession, WorkspaceOfUser, WorkspaceStatic), "Where files of sessions are: each in a workspace of its own that ends with its sandbox and comes back with its snapshot (`session`), or in a kept workspace of its user that all its sessions share: `user` is `sandbox-user`, `static` is `orchestrator.workspace_name`."},
		{"orchestrator.workspace_name", workspaceID(&o.WorkspaceName), "The kept workspace of `static`, each user its own."},
		{"orchestrator.registration", boolean(&o.Registration), "Let everybody who reaches the daemon make a user for themselves at `/api/auth/register/`."},
	}
}

const pairsWant = "up to 1000 names, each with another, as {\"astraforge/codex-cli:latest\": base}"

// pairs binds a key to names of names.
func pairs(p *map[string]string) value {
	return value{want: pairsWant, tag: "!!map", set: func(n *yaml.Node) bool {
		*p = map[string]string{}
		return eachPair(n, 1000, func(name string, child *yaml.Node) bool {
			(*p)[name] = child.Value
			return child.ShortTag() == "!!str" && child.Value != ""
		})
	}, show: func() string { return showPairs(*p) }}
}

// choices is pairs of drivers: a mode, and what makes its sandboxes.
func choices(p *map[string]string, drivers []string) value {
	v := pairs(p)
	v.want = "some of " + strings.Join(drivers, " and ") + ", each with a driver, as {docker: native}"
	set := v.set
	v.set = func(n *yaml.Node) bool {
		ok := set(n)
		for mode, driver := range *p {
			ok = ok && slices.Contains(drivers, mode) && slices.Contains(drivers, driver)
		}
		return ok
	}
	return v
}

func showPairs(shown map[string]string) string {
	texts := []string{}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		texts = append(texts, name+": "+shown[name])
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// orchestrator checks what has to be there for it.
func (l *loader) orchestrator(c *Config) {
	o := &c.Orchestrator
	atMost(l, "orchestrator.idle_timeout_seconds", &o.IdleTimeout, "orchestrator.max_lifetime_seconds", &o.MaxLifetime)
	if !o.Enabled {
		return
	}
	if !c.Snapshots.Enabled {
		l.wrong(l.set["orchestrator.enabled"], "orchestrator.enabled", "needs snapshots.enabled, for its sessions come back with their files: set that too, or neither")
	}
	if o.ArtifactLinks == "store" && (c.Snapshots.Store != "s3" || c.Snapshots.Encrypted()) {
		l.wrong(l.set["orchestrator.artifact_links"], "orchestrator.artifact_links", "is store, which needs a bucket with readable content: set snapshots.store to s3 without an encryption key, or write daemon")
	}
	if o.Workspace != WorkspaceOfSession && !c.Workspace.Enabled {
		l.wrong(l.set["orchestrator.workspace"], "orchestrator.workspace", "is %s, which needs workspace.enabled: set that, or write session", o.Workspace)
	}
	for mode, driver := range o.Modes {
		if !slices.Contains(c.Drivers(), driver) {
			l.wrong(l.set["orchestrator.modes"], "orchestrator.modes", "has %s for %s, which this daemon does not have: name it in driver or extra_drivers", driver, mode)
		}
	}
	mode := cmp.Or(o.DefaultMode, c.Driver)
	where := cmp.Or(l.set["orchestrator.default_mode"], l.set["orchestrator.enabled"])
	if driver := cmp.Or(o.Modes[mode], mode); l.good("orchestrator.modes") && !slices.Contains(c.Drivers(), driver) {
		l.wrong(where, "orchestrator.default_mode", "is %s, which needs the driver %s: name it in driver or extra_drivers, or another in orchestrator.modes", mode, driver)
	}
	where = cmp.Or(l.set["orchestrator.idle_timeout_seconds"], l.set["orchestrator.enabled"])
	margin := 2 * o.ReaperInterval // so that sessions are saved before they expire
	if o.IdleTimeout > c.MaxSessionTTL-margin {
		l.wrong(where, "orchestrator.idle_timeout_seconds", "is more than max_session_ttl_seconds without two rounds of the reaper: lower the one or raise the other")
	}
	where = cmp.Or(l.set["orchestrator.max_lifetime_seconds"], l.set["orchestrator.enabled"])
	if c.MaxLifetime > 0 && o.MaxLifetime > c.MaxLifetime-margin {
		l.wrong(where, "orchestrator.max_lifetime_seconds", "is more than max_lifetime_seconds without two rounds of the reaper: lower the one or raise the other")
	}
}
