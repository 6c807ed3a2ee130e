package tree

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// ErrKernelFS says that a directory's files are made up by the kernel: a walk
// does not go into procfs and sysfs.
var ErrKernelFS = errors.New("a file system of the kernel's own")

const (
	// Wide is how many names of one directory a Walk over large trees holds.
	Wide = 64 << 10
	// maxHeld names are held for all directories on the way. Those of the
	// directories above are dropped first and read again later.
	maxHeld = 4 * Wide
)

// Walk goes over all files below a directory, depth first and in the order of
// their names' bytes, so that a walk can be continued behind any of them. What
// is created or removed meanwhile may be seen or not; all else is seen once.
//
// A directory is only gone into by Enter. It comes a second time, as Leave,
// when everything below it has come.
type Walk struct {
	chain  *Chain
	levels []level
	limit  int
	held   int
	buf    []byte // for names
	path   []byte // of the current directory, with a slash at its end
	check  func() error
	at     Entry
}

// level is a directory on the way.
type level struct {
	names
	read  bool   // names are valid
	after string // the last one that came
	path  int    // length of the path of the directory above
}

// Entry is a file as a Walk finds it.
type Entry struct {
	Name  string // in its directory
	Stat  unix.Stat_t
	Leave bool // a directory, after all that is below it; Stat is not set
}

// Type is the file's type, as S_IFDIR.
func (e *Entry) Type() uint32 { return e.Stat.Mode & unix.S_IFMT }

// NewWalk returns a Walk below the directory top, which it owns, also when it
// fails. It reads limit names at a time. Next calls check often and fails with
// its error. The caller closes the Walk.
func NewWalk(top, limit int, check func() error) (*Walk, error) {
	chain, err := NewChain(top)
	if err != nil {
		return nil, err
	}
	return &Walk{chain: chain, levels: []level{{}}, limit: limit, buf: make([]byte, 64<<10), check: check}, nil
}

// Close frees what the Walk holds.
func (w *Walk) Close() { w.chain.Close() }

// Dir is a descriptor of the directory that the last entry is in.
func (w *Walk) Dir() int { return w.chain.Dir() }

// Depth is how many directories are between the top and the last entry.
func (w *Walk) Depth() int { return w.chain.Depth() }

// Path is the last entry's, relative to the top.
func (w *Walk) Path() string { return string(w.path) + w.at.Name }

// PathLen is the length of Path, which costs nothing.
func (w *Walk) PathLen() int { return len(w.path) + len(w.at.Name) }

// Each calls visit for every entry until the end, or its first error.
func (w *Walk) Each(visit func(*Entry) error) error {
	for {
		e, err := w.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(e); err != nil {
			return err
		}
	}
}

// Next returns the next entry, valid until the call after. At the end it
// returns io.EOF.
func (w *Walk) Next() (*Entry, error) {
	for {
		if err := w.check(); err != nil {
			return nil, err
		}
		l := &w.levels[len(w.levels)-1]
		if len(l.list) == 0 && (!l.read || l.rest) {
			if err := w.fill(l); err != nil {
				return nil, err
			}
		}
		if len(l.list) == 0 {
			if len(w.levels) == 1 {
				return nil, io.EOF
			}
			return w.leave()
		}
		w.at = Entry{Name: l.list[0]}
		l.list, l.after = l.list[1:], l.list[0]
		w.held--
		err := unix.Fstatat(w.Dir(), w.at.Name, &w.at.Stat, unix.AT_SYMLINK_NOFOLLOW)
		if err == unix.ENOENT {
			continue
		}
		return &w.at, err
	}
}

func (w *Walk) fill(l *level) error {
	got, err := readNames(w.Dir(), l.after, w.limit, w.buf, w.check)
	if err != nil {
		return err
	}
	l.names, l.read = got, true
	w.held += len(got.list)
	for i := range w.levels[:len(w.levels)-1] {
		if w.held <= maxHeld {
			break
		}
		if up := &w.levels[i]; len(up.list) > 0 {
			w.held -= len(up.list)
			up.list, up.read = nil, false
		}
	}
	return nil
}

func (w *Walk) leave() (*Entry, error) {
	if err := w.chain.Leave(); err != nil {
		return nil, err
	}
	l := w.levels[len(w.levels)-1]
	w.levels = w.levels[:len(w.levels)-1]
	w.at = Entry{Name: w.levels[len(w.levels)-1].after, Leave: true}
	w.path = w.path[:l.path]
	return &w.at, nil
}

// Enter goes into the directory that Next has just returned.
func (w *Walk) Enter() error {
	if err := w.chain.Enter(w.at.Name); err != nil {
		return err
	}
	if kernels, err := madeUp(w.Dir()); kernels || err != nil {
		return errors.Join(ErrKernelFS, err, w.chain.Leave())
	}
	w.levels = append(w.levels, level{path: len(w.path)})
	w.path = append(append(w.path, w.at.Name...), '/')
	return nil
}

// Is reports whether the directory that Next will go on in is the one of st.
func (w *Walk) Is(st *unix.Stat_t) bool { return w.chain.Is(st) }

// madeUp reports whether a directory's files are the kernel's inventions.
func madeUp(dir int) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err != nil {
		return false, err
	}
	return fs.Type == unix.PROC_SUPER_MAGIC || fs.Type == unix.SYSFS_MAGIC, nil
}

// Seek makes a Walk that has just begun go on behind the entry of that path
// and, with deeper, with what is below it first. The path's directories may
// have gone. Bytes that are not UTF-8 may have been replaced in it.
func (w *Walk) Seek(parts []string, deeper func(depth int) bool) error {
	for _, name := range parts {
		if strings.ContainsRune(name, utf8.RuneError) {
			var err error
			if name, err = w.original(name); err != nil {
				return err
			}
		}
		w.levels[len(w.levels)-1].after = name
		w.at = Entry{Name: name}
		err := unix.Fstatat(w.Dir(), name, &w.at.Stat, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil || w.at.Type() != unix.S_IFDIR || !deeper(w.Depth()) {
			return nil // what was below it is no more, or not wanted
		}
		if err := w.Enter(); err != nil {
			return err
		}
	}
	return nil
}

// original returns the last name in the current directory that looks like
// shown when bytes that are not UTF-8 are replaced, or shown if there is none.
func (w *Walk) original(shown string) (string, error) {
	found, batch := shown, names{rest: true}
	for after := ""; batch.rest; {
		var err error
		if batch, err = readNames(w.Dir(), after, w.limit, w.buf, w.check); err != nil {
			return "", err
		}
		for _, name := range batch.list {
			if string([]rune(name)) == shown {
				found = name
			}
			after = name
		}
	}
	return found, nil
}

// TypeName names the kind of file that a mode tells, as protocol.FileInfo does.
func TypeName(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		return "symlink"
	case unix.S_IFIFO:
		return "fifo"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}
