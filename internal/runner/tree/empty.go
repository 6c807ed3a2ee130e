package tree

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Empty removes all that is below the directory name in dir. It calls check
// often and ends with its error.
func Empty(dir int, name string, check func() error) error {
	top, err := OpenDir(dir, name)
	if err != nil {
		return err
	}
	w, err := NewWalk(top, Wide, check)
	if err != nil {
		return err
	}
	defer w.Close()
	return w.Each(func(e *Entry) (err error) {
		switch {
		case e.Leave:
			err = unix.Unlinkat(w.Dir(), e.Name, unix.AT_REMOVEDIR)
		case e.Type() == unix.S_IFDIR:
			err = w.Enter()
		default:
			err = unix.Unlinkat(w.Dir(), e.Name, 0)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	})
}
