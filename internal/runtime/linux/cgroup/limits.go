package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/sandkasten/sandkasten/internal/protection"
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

// setting is a limit as a file has it.
type setting struct {
	dir, file string
	value     string
	optional  bool // there are kernels without the file
	varies    bool // it is another while the group is swapped out
}

// Limit changes the limits of a group that exists.
func (g Group) Limit(l Limits) error {
	var errs []error
	for _, s := range g.settings(l) {
		err := writeText(s.dir, s.file, s.value)
		if s.optional {
			err = ignoreMissing(err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// settings are the limits l, in the order in which they are to be written.
func (g Group) settings(l Limits) []setting {
	if g.m.Hybrid() {
		return g.hybridSettings(l)
	}
	dir := g.unified()
	return []setting{
		{dir: dir, file: "memory.max", value: bytesText(l.Memory)},
		{dir: dir, file: "memory.swap.max", value: "0", optional: true, varies: true}, // absent without swap support
		{dir: dir, file: "pids.max", value: strconv.FormatInt(l.Pids, 10)},
		{dir: dir, file: "cpu.max", value: fmt.Sprintf("%d %d", quota(l.CPU), cpuPeriod)},
	}
}

func (g Group) hybridSettings(l Limits) []setting {
	dir := g.v1("memory")
	memory := setting{dir: dir, file: "memory.limit_in_bytes", value: bytesText(l.Memory)}
	withSwap := setting{dir: dir, file: "memory.memsw.limit_in_bytes", value: bytesText(l.Memory), optional: true} // absent without swap accounting
	first, second := memory, withSwap                                                                              // the latter may never be below the former
	if number(dir, withSwap.file) < l.Memory {
		first, second = withSwap, memory
	}
	return []setting{
		first, second,
		// The limit on memory counts no socket's here, as that of v2 does. Despite its
		// name this one counts UDP, too.
		{dir: dir, file: "memory.kmem.tcp.limit_in_bytes", value: bytesText(protection.Wider(protection.SocketMemory, l.Memory/socketShare, 64)), optional: true},
		{dir: g.v1("pids"), file: "pids.max", value: strconv.FormatInt(l.Pids, 10)},
		{dir: g.v1("cpu"), file: "cpu.cfs_period_us", value: strconv.Itoa(cpuPeriod)},
		{dir: g.v1("cpu"), file: "cpu.cfs_quota_us", value: strconv.FormatInt(quota(l.CPU), 10)},
	}
}

// bytesText is a number of bytes as the kernel has it, which counts pages.
func bytesText(n int64) string {
	page := int64(os.Getpagesize())
	return strconv.FormatInt(n/page*page, 10)
}

func quota(cores float64) int64 { return max(int64(cores*cpuPeriod), 1000) }
