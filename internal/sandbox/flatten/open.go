package flatten

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a regular file of the tree that the layers make together. It
// follows no link: where there is one on the way, the error is fs.ErrNotExist as
// well. The caller closes the file.
func Open(layers []string, name string) (*os.File, error) {
	f := &flattening{layers: layers}
	stack := make([]int, len(layers))
	for i := range stack {
		stack[i] = i
	}
	missing := &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	parts := strings.Split(name, "/")
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		top, shown, err := f.find(at, stack)
		switch {
		case err != nil:
			return nil, err
		case len(shown) == 0:
			return nil, missing
		case i == len(parts)-1 && top.Mode().IsRegular():
			return os.OpenFile(f.path(shown[0], at), os.O_RDONLY|unix.O_NOFOLLOW, 0)
		case i == len(parts)-1 || !top.IsDir():
			return nil, missing
		}
		stack = shown
	}
	return nil, missing
}

// find is look for one name: what the top layer has there, and the layers that
// are seen of it. There are none where a layer says that it is deleted.
func (f *flattening) find(name string, stack []int) (top fs.FileInfo, shown []int, err error) {
	for _, layer := range stack {
		info, err := os.Lstat(f.path(layer, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		d := fs.FileInfoToDirEntry(info)
		if top == nil {
			top = info
			if hidden, err := whiteout(d); err != nil || hidden {
				return nil, nil, err
			}
		} else if !d.IsDir() {
			return top, shown, nil
		}
		shown = append(shown, layer)
		if closed, err := f.opaque(layer, name, d); err != nil || closed {
			return top, shown, err
		}
	}
	return top, shown, nil
}
