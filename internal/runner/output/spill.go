package output

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/guard"
)

// Spill copies an output into a file. It is one more reader: nothing is
// dropped that the file has not got, and a slow disk holds the command up as a
// slow client does.
type Spill struct {
	file    io.WriteCloser
	rd      *Reader
	done    chan struct{} // closed when no more is written
	trouble string        // why the file lacks some of the output; valid after done
}

// spillTime is for writing the rest of an output that has ended.
const spillTime = 5 * time.Second

// Spill attaches a file, which is then the Spill's to close. Its Run must be
// called.
func (o *Output) Spill(file io.WriteCloser) *Spill {
	return &Spill{file: file, rd: o.attach(&Reader{file: true}), done: make(chan struct{})}
}

// Run writes until the output ends or nothing more can be written.
func (s *Spill) Run() {
	defer close(s.done)
	defer s.rd.Detach()
	err := guard.Try(s.copy)
	if cerr := s.file.Close(); err == nil {
		err = cerr
	}
	switch {
	case err == nil:
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		s.trouble = "no space left in the sandbox: the file has only the beginning"
	default:
		s.trouble = fmt.Sprintf("the file has only the beginning: %v", err)
	}
}

func (s *Spill) copy() error {
	buf := make([]byte, 32<<10)
	var next int64
	for {
		c, ended := s.rd.Read(buf)
		switch {
		case c.Bytes > 0 && c.Offset > next:
			return errors.New("the output came faster than it could be written while the command was stopped")
		case c.Bytes > 0:
			if _, err := s.file.Write(buf[:c.Bytes]); err != nil {
				return err
			}
			next = c.Offset + int64(c.Bytes)
		case ended:
			return nil
		default:
			<-s.rd.Wake // the end of the output at the latest
		}
	}
}

// Wait returns when everything is in the file, or what is the matter with it.
// A Spill that is nil has no file.
func (s *Spill) Wait() (trouble string) {
	if s == nil {
		return ""
	}
	timer := time.NewTimer(spillTime)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.trouble
	case <-timer.C:
		return "the disk is too slow: the file is still being written"
	}
}
