package files

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// room is the most that a full disk has left, in bytes. It is not nothing: the
// page cache takes a large write in pieces of up to 2 MiB, of which ext4 takes all
// or none, so that a program that fills a disk leaves less than the next piece.
const room = 2 << 20

// Full reports whether the file system of the root or that of the workspace has
// no room left for those inside, in bytes or in files. The others are in memory,
// and not looked at.
func (s *Server) Full() bool { return full(s.root) || full(s.inside) }

func full(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && isFull(&fs)
}

// isFull looks only at what a file system counts: some have no blocks, Btrfs no
// maximum of files. One that cannot be written to is not full, though packed ones
// say that nothing is free.
func isFull(fs *unix.Statfs_t) bool {
	if fs.Flags&unix.ST_RDONLY != 0 {
		return false
	}
	unit := max(1, cmp.Or(fs.Frsize, fs.Bsize))
	return fs.Blocks > 0 && fs.Bavail <= uint64(room/unit) || fs.Files > 0 && fs.Ffree == 0
}
