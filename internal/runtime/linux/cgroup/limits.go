package cgroup

import (
	"errors"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/weaken"
)

// Limits of one sandbox's workload.
type Limits struct {
	Memory int64 // bytes, swap included
	CPU    float64
	Pids   int64
}

const cpuPeriod = 100_000 // microseconds

// socketShare is which part of its memory a sandbox has for sockets on top of
// it, where the kernel counts them apart.
const socketShare = 4

// Limit changes the limits of a group that exists.
func (g Group) Limit(l Limits) error {
	if g.m.Hybrid() {
		return g.limitHybrid(l)
	}
	dir := g.unified()
	return errors.Join(
		writeNumber(dir, "memory.max", l.Memory),
		ignoreMissing(writeNumber(dir, "memory.swap.max", 0)), // absent without swap support
		writeNumber(dir, "pids.max", l.Pids),
		writeText(dir, "cpu.max", fmt.Sprintf("%d %d", quota(l.CPU), cpuPeriod)),
	)
}

func (g Group) limitHybrid(l Limits) error {
	dir, memory, withSwap := g.v1("memory"), "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	order := []string{memory, withSwap} // the latter may never be below the former
	if number(dir, withSwap) < l.Memory {
		order = []string{withSwap, memory}
	}
	var errs []error
	for _, file := range order {
		err := writeNumber(dir, file, l.Memory)
		if file == withSwap {
			err = ignoreMissing(err) // absent without swap accounting
		}
		errs = append(errs, err)
	}
	return errors.Join(
		errors.Join(errs...),
		// The limit on memory counts no socket's here, as that of v2 does. Despite its
		// name this one counts UDP, too.
		ignoreMissing(writeNumber(dir, "memory.kmem.tcp.limit_in_bytes", weaken.Wider(weaken.SocketMemory, l.Memory/socketShare, 64))),
		writeNumber(g.v1("pids"), "pids.max", l.Pids),
		writeNumber(g.v1("cpu"), "cpu.cfs_period_us", cpuPeriod),
		writeNumber(g.v1("cpu"), "cpu.cfs_quota_us", quota(l.CPU)),
	)
}

func quota(cores float64) int64 { return max(int64(cores*cpuPeriod), 1000) }
