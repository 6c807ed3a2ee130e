package admission

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Use is how much a host has, and how much of it is in use.
type Use struct {
	CPUs     int
	BusyCPU  int64 // time of all processors that programs have had since the start, in ticks
	TotalCPU int64 // all time of all processors, in the same ticks

	MemoryBytes, MemoryTotal int64
	DiskBytes, DiskTotal     int64 // of the file system of the data directory
	PoolBytes, PoolTotal     int64 // of the pool of disks; 0 without one
}

// Use reads how full the host is. It takes 50 to 500 µs, as Read does.
func (h Host) Use() (u Use, err error) {
	if err = h.processors(&u); err != nil {
		return u, err
	}
	left, err := h.memory()
	if err != nil {
		return u, err
	}
	if u.MemoryTotal, err = h.meminfo("MemTotal:"); err != nil {
		return u, err
	}
	u.MemoryBytes = u.MemoryTotal - left
	if u.DiskBytes, u.DiskTotal, err = usedSpace(h.DataDir); err != nil || h.PoolDir == "" {
		return u, err
	}
	u.PoolBytes, u.PoolTotal, err = usedSpace(h.PoolDir)
	return u, err
}

// usedSpace is what is written on the file system of a directory, and how much can be, as
// df says: its Used, and that with its Available. What only root may write is in neither.
func usedSpace(dir string) (used, total int64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	used = int64(fs.Blocks-fs.Bfree) * fs.Frsize
	return used, used + int64(fs.Bavail)*fs.Frsize, nil
}

// processors reads the first line of stat, which is of all processors together:
// cpu user nice system idle iowait irq softirq steal guest guest_nice. Guests are in
// user already; steal is time that another machine had.
func (h Host) processors(u *Use) error {
	const user, idle, iowait, steal = 0, 3, 4, 7
	text, err := h.text("stat")
	if err != nil {
		return err
	}
	first, rest, _ := strings.Cut(text, "\n")
	fields := strings.Fields(strings.TrimPrefix(first, "cpu "))
	if !strings.HasPrefix(first, "cpu ") || len(fields) <= steal {
		return fmt.Errorf("stat does not begin with the time of all processors: %q", first)
	}
	for i, field := range fields[user : steal+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return fmt.Errorf("read stat: %w", err)
		}
		u.TotalCPU += ticks
		if i != idle && i != iowait && i != steal {
			u.BusyCPU += ticks
		}
	}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "cpu") {
			break
		}
		u.CPUs++
	}
	return nil
}
