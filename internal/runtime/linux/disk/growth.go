package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Growth is what a mounted image can still come to take of its host.
type Growth struct {
	Loop   int   // the number of its device
	Free   int64 // bytes that nothing is in, whoever may have them
	Owed   int64 // bytes that something is in and that the host has not given yet
	Errors bool  // it has had some, in this mount or in an earlier one

	block, blocks int64
}

// MeasureGrowth measures the image at path by an open directory in its file
// system, or in an overlay on it.
func MeasureGrowth(dir int, path string) (g Growth, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return g, os.NewSyscallError("fstatfs", err)
	}
	var image unix.Stat_t
	if err := unix.Stat(path, &image); err != nil {
		return g, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	g = Growth{Free: int64(st.Bfree) * st.Bsize, block: st.Bsize, blocks: int64(st.Blocks)}
	const sector = 512 // of st_blocks
	g.Owed = max(0, int64(st.Blocks-st.Bfree)*st.Bsize-image.Blocks*sector)
	if g.Loop, err = loopOf(dir, path); err != nil { // an overlay has no device of its own
		if g.Loop, err = deviceNumber(path); err != nil {
			return g, err
		}
	}
	count, err := os.ReadFile(g.file("errors_count"))
	g.Errors = err == nil && strings.TrimSpace(string(count)) != "0" // or it has just been unmounted
	return g, nil
}

// file is what the kernel shows of the file system by name.
func (g Growth) file(name string) string {
	return filepath.Join("/sys/fs/ext4", filepath.Base(loopName(g.Loop)), name)
}

func deviceNumber(path string) (int, error) {
	fd, dev, err := device(path)
	if err != nil {
		return -1, err
	}
	if fd < 0 {
		return -1, &os.PathError{Op: "find the loop device of", Path: path, Err: fs.ErrNotExist}
	}
	sys.Close(fd)
	return strconv.Atoi(dev[len(loopPrefix):])
}

// Allow lets programs take so many more bytes of the file system, and no more. What
// is beyond they find full, as at its end. From Free on it is as it was made.
func (g Growth) Allow(bytes int64) error {
	// The kernel keeps that many blocks back from everybody. These are its own.
	const least, part = 4096, 50
	kept := max((g.Free-max(bytes, 0))/g.block, min(least, g.blocks/part))
	err := os.WriteFile(g.file("reserved_clusters"), []byte(strconv.FormatInt(min(kept, g.blocks-1), 10)), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has just been unmounted
	}
	if err != nil {
		return fmt.Errorf("bound what a disk can grow by: %w", err)
	}
	return nil
}
