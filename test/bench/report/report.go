package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown renders results as docs/benchmarks.md: the promises, then a table or
// two for each part that was measured, in the order of the parts.
func (r Results) Markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	writeMachine(&b, r)
	writePromises(&b, r)
	writeLifecycle(&b, r)
	writeLatencies(&b, "A session until its first answer, with and without a pool (ms)", r.Claim)
	writeBurst(&b, r)
	writeLatencies(&b, "A session until its first answer, with and without a network (ms)", r.Network)
	writeLatencies(&b, "`true` in a living sandbox, one at a time (ms)", r.Exec)
	writeDaemonCPU(&b, r)
	writeLatencies(&b, "From a command's printf to the client's read (ms)", r.FirstByte)
	writeSpeeds(&b, "Output of a command (MB per second)", r.Output)
	writeSpeeds(&b, "A file of 1 GiB (MB per second)", r.Files)
	writeSpeeds(&b, "A workspace of 1 GiB, saved and brought back (MB per second)", r.Snapshots)
	writeBusy(&b, r)
	writeLatencies(&b, "Beside a fork bomb, a memory hog, a disk filler, an output flood and a CPU burner (ms)", r.Bullies)
	writeTogether(&b, r)
	writeThroughput(&b, r)
	writeRates(&b, r)
	writeMemory(&b, r)
	writeForks(&b, r)
	writeDensity(&b, r)
	b.WriteString(method)
	return b.String()
}

// writeLifecycle writes how long a sandbox takes from nothing to nothing.
func writeLifecycle(b *strings.Builder, r Results) {
	ready := r.Lifecycle["ready"]
	if len(ready) == 0 {
		return
	}
	b.WriteString("\n## A sandbox, one at a time (ms)\n\n")
	b.WriteString("| | ready min | p50 | p95 | p99 | p50 to ours | total p50 | n |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range fastestFirst(ready) {
		s := ready[name]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", name, millis(s.Min), millis(s.P50), millis(s.P95), millis(s.P99),
			times(ratio(s.P50, ready[Ours].P50)), millis(r.Lifecycle["total"][name].P50), s.N)
	}
}

// writeLatencies writes a table of what was measured one at a time.
func writeLatencies(b *strings.Builder, title string, latencies map[string]Summary) {
	if len(latencies) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n| | min | p50 | p95 | p99 | max | p50 to ours | n |\n|---|---|---|---|---|---|---|---|\n", title)
	for _, name := range fastestFirst(latencies) {
		s := latencies[name]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %d |\n", name, millis(s.Min), millis(s.P50), millis(s.P95), millis(s.P99),
			millis(s.Max), times(ratio(s.P50, latencies[Ours].P50)), s.N)
	}
}

// writeDaemonCPU writes what requests cost the daemon's process.
func writeDaemonCPU(b *strings.Builder, r Results) {
	if len(r.DaemonCPU) == 0 {
		return
	}
	b.WriteString("\n## Processor time of the daemon for one request (ms)\n\n| | | to GET /healthz |\n|---|---|---|\n")
	for _, row := range []struct{ name, probe string }{
		{CPUProbe, CPUProbe}, {CPUExec, CPUProbe}, {CPUProbeBusy, CPUProbeBusy}, {CPUExecBusy, CPUProbeBusy},
	} {
		fmt.Fprintf(b, "| %s | %s | %s |\n", row.name, millis(r.DaemonCPU[row.name]), times(ratio(r.DaemonCPU[row.name], r.DaemonCPU[row.probe])))
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
func writeForks(b *strings.Builder, r Results) {
	if len(r.Fork) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## A fork of a session with %d MB written (ms until all have answered)\n\n", ForkedMB)
	b.WriteString("| disks | | min | p50 | max | p50 to a create | n |\n|---|---|---|---|---|---|---|\n")
	for _, disks := range slices.Sorted(maps.Keys(r.Fork)) {
		of := r.Fork[disks]
		for _, name := range fastestFirst(of) {
			s := of[name]
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %d |\n", disks, name, millis(s.Min), millis(s.P50), millis(s.Max), times(ratio(s.P50, of[ForkCold].P50)), s.N)
		}
	}
}

func writeBusy(b *strings.Builder, r Results) {
	if len(r.Busy) == 0 {
		return
	}
	b.WriteString("\n## `true` in busy sessions, one client each\n\n| sessions | per second | p50 ms | p99 ms | failures |\n|---|---|---|---|---|\n")
	for _, l := range r.Busy {
		o := l.Outcome
		fmt.Fprintf(b, "| %d | %.0f | %s | %s | %d |\n", l.Level, o.PerSec, millis(o.Latency.P50), millis(o.Latency.P99), o.Failures)
	}
}

func writeBurst(b *strings.Builder, r Results) {
	if len(r.Burst) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %d sessions at once from a pool of %d (ms)\n\n| p50 | p99 | last | failures |\n|---|---|---|---|\n", BurstN, BurstN)
	for _, l := range r.Burst {
		o := l.Outcome
		fmt.Fprintf(b, "| %s | %s | %s | %d |\n", millis(o.Latency.P50), millis(o.Latency.P99), millis(o.Latency.Max), o.Failures)
	}
}

func writeMachine(b *strings.Builder, r Results) {
	m := r.Machine
	fmt.Fprintf(b, "\n%s. %s, %d cores, %d MiB of memory; %s, Linux %s; data on %s; cgroups %s; load before the run %s.\n",
		r.Date.Format("2006-01-02 15:04 UTC"), m.CPU, m.Cores, m.MemoryMB, m.OS, m.Kernel, m.Filesystem, m.Cgroups, m.Load)
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		versions = append(versions, name+" "+strings.TrimPrefix(m.Versions[name], name+" "))
	}
	fmt.Fprintf(b, "%s.\n", strings.Join(versions, "; "))
}

func writePromises(b *strings.Builder, r Results) {
	b.WriteString("\n## What we expect of ourselves\n\n| | measured | |\n|---|---|---|\n")
	for _, p := range promises {
		f := p.judge(r)
		fmt.Fprintf(b, "| %s | %s | %s |\n", p.sentence, f.measured, f.verdict)
	}
	for _, thing := range r.Leftovers {
		fmt.Fprintf(b, "\nLeft behind: %s\n", thing)
	}
}

// subjectsOf returns the subjects of a list of loads, each once and by name.
func subjectsOf(loads []Load) []string {
	seen := map[string]bool{}
	for _, l := range loads {
		seen[l.Subject] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// levelsOf returns the levels of a list of loads, each once and rising.
func levelsOf(loads []Load) []int {
	seen := map[int]bool{}
	for _, l := range loads {
		seen[l.Level] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func writeTogether(b *strings.Builder, r Results) {
	if len(r.Together) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Many at once, %d at a time, all kept until the last is there\n\n", TogetherWorkers)
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

func writeThroughput(b *strings.Builder, r Results) {
	if len(r.Throughput) == 0 {
		return
	}
	levels := levelsOf(r.Throughput)
	b.WriteString("\n## Throughput: sandboxes created, asked and destroyed per second\n\n| clients |")
	for _, level := range levels {
		fmt.Fprintf(b, " %d |", level)
	}
	b.WriteString(" failures |\n|---|" + strings.Repeat("---|", len(levels)+1) + "\n")
	for _, name := range subjectsOf(r.Throughput) {
		fmt.Fprintf(b, "| %s |", name)
		failures := 0
		for _, level := range levels {
			i := slices.IndexFunc(r.Throughput, func(l Load) bool { return l.Subject == name && l.Level == level })
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

func writeRates(b *strings.Builder, r Results) {
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

func writeMemory(b *strings.Builder, r Results) {
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

func writeDensity(b *strings.Builder, r Results) {
	if len(r.Density) == 0 {
		return
	}
	b.WriteString("\n## Idle sessions, and more of them\n\n" +
		"| sessions | created per second | memory each | of it: anonymous | slab | page tables | the daemon's | disk each | descriptors each | tasks each | `true` p50 ms | p99 ms |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, d := range r.Density {
		m := d.Memory
		fmt.Fprintf(b, "| %d | %.0f | %s | %s | %s | %s | %s | %s | %.2f | %.2f | %s | %s |\n", d.N, d.CreatePerSec, megabytes(m.Cost()), megabytes(m.Anonymous),
			megabytes(m.Slab), megabytes(m.PageTables), megabytes(d.Daemon.Bytes), megabytes(d.Disk), d.Daemon.Descriptors, d.Tasks, millis(d.Exec.P50), millis(d.Exec.P99))
	}
	if a := r.Restart; a != nil {
		fmt.Fprintf(b, "\nA daemon that is killed above %d sessions is ready again after %.2f s. The first `true` in each session then takes %s ms (p50), %s ms (p99). All are destroyed at %.0f per second.\n",
			a.N, a.Ready.Seconds(), millis(a.Exec.P50), millis(a.Exec.P99), a.DestroyPerSec)
	}
}
