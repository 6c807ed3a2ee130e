package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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

*From a command's printf to the client's read* is taken with the time that the command prints. *Output* is
text that is read to its end: over HTTP as server-sent events, decoded by the client. *A file* goes through
` + "`PUT .../fs/raw` and `GET .../fs/read?raw=1`" + `, beside cp within the same directory of the sandbox. *Busy
sessions* have a client each that asks again as soon as it has an answer; clients and sandboxes share the machine's cores.

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

// report renders results as the Markdown of docs/benchmarks.md.
func report(r results) string {
	var b strings.Builder
	b.WriteString(intro)
	writeMachine(&b, r)
	writeExpectations(&b, r)
	ours := (&sandkastenSubject{}).name()
	if ready := r.Lifecycle["ready"]; len(ready) > 0 {
		b.WriteString("\n## A sandbox, one at a time (ms)\n\n")
		b.WriteString("| | ready min | p50 | p95 | p99 | p50 to ours | total p50 | n |\n|---|---|---|---|---|---|---|---|\n")
		for _, name := range fastestFirst(ready) {
			s := ready[name]
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", name, millis(s.Min), millis(s.P50), millis(s.P95), millis(s.P99),
				times(ratio(s.P50, ready[ours].P50)), millis(r.Lifecycle["total"][name].P50), s.N)
		}
	}
	writeLatencies(&b, "A session until its first answer, with and without a pool (ms)", r.Claim)
	writeBurst(&b, r)
	writeLatencies(&b, "`true` in a living sandbox, one at a time (ms)", r.Exec)
	writeLatencies(&b, "From a command's printf to the client's read (ms)", r.FirstByte)
	writeSpeeds(&b, "Output of a command (MB per second)", r.Output)
	writeSpeeds(&b, "A file of 1 GiB (MB per second)", r.Files)
	writeSpeeds(&b, "A workspace of 1 GiB, saved and brought back (MB per second)", r.Snapshots)
	writeBusy(&b, r)
	writeTogether(&b, r)
	writeThroughput(&b, r)
	writeRates(&b, r)
	writeMemory(&b, r)
	writeForks(&b, r)
	writeDensity(&b, r)
	b.WriteString(method)
	return b.String()
}

// writeLatencies writes a table of what was measured one at a time.
func writeLatencies(b *strings.Builder, title string, latencies map[string]summary) {
	if len(latencies) == 0 {
		return
	}
	ours := latencies[(&sandkastenSubject{}).name()].P50
	fmt.Fprintf(b, "\n## %s\n\n| | min | p50 | p95 | p99 | max | p50 to ours | n |\n|---|---|---|---|---|---|---|---|\n", title)
	for _, name := range fastestFirst(latencies) {
		s := latencies[name]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", name, millis(s.Min), millis(s.P50), millis(s.P95), millis(s.P99),
			millis(s.Max), times(ratio(s.P50, ours)), s.N)
	}
}

// writeSpeeds writes a table of bytes per second.
func writeSpeeds(b *strings.Builder, title string, speeds map[string]float64) {
	if len(speeds) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n| | |\n|---|---|\n", title)
	names := slices.SortedFunc(maps.Keys(speeds), func(a, b string) int { return cmp.Compare(speeds[b], speeds[a]) })
	for _, name := range names {
		fmt.Fprintf(b, "| %s | %.0f |\n", name, speeds[name]/1e6)
	}
}

// writeForks writes what forks cost beside creates of the same daemon.
func writeForks(b *strings.Builder, r results) {
	if len(r.Fork) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## A fork of a session with %d MB written (ms until all have answered)\n\n", forkedMB)
	b.WriteString("| disks | | min | p50 | max | p50 to a create | n |\n|---|---|---|---|---|---|---|\n")
	for _, disks := range slices.Sorted(maps.Keys(r.Fork)) {
		of := r.Fork[disks]
		for _, name := range fastestFirst(of) {
			s := of[name]
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %d |\n", disks, name, millis(s.Min), millis(s.P50), millis(s.Max), times(ratio(s.P50, of[coldName].P50)), s.N)
		}
	}
}

func writeBusy(b *strings.Builder, r results) {
	if len(r.Busy) == 0 {
		return
	}
	b.WriteString("\n## `true` in busy sessions, one client each\n\n| sessions | per second | p50 ms | p99 ms | failures |\n|---|---|---|---|---|\n")
	for _, l := range r.Busy {
		o := l.Outcome
		fmt.Fprintf(b, "| %d | %.0f | %s | %s | %d |\n", l.Level, o.PerSec, millis(o.Latency.P50), millis(o.Latency.P99), o.Failures)
	}
}

func writeBurst(b *strings.Builder, r results) {
	if len(r.Burst) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %d sessions at once from a pool of %d (ms)\n\n| p50 | p99 | last | failures |\n|---|---|---|---|\n", burstN, burstN)
	for _, l := range r.Burst {
		o := l.Outcome
		fmt.Fprintf(b, "| %s | %s | %s | %d |\n", millis(o.Latency.P50), millis(o.Latency.P99), millis(o.Latency.Max), o.Failures)
	}
}

func times(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

func writeMachine(b *strings.Builder, r results) {
	m := r.Machine
	fmt.Fprintf(b, "\n%s. %s, %d cores, %d MiB of memory; %s, Linux %s; data on %s; cgroups %s; load before the run %s.\n",
		r.Date.Format("2006-01-02 15:04 UTC"), m.CPU, m.Cores, m.MemoryMB, m.OS, m.Kernel, m.Filesystem, m.Cgroups, m.Load)
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		versions = append(versions, name+" "+strings.TrimPrefix(m.Versions[name], name+" "))
	}
	fmt.Fprintf(b, "%s.\n", strings.Join(versions, "; "))
}

func writeExpectations(b *strings.Builder, r results) {
	b.WriteString("\n## What we expect of ourselves\n\n| | measured | |\n|---|---|---|\n")
	for _, e := range expectations(r) {
		fmt.Fprintf(b, "| %s | %s | %s |\n", e.promise, e.measured, e.verdict)
	}
	for _, thing := range r.Leftovers {
		fmt.Fprintf(b, "\nLeft behind: %s\n", thing)
	}
}

// subjectsOf returns the subjects of a list of loads, each once and by name.
func subjectsOf(loads []loadResult) []string {
	seen := map[string]bool{}
	for _, l := range loads {
		seen[l.Subject] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func writeTogether(b *strings.Builder, r results) {
	if len(r.Together) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Many at once, %d at a time, all kept until the last is there\n\n", togetherWorkers)
	b.WriteString("| | n | failures | created per second | destroyed per second | runs |\n|---|---|---|---|---|---|\n")
	for _, name := range subjectsOf(r.Together) {
		perSec, failures, n := togetherOf(r, name)
		var gone []float64
		for _, l := range r.Together {
			if l.Subject == name && l.What == "destroy" {
				gone = append(gone, l.Outcome.PerSec)
			}
		}
		fmt.Fprintf(b, "| %s | %d | %d | %.1f | %.1f | %d |\n", name, n, failures, perSec, median(gone), len(gone))
	}
}

func writeThroughput(b *strings.Builder, r results) {
	if len(r.Throughput) == 0 {
		return
	}
	b.WriteString("\n## Throughput: sandboxes created, asked and destroyed per second\n\n| clients |")
	for _, level := range throughputLevels {
		fmt.Fprintf(b, " %d |", level)
	}
	b.WriteString(" failures |\n|---|" + strings.Repeat("---|", len(throughputLevels)+1) + "\n")
	for _, name := range subjectsOf(r.Throughput) {
		fmt.Fprintf(b, "| %s |", name)
		failures := 0
		for _, level := range throughputLevels {
			i := slices.IndexFunc(r.Throughput, func(l loadResult) bool { return l.Subject == name && l.Level == level })
			if i < 0 {
				b.WriteString(" - |")
				continue
			}
			failures += r.Throughput[i].Outcome.Failures
			fmt.Fprintf(b, " %.1f |", r.Throughput[i].Outcome.PerSec)
		}
		fmt.Fprintf(b, " %d |\n", failures)
	}
}

func writeRates(b *strings.Builder, r results) {
	if len(r.Rates) == 0 {
		return
	}
	b.WriteString("\n## At fixed rates (ms, from the moment each was due)\n\n")
	b.WriteString("| | per second | p50 | p95 | p99 | max | failures | n |\n|---|---|---|---|---|---|---|---|\n")
	for _, what := range []string{"create", "exec"} {
		for _, name := range subjectsOf(r.Rates) {
			for _, l := range r.Rates {
				if l.What == what && l.Subject == name {
					s := l.Outcome.Latency
					fmt.Fprintf(b, "| %s, %s | %d | %s | %s | %s | %s | %d | %d |\n", name, what, l.Level, millis(s.P50), millis(s.P95), millis(s.P99),
						millis(s.Max), l.Outcome.Failures, l.N)
				}
			}
		}
	}
}

func writeMemory(b *strings.Builder, r results) {
	if len(r.Memory) == 0 {
		return
	}
	b.WriteString("\n## Memory of one idle sandbox\n\n")
	b.WriteString("| | the host's MemAvailable | anonymous | slab | kernel stacks | page tables | per-CPU | n |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Memory)) {
		m := r.Memory[name]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", name, megabytes(m.Available), megabytes(m.Anonymous), megabytes(m.Slab),
			megabytes(m.KernelStack), megabytes(m.PageTables), megabytes(m.PerCPU), m.N)
	}
}
