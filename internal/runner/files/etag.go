package files

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// The times of a file are those of a clock that ticks every 1 to 10 ms, and a
// second change in one tick leaves them as they are. So a tag is told when the tick
// of the last change is over: from then on every change of the file gives it
// another. A file that is changed in every tick has a weak tag, which matches
// nothing. Only a program that writes to a mapping of the file can change it without
// its times: they follow when the kernel writes the pages back.

// maxSettle is how long a file may go on to change until its tag is weak: a tick, and
// some more.
const maxSettle = 12 * time.Millisecond

var (
	errChanged = errors.New("the file does not match")
	errLocked  = errors.New("the file is locked")
)

// infoTagged describes an open regular file, with its tag.
func infoTagged(name string, fd int) (protocol.FileInfo, error) {
	st, settled, err := settle(fd)
	if err != nil {
		return protocol.FileInfo{}, err
	}
	i := info(name, &st)
	if i.Tag = tagOf(&st); !settled {
		i.Tag = "W/" + i.Tag
	}
	return i, nil
}

// tagOf names a state of a file. The change time is in it because no program can
// set it, the number because a file can be moved to where another was.
func tagOf(st *unix.Stat_t) string {
	return fmt.Sprintf(`"%x-%x-%x-%x"`, st.Mtim.Nano(), st.Size, st.Ino, st.Ctim.Nano())
}

// settle describes an open file at a time from which on its next change will show.
func settle(fd int) (st unix.Stat_t, settled bool, err error) {
	for end := time.Now().Add(maxSettle); ; pause() {
		var before unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &before); err != nil {
			return st, false, os.NewSyscallError("clock_gettime", err)
		}
		if err := unix.Fstat(fd, &st); err != nil {
			return st, false, err
		}
		if st.Ctim.Nano() < before.Nano() {
			return st, true, nil
		}
		if time.Now().After(end) {
			return st, false, nil
		}
	}
}

// pause is between two looks at a clock or a lock.
func pause() {
	time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel tells nobody that a tick or a lock is over
}

// match returns errChanged unless there is a file with one of the tags.
func (p place) match(tags []string) error {
	fd, err := p.open(p.rel, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return errChanged
	}
	if err != nil {
		return err
	}
	defer tree.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return matchStat(&st, tags)
}

func matchStat(st *unix.Stat_t, tags []string) error {
	if slices.Contains(tags, "*") || slices.Contains(tags, tagOf(st)) {
		return nil
	}
	return errChanged
}

// renameMatched renames temp to name, where a file with one of the tags must be. The
// lock on that file makes it one step among all who come this way, in this sandbox or
// another with the same workspace: the others find another file at the name. Who
// writes without the lock can still come between the look and the rename.
func renameMatched(dir int, temp, name string, tags []string) error {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return errChanged
	}
	if err != nil {
		return err
	}
	defer tree.Close(fd) // and so unlocks it
	if err := lockFile(fd); err != nil {
		return err
	}
	var locked, there unix.Stat_t
	if err := unix.Fstat(fd, &locked); err != nil {
		return err
	}
	if err := unix.Fstatat(dir, name, &there, unix.AT_SYMLINK_NOFOLLOW); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if locked.Dev != there.Dev || locked.Ino != there.Ino {
		return errChanged
	}
	if err := matchStat(&there, tags); err != nil {
		return err
	}
	return unix.Renameat(dir, temp, dir, name)
}

// maxLockWait is how long a program may keep a file that is to be replaced locked.
const maxLockWait = time.Second

func lockFile(fd int) error {
	for end := time.Now().Add(maxLockWait); ; pause() {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		if time.Now().After(end) {
			return errLocked
		}
	}
}
