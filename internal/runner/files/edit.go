package files

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/tree"
	"github.com/sandkasten/sandkasten/protocol"
)

// Limits of an edit: of the file, before and after it.
const (
	maxEdited    = 16 << 20
	maxEditedNew = 64 << 20
)

// editTries is how often an edit begins again because something else has replaced the file.
const editTries = 100

// errStale says that a file has been changed since it was read.
var errStale = errors.New("the file was changed")

// Edit replaces text in a file and returns the change as a unified diff. Edits of one
// file happen one after another, and each finds what those before it have made.
func (s *Server) Edit(req protocol.Edit, before, after []byte) (protocol.Edited, []byte, error) {
	switch {
	case len(before) == 0:
		return protocol.Edited{}, nil, protocol.Refuse(protocol.CodeInvalid, "the text to replace must not be empty; to make a file, write it")
	case bytes.Equal(before, after):
		return protocol.Edited{}, nil, protocol.Refuse(protocol.CodeInvalid, "the old text and the new text are the same")
	case req.Count < 0:
		return protocol.Edited{}, nil, protocol.Refuse(protocol.CodeInvalid, "count must not be negative")
	}
	at, err := s.locate(req.Path, reach(req.AllowOutside))
	if err != nil {
		return protocol.Edited{}, nil, err
	}
	s.editing <- struct{}{}
	defer func() { <-s.editing }()
	for try := 1; ; try++ {
		edited, diff, err := s.editOnce(req, at, before, after)
		switch {
		case err == nil:
			return edited, diff, nil
		case !errors.Is(err, errStale):
			return protocol.Edited{}, nil, s.explain(err, req.Path)
		case try == editTries:
			return protocol.Edited{}, nil, changed(req.Path)
		}
	}
}

// editOnce is one try of Edit.
func (s *Server) editOnce(req protocol.Edit, at place, before, after []byte) (protocol.Edited, []byte, error) {
	fd, err := at.open(at.rel, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return protocol.Edited{}, nil, err
	}
	defer tree.Close(fd) // and so lets the next edit of the file go on
	// A program that keeps the lock does not keep others from writing either.
	if err := lockFile(fd); err != nil && !errors.Is(err, errLocked) {
		return protocol.Edited{}, nil, err
	}
	old, was, err := readForEdit(at, fd)
	if err != nil {
		return protocol.Edited{}, nil, err
	}
	n := bytes.Count(old, before)
	if err := checkCount(req, n); err != nil {
		return protocol.Edited{}, nil, err
	}
	if int64(len(old))+int64(n)*int64(len(after)-len(before)) > maxEditedNew {
		return protocol.Edited{}, nil, protocol.Refuse(protocol.CodeTooLarge, "%q would be larger than %d bytes, which is the limit for an edit", req.Path, maxEditedNew)
	}
	edited := bytes.ReplaceAll(old, before, after)
	if err := s.putEdited(at, was, edited); err != nil {
		return protocol.Edited{}, nil, err
	}
	diff, whole := unifiedDiff(req.Path, old, before, after, protocol.MaxPayload)
	return protocol.Edited{Replaced: n, DiffTruncated: !whole}, diff, nil
}

func checkCount(req protocol.Edit, n int) error {
	switch {
	case n == 0:
		return protocol.Refuse(protocol.CodeUnprocessable, "the old text does not occur in %q; nothing was changed", req.Path).Because(protocol.ReasonTextNotFound)
	case req.Count > 0 && n != req.Count:
		return protocol.Refuse(protocol.CodeUnprocessable, "the old text occurs %d times in %q, not %d; nothing was changed. Give more of the text around it, or the right count", n, req.Path, req.Count).Because(protocol.ReasonTextNotUnique)
	}
	return nil
}

// readForEdit reads an open file, if it is small enough to be edited.
func readForEdit(at place, fd int) ([]byte, *unix.Stat_t, error) {
	st, err := statRegular(fd, at.asked)
	if err != nil {
		return nil, nil, err
	}
	if st.Nlink == 0 { // replaced while the lock was waited for
		return nil, nil, errStale
	}
	if st.Size > maxEdited {
		return nil, nil, protocol.Refuse(protocol.CodeTooLarge, "%q has %d bytes; files of at most %d can be edited", at.asked, st.Size, maxEdited)
	}
	b := make([]byte, st.Size)
	for n := 0; n < len(b); {
		m, err := unix.Pread(fd, b[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if m == 0 {
			return nil, nil, errStale
		}
		n += m
	}
	return b, st, nil
}

// putEdited replaces the file, unless it is another one by now.
func (s *Server) putEdited(at place, was *unix.Stat_t, content []byte) error {
	dir, name, err := at.parent()
	if err != nil {
		return err
	}
	defer tree.Close(dir)
	to := target{mode: was.Mode & 0o7777, owner: &[2]uint32{was.Uid, was.Gid}}
	_, err = withTemp(dir, name, to, func(fd int) error {
		if err := receive(fd, bytes.NewReader(content), int64(len(content))); err != nil {
			return err
		}
		var is unix.Stat_t
		if err := unix.Fstatat(dir, name, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if is.Dev != was.Dev || is.Ino != was.Ino || is.Mtim != was.Mtim || is.Size != was.Size {
			return errStale
		}
		return nil
	})
	return err
}

func changed(asked string) error {
	return protocol.Refuse(protocol.CodeUnavailable, "%q was changed by something else meanwhile; read it and try again", asked)
}
