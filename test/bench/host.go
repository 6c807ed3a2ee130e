package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/test/bench/inuse"
)

// machine describes where a run took place.
type machine struct {
	CPU        string            `json:"cpu"`
	Cores      int               `json:"cores"`
	MemoryMB   int64             `json:"memory_mb"`
	Kernel     string            `json:"kernel"`
	OS         string            `json:"os"`
	Filesystem string            `json:"filesystem"` // of the sandboxes' data
	Cgroups    string            `json:"cgroups"`
	Load       string            `json:"load"` // averages before the run
	Versions   map[string]string `json:"versions"`
}

// describeMachine reads what there is to know about the host. What cannot be
// read is "unknown": it takes nothing from the measurements.
func describeMachine(ctx context.Context, dataDir string, tools map[string][]string) machine {
	m := machine{
		CPU:        field(read("/proc/cpuinfo"), "model name", ":"),
		Cores:      runtime.NumCPU(),
		Kernel:     strings.TrimSpace(read("/proc/sys/kernel/osrelease")),
		OS:         strings.Trim(field(read("/etc/os-release"), "PRETTY_NAME", "="), `"`),
		Filesystem: filesystem(dataDir),
		Cgroups:    cgroupMode(read("/proc/self/mounts")),
		Load:       strings.TrimSpace(read("/proc/loadavg")),
		Versions:   map[string]string{},
	}
	if info, err := inuse.Memory(); err == nil {
		m.MemoryMB = info["MemTotal"] >> 20
	}
	for name, args := range tools {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
		if err == nil {
			first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			m.Versions[name] = first
		}
	}
	return m
}

func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(text)
}

// field returns the value of the first line "name<separator>value".
func field(text, name, separator string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, separator)
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func filesystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "unknown"
	}
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay", 0x2fc12fc1: "zfs",
	}
	if name, ok := names[st.Type]; ok {
		return name
	}
	return "unknown"
}
