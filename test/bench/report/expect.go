package report

import (
	"fmt"
	"time"
)

// What the project promises itself. A number that is missed is reported, not
// hidden: the report says so in its first table.
const (
	wantDockerRatio = 15
	wantClaimP50    = 2 * time.Millisecond
	wantClaimP99    = 8 * time.Millisecond
	wantBurst       = 300 * time.Millisecond

	wantNetworkCreate = time.Millisecond
	wantNetworkClaim  = 300 * time.Microsecond

	wantExecP50     = 400 * time.Microsecond
	wantExecP99     = 1500 * time.Microsecond
	wantProgram     = 1.3 // times a fork and exec on the host
	wantFirstByte   = 5 * time.Millisecond
	wantOutput      = 100_000_000 // bytes per second
	wantFiles       = 0.6         // of what cp does
	wantExecsPerSec = 4000
	wantPerSec      = 80
	wantIdleBytes   = 4_000_000
	wantFork        = 3 // times a cold create
	wantBullied     = 20 * time.Millisecond

	// Of a crowd of idle sessions.
	wantCrowd       = 2000
	wantCrowdBytes  = 3_000_000 // each, of the host's memory
	wantCrowdP99    = 20 * time.Millisecond
	wantCrowdPerSec = 60
)

// promise is one sentence, and what results say of it.
type promise struct {
	sentence string
	judge    func(r Results) finding
}

// finding is what was measured of a promise, and whether that keeps it.
type finding struct{ measured, verdict string }

const (
	met         = "met"
	missed      = "MISSED"
	notMeasured = "not measured"
)

// found describes what was measured, if it was.
func found(have, kept bool, format string, args ...any) finding {
	switch {
	case !have:
		return finding{notMeasured, notMeasured}
	case kept:
		return finding{fmt.Sprintf(format, args...), met}
	}
	return finding{fmt.Sprintf(format, args...), missed}
}

// within compares a latency, one of a sample of n, with its limit.
func within(n int, took, limit time.Duration) finding {
	return found(n > 0, took <= limit, "%s ms", millis(took))
}

// above compares how much later one is than another with a limit.
func above(one, other Summary, limit time.Duration) finding {
	more := one.P50 - other.P50
	return found(one.N > 0 && other.N > 0, more <= limit, "%s ms", millis(more))
}

// promises are in the order of the report's tables.
var promises = []promise{
	{"create to the first answer: p50 no slower than crun run", func(r Results) finding {
		ours, crun := r.Lifecycle["ready"][Ours], r.Lifecycle["ready"]["crun run"]
		return found(ours.N > 0 && crun.N > 0, ours.P50 <= crun.P50, "%s ms, crun %s ms", millis(ours.P50), millis(crun.P50))
	}},
	{fmt.Sprintf("create to the first answer: p50 at least %d times faster than docker run", wantDockerRatio), func(r Results) finding {
		ours, docker := r.Lifecycle["ready"][Ours], r.Lifecycle["ready"]["docker run"]
		return found(ours.N > 0 && docker.N > 0, docker.P50 >= wantDockerRatio*ours.P50, "%.1f times", ratio(docker.P50, ours.P50))
	}},
	{fmt.Sprintf("a ready sandbox to the first answer: p50 at most %v", wantClaimP50), func(r Results) finding {
		claim := r.Claim[Pooled]
		return within(claim.N, claim.P50, wantClaimP50)
	}},
	{fmt.Sprintf("a create with a network: p50 at most %v above one without", wantNetworkCreate), func(r Results) finding {
		return above(r.Network[Networked], r.Network[Ours], wantNetworkCreate)
	}},
	{fmt.Sprintf("a ready sandbox with a network: p50 at most %v above one without", wantNetworkClaim), func(r Results) finding {
		return above(r.Network[PooledNetworked], r.Network[Pooled], wantNetworkClaim)
	}},
	{fmt.Sprintf("a ready sandbox to the first answer: p99 at most %v", wantClaimP99), func(r Results) finding {
		claim := r.Claim[Pooled]
		return within(claim.N, claim.P99, wantClaimP99)
	}},
	{fmt.Sprintf("%d sessions at once from a pool of %d: all created within %v", BurstN, BurstN, wantBurst), func(r Results) finding {
		last, failures := burstOf(r)
		return found(len(r.Burst) > 0, last <= wantBurst && failures == 0, "%s ms, %d failures", millis(last), failures)
	}},
	{fmt.Sprintf("exec of true: p50 at most %v", wantExecP50), func(r Results) finding {
		exec := r.Exec[Ours]
		return within(exec.N, exec.P50, wantExecP50)
	}},
	{fmt.Sprintf("exec of true: p99 at most %v", wantExecP99), func(r Results) finding {
		exec := r.Exec[Ours]
		return within(exec.N, exec.P99, wantExecP99)
	}},
	{fmt.Sprintf("a process of true: p50 at most %.1f times a fork and exec on the host", wantProgram), func(r Results) finding {
		program, host := r.Exec[Program], r.Exec[HostProgram]
		times := ratio(program.P50, host.P50)
		return found(program.N > 0 && host.N > 0, times <= wantProgram, "%.2f times", times)
	}},
	{fmt.Sprintf("what a command prints is at the client: p50 within %v", wantFirstByte), func(r Results) finding {
		first := r.FirstByte[Ours]
		return within(first.N, first.P50, wantFirstByte)
	}},
	{fmt.Sprintf("output of a command: at least %.0f MB per second", wantOutput/1e6), func(r Results) finding {
		output, have := r.Output[Ours]
		return found(have, output >= wantOutput, "%.0f MB per second", output/1e6)
	}},
	{fmt.Sprintf("raw files in and out: at least %.0f %% of cp", 100*wantFiles), func(r Results) finding {
		slower := min(r.Files[FilesUp], r.Files[FilesDown]) / r.Files[FilesCopy]
		return found(len(r.Files) == 3, slower >= wantFiles, "%.0f %%", 100*slower)
	}},
	{fmt.Sprintf("commands of many clients: at least %d per second, no failure", wantExecsPerSec), func(r Results) finding {
		best, failures := busiest(r)
		return found(len(r.Busy) > 0, best >= wantExecsPerSec && failures == 0, "%.0f, %d failures", best, failures)
	}},
	{fmt.Sprintf("beside five hostile sessions: exec of true, p99 at most %v", wantBullied), func(r Results) finding {
		bullied := r.Bullies[Bullied]
		return within(bullied.N, bullied.P99, wantBullied)
	}},
	{fmt.Sprintf("%d sessions, %d at a time: no failure, at least %d per second", TogetherN, TogetherWorkers, wantPerSec), func(r Results) finding {
		perSec, failures, n := togetherOf(r, Ours)
		f := found(n > 0, failures == 0 && perSec >= wantPerSec, "%d failures of %d, %.0f per second", failures, n, perSec)
		if n < TogetherN {
			f.verdict = notMeasured // a smaller number proves nothing about this one
		}
		return f
	}},
	{fmt.Sprintf("an idle session: at most %s of the host's memory", megabytes(wantIdleBytes)), func(r Results) finding {
		idle, have := r.Memory[Ours]
		return found(have, idle.Cost() <= wantIdleBytes, "%s", megabytes(idle.Cost()))
	}},
	{fmt.Sprintf("a fork of a session with %d MB written, disks in a pool: p50 at most %d cold creates", ForkedMB, wantFork), func(r Results) finding {
		fork, cold := r.Fork["pool"][ForkSettled], r.Fork["pool"][ForkCold]
		return found(fork.N > 0 && cold.N > 0, fork.P50 <= wantFork*cold.P50, "%s ms, a create %s ms", millis(fork.P50), millis(cold.P50))
	}},
	{fmt.Sprintf("%d idle sessions: at most %s of the host's memory each", wantCrowd, megabytes(wantCrowdBytes)), func(r Results) finding {
		crowd, _ := crowdOf(r)
		return found(crowd.N >= wantCrowd, crowd.Memory.Cost() <= wantCrowdBytes, "%s", megabytes(crowd.Memory.Cost()))
	}},
	{fmt.Sprintf("%d idle sessions: created at no less than %d per second", wantCrowd, wantCrowdPerSec), func(r Results) finding {
		crowd, perSec := crowdOf(r)
		return found(crowd.N >= wantCrowd, perSec >= wantCrowdPerSec, "%.0f per second", perSec)
	}},
	{fmt.Sprintf("%d idle sessions: exec of true, p99 at most %v", wantCrowd, wantCrowdP99), func(r Results) finding {
		crowd, _ := crowdOf(r)
		return found(crowd.N >= wantCrowd, crowd.Exec.P99 <= wantCrowdP99, "%s ms", millis(crowd.Exec.P99))
	}},
	{"destroyed sessions leave nothing behind", func(r Results) finding {
		return found(r.Lifecycle["ready"][Ours].N > 0, len(r.Leftovers) == 0, "%d things", len(r.Leftovers))
	}},
}

// burstOf returns the middle one of the times in which all had a session, and
// all failures.
func burstOf(r Results) (last time.Duration, failures int) {
	var all []float64
	for _, l := range r.Burst {
		all = append(all, float64(l.Outcome.Latency.Max))
		failures += l.Outcome.Failures
	}
	return time.Duration(median(all)), failures
}

// crowdOf returns the largest crowd of idle sessions and how fast all of them
// were created.
func crowdOf(r Results) (largest Density, perSec float64) {
	seconds := 0.0
	for _, d := range r.Density {
		seconds += float64(d.N-largest.N) / d.CreatePerSec
		largest = d
	}
	if seconds == 0 {
		return largest, 0
	}
	return largest, float64(largest.N) / seconds
}

// busiest returns the best rate of commands at any number of clients, and the
// failures at all of them.
func busiest(r Results) (perSec float64, failures int) {
	for _, l := range r.Busy {
		perSec = max(perSec, l.Outcome.PerSec)
		failures += l.Outcome.Failures
	}
	return perSec, failures
}

// togetherOf returns the median rate and all failures of a subject's creates,
// and how many sandboxes each run asked for; 0 if it was not measured.
func togetherOf(r Results, subject string) (perSec float64, failures, n int) {
	var rates []float64
	for _, l := range r.Together {
		if l.Subject == subject && l.What == "create" {
			rates = append(rates, l.Outcome.PerSec)
			failures += l.Outcome.Failures
			n = l.N
		}
	}
	return median(rates), failures, n
}
