package linux

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/smallfile"
)

const (
	// roomInterval is between two looks at what the host has left.
	roomInterval = 250 * time.Millisecond
	// roomBurst is more than is written to a host's disks between two looks. With so
	// much beside the reserve nobody has to be held back.
	roomBurst = 1 << 30
	// lookShare bounds what looking costs, to a tenth of a processor.
	lookShare = 10
	// leastReserve is what the file systems' own blocks take, also where the
	// configuration keeps nothing.
	leastReserve = 32 << 20
)

// reasonReadOnly is why a sandbox cannot go on whose disk has had an error.
const reasonReadOnly = "its disk turned read-only because the host's disk was full or failed; what was written last may be lost"

// keepRoom keeps what sandboxes write within what the host has. Their disks are
// sparse, so their sizes may add up to more: a write that finds no room on the host
// would be an error of a sandbox's disk, and what programs take for written would
// be lost. So before it comes to that their disks are full.
func (d *Driver) keepRoom(quit <-chan struct{}) {
	held, wait := false, roomInterval
	for {
		select {
		case <-quit:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		near, err := d.shareRoom(held)
		// A look takes 0.1 ms for each sandbox, and 13 us while nobody is held back.
		// What the parts add up to is left, however late the next one comes.
		wait = max(roomInterval, lookShare*time.Since(began))
		if err != nil {
			d.opts.Log.Error("share what the host's disk has left", "err", err)
		}
		if near != held {
			d.opts.Log.Warn("the host's disk is nearly full: sessions share what is left above admission.disk_reserve_mb", "so", near)
		}
		held = near
	}
}

// shareRoom looks once. held says that the last look came to bounds; it returns
// whether this one does.
func (d *Driver) shareRoom(held bool) (near bool, err error) {
	left, err := d.diskSpace()
	if err != nil {
		return held, err
	}
	dirty, err := dirtyBytes()
	if err != nil {
		return held, err
	}
	spare := left - max(d.opts.ReserveMB<<20, leastReserve)
	if near = spare < roomBurst+dirty; !near && !held {
		return false, nil
	}
	disks, err := d.measureDisks()
	free := make([]int64, len(disks))
	for i, g := range disks {
		spare -= g.Owed
		free[i] = g.Free
	}
	allowed := free
	if near {
		allowed = divideRoom(spare, free)
	}
	for i, g := range disks {
		err = errors.Join(err, g.Allow(allowed[i]))
	}
	return near, err
}

// divideRoom divides room among those that want so much each: equal parts, and what
// one does not want is the others'.
func divideRoom(room int64, wants []int64) []int64 {
	parts := make([]int64, len(wants))
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(wants[a], wants[b]) })
	room = max(room, 0)
	for n, i := range order {
		parts[i] = min(wants[i], room/int64(len(order)-n))
		room -= parts[i]
	}
	return parts
}

// dirtyBytes is what the host's kernel has still to write: of that no file system
// may know yet where it will be.
func dirtyBytes() (int64, error) {
	text, err := smallfile.Read("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	var sum int64
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "Dirty:" && fields[0] != "Writeback:" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}

// measureDisks measures the disks and workspaces of living sandboxes, and notes
// those that have had an error.
func (d *Driver) measureDisks() ([]disk.Growth, error) {
	entries, err := os.ReadDir(d.sandboxes)
	if err != nil {
		return nil, err
	}
	var all []disk.Growth
	seen := map[int]bool{}
	failing := map[process]bool{}
	for _, e := range entries {
		s, err := d.readState(runtime.ID(e.Name()))
		if err != nil || s.Stopped || !s.Process.alive(d.bootID) {
			continue
		}
		found, err := d.measure(s)
		if err != nil {
			d.opts.Log.Debug("measure a disk", "sandbox", s.ID, "err", err) // it is being made, or has just ended
			continue
		}
		for _, g := range found {
			if g.Errors && inspect.IsReadOnly("/proc", s.Process.PID, guest.Workspace) {
				failing[s.Process] = true
			} else if !seen[g.Loop] { // a workspace may be in several
				seen[g.Loop] = true
				all = append(all, g)
			}
		}
	}
	d.failing.Store(&failing)
	return all, nil
}

// measure measures what one sandbox can write to.
func (d *Driver) measure(s *state) ([]disk.Growth, error) {
	root, err := openRoot(s.Process.PID)
	if err != nil {
		return nil, err
	}
	defer sys.Close(root)
	workspace, err := sys.Openat2(root, filepath.Base(guest.Workspace), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	defer sys.Close(workspace)
	if s.Spec.Workspace == "" {
		g, err := disk.MeasureGrowth(workspace, d.diskPath(s.ID))
		return []disk.Growth{g}, err
	}
	volume, err := disk.MeasureGrowth(workspace, filepath.Join(d.workspaceDir(s.Spec.Workspace), diskFile))
	if err != nil || s.Spec.ReadonlyRoot { // whose root is no place to measure
		return []disk.Growth{volume}, err
	}
	own, err := disk.MeasureGrowth(root, d.diskPath(s.ID))
	return []disk.Growth{volume, own}, err
}

// isFailing reports whether the disk of a runner's sandbox has had an error, as far
// as was looked.
func (d *Driver) isFailing(p process) bool {
	failing := d.failing.Load()
	return failing != nil && (*failing)[p]
}
