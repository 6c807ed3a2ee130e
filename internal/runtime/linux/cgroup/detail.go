package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// MemoryUse is what a group's memory is used for, in bytes. Unknown values are zero.
type MemoryUse struct {
	Anon, File, Shmem, Mapped, Dirty, Writeback                     int64
	ActiveAnon, InactiveAnon, ActiveFile, InactiveFile, Unevictable int64
	SlabReclaimable, SlabUnreclaimable, KernelStack, PageTables     int64
}

// MemoryUse reads it.
func (g Group) MemoryUse() MemoryUse {
	stat := g.fields(g.memoryDir(), "memory.stat")
	if g.m.Hybrid() {
		return MemoryUse{
			Anon: stat["total_rss"], File: stat["total_cache"], Shmem: stat["total_shmem"], Mapped: stat["total_mapped_file"],
			Dirty: stat["total_dirty"], Writeback: stat["total_writeback"],
			ActiveAnon: stat["total_active_anon"], InactiveAnon: stat["total_inactive_anon"],
			ActiveFile: stat["total_active_file"], InactiveFile: stat["total_inactive_file"], Unevictable: stat["total_unevictable"],
		}
	}
	return MemoryUse{
		Anon: stat["anon"], File: stat["file"], Shmem: stat["shmem"], Mapped: stat["file_mapped"],
		Dirty: stat["file_dirty"], Writeback: stat["file_writeback"],
		ActiveAnon: stat["active_anon"], InactiveAnon: stat["inactive_anon"],
		ActiveFile: stat["active_file"], InactiveFile: stat["inactive_file"], Unevictable: stat["unevictable"],
		SlabReclaimable: stat["slab_reclaimable"], SlabUnreclaimable: stat["slab_unreclaimable"],
		KernelStack: stat["kernel_stack"], PageTables: stat["pagetables"],
	}
}

// CPUTimes is the processor time that the group has used in programs and in the kernel.
func (g Group) CPUTimes() (user, system time.Duration) {
	if g.m.Hybrid() {
		const tick = 10 * time.Millisecond
		stat := g.fields(g.v1("cpuacct"), "cpuacct.stat")
		return time.Duration(stat["user"]) * tick, time.Duration(stat["system"]) * tick
	}
	stat := g.fields(g.unified(), "cpu.stat")
	return time.Duration(stat["user_usec"]) * time.Microsecond, time.Duration(stat["system_usec"]) * time.Microsecond
}

// fields reads a file of names and numbers.
func (g Group) fields(dir, file string) map[string]int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	all := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			all[name] = n
		}
	}
	return all
}
