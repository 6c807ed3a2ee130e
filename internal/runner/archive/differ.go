package archive

import (
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/baseline"
	"github.com/sandkasten/sandkasten/internal/runner/tree"
)

// Baseline is what a directory was made of, where no upper directory tells what
// has changed.
type Baseline struct {
	List io.Reader // as package baseline writes it
	// Taken is a time, by the clock that inodes have, after the directory was
	// made and before anybody could change it. Nobody can set back the time of an
	// inode's change, so what it says has changed may look as it did before.
	Taken unix.Timespec
}

// PackChanges is Pack of what of the directory fd differs from a baseline: as a
// layer on it, with whiteouts for what is gone. It does not go into what is
// mounted below.
func PackChanges(out io.Writer, f Format, fd int, base Baseline, which Selection, check func() error) error {
	was, err := baseline.NewReader(base.List)
	if err != nil {
		tree.Close(fd)
		return err
	}
	a, top, err := begin(out, f, fd)
	if err != nil {
		return err
	}
	which.Layer = true
	d := &differ{
		packer: packer{writer: a, which: which, check: check, buf: make([]byte, copyBuffer)},
		was:    was, taken: base.Taken, device: top.Dev,
	}
	if err := d.run(fd); err != nil {
		return err
	}
	return a.close()
}

// differ is one PackChanges under way. It goes over the directory and the
// baseline at once, which have the same order.
type differ struct {
	packer
	was    *baseline.Reader
	taken  unix.Timespec
	device uint64

	next  *baseline.Entry // of the baseline, the first that the walk has not passed
	ended bool            // there is no next
	under string          // nothing of the baseline below it counts; "" is nothing
	above []dirHeader     // directories on the way that have not changed and are not packed yet
}

// dirHeader is what is packed of a directory.
type dirHeader struct {
	path string
	stat unix.Stat_t
}

func (d *differ) run(fd int) error {
	w, err := tree.NewWalk(fd, tree.Wide, d.check)
	if err != nil {
		return err
	}
	defer w.Close()
	err = w.Each(func(e *tree.Entry) error {
		if e.Leave {
			return d.leave(w.Path())
		}
		return d.visit(w, e)
	})
	if err != nil {
		return err
	}
	return d.pass(func(string) bool { return true })
}

// leave is the end of a directory: what the baseline has more of it is gone.
func (d *differ) leave(dir string) error {
	if err := d.pass(func(path string) bool { return strings.HasPrefix(path, dir+"/") }); err != nil {
		return err
	}
	if n := len(d.above); n > 0 && d.above[n-1].path == dir {
		d.above = d.above[:n-1]
	}
	return nil
}

func (d *differ) visit(w *tree.Walk, e *tree.Entry) error {
	if err := checkPathLen(w); err != nil {
		return err
	}
	path := w.Path()
	if err := d.pass(func(was string) bool { return baseline.Before(was, path) }); err != nil {
		return err
	}
	changed := d.changed(path, &e.Stat)
	isDir := e.Type() == unix.S_IFDIR
	switch {
	case !d.which.selects(w, e), isDir && e.Stat.Dev != d.device:
		d.under = path
		return nil
	case !isDir:
		d.under = path // it may have been a directory
	}
	if isDir && !changed {
		d.above = append(d.above, dirHeader{path, e.Stat})
		if err := w.Enter(); !errors.Is(err, tree.ErrKernelFS) {
			return err
		}
		d.under = path
		return nil
	}
	if !changed {
		return nil
	}
	if err := d.headers(); err != nil {
		return err
	}
	return d.entry(w, e)
}

// pass goes over the baseline as far as behind holds of its paths, which are
// gone.
func (d *differ) pass(behind func(path string) bool) error {
	for {
		e, err := d.peek()
		if e == nil || err != nil || !behind(e.Path) {
			return err
		}
		d.next = nil
		if d.under != "" && strings.HasPrefix(e.Path, d.under+"/") || !d.which.picks(e.Path) {
			continue
		}
		if err := d.headers(); err != nil {
			return err
		}
		dir, name := e.Path[:strings.LastIndexByte(e.Path, '/')+1], e.Path[strings.LastIndexByte(e.Path, '/')+1:]
		if err := d.whiteout(dir + whiteoutPrefix + name); err != nil {
			return err
		}
		d.under = e.Path
	}
}

// changed reports whether the file of that path is not the baseline's.
func (d *differ) changed(path string, now *unix.Stat_t) bool {
	e, err := d.peek()
	if err != nil || e == nil || e.Path != path {
		return true // an error comes again
	}
	d.next = nil
	switch {
	case now.Ctim.Sec > d.taken.Sec, now.Ctim.Sec == d.taken.Sec && now.Ctim.Nsec > d.taken.Nsec:
		return true
	case e.Mode != now.Mode, e.UID != now.Uid, e.GID != now.Gid:
		return true
	case now.Mode&unix.S_IFMT == unix.S_IFREG:
		return e.Size != now.Size || e.MTime != now.Mtim.Sec
	}
	return false
}

// peek returns the baseline's next entry, or nil at its end.
func (d *differ) peek() (*baseline.Entry, error) {
	if d.next != nil || d.ended {
		return d.next, nil
	}
	e, err := d.was.Next()
	if errors.Is(err, io.EOF) {
		d.ended = true
		return nil, nil //nolint:nilnil // the end is no error
	}
	if err != nil {
		return nil, err
	}
	d.next = &e
	return d.next, nil
}

// headers packs the directories above what comes next.
func (d *differ) headers() error {
	for _, dir := range d.above {
		if err := d.header(dir.path+"/", &dir.stat, ""); err != nil {
			return err
		}
	}
	d.above = d.above[:0]
	return nil
}
