// Package procview renders the files of /proc that describe a machine as they are for a
// machine of a sandbox's size: its memory limit, its share of the processors, and what
// it uses of them. It reads no file; who calls it knows the figures.
package procview

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Names of the files, in /proc.
const (
	Meminfo = "meminfo"
	Stat    = "stat"
	Loadavg = "loadavg"
	CPUInfo = "cpuinfo"
)

// Memory is what a sandbox may use, and uses, in bytes.
type Memory struct {
	Limit, Usage                                               int64
	Anon, File, Shmem, Mapped, Dirty, Writeback                int64
	ActiveAnon, InactiveAnon, ActiveFile, InactiveFile, Locked int64
	SlabReclaimable, SlabUnreclaimable, KernelStack, PageTable int64
}

// Facts are all that the files say.
type Facts struct {
	CPUs         int
	Memory       Memory
	User, System time.Duration // processor time used
	Age          time.Duration // of the sandbox
	BootTime     int64         // of the host: what ps counts the start of processes from
	Load         Load
	Tasks        int64
}

// Files are the contents by name of all but CPUInfo, which does not change.
func Files(f Facts) map[string]string {
	return map[string]string{Meminfo: meminfo(f.Memory), Stat: statFile(f), Loadavg: f.Load.text(f.Tasks)}
}

func meminfo(m Memory) string {
	free := max(m.Limit-m.Usage, 0)
	available := min(free+m.ActiveFile+m.InactiveFile+m.SlabReclaimable, m.Limit)
	var b strings.Builder
	for _, line := range []struct {
		name  string
		bytes int64
	}{
		{"MemTotal", m.Limit},
		{"MemFree", free},
		{"MemAvailable", available},
		{"Buffers", 0},
		{"Cached", m.File},
		{"SwapCached", 0},
		{"Active", m.ActiveAnon + m.ActiveFile},
		{"Inactive", m.InactiveAnon + m.InactiveFile},
		{"Active(anon)", m.ActiveAnon},
		{"Inactive(anon)", m.InactiveAnon},
		{"Active(file)", m.ActiveFile},
		{"Inactive(file)", m.InactiveFile},
		{"Unevictable", m.Locked},
		{"Mlocked", m.Locked},
		{"SwapTotal", 0},
		{"SwapFree", 0},
		{"Dirty", m.Dirty},
		{"Writeback", m.Writeback},
		{"AnonPages", m.Anon},
		{"Mapped", m.Mapped},
		{"Shmem", m.Shmem},
		{"KReclaimable", m.SlabReclaimable},
		{"Slab", m.SlabReclaimable + m.SlabUnreclaimable},
		{"SReclaimable", m.SlabReclaimable},
		{"SUnreclaim", m.SlabUnreclaimable},
		{"KernelStack", m.KernelStack},
		{"PageTables", m.PageTable},
		{"CommitLimit", m.Limit},
		{"Committed_AS", m.Usage},
	} {
		fmt.Fprintf(&b, "%-15s %8d kB\n", line.name+":", line.bytes>>10)
	}
	return b.String()
}

// userHz is the unit of processor time in /proc.
const userHz = 100

// statFile has the processor time spread evenly: which processor ran what is the host's.
func statFile(f Facts) string {
	ticks := func(d time.Duration) int64 { return int64(d.Seconds() * userHz) }
	cpus := max(f.CPUs, 1)
	user, system := ticks(f.User), ticks(f.System)
	idle := max(ticks(f.Age)*int64(cpus)-user-system, 0)
	var b strings.Builder
	line := func(name string, n int64) {
		fmt.Fprintf(&b, "%s %d 0 %d %d 0 0 0 0 0 0\n", name, user/n, system/n, idle/n)
	}
	line("cpu ", 1)
	for i := range cpus {
		line(fmt.Sprint("cpu", i), int64(cpus))
	}
	fmt.Fprintf(&b, "intr 0\nctxt 0\nbtime %d\nprocesses %d\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n", f.BootTime, f.Tasks)
	return b.String()
}

// FirstCPUs is the host's /proc/cpuinfo cut off after n processors.
func FirstCPUs(host string, n int) string {
	blocks := strings.SplitAfter(strings.TrimRight(host, "\n")+"\n\n", "\n\n")
	return strings.Join(blocks[:min(n, len(blocks)-1)], "")
}

// Load is how many processors a sandbox has used, averaged as the kernel averages the
// number of runnable processes: over 1, 5 and 15 minutes.
type Load [3]float64

// Add returns the load after so many processors were used for a time.
func (l Load) Add(cores float64, elapsed time.Duration) Load {
	for i, minutes := range []float64{1, 5, 15} {
		keep := math.Exp(-elapsed.Minutes() / minutes)
		l[i] = l[i]*keep + cores*(1-keep)
	}
	return l
}

// Quiet reports whether the load rounds to nothing.
func (l Load) Quiet() bool { return max(l[0], l[1], l[2]) < 0.005 }

func (l Load) text(tasks int64) string {
	return fmt.Sprintf("%.2f %.2f %.2f 1/%d %d\n", l[0], l[1], l[2], max(tasks, 1), max(tasks, 1))
}
