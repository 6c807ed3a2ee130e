package archive

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Copy copies what is in a directory, which nobody changes meanwhile, to each of
// others, which are empty: as a snapshot would bring it there, and the owner and
// mode of the directory itself.
func Copy(from string, to []string) error {
	for _, target := range to {
		if err := copyTree(from, target); err != nil {
			return fmt.Errorf("copy to %s: %w", target, err)
		}
	}
	return nil
}

func copyTree(from, to string) error {
	source, err := tree.OpenDir(unix.AT_FDCWD, from)
	if err != nil {
		return os.NewSyscallError("open "+from, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		tree.Close(source)
		return os.NewSyscallError("fstat", err)
	}
	target, err := tree.OpenDir(unix.AT_FDCWD, to)
	if err != nil {
		tree.Close(source)
		return os.NewSyscallError("open "+to, err)
	}
	defer tree.Close(target)
	always := func() error { return nil }
	r, w := io.Pipe()
	packed := make(chan error, 1)
	guard.Go(func() {
		err := guard.Try(func() error { return Pack(w, Tar, source, "", Selection{}, always) })
		w.CloseWithError(err)
		packed <- err
	}, func(err error) { packed <- err })
	_, err = Unpack(target, Tar, protocol.SnapshotTree, r, -1, always)
	if err = errors.Join(err, r.Close(), <-packed); err != nil {
		return err
	}
	if err := unix.Fchown(target, int(st.Uid), int(st.Gid)); err != nil {
		return os.NewSyscallError("fchown", err)
	}
	return os.NewSyscallError("fchmod", unix.Fchmod(target, st.Mode&0o3777))
}
