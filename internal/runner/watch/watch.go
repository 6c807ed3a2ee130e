// Package watch tells what changes below a directory, with inotify. It belongs
// here if it turns the kernel's events into changes; how those travel does not.
package watch

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxDirs is how many directories one Watcher watches.
const maxDirs = 8192

// mask is what is asked of the kernel about a directory.
const mask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE |
	unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// Watcher watches one directory, or also all below it. Its methods must not be
// called concurrently.
type Watcher struct {
	top       int // O_PATH
	fd        int // of inotify
	recursive bool
	check     func() error
	root      *node
	nodes     map[int32]*node // by watch descriptor
	buf       []byte

	left    *departure                // half of a rename
	scanned map[*node]map[string]bool // found in new directories; their events may still come
}

// node is a watched directory.
type node struct {
	wd       int32
	name     string
	up       *node
	children map[string]*node
}

// departure is a file that was moved away, until it is known where to.
type departure struct {
	cookie uint32
	path   string
	kind   string
	dir    *node // if it is watched
}

// New watches the directory top, an O_PATH descriptor that it owns, also when
// it fails. It calls check often while it looks for directories. The caller
// closes the Watcher.
func New(top int, recursive bool, check func() error) (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		tree.Close(top)
		return nil, limits(os.NewSyscallError("inotify_init1", err))
	}
	w := &Watcher{
		top: top, fd: fd, recursive: recursive, check: check, nodes: map[int32]*node{},
		buf: make([]byte, 32<<10), scanned: map[*node]map[string]bool{},
	}
	w.root, err = w.add(nil, "", top)
	if err == nil && recursive {
		err = w.addBelow(w.root, nil)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// FD becomes readable when something changed.
func (w *Watcher) FD() int { return w.fd }

// Close frees what the Watcher holds.
func (w *Watcher) Close() {
	tree.Close(w.fd)
	tree.Close(w.top)
}

// errTooMany ends the search for directories.
var errTooMany = protocol.Refuse(protocol.CodeTooLarge, "there are more than %d directories; watch a part of them", maxDirs)

// limits explains that the sandbox has no watch left.
func limits(err error) error {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENOSPC) {
		return protocol.Refuse(protocol.CodeExhausted, "the sandbox's programs and requests watch as much as they may; end some of that first")
	}
	return err
}

// add watches the open directory dir as up's name. One that is watched already
// is returned, in its new place, without its children.
func (w *Watcher) add(up *node, name string, dir int) (*node, error) {
	wd, err := unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(dir), mask)
	if err != nil {
		return nil, limits(os.NewSyscallError("inotify_add_watch", err))
	}
	if n, ok := w.nodes[int32(wd)]; ok {
		w.move(n, up, name)
		return n, nil
	}
	n := &node{wd: int32(wd), name: name, up: up, children: map[string]*node{}}
	w.nodes[n.wd] = n
	if up != nil {
		up.children[name] = n
	}
	if len(w.nodes) > maxDirs {
		w.drop(n)
		return nil, errTooMany
	}
	return n, nil
}

func (w *Watcher) move(n, up *node, name string) {
	if n.up == nil || up == nil { // the root stays
		return
	}
	for above := up; above != nil; above = above.up {
		if above == n {
			return
		}
	}
	if n.up.children[n.name] == n {
		delete(n.up.children, n.name)
	}
	n.up, n.name = up, name
	up.children[name] = n
}

// drop forgets a directory and all below it.
func (w *Watcher) drop(n *node) {
	for _, c := range n.children {
		w.drop(c)
	}
	if w.nodes[n.wd] == n {
		delete(w.nodes, n.wd)
		if _, err := unix.InotifyRmWatch(w.fd, uint32(n.wd)); err != nil {
			return // the kernel had dropped it by itself
		}
	}
	delete(w.scanned, n)
	if n.up != nil && n.up.children[n.name] == n {
		delete(n.up.children, n.name)
	}
}

// path is a directory's, relative to the top, with a slash at its end, or "".
func (n *node) path() string {
	if n.up == nil {
		return ""
	}
	return n.up.path() + n.name + "/"
}

// addBelow watches what is below n, and calls found for each file there is. A
// directory is watched before it is read, so nothing falls between.
func (w *Watcher) addBelow(n *node, found func(protocol.Change) error) error {
	dir, err := w.open(n.path()+".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return ignoreGone(err)
	}
	walk, err := tree.NewWalk(dir, tree.Wide, w.check)
	if err != nil {
		return err
	}
	defer walk.Close()
	at := n
	for {
		e, err := walk.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case e.Leave:
			at = at.up
			continue
		}
		if found != nil {
			w.noteScanned(at, e.Name)
			if err := found(protocol.Change{Op: "create", Path: at.path() + e.Name, Type: tree.TypeName(e.Stat.Mode)}); err != nil {
				return err
			}
		}
		if e.Type() != unix.S_IFDIR {
			continue
		}
		up, name := at, e.Name
		if err := walk.Enter(); err != nil {
			continue // gone, or forbidden
		}
		if at, err = w.add(up, name, walk.Dir()); err != nil {
			return err
		}
		if at.up != up { // a loop of mounts
			return errTooMany
		}
	}
}

func (w *Watcher) noteScanned(n *node, name string) {
	if w.scanned[n] == nil {
		w.scanned[n] = map[string]bool{}
	}
	w.scanned[n][name] = true
}

// ignoreGone is for directories that do not wait to be watched.
func ignoreGone(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EXDEV:
		return nil
	}
	return err
}

// open opens a path below the top, without following links.
func (w *Watcher) open(rel string, flags uint64) (int, error) {
	how := &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(w.top, rel, how)
		if err == unix.EINTR || err == unix.EAGAIN && try < 100 {
			continue
		}
		return fd, err
	}
}

// kind tells the type of the file at a path, "" if it cannot be told any more.
func (w *Watcher) kind(path string) string {
	fd, err := w.open(path, unix.O_PATH)
	if err != nil {
		return ""
	}
	defer tree.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return ""
	}
	return tree.TypeName(st.Mode)
}
