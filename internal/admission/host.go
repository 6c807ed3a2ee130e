package admission

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandkasten/sandkasten/internal/smallfile"
)

// Host is a machine. Its Proc is a parameter for tests.
type Host struct {
	Proc    string // "/proc"
	DataDir string
	PoolDir string // where disks are, if that is not DataDir
}

// Read looks at what the host has left. It takes 50 to 500 µs.
func (h Host) Read() (r Reading, err error) {
	if r.MemoryBytes, err = h.memory(); err != nil {
		return r, err
	}
	if r.Pids, err = h.pids(); err != nil {
		return r, err
	}
	if r.DiskBytes, err = freeSpace(h.DataDir); err != nil || h.PoolDir == "" {
		return r, err
	}
	r.PoolBytes, err = freeSpace(h.PoolDir)
	return r, err
}

// freeSpace is what root can still write in a directory.
func freeSpace(dir string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

func (h Host) text(name string) (string, error) {
	b, err := smallfile.Read(filepath.Join(h.Proc, name))
	return string(b), err
}

func (h Host) memory() (int64, error) { return h.meminfo("MemAvailable:") }

// meminfo is a line of meminfo, in bytes.
func (h Host) meminfo(name string) (int64, error) {
	text, err := h.text("meminfo")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, name)
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("meminfo has no %s %w", name, err)
	}
	return n << 10, nil
}

// pids is the number of tasks that can still be made: the kernel has two
// limits, and loadavg counts its tasks.
func (h Host) pids() (int64, error) {
	load, err := h.text("loadavg") // 0.20 0.18 0.12 1/80 11206
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(load, "/")
	used, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read loadavg: %w", err)
	}
	most := int64(-1)
	for _, name := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		text, err := h.text(name)
		if err != nil {
			return 0, err
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		if most < 0 || limit < most {
			most = limit
		}
	}
	return most - n, nil
}
