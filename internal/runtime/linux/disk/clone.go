package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrBusy means that a disk was being written to all the time.
var ErrBusy = errors.New("the disk is being written to")

// snapshotAttempts is how often Snapshot looks for a moment of rest.
const snapshotAttempts = 20

// Snapshot is Clone of the image of a disk that is mounted: the copy is the
// file system as it was at one moment of the call, and whole. fd is an open
// directory on the disk. Who else writes to it should stand still, for a
// moment without a write is needed: ErrBusy says that there was none.
//
// The file system is not frozen, since somebody in it can hold that up for as
// long as he likes, and nobody could end the daemon meanwhile. Instead all is
// written out twice. If the second time found nothing, the image is all there
// is; and if nothing was written until the copy was made, the copy is too.
func Snapshot(ctx context.Context, fd int, from, to string, room Room) (copied bool, err error) {
	loop, err := loopOf(fd, from)
	if err != nil {
		return false, fmt.Errorf("find the device of %s: %w", from, err)
	}
	for range snapshotAttempts {
		if err := unix.Syncfs(fd); err != nil {
			return false, os.NewSyscallError("syncfs", err)
		}
		before, err := countWrites(loop)
		if err != nil {
			return false, err
		}
		if err := unix.Syncfs(fd); err != nil {
			return false, os.NewSyscallError("syncfs", err)
		}
		copied, err := cloneAtRest(ctx, loop, before, from, to, room)
		if !errors.Is(err, ErrBusy) {
			return copied, err
		}
	}
	return false, ErrBusy
}

// cloneAtRest clones an image unless its device is written to.
func cloneAtRest(ctx context.Context, loop int, before, from, to string, room Room) (copied bool, err error) {
	rests := func() error {
		now, err := countWrites(loop)
		if err == nil && now != before {
			err = ErrBusy
		}
		return err
	}
	if err := rests(); err != nil {
		return false, err
	}
	if copied, err = Clone(ctx, from, to, room); err != nil {
		return false, err
	}
	if err := rests(); err != nil {
		return false, errors.Join(err, os.Remove(to))
	}
	return copied, nil
}

// countWrites returns what changes with every write to a loop device: how much was
// written and discarded, and how many requests are on their way.
func countWrites(loop int) (string, error) {
	b, err := os.ReadFile("/sys/block/loop" + strconv.Itoa(loop) + "/stat")
	if err != nil {
		return "", err
	}
	const written, inFlight, discarded = 6, 8, 13 // as in Documentation/block/stat.rst
	f := strings.Fields(string(b))
	if len(f) <= discarded {
		return "", fmt.Errorf("the statistics of loop%d are malformed", loop)
	}
	return f[written] + " " + f[inFlight] + " " + f[discarded], nil
}

// Room refuses a copy of so many bytes that there is no space for. Whoever runs
// into the end of a file system takes others with him.
type Room func(bytes int64) error

// Clone copies an image that nobody writes to, to a file that must not exist.
// Where the file system can share data between files (XFS, Btrfs) it does, and
// else asks room and copies what is not a hole; copied says so. When it fails
// there is no copy.
func Clone(ctx context.Context, from, to string, room Room) (copied bool, err error) {
	src, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	err = unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) {
		copied, err = true, copyData(ctx, dst, src, room)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return false, errors.Join(fmt.Errorf("clone %s: %w", from, err), os.Remove(to))
	}
	return copied, nil
}

// copyChunk is how much is copied between two looks at the context.
const copyChunk = 64 << 20

// copyData copies a file without its holes.
func copyData(ctx context.Context, dst, src *os.File, room Room) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(src.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	const block = 512 // of st_blocks, whatever the file system's
	if err := room(st.Blocks * block); err != nil {
		return err
	}
	if err := dst.Truncate(st.Size); err != nil {
		return err
	}
	return eachExtent(int(src.Fd()), func(start, end int64) error {
		for start < end {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(end-start, copyChunk)
			if _, err := dst.Seek(start, io.SeekStart); err != nil {
				return err
			}
			if _, err := src.Seek(start, io.SeekStart); err != nil {
				return err
			}
			if _, err := io.CopyN(dst, src, n); err != nil {
				return err
			}
			start += n
		}
		return nil
	})
}
