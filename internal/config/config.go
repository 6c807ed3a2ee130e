// Package config turns sandkasten.yaml and the environment into one checked
// Config. It names every mistake at once, each with its line and what to
// write instead. It knows keys, ranges and defaults and nothing of what they
// configure: packages below internal/daemon take their own Options.
package config

import (
	"cmp"
	"net"
	"net/netip"
	"path/filepath"
	"time"
)

// Config is everything an operator can choose. Load fills it; every value in
// it is within its range.
type Config struct {
	Listen       string
	APIKey       string // empty: the daemon makes one and keeps it in KeyFile
	APIKeys      []APIKey
	AllowedHosts []string
	CORSOrigins  []string // of pages that may call the API

	TrustedProxies []netip.Prefix // that say for whom they ask
	DataDir        string
	DBPath         string
	Driver         string
	ExtraDrivers   []string // others that clients may choose
	Docker         Docker
	DefaultImage   string
	AllowedImages  []string // empty: every image in the store

	SessionTTL     time.Duration
	SessionIdle    time.Duration
	MaxSessionTTL  time.Duration
	MaxLifetime    time.Duration // 0: none
	StoppedFor     time.Duration // how long a stopped session is kept
	MaxSessions    int
	OwnerSessions  int // of one owner; 0: none beside MaxSessions
	Quota          Quota
	ReaperInterval time.Duration
	ShutdownGrace  time.Duration

	Defaults Defaults
	Maximum  Limits

	MaxNetworkMode string // that clients may ask for

	MaxNetworkConnections int // of one sandbox at once, that clients may ask for
	Network               Network
	Exec                  Exec
	Terminal              Terminal
	Audit                 Audit
	Console               Console
	Debug                 Debug
	Files                 Files
	Preview               Preview
	RateLimit             RateLimit
	Requests              Requests
	Security              Security
	Sessions              Sessions
	Disk                  Disk
	Admission             Admission
	Workspace             Workspace
	Pool                  Pool
	Snapshots             Snapshots
	SignIn                SignIn
	OIDC                  OIDC
	Orchestrator          Orchestrator
	Log                   Log
	Tracing               Tracing

	Remarks []string // on the environment, for the log
}

// Quota is what one owner may have beside OwnerSessions. Zero is no limit.
type Quota struct {
	Running        int // sessions that are not stopped
	Workspaces     int
	CPU            float64
	MemoryMB       int64
	DiskMB         int64
	NetworkMB      int64 // in a month
	SessionSeconds int64 // in a month
}

// Docker is where the driver docker makes its containers.
type Docker struct {
	Host      string   // empty: what DOCKER_HOST says
	CertPath  string   // empty: what DOCKER_CERT_PATH says
	Runtime   string   // empty: the engine's default
	Userns    string   // empty: the engine's default
	User      string   // empty: root
	Network   string   // of the engine; empty: the daemon's own networks
	Workspace string   // of a session's own: volume, memory
	Tmpfs     []string // directories in memory below a read-only root, beside /tmp and /run
}

// WorkspaceInMemory is Docker.Workspace where that is no volume.
const WorkspaceInMemory = "memory"

// Limits bounds one sandbox.
type Limits struct {
	CPU      float64 // cores
	MemoryMB int64
	Pids     int64
	DiskMB   int64
}

// Defaults is what a session gets when its client does not say.
type Defaults struct {
	Limits
	ExecTimeout    time.Duration
	MaxExecTimeout time.Duration // a client cannot ask for more
	NetworkMode    string        // short for a Network that has nothing else
	Network        NetworkPolicy
	ReadonlyRootfs bool
}

// Exec bounds one command.
type Exec struct {
	OutputLimitBytes int64         // kept for the reply and for replay; the middle of more is dropped
	KillGrace        time.Duration // between TERM and KILL
}

// Console is the page on which people see and steer their sandboxes.
type Console struct{ Enabled bool }

// Audit is the log of what clients do.
type Audit struct {
	Enabled   bool
	Dir       string // <data_dir>/audit if empty
	MaxFileMB int64
	MaxFiles  int
}

// Debug is for who develops the daemon, or looks for what is wrong with one.
type Debug struct {
	Socket string // of the profiler; empty is none
}

// Terminal bounds the interactive terminals.
type Terminal struct {
	Detach time.Duration // without a client; 0 hangs up at once
}

// Files bounds the file calls.
type Files struct {
	OutsideWorkspace bool
	MaxUploadMB      int64
}

// Preview is how browsers reach ports of sandboxes.
type Preview struct {
	Domain string // empty: below a path of the API

	HostHeader string // localhost, or original: what servers get
	HTTPS      bool
	MaxTTL     time.Duration // of a token
}

// RateLimit bounds the requests of one API key. A zero rate is no limit.
type RateLimit struct {
	RequestsPerSecond float64
	Burst             int
}

// Requests bounds what is under way at once. Zero is no limit.
type Requests struct {
	Concurrent, ConcurrentPerKey int // that are answered soon
	Waiting, WaitingPerKey       int // that wait for programs, or stream
	Transfers, TransfersPerKey   int // that carry files
	Connections                  int
}

// Security chooses the strength of the walls.
type Security struct {
	Seccomp string // off, mvp, strict
}

// Sessions is about all of them.
type Sessions struct {
	SurviveReboot bool
	OnExpiry      string // stop, destroy; empty: by who made it
}

// Disk is about what sandboxes write to.
type Disk struct {
	PoolMB int64 // 0: no pool
}

// Admission is what the host must have left for another sandbox. Zero is no
// limit.
type Admission struct {
	MemoryReserveMB int64
	DiskReserveMB   int64 // in the data directory
	PidsReserve     int64
}

// Workspace is about workspaces that outlive sessions.
type Workspace struct {
	Enabled          bool
	PersistByDefault bool
	DefaultSizeMB    int64
	MaxSizeMB        int64
	MaxCount         int           // 0: none
	Retention        time.Duration // 0: for ever
}

// Pool is about sandboxes that are ready before their sessions come.
type Pool struct {
	Enabled         bool
	Images          map[string]int // image name to number of ready sandboxes, or Auto; empty: the default image's, Auto
	MaxReady        int
	CPU             float64 // of one processor
	MemoryReserveMB int64   // of the host; 0 is no limit
}

// Auto is the size of a pool that learns.
const Auto = -1

// Snapshots is about saved files of sessions, and where they are kept.
type Snapshots struct {
	Enabled     bool
	MaxMB       int64         // of one archive
	MaxUnpackMB int64         // of the files in it
	MaxFiles    int64         // in one
	MaxCount    int           // of one key; 0: none
	MaxTotalMB  int64         // of the archives of one key; 0: none
	Retention   time.Duration // 0: for ever

	Store   string // dir, s3
	Dir     string
	Key     string // 64 hexadecimal digits; empty: KeyFile's, or none
	KeyFile string // empty: none
	S3      S3
}

// S3 is a bucket, and who we are there.
type S3 struct {
	Endpoint  string
	CAFile    string // empty: the host's certificates
	Region    string // empty: asked from the server
	Bucket    string
	Prefix    string
	PathStyle bool
	AccessKey string
	SecretKey string
	Token     string // of temporary keys; empty: none
}

// Encrypted reports whether snapshots are.
func (s Snapshots) Encrypted() bool { return s.Key != "" || s.KeyFile != "" }

// Log says what the daemon writes to standard error, and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // auto, text, json; auto is text on a terminal
}

// Tracing is where traces of requests go.
type Tracing struct {
	Endpoint string  // of a collector; empty: nowhere
	Ratio    float64 // of requests
}

// Default is the configuration of an empty file, where those drivers are, the
// default first.
func Default(drivers []string) Config {
	return Config{
		Listen:         "127.0.0.1:8787",
		DataDir:        "/var/lib/sandkasten",
		Driver:         drivers[0],
		DefaultImage:   "base",
		SessionTTL:     30 * time.Minute,
		SessionIdle:    5 * time.Minute,
		MaxSessionTTL:  24 * time.Hour,
		MaxLifetime:    7 * 24 * time.Hour,
		StoppedFor:     7 * 24 * time.Hour,
		MaxSessions:    1000,
		ReaperInterval: 5 * time.Second,
		ShutdownGrace:  10 * time.Second,
		Defaults: Defaults{
			Limits:         Limits{CPU: 1, MemoryMB: 512, Pids: 512, DiskMB: 1024},
			ExecTimeout:    2 * time.Minute,
			MaxExecTimeout: 10 * time.Minute,
			NetworkMode:    "none",
			Network:        NetworkPolicy{Mode: "none"},
		},
		Maximum: Limits{CPU: 16, MemoryMB: 16384, Pids: 4096, DiskMB: 20480},

		MaxNetworkMode: "internet",

		MaxNetworkConnections: 4096,
		Network:               Network{TrustHostCAs: true},

		Exec:      Exec{OutputLimitBytes: 1 << 20, KillGrace: 2 * time.Second},
		Terminal:  Terminal{Detach: 10 * time.Minute},
		Console:   Console{Enabled: true},
		Audit:     Audit{Enabled: true, MaxFileMB: 64, MaxFiles: 16},
		Files:     Files{MaxUploadMB: 1024},
		Preview:   Preview{HostHeader: "localhost", MaxTTL: 24 * time.Hour},
		RateLimit: RateLimit{Burst: 200},
		Requests: Requests{
			Concurrent: 4096, ConcurrentPerKey: 1024, Waiting: 8192, WaitingPerKey: 4096, Transfers: 128, TransfersPerKey: 32, Connections: 16384,
		},
		Docker:    Docker{Workspace: "volume"},
		Security:  Security{Seccomp: "strict"},
		Admission: Admission{MemoryReserveMB: 256, DiskReserveMB: 512, PidsReserve: 1000},
		Workspace: Workspace{Enabled: true, DefaultSizeMB: 1024, MaxSizeMB: 10240, MaxCount: 2000},
		Pool:      Pool{MaxReady: 100, CPU: 0.5, MemoryReserveMB: 1024},
		Snapshots: Snapshots{Enabled: true, MaxMB: 4096, MaxUnpackMB: 16384, MaxFiles: 1_000_000, MaxCount: 1000, MaxTotalMB: 65536, Store: "dir", S3: S3{PathStyle: true}},
		SignIn:    SignIn{Idle: 12 * time.Hour, Most: 7 * 24 * time.Hour},
		OIDC:      OIDC{Scopes: []string{"profile", "email"}, GroupsClaim: "groups", NameClaim: "preferred_username"},
		Orchestrator: Orchestrator{
			IdleTimeout: 5 * time.Minute, MaxLifetime: time.Hour, ReaperInterval: time.Minute, KeepAuto: 3, MemoryInterval: 5 * time.Minute,
			ArtifactQuotaMB: 10240, ArtifactRetention: 30 * 24 * time.Hour, ArtifactLinks: "daemon", ArtifactLinkLife: 24 * time.Hour,
			Workspace: WorkspaceOfSession, WorkspaceName: "shared",
		},
		Log:     Log{Level: "info", Format: "auto"},
		Tracing: Tracing{Ratio: 1},
	}
}

// Drivers are the drivers that clients may choose, the default first.
func (c Config) Drivers() []string { return append([]string{c.Driver}, c.ExtraDrivers...) }

// KeyFile is where the daemon keeps the API key it made, when none is
// configured.
func (c Config) KeyFile() string { return filepath.Join(c.DataDir, "api_key") }

// PreviewSecretFile is where the daemon keeps what it signs preview tokens
// with.
func (c Config) PreviewSecretFile() string { return filepath.Join(c.DataDir, "preview_secret") }

// SecretsKeyFile is where the daemon keeps what it seals stored secrets with.
func (c Config) SecretsKeyFile() string {
	return cmp.Or(c.Network.SecretsKeyFile, filepath.Join(c.DataDir, "secrets_key"))
}

// NodeFile is where the daemon keeps what tells its objects on a host and in an engine
// from those of other daemons.
func (c Config) NodeFile() string { return filepath.Join(c.DataDir, "node") }

// SpoolDir is where uploads wait for their end.
func (c Config) SpoolDir() string { return filepath.Join(c.DataDir, "uploads") }

// ArtifactDir is where artifacts are if they are in no bucket.
func (c Config) ArtifactDir() string { return filepath.Join(c.DataDir, "artifacts") }

// ArtifactSecretFile is where the daemon keeps what it signs links to artifacts with.
func (c Config) ArtifactSecretFile() string { return filepath.Join(c.DataDir, "artifact_secret") }

// ImageDir is where the image store is.
func (c Config) ImageDir() string { return filepath.Join(c.DataDir, "images") }

// DiskReserveMB is what sessions leave free where their disks are: of a small pool
// not so much that nothing is left to them.
func (c Config) DiskReserveMB() int64 {
	if pool := c.Disk.PoolMB; pool > 0 {
		return min(c.Admission.DiskReserveMB, pool/8)
	}
	return c.Admission.DiskReserveMB
}

// URL is where a client on this machine reaches the daemon.
func (c Config) URL() string {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "http://" + c.Listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Loopback reports whether only this machine can reach listen's address.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
