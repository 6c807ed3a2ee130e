package archtest

// unix is the library of raw system calls. Who has it below can do anything
// root can, so the list is short: the driver and what it is made of, what runs
// inside a sandbox, and the image store, which unpacks what strangers packed.
const unix = "golang.org/x/sys/unix"

// slow keeps out of the runner what makes a program large or its start slow:
// every sandbox pays for both.
var slow = []string{"net/http", "crypto/tls", "text/template", "html/template", "go/ast"}

// Rules is the import graph. Imports point down: cmd, daemon, surfaces, session,
// then drivers and the runner's client, then the protocol and errdefs. A driver
// and a surface know nothing of their siblings, and only the daemon knows all.
var Rules = map[string]Rule{
	"cmd/sandkasten": {
		Ours: []string{
			"internal/cli", "internal/cli/agents", "internal/cli/auditlog", "internal/cli/code", "internal/cli/files", "internal/cli/show", "internal/cli/terminal",
			"internal/daemon", "internal/datadir", "internal/doctor", "internal/drivers", "internal/errdefs", "internal/heap", "internal/hostcheck", "internal/images", "internal/maintenance",
			"internal/service",
			"internal/cli/man", "internal/cli/networks", "internal/cli/secrets", "internal/cli/snapshots", "internal/cli/upkeep", "internal/cli/users", "internal/dirlock", "internal/images/jobs", "sdk/go",
		},
		Libraries: []string{"github.com/alecthomas/kong"},
	},
	"cmd/imgbuilder":     {},
	"cmd/sandkasten-wsl": {Ours: []string{"internal/wsl"}, Libraries: []string{"github.com/alecthomas/kong"}},
	"internal/wsl":       {}, // a client from outside, on Windows
	"cmd/runner": {
		Ours: []string{
			"internal/guard", "internal/runner", "internal/runner/archive", "internal/runner/fileops", "internal/runner/pause", "internal/runner/proc", "internal/sandbox/relay",
			"internal/sandbox/stage",
		},
		Libraries: []string{unix}, Not: slow,
	},

	// The composition root: what a daemon is made of, and in which order. Which
	// drivers there are it asks the table.
	"internal/daemon": {
		Ours: []string{
			"docs", "internal/accounts", "internal/accounts/browser", "internal/accounts/inspections", "internal/accounts/oidc", "internal/admission", "internal/api", "internal/api/console", "internal/api/mcp", "internal/api/orchestrator", "internal/api/sessionmetrics", "internal/api/site", "internal/api/v1", "internal/audit", "internal/auth", "internal/clock", "internal/config",
			"internal/datadir", "internal/doctor", "internal/drivers", "internal/errdefs", "internal/events", "internal/events/sources", "internal/fsck", "internal/hostcheck", "internal/images", "internal/images/jobs",
			"internal/maintenance", "internal/network", "internal/network/groups", "internal/network/hostcas", "internal/network/relay", "internal/orchestrator", "internal/orchestrator/artifacts", "internal/pool", "internal/preview", "internal/reaper", "internal/runtime", "internal/seal", "internal/service", "internal/session", "internal/session/secrets", "internal/session/snapshots",
			"internal/session/networks", "internal/session/workspaces", "internal/store", "internal/tracing", "internal/tracing/otlp", "internal/usage", "internal/protection",
			"internal/findings", "internal/history", "internal/network/groups", "internal/runnerclient", "internal/scope", "protocol",
		},
		Libraries: []string{"github.com/lmittmann/tint", "github.com/prometheus/client_golang", "golang.org/x/sync", "golang.org/x/term"},
	},

	// The drivers that there are, and what works on a data directory without being
	// its daemon.
	"internal/drivers": {
		Ours: []string{
			"internal/config", "internal/datadir", "internal/images", "internal/installation", "internal/runnerbin", "internal/runtime", "internal/runtime/docker",
			"internal/runtime/linux", "internal/runtime/multidriver", "internal/sandbox/stage", "internal/smallfile",
		},
	},
	"internal/datadir": {Ours: []string{"internal/blob", "internal/blob/s3", "internal/config", "internal/dirlock", "internal/images"}},
	"internal/hostcheck": {
		Ours: []string{
			"internal/config", "internal/datadir", "internal/dirlock", "internal/doctor", "internal/drivers", "internal/errdefs", "internal/images", "internal/network/hostcas", "internal/runtime",
		},
	},
	"internal/maintenance": {
		Ours: []string{
			"internal/blob", "internal/config", "internal/datadir", "internal/dirlock", "internal/drivers", "internal/durable", "internal/errdefs", "internal/fsck", "internal/images",
			"internal/installation", "internal/orchestrator", "internal/pool", "internal/runtime", "internal/session", "internal/session/snapshots", "internal/session/workspaces", "internal/snapshot",
			"internal/store",
		},
	},
	"internal/config":       {Ours: []string{"internal/auth"}, Libraries: []string{"go.yaml.in/yaml/v3"}},
	"internal/doctor":       {Ours: []string{"internal/dirlock"}},
	"internal/dirlock":      {},
	"internal/installation": {Ours: []string{"internal/auth", "internal/smallfile"}},
	"internal/audit":        {Ours: []string{"internal/admission/fairqueue"}, Libraries: []string{"github.com/prometheus/client_golang"}},
	"internal/runnerbin":    {},
	"internal/service":      {},
	"internal/heap":         {},
	"internal/clock":        {},
	"internal/smallfile":    {Libraries: []string{unix}},

	"internal/session/selection": {Ours: []string{"internal/errdefs", "internal/session"}},
	"internal/session/access":    {Ours: []string{"internal/auth", "internal/errdefs", "internal/protection"}},
	"internal/session/laststats": {Ours: []string{"internal/runtime"}},
	"internal/session/execwatch": {Ours: []string{"internal/errdefs", "internal/events", "internal/runnerclient", "protocol"}},
	// What happens, for whoever subscribes. It knows nobody who publishes.
	"internal/events":         {Ours: []string{"internal/errdefs"}, Libraries: []string{"github.com/prometheus/client_golang"}},
	"internal/events/sources": {Ours: []string{"internal/events", "internal/images/jobs", "internal/pool", "internal/session/snapshots", "internal/session/workspaces"}},

	// Surfaces.
	"internal/api": {
		Ours:      []string{"internal/admission/fairqueue", "internal/auth", "internal/audit", "internal/errdefs", "internal/headers", "internal/rawpath", "internal/tracing", "internal/protection"},
		Libraries: []string{"github.com/prometheus/client_golang", "golang.org/x/time", unix},
	},
	"internal/headers":        {Ours: []string{"internal/rawpath"}},
	"internal/rawpath":        {},
	"internal/api/site":       {Ours: []string{"internal/api", "internal/errdefs"}, Libraries: []string{"github.com/yuin/goldmark"}},
	"internal/api/execstream": {Ours: []string{"internal/api", "internal/errdefs", "internal/protection", "protocol"}},
	"internal/api/strictjson": {Ours: []string{"internal/errdefs", "internal/protection"}},
	// The library huma sees types at start and no request: it is for documents.
	"internal/api/kit": {
		Ours:      []string{"internal/auth", "internal/api", "internal/api/strictjson", "internal/errdefs", "internal/protection"},
		Libraries: []string{"github.com/danielgtaylor/huma/v2"},
	},
	"internal/api/sessionmetrics": {
		Ours:      []string{"internal/api", "internal/auth", "internal/errdefs", "internal/history", "internal/network/relay", "internal/session", "internal/session/snapshots", "protocol"},
		Libraries: []string{"github.com/prometheus/client_golang", "golang.org/x/sync"},
	},
	"internal/api/sockets": {
		Ours:      []string{"internal/api", "internal/api/strictjson", "internal/errdefs", "internal/session", "internal/session/ops", "protocol"},
		Libraries: []string{"github.com/coder/websocket"},
	},
	"internal/api/v1": {
		Ours: []string{
			"agents/tools", "internal/accounts", "internal/accounts/browser", "internal/accounts/inspections", "internal/accounts/oidc", "internal/api/v1/users", "internal/auth", "internal/session/secrets", "internal/session/snapshots", "internal/session/workspaces",
			"internal/api", "internal/api/execstream", "internal/api/kit", "internal/api/sessionmetrics", "internal/api/sockets", "internal/api/v1/contexts", "internal/contexts", "internal/api/v1/contract", "internal/api/v1/files", "internal/api/v1/operator", "internal/findings",
			"internal/api/v1/images", "internal/api/v1/networks", "internal/api/v1/snapshots", "internal/errdefs", "internal/images/jobs", "internal/network", "internal/pool", "internal/preview", "internal/rawpath",
			"internal/audit", "internal/runtime", "internal/scope", "internal/session", "internal/history", "internal/session/laststats", "internal/session/ops", "internal/session/selection", "internal/usage",
			"internal/events", "internal/events/sources", "internal/network/relay",
			"protocol",
		},
		Libraries: []string{"github.com/danielgtaylor/huma/v2", "github.com/prometheus/client_golang"},
	},
	"internal/api/console": {Ours: []string{"internal/api", "internal/errdefs"}},
	"internal/api/mcp": {
		Ours:      []string{"agents/tools", "internal/api", "internal/errdefs", "internal/mcpserver", "internal/orchestrator", "internal/orchestrator/artifacts", "internal/tracing", "sdk/go"},
		Libraries: []string{"github.com/modelcontextprotocol/go-sdk", "github.com/prometheus/client_golang"},
	},
	"internal/mcpserver": {Ours: []string{"agents/tools", "sdk/go"}, Libraries: []string{"github.com/modelcontextprotocol/go-sdk"}},
	"internal/api/orchestrator": {
		Ours: []string{
			"internal/api/strictjson", "internal/accounts", "internal/accounts/browser",
			"internal/api", "internal/api/execstream", "internal/api/kit", "internal/auth", "internal/errdefs", "internal/orchestrator", "internal/orchestrator/artifacts", "internal/session", "internal/session/ops", "internal/session/snapshots", "protocol",
		},
		Libraries: []string{"github.com/danielgtaylor/huma/v2"},
	},
	"internal/preview": {Ours: []string{"internal/auth", "internal/api", "internal/errdefs", "internal/rawpath", "internal/session", "internal/protection"}},
	"internal/api/v1/files": {
		Ours: []string{
			"internal/api", "internal/api/kit", "internal/api/strictjson", "internal/api/v1/contract", "internal/errdefs", "internal/session", "internal/session/ops", "protocol", "internal/protection",
		},
	},
	"internal/api/v1/snapshots": {Ours: []string{"internal/api", "internal/api/kit", "internal/api/v1/contract", "internal/api/v1/files", "internal/errdefs", "internal/session", "internal/session/snapshots", "internal/snapshot"}},
	"internal/api/v1/contexts": {
		Ours: []string{"internal/api", "internal/api/kit", "internal/api/v1/contract", "internal/auth", "internal/contexts", "internal/errdefs", "internal/session", "protocol"},
	},
	"internal/api/v1/networks": {
		Ours: []string{
			"internal/api", "internal/api/kit", "internal/api/v1/contract", "internal/errdefs", "internal/network", "internal/network/relay", "internal/session", "internal/session/networks",
		},
	},
	"internal/api/v1/images": {
		Ours: []string{
			"internal/auth", "internal/session/snapshots",
			"internal/api", "internal/api/kit", "internal/api/v1/contract", "internal/api/v1/files", "internal/errdefs", "internal/images", "internal/images/jobs", "internal/session", "internal/snapshot",
		},
	},
	"internal/api/v1/users":    {Ours: []string{"internal/accounts", "internal/accounts/browser", "internal/accounts/inspections", "internal/session", "internal/accounts/oidc", "internal/api", "internal/api/kit", "internal/api/v1/contract", "internal/auth", "internal/errdefs", "internal/usage"}},
	"internal/api/v1/operator": {Ours: []string{"internal/errdefs", "internal/findings", "internal/history"}},
	"internal/api/v1/contract": {},

	// The command line: what its commands share, and those that have much to do. It
	// is a client like others, by the SDK, which is a module of its own.
	"internal/cli": {Ours: []string{"internal/cli/show", "internal/config", "internal/drivers", "sdk/go"}},
	"internal/cli/files": {
		Ours: []string{"internal/cli", "internal/cli/show", "internal/tree", "protocol", "sdk/go"},
	},
	"internal/cli/agents": {
		Ours:      []string{"agents/tools", "internal/cli", "internal/cli/show", "internal/mcpserver", "sdk/go"},
		Libraries: []string{"github.com/modelcontextprotocol/go-sdk"},
	},
	"internal/cli/code":     {Ours: []string{"internal/cli", "sdk/go"}},
	"internal/cli/auditlog": {Ours: []string{"internal/audit", "internal/cli", "internal/cli/show"}},
	"internal/cli/man":      {Libraries: []string{"github.com/alecthomas/kong"}},
	"internal/cli/users":    {Ours: []string{"internal/cli", "internal/cli/show", "sdk/go"}, Libraries: []string{"golang.org/x/term"}},
	"internal/cli/networks": {Ours: []string{"internal/cli", "internal/cli/show", "sdk/go"}},
	"internal/cli/secrets": {
		Ours: []string{"internal/cli", "internal/cli/show", "sdk/go"}, Libraries: []string{"golang.org/x/term"},
	},
	"internal/cli/snapshots": {Ours: []string{"internal/cli", "internal/cli/show", "sdk/go"}},
	"internal/cli/upkeep": {
		Ours: []string{"internal/cli", "internal/cli/show", "internal/config", "internal/daemon", "internal/fsck", "internal/maintenance"},
	},
	"internal/cli/show": {
		Ours: []string{"internal/images", "internal/protection"}, Libraries: []string{"github.com/schollz/progressbar/v3", "golang.org/x/term"},
	},
	"internal/cli/terminal": {
		Ours:      []string{"internal/cli", "internal/cli/show", "sdk/go"},
		Libraries: []string{"golang.org/x/term"},
	},
	"internal/tree": {},

	// The heart, and what works for it.
	"internal/session": {
		Ours: []string{
			"internal/auth", "internal/errdefs", "internal/failpoint", "internal/runnerclient", "internal/runtime", "internal/session/check",
			"internal/session/access", "internal/session/secrets", "internal/session/workspaces", "protocol",
			"internal/session/snapshots", "internal/session/statelock", "internal/snapshot", "internal/tracing", "internal/protection",
			"internal/events", "internal/network", "internal/session/absence", "internal/session/laststats", "internal/session/execwatch", "internal/session/ids", "internal/session/networks", "internal/session/ops", "internal/session/quota",
		},
		Libraries: []string{"golang.org/x/sync"},
	},
	"internal/session/check":     {Ours: []string{"internal/errdefs", "internal/runtime", "internal/protection", "internal/session/ids", "protocol"}},
	"internal/session/absence":   {},
	"internal/session/quota":     {Ours: []string{"internal/auth", "internal/errdefs", "internal/runtime"}},
	"internal/session/ids":       {},
	"internal/session/statelock": {Ours: []string{"internal/errdefs"}},
	"internal/session/ops": {
		Ours: []string{
			"internal/auth", "internal/errdefs", "internal/protection", "internal/runnerclient", "internal/session/check", "internal/session/execwatch",
			"internal/session/ids", "internal/tracing", "protocol",
		},
	},
	"internal/session/networks": {
		Ours: []string{
			"internal/auth", "internal/errdefs", "internal/events", "internal/network", "internal/network/door", "internal/network/own", "internal/network/relay", "internal/runnerclient", "internal/runtime", "internal/session/access", "internal/session/ids", "protocol",
		},
	},
	"internal/session/workspaces": {
		Ours:      []string{"internal/auth", "internal/errdefs", "internal/failpoint", "internal/keylock", "internal/runtime", "internal/session/check"},
		Libraries: []string{"golang.org/x/sync"},
	},
	"internal/session/secrets": {
		Ours: []string{"internal/auth", "internal/errdefs", "internal/network", "internal/seal", "internal/session/check"},
	},
	// Sessions with names of their clients' choice, over the heart.
	"internal/orchestrator": {
		Ours: []string{
			"internal/auth", "internal/errdefs", "internal/keylock", "internal/runtime", "internal/session", "internal/session/snapshots",
		},
		Libraries: []string{"github.com/prometheus/client_golang", "golang.org/x/sync"},
	},
	"internal/orchestrator/artifacts": {Ours: []string{"internal/auth", "internal/errdefs", "internal/keylock"}},
	"internal/keylock":                {},
	// Kernels as processes of sessions, over the heart.
	"internal/contexts": {
		Ours: []string{"internal/auth", "internal/errdefs", "internal/keylock", "internal/session", "internal/session/check", "internal/session/ids", "internal/session/ops", "internal/tracing", "protocol"},
	},
	// To which runs sessions belong, over the heart.
	"internal/scope": {Ours: []string{"internal/auth", "internal/errdefs", "internal/session", "internal/session/check"}, Libraries: []string{"github.com/prometheus/client_golang", "golang.org/x/sync"}},
	"internal/session/snapshots": {
		Ours: []string{
			"internal/auth", "internal/errdefs", "internal/failpoint", "internal/runnerclient", "internal/session/check", "internal/session/quota", "internal/snapshot", "protocol",
		},
	},
	"internal/snapshot": {Ours: []string{"internal/errdefs", "internal/images/extract", "internal/protection"}},
	"internal/accounts": {
		Ours: []string{"internal/auth", "internal/errdefs", "internal/protection", "internal/session/ids"}, Libraries: []string{"golang.org/x/crypto"},
	},
	"internal/findings": {Ours: []string{"internal/doctor", "internal/fsck"}},
	"internal/history":  {Ours: []string{"internal/errdefs", "internal/session"}},
	"internal/usage": {
		Ours: []string{"internal/auth", "internal/errdefs", "internal/runtime", "internal/session", "internal/session/quota"}, Libraries: []string{"golang.org/x/sync"},
	},
	"internal/accounts/oidc": {
		Ours: []string{"internal/accounts", "internal/auth", "internal/errdefs"}, Libraries: []string{"github.com/coreos/go-oidc/v3", "golang.org/x/oauth2", "golang.org/x/sync"},
	},
	"internal/accounts/inspections": {Ours: []string{"internal/errdefs"}},
	"internal/accounts/browser":     {Ours: []string{"internal/accounts", "internal/auth", "internal/errdefs", "internal/protection", "internal/session/ids"}},
	"internal/store": {
		Ours:      []string{"internal/accounts", "internal/accounts/browser", "internal/accounts/inspections", "internal/accounts/oidc", "internal/clock", "internal/errdefs", "internal/orchestrator", "internal/orchestrator/artifacts", "internal/scope", "internal/session", "internal/session/secrets", "internal/session/networks", "internal/session/snapshots", "internal/session/workspaces", "internal/usage", "internal/history"},
		Libraries: []string{"github.com/pressly/goose/v3", "modernc.org/sqlite"},
	},
	"internal/fsck":    {Ours: []string{"internal/errdefs", "internal/runtime", "internal/session", "internal/session/snapshots", "internal/session/workspaces"}},
	"internal/durable": {},
	"internal/seal":    {Ours: []string{"internal/durable"}},
	"internal/blob":    {Ours: []string{"internal/errdefs"}},
	"internal/blob/s3": {
		Ours: []string{"internal/blob", "internal/errdefs", "internal/protection"}, Libraries: []string{"github.com/minio/minio-go/v7"},
	},
	"internal/reaper": {
		Ours: []string{"internal/auth", "internal/errdefs", "internal/runtime", "internal/session"}, Libraries: []string{"golang.org/x/sync"},
	},
	"internal/admission/fairqueue": {},
	"internal/admission": {
		Ours: []string{"internal/errdefs", "internal/smallfile"}, Libraries: []string{"github.com/prometheus/client_golang"},
	},
	"internal/pool": {
		Ours:      []string{"internal/errdefs", "internal/runnerclient", "internal/runtime"},
		Libraries: []string{"github.com/prometheus/client_golang", "golang.org/x/sync"},
	},
	"internal/tracing": {Ours: []string{"internal/errdefs"}, Libraries: []string{"go.opentelemetry.io/otel"}},
	"internal/tracing/otlp": {
		Ours: []string{"internal/tracing"}, Libraries: []string{"go.opentelemetry.io/otel"},
	},
	"internal/tracing/tracingtest": {Libraries: []string{"go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf"}},
	"internal/auth":                {Ours: []string{"internal/errdefs"}},
	"internal/images/chroot":       {Ours: []string{"internal/spawn"}, Libraries: []string{unix}},
	"internal/images/jobs":         {Ours: []string{"internal/errdefs", "internal/images", "internal/snapshot"}},
	"internal/images": {
		Ours: []string{"images", "internal/durable", "internal/errdefs", "internal/images/chroot", "internal/images/extract", "internal/smallfile", "internal/protection"},
		Libraries: []string{
			"github.com/google/go-containerregistry", "go.yaml.in/yaml/v3", "golang.org/x/sync", unix,
		},
	},
	"internal/images/extract": {
		Ours:      []string{"internal/errdefs"},
		Libraries: []string{"github.com/klauspost/compress", unix},
	},

	// The network of sandboxes: what decides, the way out of a namespace, and what
	// carries. None knows of sessions.
	"internal/network":         {Ours: []string{"internal/errdefs", "internal/protection"}},
	"internal/network/groups":  {Ours: []string{"internal/network"}},
	"internal/network/hostcas": {},
	"internal/network/own":     {Libraries: []string{"github.com/vishvananda/netlink", unix}},
	"internal/network/door":    {Ours: []string{"internal/sandbox/netns", "internal/sandbox/sys"}, Libraries: []string{"github.com/cilium/ebpf", "github.com/vishvananda/netlink", unix}},
	"internal/network/relay":   {Ours: []string{"internal/headers", "internal/network", "internal/protection", "internal/rawpath"}, Libraries: []string{"github.com/miekg/dns", "golang.org/x/time"}},

	// Drivers.
	"internal/runtime": {Ours: []string{"internal/errdefs"}},
	"internal/runtime/linux": {
		Ours: []string{
			"internal/admission/fairqueue", "internal/durable", "internal/errdefs", "internal/failpoint", "internal/runnerclient", "internal/runtime", "internal/runtime/linux/backlog", "internal/runtime/linux/cgroup",
			"internal/runtime/linux/disk", "internal/runtime/linux/fairshare", "internal/runtime/linux/ids", "internal/runtime/linux/inspect", "internal/runtime/linux/procview",
			"internal/sandbox/guest", "internal/sandbox/netns", "internal/sandbox/seccomp", "internal/sandbox/stage", "internal/sandbox/sys", "internal/smallfile", "internal/spawn",
			"protocol", "internal/protection",
		},
		Libraries: []string{"golang.org/x/sync", unix},
	},
	"internal/runtime/linux/backlog":   {Ours: []string{"internal/runtime/linux/cgroup", "internal/sandbox/sys"}, Libraries: []string{unix}},
	"internal/runtime/linux/cgroup":    {Ours: []string{"internal/sandbox/sys", "internal/protection"}, Libraries: []string{unix}},
	"internal/runtime/linux/disk":      {Ours: []string{"internal/sandbox/netns", "internal/sandbox/sys", "internal/protection"}, Libraries: []string{unix}},
	"internal/runtime/linux/fairshare": {Ours: []string{"internal/runtime/linux/cgroup"}},
	"internal/runtime/linux/ids":       {Libraries: []string{unix}},
	"internal/runtime/linux/inspect": {
		Ours:      []string{"internal/runtime", "internal/runtime/linux/cgroup", "internal/runtime/linux/disk", "internal/runtime/linux/ids", "internal/sandbox/sys"},
		Libraries: []string{unix},
	},
	"internal/runtime/linux/procview": {},

	// The engine's client stays in here.
	"internal/runtime/docker": {
		Ours: []string{
			"internal/errdefs", "internal/failpoint", "internal/runnerclient", "internal/runtime",
			"internal/sandbox/flatten", "internal/sandbox/guest", "internal/sandbox/netns", "internal/sandbox/relay", "internal/sandbox/seccomp", "internal/sandbox/stage",
			"internal/runner/lookup", // finds a user in an image as a runner does in its sandbox
			"protocol",
		},
		Libraries: []string{
			"github.com/containerd/errdefs", "github.com/docker/cli/cli/connhelper", "github.com/moby/moby/api", "github.com/moby/moby/client",
			"golang.org/x/sync",
		},
	},

	// What joins drivers knows none.
	"internal/runtime/multidriver": {Ours: []string{"internal/errdefs", "internal/runtime"}},

	// What a driver makes a sandbox with, whichever driver it is.
	"internal/sandbox/flatten":             {Ours: []string{"internal/baseline"}, Libraries: []string{unix}},
	"internal/sandbox/guest":               {Ours: []string{"internal/errdefs", "internal/runnerclient", "internal/runtime", "protocol", "internal/protection"}},
	"internal/sandbox/netns":               {Ours: []string{"internal/errdefs"}},
	"internal/sandbox/relay":               {Ours: []string{"internal/guard"}, Libraries: []string{"github.com/hashicorp/yamux"}, Not: slow},
	"internal/sandbox/seccomp":             {Ours: []string{"internal/runtime"}, Libraries: []string{unix}},
	"internal/sandbox/seccomp/seccomptest": {TestOnly: true},
	"internal/sandbox/stage": {
		Ours: []string{"internal/guard", "internal/sandbox/sys", "internal/spawn", "internal/protection"}, Libraries: []string{unix}, Not: slow,
	},
	"internal/sandbox/sys": {Ours: []string{"internal/guard"}, Libraries: []string{unix}, Not: slow},

	// Both ends of the protocol, and what they share.
	"internal/runner": {
		Ours: []string{
			"internal/guard", "internal/runner/child", "internal/runner/dialect", "internal/runner/fds", "internal/runner/fileops", "internal/runner/files",
			"internal/runner/lookup", "internal/runner/output", "internal/runner/pipe", "internal/runner/ports", "internal/runner/proc",
			"internal/runner/shellproc", "internal/spawn", "protocol", "internal/protection",
		},
		Libraries: []string{unix}, Not: slow,
	},
	"internal/runner/child": {
		Ours: []string{"internal/guard", "internal/runner/fds", "internal/runner/proc", "internal/spawn", "internal/protection"}, Libraries: []string{unix}, Not: slow,
	},
	"internal/runner/dialect": {Ours: []string{"internal/spawn", "internal/protection"}, Libraries: []string{unix}, Not: slow},
	"internal/runner/fds":     {Libraries: []string{unix}, Not: slow},
	"internal/runner/pipe": {
		Ours: []string{"internal/runner/fds", "internal/runner/output", "protocol"}, Libraries: []string{unix}, Not: slow,
	},
	"internal/runner/shellproc": {
		Ours: []string{
			"internal/runner/child", "internal/runner/dialect", "internal/runner/fds", "internal/runner/pipe", "internal/spawn",
			"internal/protection",
		},
		Libraries: []string{unix}, Not: slow,
	},
	"internal/runner/pause":   {Ours: []string{"internal/runner/proc", "protocol"}, Libraries: []string{unix}, Not: slow},
	"internal/runner/lookup":  {Ours: []string{"internal/spawn", "protocol"}, Libraries: []string{unix}, Not: slow},
	"internal/runner/output":  {Ours: []string{"internal/guard", "protocol", "internal/protection"}, Not: slow},
	"internal/runner/proc":    {Ours: []string{"internal/runner/fds", "internal/protection"}, Libraries: []string{unix}, Not: slow},
	"internal/runner/fileops": {Ours: []string{"internal/guard", "internal/runner/files", "internal/spawn", "protocol", "internal/protection"}, Libraries: []string{unix}, Not: slow},
	"internal/runner/files": {
		Ours:      []string{"internal/runner/archive", "internal/runner/tree", "internal/runner/watch", "protocol", "internal/protection"},
		Libraries: []string{unix}, Not: slow,
	},
	"internal/runner/archive": {
		Ours:      []string{"internal/baseline", "internal/guard", "internal/runner/tree", "protocol", "internal/protection"},
		Libraries: []string{"github.com/klauspost/compress", unix}, Not: slow,
	},
	"internal/runner/watch": {Ours: []string{"internal/runner/tree", "protocol"}, Libraries: []string{unix}, Not: slow},
	"internal/runner/tree":  {Libraries: []string{unix}, Not: slow},
	"internal/runner/ports": {Ours: []string{"internal/guard", "protocol"}, Libraries: []string{unix}, Not: slow},
	"internal/guard":        {Not: slow},
	"internal/spawn":        {Ours: []string{"internal/guard"}, Libraries: []string{unix}, Not: slow},
	"internal/baseline":     {Not: slow},
	"internal/runnerclient": {Ours: []string{"internal/errdefs", "internal/tracing", "internal/protection", "protocol"}},
	"protocol":              {Not: slow},
	"internal/errdefs":      {},
	"internal/failpoint":    {},
	"internal/protection":   {},

	// Recipes of images, and the documentation: data, embedded.
	"images": {},
	"docs":   {},

	// Tests, and what only they use.
	"internal/testenv":         {TestOnly: true, Ours: []string{"internal/installation"}, Libraries: []string{"go.uber.org/goleak", unix}},
	"internal/archtest":        {TestOnly: true},
	"internal/api/openapitest": {TestOnly: true, Libraries: []string{"github.com/santhosh-tekuri/jsonschema/v6"}},
	"internal/blob/blobtest":   {TestOnly: true, Ours: []string{"internal/blob", "internal/errdefs"}},
	"internal/blob/s3/s3test":  {TestOnly: true, Ours: []string{"internal/testenv"}},
	"internal/store/storetest": {TestOnly: true, Ours: []string{"internal/store"}},
	"internal/runtime/runtimetest": {
		TestOnly: true, Libraries: []string{unix},
		Ours: []string{"internal/errdefs", "internal/runnerclient", "internal/runtime", "internal/sandbox/netns", "internal/testenv", "protocol"},
	},
	"internal/runtime/runtimetest/far":         {TestOnly: true, Ours: []string{"internal/errdefs", "internal/runtime", "internal/runtime/runtimetest"}},
	"internal/runtime/runtimetest/localrunner": {TestOnly: true, Ours: []string{"internal/runner", "internal/runner/fileops"}},
	"test/limits":          {TestOnly: true, Ours: []string{"internal/testenv", "sdk/go", "test/blackbox"}},
	"test/ratios":          {TestOnly: true, Ours: []string{"internal/testenv", "test/blackbox"}, Libraries: []string{unix}},
	"test/netfixture":      {TestOnly: true, Ours: []string{"internal/testenv"}, Libraries: []string{"github.com/miekg/dns", unix}},
	"test/network":         {TestOnly: true, Ours: []string{"internal/testenv", "test/blackbox", "test/netfixture"}},
	"test/agents":          {TestOnly: true},
	"test/traces":          {TestOnly: true, Ours: []string{"internal/testenv", "test/blackbox"}},
	"test/web":             {TestOnly: true, Ours: []string{"internal/testenv", "test/blackbox"}},
	"test/mcp":             {TestOnly: true, Ours: []string{"internal/testenv", "test/blackbox"}},
	"test/orchestrator":    {TestOnly: true, Ours: []string{"internal/testenv", "test/blackbox"}},
	"test/programs":        {TestOnly: true, Ours: []string{"internal/testenv", "sdk/go", "test/blackbox"}},
	"test/blackbox":        {TestOnly: true, Ours: []string{"internal/testenv", "sdk/go"}},
	"test/e2e":             {TestOnly: true},
	"test/compose":         {TestOnly: true},
	"test/contexts":        {TestOnly: true, Ours: []string{"internal/testenv", "sdk/go", "test/blackbox"}},
	"test/packages":        {TestOnly: true},
	"test/attack":          {TestOnly: true},
	"test/attack/control":  {TestOnly: true, Ours: []string{"internal/protection", "test/attack/coverage"}},
	"test/attack/coverage": {TestOnly: true, Ours: []string{"docs"}},
	"test/bench": {
		TestOnly: true, Libraries: []string{unix},
		Ours: []string{
			"internal/testenv", "test/bench/direct", "test/bench/docker", "test/bench/machine", "test/bench/report", "test/bench/service",
		},
	},
	"test/bench/direct":  {TestOnly: true},
	"test/bench/docker":  {TestOnly: true, Ours: []string{"test/bench/direct", "test/bench/service"}},
	"test/bench/machine": {TestOnly: true, Ours: []string{"internal/installation"}, Libraries: []string{unix}},
	"test/bench/report":  {TestOnly: true, Ours: []string{"test/bench/machine"}},
	"test/bench/service": {TestOnly: true},
	"test/vm":            {TestOnly: true, Ours: []string{"test/vm/guest"}},
	"test/vm/guest":      {TestOnly: true},
	"test/vm/init":       {TestOnly: true, Ours: []string{"test/vm/guest"}, Libraries: []string{unix}},
	"test/vm/run":        {TestOnly: true, Ours: []string{"test/vm", "test/vm/guest"}},

	"test/fault": {TestOnly: true},

	// Writes the documentation as files.
	"tools/gate": {TestOnly: true, Ours: []string{"internal/doctor", "internal/testenv"}, Libraries: []string{unix}},
	"tools/task": {TestOnly: true},
	"tools/site": {TestOnly: true, Ours: []string{"docs", "internal/api/site"}},

	// What the tests of the SDKs run against.
	"sdk/contract/run":      {TestOnly: true, Ours: []string{"internal/testenv", "test/blackbox"}},
	"sdk/contract/newcomer": {TestOnly: true, Ours: []string{"internal/testenv"}},
}

// Drivers are known to their table alone.
var Drivers = DriverRules{
	Contract: "internal/runtime",
	Shared:   []string{"multidriver", "runtimetest"},
	Names:    []string{"native", "docker", "k8s"},
	Table:    "internal/drivers",
	Neutral: []string{
		"internal/admission", "internal/api", "internal/config", "internal/daemon", "internal/datadir", "internal/doctor", "internal/fsck", "internal/hostcheck", "internal/images",
		"internal/maintenance", "internal/orchestrator", "internal/reaper", "internal/sandbox", "internal/session",
	},
}

// Limits are the budgets of this repository. A package of 2,500 lines is reviewed,
// and cut if it has two ideas; one of 3,200 fails.
var Limits = Budgets{
	Func: 100, FuncP90: 40, File: 500, Package: 3200, Review: 2500, TestRatio: 0.8,
	Larger: map[string]int{
		"cmd/sandkasten":         3600,
		"internal/api/v1":        4000,
		"internal/runtime/linux": 3450,
	},
	Exceptions: map[string]string{},
}
