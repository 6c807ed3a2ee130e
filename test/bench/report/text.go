package report

const intro = `# Benchmarks

<!-- Written by go tool task bench. Do not edit: run it again. -->

Measured on one machine, all subjects in one run. Numbers of different runs or machines do not
compare; ratios within a table do. What the columns mean is under [Method](#method).
`

const method = `
## Method

Every subject starts from the same root filesystem, a minimal Debian, and is asked for the same: a
sandbox whose bash prints ` + "`ok`" + `, and then its end. *ready* is the time from the request until
the bytes ` + "`ok`" + ` have been read, *total* the time until the sandbox is reported gone.
Percentiles are values that were measured (nearest rank).

- **sandkasten** is the daemon of this repository, used over HTTP with kept connections: ready is
  ` + "`POST /v1/sessions` and `POST .../exec`" + `, total adds ` + "`DELETE`" + `. Everything a session
  has is on: all namespaces, its own ids, writable overlay with a disk quota, limits, seccomp, landlock.
  The client writes requests to the connection and reads answers from it without a library's
  goroutines in between; the same one speaks to docker.
- **with a pool** is a second daemon of ours with a pool of 100 (docs/pool.md), full at the start,
  which makes up for what is taken while it is measured.
- **runc, crun** run an OCI bundle with every namespace including user, the same memory, process and
  cpu limits, no capabilities and a read-only root. They have no seccomp filter, no overlay and no
  disk quota here, and no daemon: that flatters them. Where the host is hybrid, crun runs in a mount
  namespace without the v2 tree, made once before the run, because crun 1.8 refuses such hosts.
- **bubblewrap** has every namespace and a read-only root, but no limits, seccomp or overlay.
- **docker run** is the command line, *docker, Engine API* is create, start and exec over kept
  connections to its socket. The same limits, no network, no capabilities, its default seccomp
  filter and overlay, but no user namespace.
- **bash on the host** is no sandbox at all: the floor. *Fork and exec on the host* is what a program
  that is run without a shell cannot be faster than.

*One at a time* is measured in rounds: in each round every subject once, in an order shuffled anew,
after rounds of warm-up that are not counted. Loads are measured subject by subject, in shuffled
order and, where the table says so, several times; the median counts. *At fixed rates* work is
offered whether or not earlier work is done, and a latency counts from the moment the work was due:
waiting for a busy system is part of it. *Throughput* keeps a number of clients busy instead; it says
what the machine can do, and its latencies are not what independent clients would see.

*Processor time of the daemon* is that of its process alone, from /proc, in user mode and in the kernel: not of
clients, runners and commands. A request that comes alone finds the daemon asleep, and pays for waking it.

*From a command's printf to the client's read* is taken with the time that the command prints. *Output* is
text that is read to its end: over HTTP as server-sent events, decoded by the client. *A file* goes through
` + "`PUT .../fs/raw` and `GET .../fs/read?raw=1`" + `, beside cp within the same directory of the sandbox. *Busy
sessions* have a client each that asks again as soon as it has an answer; clients and sandboxes share the machine's cores.

*A workspace* is many small files and some large ones, copied from an image's /usr. A snapshot is saved by
` + "`POST .../snapshots`" + ` and brought back by the creation of a session with ` + "`restore_snapshot_id`" + `, beside the host's
own programs with the same files on the same disk. The bytes are those of the files, not of the archive.

*Memory* is what the host's MemAvailable falls by, divided by the number of idle sandboxes that have
run one command. The parts beside it do not add up to it: file pages and others are missing, and
what others on the host free meanwhile counts against it. The promise is judged by the larger of
MemAvailable's fall and the sum of the parts.

*A fork* is asked for by one request and ready when all its sessions have answered a command. *In a
pool* the daemon runs with ` + "`disk.pool_mb`" + `, *plain* without; where the directory's own file system
can share data there is no difference. *Just written* means that the data is not on the disk yet when the
fork is asked for, and has to get there.
*Idle sessions* are one crowd that grows. At each count every session is asked for ` + "`true`" + `, one
after another and in an order of chance. Memory is judged as above, per session of all; the
daemon's memory, its descriptors and the host's tasks are those at the end, less those at the
beginning. Then the daemon is killed and started again, and asks every runner before it is ready.

A subject's failures are in its tables, and the first error of each is in the results as JSON.
`
