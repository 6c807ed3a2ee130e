package config

import "slices"

// option is one key: what it is called, where its value goes and what it is
// for. The table below is the whole language of the file; docs/configuration.md
// is compared with it.
type option struct {
	key   string // dotted: defaults.cpu_limit
	value value
	doc   string
}

const (
	day  = 24 * 60 * 60
	year = 365 * day
)

func (c *Config) options(drivers []string) []option {
	return slices.Concat(c.daemonOptions(drivers), c.sessionOptions(), c.hostOptions(), c.snapshotOptions(), c.signInOptions(), c.orchestratorOptions(drivers))
}

func (c *Config) daemonOptions(drivers []string) []option {
	return []option{
		{"listen", address(&c.Listen), "Address of the HTTP API. An address that other machines can reach needs `api_key`."},
		{"api_key", secret(&c.APIKey), "Key that clients send as `Authorization: Bearer`. When it is not set the daemon makes one and keeps it in `<data_dir>/api_key`, mode 0600."},
		{"api_keys", apiKeys(&c.APIKeys), "Further keys, each with the `owner` that its sessions, workspaces and snapshots belong to: see below."},
		{"allowed_hosts", texts(&c.AllowedHosts), "Further names under which clients may call the API (the Host header). Loopback names and the host of `listen` are always allowed."},
		{"trusted_proxies", prefixes(&c.TrustedProxies), "Proxies in front of the daemon whose `X-Forwarded-For` names the client. The last address in it that is none of theirs is the one that limits, sign-in, the log and the audit log go by. Without it, that is the address of the connection."},
		{"cors_origins", origins(&c.CORSOrigins), "Web sites beside the daemon's own whose pages may call the API, as their browsers name them: `https://app.example.org`, `http://localhost:5173`. They still need a key, and everyone who can read the page's memory then has it."},
		{"data_dir", path(&c.DataDir), "Where images, sandboxes and the key are kept. One daemon per directory."},
		{"db_path", path(&c.DBPath), "The SQLite database of sessions. When it is not set: `<data_dir>/sandkasten.db`."},
		{"driver", oneOf(&c.Driver, drivers...), "What makes sandboxes: this host's kernel (`native`), or a Docker engine, which isolates less (docs/docker.md)."},
		{"extra_drivers", someOf(&c.ExtraDrivers, drivers...), "Drivers that clients may ask for (`driver` of a create) beside that of `driver`, which has the workspaces. One that does not answer leaves the others alone (docs/docker.md)."},
		{"shutdown_grace_seconds", seconds(&c.ShutdownGrace, 0, 600), "How long a stopping daemon waits for requests to end. Sessions keep running."},
	}
}

func (c *Config) sessionOptions() []option {
	return []option{
		{"default_image", text(&c.DefaultImage), "Image of a session whose client names none."},
		{"allowed_images", texts(&c.AllowedImages), "Images that clients may use, by name or digest. Empty: every image in the store."},
		{"session_ttl_seconds", seconds(&c.SessionTTL, 1, year), "Idle time after which a session is stopped or ends, as its `on_expiry` says, unless its client sets one. Any activity restarts it."},
		{"session_idle_timeout_seconds", seconds(&c.SessionIdle, 1, year), "Idle time after which a session is paused or stopped, if its client asks for that and sets no time. At most half of its ttl."},
		{"max_session_ttl_seconds", seconds(&c.MaxSessionTTL, 1, year), "The longest idle time a client may ask for."},
		{"max_lifetime_seconds", seconds(&c.MaxLifetime, 0, 10*year), "A session ends this long after its creation, active or not. 0 is never."},
		{"stopped_retention_seconds", seconds(&c.StoppedFor, 1, 10*year), "How long a stopped session is kept, from its stop on and up to its lifetime, unless the entry in `api_keys` says otherwise."},
		{"max_sessions", integer(&c.MaxSessions, 1, 30000), "Sessions alive at one time."},
		{"max_sessions_per_key", integer(&c.OwnerSessions, 0, 30000), "Of these, sessions of one owner, unless the entry in `api_keys` says otherwise. 0 is no maximum of its own."},
		{"reaper_interval_seconds", seconds(&c.ReaperInterval, 1, 3600), "Interval at which the daemon looks for expired and dead sessions."},
		{"quota.max_running_sessions", integer(&c.Quota.Running, 0, 30000), "Sessions of one owner that are not stopped, unless the user has a quota of their own, here and in the rest of this section (docs/usage.md). 0 is no limit, here too."},
		{"quota.cpu", decimal(&c.Quota.CPU, 0, 100000), "Cores of these sessions together."},
		{"quota.memory_mb", integer(&c.Quota.MemoryMB, 0, 1<<30), "MiB of memory of these sessions together."},
		{"quota.disk_mb", integer(&c.Quota.DiskMB, 0, 1<<30), "MiB of disk of one owner's sessions and workspaces together, stopped sessions included."},
		{"quota.max_workspaces", integer(&c.Quota.Workspaces, 0, 1<<20), "Workspaces of one owner. 0 is no limit beside the owner's part of workspace.max_count."},
		{"quota.network_mb_per_month", integer(&c.Quota.NetworkMB, 0, 1<<30), "MiB that the networks of one owner's sessions carry in a calendar month, in both directions together."},
		{"quota.session_seconds_per_month", integer(&c.Quota.SessionSeconds, 0, 1<<33), "Seconds that one owner's sessions live in a calendar month, all together."},
		{"defaults.cpu_limit", decimal(&c.Defaults.CPU, 0.01, 1024), "Cores: 1.5 is one and a half."},
		{"defaults.mem_limit_mb", integer(&c.Defaults.MemoryMB, 16, 1<<20), "Memory in MiB, without swap on top."},
		{"defaults.pids_limit", integer(&c.Defaults.Pids, 16, 1<<20), "Processes and threads together."},
		{"defaults.disk_limit_mb", integer(&c.Defaults.DiskMB, 16, 1<<24), "MiB that a sandbox may write, root and workspace together."},
		{"defaults.exec_timeout_ms", millis(&c.Defaults.ExecTimeout, 1, day*1000), "Time for one command, unless its client sets one."},
		{"defaults.max_exec_timeout_ms", millis(&c.Defaults.MaxExecTimeout, 1, day*1000), "The longest time a client may ask for."},
		{"defaults.network_mode", oneOf(&c.Defaults.NetworkMode, networkModes...), "What sandboxes reach unless their client says otherwise: nothing (`none`), what a list names (`allow`), all public addresses (`internet`), private ones too (`full`): see docs/network.md."},
		{"defaults.network", policy(&c.Defaults.Network), "The same with lists and limits, instead of `defaults.network_mode`."},
		{"defaults.readonly_rootfs", boolean(&c.Defaults.ReadonlyRootfs), "Make everything but /workspace, /tmp and /dev/shm read-only."},
		{"maximum.cpu_limit", decimal(&c.Maximum.CPU, 0.01, 1024), "The most cores a client may ask for."},
		{"maximum.mem_limit_mb", integer(&c.Maximum.MemoryMB, 16, 1<<20), "The most memory a client may ask for."},
		{"maximum.pids_limit", integer(&c.Maximum.Pids, 16, 1<<20), "The most processes a client may ask for."},
		{"maximum.disk_limit_mb", integer(&c.Maximum.DiskMB, 16, 1<<24), "The most disk a client may ask for."},
		{"maximum.network_mode", oneOf(&c.MaxNetworkMode, networkModes...), "The widest mode a client may ask for. The entry in `api_keys` may narrow it further."},
		{"maximum.network_connections", integer(&c.MaxNetworkConnections, 1, 4096), "The most connections at once that a client may ask for, for one sandbox."},
		{"network.max_connections_per_owner", integer(&c.Network.MaxConnectionsPerOwner, 0, 1<<20), "Connections that the sandboxes of one owner have at once, together. 0 is half of what all may have, for which half of the daemon's descriptors are kept (docs/network.md)."},
		{"network.allow_private", boolean(&c.Network.AllowPrivate), "Let policies open private addresses (RFC 1918, 100.64.0.0/10, fc00::/7), by an entry or by mode `full`. The host's own addresses are never reached."},
		{"network.groups", groups(&c.Network.Groups), "Further groups for policies, `@company` for one that is called `company`. One of the name of an image's group replaces that."},
		{"network.images", imagePolicies(&c.Network.Images), "The policy instead of `defaults.network` for sessions of an image."},
		{"network.trust_host_cas", boolean(&c.Network.TrustHostCAs), "Sandboxes with a network trust the authorities that this host's administrator has added to its trust store (docs/network.md). Behind a network that signs TLS anew nothing answers without them."},
		{"network.ca_files", filePaths(&c.Network.CAFiles), "Further files with authorities, as PEM, that sandboxes with a network trust, and the daemon for hosts that get secrets."},
		{"network.secrets_key_file", path(&c.Network.SecretsKeyFile), "A file with the key that stored secrets are encrypted with: 64 hexadecimal digits, mode 0600. The daemon makes it if it is missing. When it is not set: `<data_dir>/secrets_key`."},
		{"exec.output_limit_bytes", integer(&c.Exec.OutputLimitBytes, 1024, 64<<20), "Output of one command that is kept. Beyond it the head and the tail are kept and the middle is counted."},
		{"exec.kill_grace_seconds", seconds(&c.Exec.KillGrace, 1, 60), "Time from TERM to KILL when a command times out or is canceled."},
		{"terminal.detach_seconds", seconds(&c.Terminal.Detach, 0, day), "How long a terminal without a client lives and can be attached again. 0 hangs it up within a second."},
		{"files.outside_workspace", boolean(&c.Files.OutsideWorkspace), "Let the file calls reach paths outside /workspace, unless the entry in `api_keys` or the session says otherwise by `file_scope`. They always stay inside the sandbox."},
		{"files.max_upload_mb", integer(&c.Files.MaxUploadMB, 1, 1<<20), "The largest body of a write or upload, in MiB."},
	}
}

func (c *Config) hostOptions() []option {
	return []option{
		{"docker.host", text(&c.Docker.Host), "The engine of the driver `docker`: `unix:///path`, `tcp://host:port` or `ssh://user@host`. When it is not set: the variable `DOCKER_HOST`, with `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH`; else the local socket."},
		{"docker.cert_path", text(&c.Docker.CertPath), "The directory with `ca.pem`, `cert.pem` and `key.pem` for an engine at `tcp://`: the authority of its certificate, and the daemon's own."},
		{"docker.runtime", text(&c.Docker.Runtime), "The engine's runtime for sandboxes, such as `kata`; not gVisor (docs/docker.md). When it is not set, the engine's default."},
		{"docker.userns", oneOf(&c.Docker.Userns, "host"), "`host` gives containers no user namespace where the engine has one for all (`userns-remap`), which isolates less. When it is not set, the engine's default."},
		{"docker.user", user(&c.Docker.User), "The user of programs, shells and file calls in containers, for new sessions: a name or number, optionally with `:group`, or `image` for the image's own user (docs/docker.md). Clients cannot choose another. When it is not set: root."},
		{"docker.network", text(&c.Docker.Network), "A network of the engine for the containers of new sessions, instead of the daemon's own networks (docs/network.md). The engine then decides what they reach: policies are refused, and such a session says `relay: false`. When it is not set, containers have loopback only, and policies."},
		{"docker.workspace", oneOf(&c.Docker.Workspace, "volume", WorkspaceInMemory), "Where the files of a session without a `workspace_id` are: in a `volume` of the engine, or in `memory`, where they end with the container, count as memory, and under a read-only root are bounded by `disk_mb` (docs/docker.md)."},
		{"docker.tmpfs", directories(&c.Docker.Tmpfs), "Directories in memory that programs can write below a read-only root, beside /tmp and /run."},
		{"security.seccomp", oneOf(&c.Security.Seccomp, "off", "mvp", "strict"), "System calls that sandboxes may make: all (`off`, never for hostile code), the allow-list with tracing for debuggers (`mvp`), the allow-list (`strict`)."},
		{"sessions.on_expiry", oneOf(&c.Sessions.OnExpiry, "stop", "destroy"), "What happens to a session at the end of its ttl unless its client says otherwise: `stop` keeps its files for `stopped_retention_seconds`, `destroy` does not. When it is not set: `stop` for a session that has a name, or that somebody makes with `sandkasten create` or in the console, and `destroy` for others."},
		{"sessions.survive_reboot", boolean(&c.Sessions.SurviveReboot), "Keep the files of running sessions over a crash or restart of the host: the sessions are then `stopped` and can be started. It makes disks slower and applies to new sessions. Stopped sessions survive in any case."},
		{"disk.pool_mb", integer(&c.Disk.PoolMB, 0, 1<<30), "Keeps the disks of new sessions in a pool of this many MiB at most: one XFS file in `data_dir`, which takes only used space, and in which a fork copies no data. 0 keeps them in `data_dir` itself, which is right on XFS or Btrfs; elsewhere a fork copies all written data. At least 512; the first start fixes the size. It needs xfsprogs, and makes syncs of single files slower."},
		{"admission.memory_reserve_mb", integer(&c.Admission.MemoryReserveMB, 0, 1<<24), "MiB of memory that the host must have left for another session to be created or started. 0 is no limit, here and in the next two."},
		{"admission.disk_reserve_mb", integer(&c.Admission.DiskReserveMB, 0, 1<<30), "MiB that must be left in `data_dir`, and in the pool of `disk.pool_mb`, there an eighth at most."},
		{"admission.pids_reserve", integer(&c.Admission.PidsReserve, 0, 1<<22), "Processes and threads that the kernel must have left (`kernel.pid_max`, `kernel.threads-max`)."},
		{"preview.domain", domain(&c.Preview.Domain), "Gives each port of each session a host of its own, `<port>-<session>.<domain>`, and so an origin of its own in browsers. All names below it must lead to the daemon; `preview.localhost` always does, for browsers on this machine. It must not be the API's own domain or one above it. When it is not set, ports are below `/v1/sessions/{id}/ports/`, where browsers show single pages only."},
		{"preview.host_header", oneOf(&c.Preview.HostHeader, "localhost", "original"), "What servers get as `Host` at a host of `preview.domain`: `localhost` and their port, because development servers refuse names that they do not know, or the name that the browser asked for. That is in `X-Forwarded-Host` in any case."},
		{"preview.https", boolean(&c.Preview.HTTPS), "Clients reach the daemon through a proxy that adds TLS: preview addresses begin with `https`, and their cookies are for TLS only."},
		{"preview.max_ttl_seconds", seconds(&c.Preview.MaxTTL, 1, year), "The longest life of a preview token."},
		{"rate_limit.requests_per_second", decimal(&c.RateLimit.RequestsPerSecond, 0, 1e6), "Requests that one key may make per second on average. 0 is no limit."},
		{"rate_limit.burst", integer(&c.RateLimit.Burst, 1, 1e6), "Requests that one key may make at once before the rate counts."},
		{"requests.max_concurrent", integer(&c.Requests.Concurrent, 0, 1e6), "Requests of all keys in progress at once, except the next two kinds. Over it: 503. 0 is no limit, here and in the rest of this section."},
		{"requests.max_concurrent_per_key", integer(&c.Requests.ConcurrentPerKey, 0, 1e6), "Of these, requests of one owner, unless the entry in `api_keys` says otherwise. Over it: 429, here and below."},
		{"requests.max_waiting", integer(&c.Requests.Waiting, 0, 1e6), "Requests in progress that wait for a program or follow it: commands, streams, terminals, tunnels, ports, watches."},
		{"requests.max_waiting_per_key", integer(&c.Requests.WaitingPerKey, 0, 1e6), "Of these, requests of one owner."},
		{"requests.max_transfers", integer(&c.Requests.Transfers, 0, 1e6), "Requests in progress that carry files: uploads, raw files, archives, snapshots. An upload takes up to `files.max_upload_mb` in `data_dir` while it arrives."},
		{"requests.max_transfers_per_key", integer(&c.Requests.TransfersPerKey, 0, 1e6), "Of these, requests of one owner."},
		{"requests.max_connections", integer(&c.Requests.Connections, 0, 1e6), "Open connections to the daemon, with and without a key. Each takes a file descriptor."},
		{"console.enabled", boolean(&c.Console.Enabled), "Serve the console, a page for people, at `/`: see docs/console.md."},
		{"audit.enabled", boolean(&c.Audit.Enabled), "Record clients' requests in lines that are chained by hashes: see docs/audit.md."},
		{"audit.dir", path(&c.Audit.Dir), "The directory of the audit log. When it is not set: `<data_dir>/audit`."},
		{"audit.max_file_mb", integer(&c.Audit.MaxFileMB, 1, 1<<20), "MiB of one of its files."},
		{"audit.max_files", integer(&c.Audit.MaxFiles, 1, 10000), "Files that are kept; then the oldest is removed."},
		{"debug.socket", path(&c.Debug.Socket), "A unix socket for Go's profiler, for root only. When it is not set there is none."},
		{"log.level", oneOf(&c.Log.Level, "debug", "info", "warn", "error"), "The least important messages that are written."},
		{"log.format", oneOf(&c.Log.Format, "auto", "text", "json"), "`auto` is text on a terminal and JSON elsewhere."},
		{"tracing.endpoint", webAddress(&c.Tracing.Endpoint), "Sends traces of requests to this OpenTelemetry collector, by OTLP over HTTP: `http://127.0.0.1:4318` (docs/observing.md). When it is not set there are none."},
		{"tracing.sample_ratio", decimal(&c.Tracing.Ratio, 0, 1), "Share of requests to trace: 0.01 is one in a hundred."},
		{"workspace.enabled", boolean(&c.Workspace.Enabled), "Let sessions have workspaces that outlive them."},
		{"workspace.persist_by_default", boolean(&c.Workspace.PersistByDefault), "Give a session whose client names no workspace a new one that outlives it."},
		{"workspace.default_size_mb", integer(&c.Workspace.DefaultSizeMB, 16, 1<<24), "MiB of a workspace, unless its client sets a size. Unused space takes none of the host's."},
		{"workspace.max_size_mb", integer(&c.Workspace.MaxSizeMB, 16, 1<<24), "The largest workspace a client may ask for."},
		{"workspace.max_count", integer(&c.Workspace.MaxCount, 0, 1<<20), "Workspaces of all owners together. One owner has no more than are left for the others: half of them while others have none, a third beside one who has as many. 0 is no maximum."},
		{"workspace.retention_days", days(&c.Workspace.Retention, 0, 3650), "Workspaces are removed with their files when no session used them for this long. 0 is never."},
		{"pool.enabled", boolean(&c.Pool.Enabled), "Keep sandboxes ready for new sessions: see docs/pool.md."},
		{"pool.images", sizes(&c.Pool.Images), "Number of sandboxes to keep ready for each image. `auto` learns from demand. Empty: `auto` of `default_image`."},
		{"pool.max_ready", integer(&c.Pool.MaxReady, 1, 10000), "Ready sandboxes of all images together. Each takes some 3 MB of the host's memory."},
		{"pool.cpu", decimal(&c.Pool.CPU, 0.01, 1), "Average share of one processor that making them may take."},
		{"pool.memory_reserve_mb", integer(&c.Pool.MemoryReserveMB, 0, 1<<24), "MiB of memory that the host must have left for the pool to grow. With less the pool removes its sandboxes, one by one. 0 is no limit."},
	}
}

func (c *Config) snapshotOptions() []option {
	o := &c.Snapshots
	return []option{
		{"snapshots.enabled", boolean(&o.Enabled), "Let clients save the files of sessions and begin others with them."},
		{"snapshots.max_size_mb", integer(&o.MaxMB, 1, 1<<20), "MiB of one snapshot's archive, which is compressed. While it is made it takes twice that in data_dir."},
		{"snapshots.max_unpacked_mb", integer(&o.MaxUnpackMB, 1, 1<<20), "MiB of the files in one snapshot, holes included."},
		{"snapshots.max_files", integer(&o.MaxFiles, 1, 1_000_000), "Files, directories and links in one snapshot."},
		{"snapshots.max_count", integer(&o.MaxCount, 0, 1<<20), "Snapshots of one key. 0 is no maximum."},
		{"snapshots.max_total_mb", integer(&o.MaxTotalMB, 0, 1<<30), "MiB of the archives of one key, uploaded ones included. 0 is no maximum."},
		{"snapshots.retention_days", days(&o.Retention, 0, 3650), "Snapshots are removed after this long. 0 is never."},
		{"snapshots.store", oneOf(&o.Store, "dir", "s3"), "Where snapshots are kept: in a directory of this host, or in a bucket of S3 or of a server that speaks its protocol."},
		{"snapshots.dir", path(&o.Dir), "The directory. When it is not set: `<data_dir>/snapshots`."},
		{"snapshots.encryption_key", secret(&o.Key), "Encrypts snapshots with this key: 64 hexadecimal digits, as `openssl rand -hex 32` makes them. Only the key that made a snapshot can read it."},
		{"snapshots.encryption_key_file", path(&o.KeyFile), "A file with that key, instead of the key itself. Neither of the two: snapshots are not encrypted."},
		{"snapshots.s3_endpoint", webAddress(&o.S3.Endpoint), "The server of the bucket. With `https` the connection is encrypted."},
		{"snapshots.s3_ca_file", path(&o.S3.CAFile), "Certificates to trust for the server, as PEM. When it is not set: those of the host."},
		{"snapshots.s3_region", text(&o.S3.Region), "Region of the bucket. When it is not set the server is asked."},
		{"snapshots.s3_bucket", text(&o.S3.Bucket), "The bucket. It has to exist."},
		{"snapshots.s3_prefix", text(&o.S3.Prefix), "Begins the names of all objects, as `host-a/`. Daemons that share a bucket need different ones: a daemon that starts ends the uploads it finds below its prefix."},
		{"snapshots.s3_path_style", boolean(&o.S3.PathStyle), "Name the bucket in the path of requests, as most servers expect, instead of in the host, as Amazon does."},
		{"snapshots.s3_access_key", text(&o.S3.AccessKey), "The daemon's access key. It needs the rights to get, put, list and delete objects, and to list and abort multipart uploads."},
		{"snapshots.s3_secret_key", secret(&o.S3.SecretKey), "The secret of the access key."},
		{"snapshots.s3_session_token", secret(&o.S3.Token), "The session token of a temporary access key. The daemon needs a restart with another one before it expires."},
	}
}
