package watch

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

// halfTime is how long the second half of a rename may take, in milliseconds.
const halfTime = 10

// event is one of inotify's.
type event struct {
	dir    *node
	mask   uint32
	cookie uint32
	name   string
}

// Read tells all changes that have happened. It is to be called when FD is
// readable, and now and then, since FD does not tell the end of the top. It fails with emit's error, and
// with a refusal when the top is gone.
func (w *Watcher) Read(emit func(protocol.Change) error) error {
	for {
		n, err := unix.Read(w.fd, w.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			clear(w.scanned) // what they are compared with has all come
			if w.left == nil {
				return w.topGone(emit)
			}
			if !w.readable(halfTime) {
				return w.departed(emit)
			}
			continue
		case err != nil:
			return err
		}
		written := map[string]bool{}
		for buf := w.buf[:n]; len(buf) >= unix.SizeofInotifyEvent; {
			var e event
			if e, buf = w.parse(buf); e.dir == nil && e.mask&unix.IN_Q_OVERFLOW == 0 {
				continue // of a directory that is not watched any more
			}
			if err := w.handle(e, written, emit); err != nil {
				return err
			}
		}
	}
}

// topGone tells that the top was removed. The kernel does not tell that of a
// directory that is open.
func (w *Watcher) topGone(emit func(protocol.Change) error) error {
	var st unix.Stat_t
	if err := unix.Fstat(w.top, &st); err != nil {
		return err
	}
	if st.Nlink > 0 {
		return nil
	}
	return w.gone(emit)
}

func (w *Watcher) gone(emit func(protocol.Change) error) error {
	if err := emit(protocol.Change{Op: "remove", Path: ".", Type: "dir"}); err != nil {
		return err
	}
	return protocol.Refuse(protocol.CodeNotFound, "the watched directory was moved or removed")
}

func (w *Watcher) readable(ms int) bool {
	p := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, ms)
	return err == nil && n > 0
}

// parse takes one struct inotify_event: descriptor, mask, cookie, length, name.
func (w *Watcher) parse(buf []byte) (event, []byte) {
	size := int(binary.NativeEndian.Uint32(buf[12:]))
	name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:][:size], []byte{0})
	return event{
		dir:    w.nodes[int32(binary.NativeEndian.Uint32(buf))],
		mask:   binary.NativeEndian.Uint32(buf[4:]),
		cookie: binary.NativeEndian.Uint32(buf[8:]),
		name:   string(name),
	}, buf[unix.SizeofInotifyEvent+size:]
}

// handle tells one event. Written holds what was told to be written a moment
// ago.
func (w *Watcher) handle(e event, written map[string]bool, emit func(protocol.Change) error) error {
	if w.left != nil && (e.mask&unix.IN_MOVED_TO == 0 || e.cookie != w.left.cookie) {
		if err := w.departed(emit); err != nil {
			return err
		}
	}
	if e.mask&unix.IN_Q_OVERFLOW != 0 {
		return w.overflow(emit)
	}
	if e.name == "" {
		return w.itself(e, emit)
	}
	path := e.dir.path() + e.name
	kind := ""
	if e.mask&unix.IN_ISDIR != 0 {
		kind = "dir"
	}
	switch {
	case e.mask&unix.IN_CREATE != 0:
		if w.scanned[e.dir][e.name] {
			return nil // told when its directory was found
		}
		return w.arrived(e, path, kind, emit)
	case e.mask&unix.IN_MOVED_TO != 0:
		return w.movedTo(e, path, kind, emit)
	case e.mask&unix.IN_MOVED_FROM != 0:
		w.left = &departure{cookie: e.cookie, path: path, kind: kind, dir: e.dir.children[e.name]}
		return nil
	case e.mask&unix.IN_DELETE != 0:
		delete(w.scanned[e.dir], e.name)
		return emit(protocol.Change{Op: "remove", Path: path, Type: kind})
	case e.mask&(unix.IN_MODIFY|unix.IN_CLOSE_WRITE) != 0:
		if written[path] {
			return nil
		}
		written[path] = true
		return emit(protocol.Change{Op: "write", Path: path, Type: kind})
	case e.mask&unix.IN_ATTRIB != 0:
		return emit(protocol.Change{Op: "chmod", Path: path, Type: kind})
	}
	return nil
}

// itself handles what happens to a watched directory and not in it.
func (w *Watcher) itself(e event, emit func(protocol.Change) error) error {
	switch {
	case e.mask&unix.IN_IGNORED != 0 && e.dir != w.root:
		w.drop(e.dir)
	case e.dir == w.root && e.mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0:
		return w.gone(emit)
	case e.dir == w.root && e.mask&unix.IN_ATTRIB != 0:
		return emit(protocol.Change{Op: "chmod", Path: ".", Type: "dir"})
	}
	return nil // the directory above tells it
}

// arrived tells a new file, and of a directory what is in it by now.
func (w *Watcher) arrived(e event, path, kind string, emit func(protocol.Change) error) error {
	if kind == "" {
		kind = w.kind(path)
	}
	if err := emit(protocol.Change{Op: "create", Path: path, Type: kind}); err != nil {
		return err
	}
	if kind != "dir" || !w.recursive {
		return nil
	}
	return w.adopt(e.dir, e.name, emit)
}

// adopt watches a directory that has come, and tells what is in it.
func (w *Watcher) adopt(up *node, name string, emit func(protocol.Change) error) error {
	fd, err := w.open(up.path()+name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return ignoreGone(err)
	}
	n, err := w.add(up, name, fd)
	if err == nil {
		err = w.addBelow(n, emit)
	} else {
		err = ignoreGone(err) // or forbidden: to watch a directory is to read it
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err != nil && tooMany(err) {
		return emit(protocol.Change{Op: "overflow"}) // from here on some are lost
	}
	return err
}

func tooMany(err error) bool {
	e, ok := err.(*protocol.Error) //nolint:errorlint // made here, and never wrapped
	return ok && (e.Code == protocol.CodeTooLarge || e.Code == protocol.CodeExhausted)
}

func (w *Watcher) movedTo(e event, path, kind string, emit func(protocol.Change) error) error {
	from := w.left
	w.left = nil
	if from == nil { // from outside
		return w.arrived(e, path, kind, emit)
	}
	if old := e.dir.children[e.name]; old != nil && old != from.dir {
		w.drop(old) // replaced
	}
	if from.dir != nil {
		w.move(from.dir, e.dir, e.name)
	}
	if kind == "" {
		kind = w.kind(path)
	}
	return emit(protocol.Change{Op: "rename", Path: path, From: from.path, Type: kind})
}

// departed tells that a file was moved out of sight.
func (w *Watcher) departed(emit func(protocol.Change) error) error {
	left := w.left
	w.left = nil
	if left.dir != nil {
		w.drop(left.dir)
	}
	return emit(protocol.Change{Op: "remove", Path: left.path, Type: left.kind})
}

// overflow tells that changes were lost, new directories perhaps among them.
func (w *Watcher) overflow(emit func(protocol.Change) error) error {
	if err := emit(protocol.Change{Op: "overflow"}); err != nil {
		return err
	}
	if !w.recursive {
		return nil
	}
	// Some of these may be gone, which nothing tells any more.
	for _, n := range w.nodes {
		if n != w.root {
			w.drop(n)
		}
	}
	if err := w.addBelow(w.root, nil); err != nil && !tooMany(err) {
		return err
	}
	return nil
}
