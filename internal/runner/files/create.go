package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Create makes an empty file, in the place of one that is there, for a writer
// that takes its time. The rules for the path are those of Write. The caller
// closes the file.
func (s *Server) Create(path string, allowOutside bool) (*os.File, error) {
	at, err := s.locate(path, reach(allowOutside))
	if err != nil {
		return nil, err
	}
	if path[len(path)-1] == '/' {
		return nil, protocol.Refuse(protocol.CodeInvalid, "path must not end with a slash: it names a file").Because(protocol.ReasonIsADirectory)
	}
	dir, name, err := at.parent()
	if err != nil {
		return nil, s.explain(err, path)
	}
	defer tree.Close(dir)
	f, err := createEmpty(dir, name, protocol.Write{Path: path})
	if err != nil {
		return nil, s.explain(err, path)
	}
	return f, nil
}

// createEmpty puts a new file into the place of name.
func createEmpty(dir int, name string, req protocol.Write) (*os.File, error) {
	to, err := targetOf(dir, name, req)
	if err != nil {
		return nil, err
	}
	temp, fd, err := createTemp(dir)
	if err != nil {
		return nil, err
	}
	if err = to.apply(fd); err == nil {
		err = to.rename(dir, temp, name)
	}
	if err != nil {
		tree.Close(fd)
		return nil, errors.Join(err, unix.Unlinkat(dir, temp, 0))
	}
	return os.NewFile(uintptr(fd), name), nil
}
