package files

import (
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/watch"
	"github.com/sandkasten/sandkasten/protocol"
)

// Watch begins to watch a directory. The caller closes the Watcher.
func (s *Server) Watch(req protocol.Watch, check Check) (*watch.Watcher, error) {
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return nil, err
	}
	fd, err := at.open(at.rel, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, s.explain(err, req.Path)
	}
	w, err := watch.New(fd, req.Recursive, check)
	return w, s.explain(err, req.Path)
}
