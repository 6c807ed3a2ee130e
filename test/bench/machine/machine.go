// Package machine tells what a benchmark has to know of the host that it runs
// on, from files of the kernel's. It measures nothing.
package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Info describes where a run took place.
type Info struct {
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

// Describe reads what there is to know about the host. What cannot be
// read is "unknown": it takes nothing from the measurements.
func Describe(ctx context.Context, dataDir string, tools map[string][]string) Info {
	m := Info{
		CPU:        field(Text("/proc/cpuinfo"), "model name", ":"),
		Cores:      runtime.NumCPU(),
		Kernel:     strings.TrimSpace(Text("/proc/sys/kernel/osrelease")),
		OS:         strings.Trim(field(Text("/etc/os-release"), "PRETTY_NAME", "="), `"`),
		Filesystem: filesystem(dataDir),
		Cgroups:    cgroupMode(Text("/proc/self/mounts")),
		Load:       strings.TrimSpace(Text("/proc/loadavg")),
		Versions:   map[string]string{},
	}
	if info, err := Meminfo(Text("/proc/meminfo")); err == nil {
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

// Text is what is in a file, or nothing if it cannot be read.
func Text(file string) string {
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

// Meminfo returns the fields of /proc/meminfo in bytes.
func Meminfo(text string) (map[string]int64, error) {
	fields := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("/proc/meminfo: %q is not understood", line)
		}
		if unit == "kB" {
			n *= 1024
		}
		fields[name] = n
	}
	return fields, nil
}

// CommandName is what the kernel calls a process: fifteen bytes of its name.
func CommandName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "(gone)"
	}
	return strings.TrimSpace(string(name))
}

// cgroupMode names the host's control groups as the kernel's documents do.
func cgroupMode(mounts string) string {
	kinds := map[string]bool{}
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 2 && slices.Contains([]string{"cgroup", "cgroup2"}, fields[2]) {
			kinds[fields[2]] = true
		}
	}
	switch {
	case kinds["cgroup"] && kinds["cgroup2"]:
		return "hybrid (v1 controllers)"
	case kinds["cgroup2"]:
		return "v2"
	case kinds["cgroup"]:
		return "v1"
	}
	return "none"
}
