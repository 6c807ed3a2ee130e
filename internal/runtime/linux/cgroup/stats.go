package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a group uses now. Unknown values are zero.
type Usage struct {
	Memory, MemoryPeak int64
	CPUUsec            int64
	Pids               int64
	OOMKills           int64
}

// Usage reads the counters.
func (g Group) Usage() Usage {
	if g.m.Hybrid() {
		return Usage{
			Memory:     number(g.v1("memory"), "memory.usage_in_bytes"),
			MemoryPeak: number(g.v1("memory"), "memory.max_usage_in_bytes"),
			CPUUsec:    number(g.v1("cpuacct"), "cpuacct.usage") / 1000,
			Pids:       number(g.v1("pids"), "pids.current"),
			OOMKills:   field(g.v1("memory"), "memory.oom_control", "oom_kill"),
		}
	}
	return Usage{
		Memory:     number(g.unified(), "memory.current"),
		MemoryPeak: number(g.unified(), "memory.peak"),
		CPUUsec:    field(g.unified(), "cpu.stat", "usage_usec"),
		Pids:       number(g.unified(), "pids.current"),
		OOMKills:   field(g.unified(), "memory.events", "oom_kill"),
	}
}

// CPU is the processor time that all groups have used, those included that are
// gone. It is 0 where the kernel does not say.
func (m *Manager) CPU() time.Duration { return Group{m, ""}.CPU() }

// CPU is the processor time that the group has used.
func (g Group) CPU() time.Duration {
	if g.m.Hybrid() {
		return time.Duration(number(g.v1("cpuacct"), "cpuacct.usage"))
	}
	return time.Duration(field(g.unified(), "cpu.stat", "usage_usec")) * time.Microsecond
}

// number reads a file that holds one.
func number(dir, file string) int64 { return field(dir, file) }

// field reads the number behind key, or the only one without a key.
func field(dir, file string, key ...string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	text := string(b)
	if len(key) == 1 {
		_, rest, ok := strings.Cut("\n"+text, "\n"+key[0]+" ")
		if !ok {
			return 0
		}
		text, _, _ = strings.Cut(rest, "\n")
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
