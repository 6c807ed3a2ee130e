package sandkasten

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// source is a caller's reader that is to be sent.
type source struct {
	kind   string // its Content-Type
	size   int64
	reader io.Reader
	seeker io.Seeker // the reader, or nil if it cannot be sent a second time
	start  int64     // where the content begins in seeker
}

// newSource finds out how much there is to read, unless size, which is not zero,
// says it.
func newSource(kind string, content io.Reader, size int64) (*source, error) {
	s := &source{kind: kind, size: size, reader: content}
	if seeker, ok := content.(io.Seeker); ok {
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil { // a pipe is a file that cannot seek
			s.seeker, s.start = seeker, start
		}
	}
	if size != 0 {
		return s, nil
	}
	if s.seeker != nil {
		end, err := s.seeker.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, fmt.Errorf("find the size of the content: %w", err)
		}
		s.size = end - s.start
		return s, s.rewind()
	}
	if buffer, ok := content.(interface{ Len() int }); ok {
		s.size = int64(buffer.Len())
		return s, nil
	}
	return nil, fmt.Errorf("the size of a %T is not known: set Size in the options", content)
}

// rewind makes the content ready to be sent again.
func (s *source) rewind() error {
	if s == nil {
		return nil
	}
	_, err := s.seeker.Seek(s.start, io.SeekStart)
	return err
}

// sending is a source as the body of one request. The HTTP client may go on
// reading a body when it has answered already; not behind Close.
type sending struct {
	mu     sync.Mutex
	reader io.Reader // guarded by mu
	closed bool      // guarded by mu
}

// Read reads the source.
func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errors.New("the request has ended")
	}
	return s.reader.Read(p)
}

// Close ends the reading; the reader itself stays the caller's.
func (s *sending) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
