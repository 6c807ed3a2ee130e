package runner

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/output"
)

// spill copies an exec's output into a file of the sandbox. It is one more
// reader: nothing is dropped that the file has not got, and a slow disk holds
// the command up as a slow client does.
type spill struct {
	file    *os.File
	rd      *output.Reader
	done    chan struct{} // closed when no more is written
	trouble string        // why the file lacks some of the output; valid after done
}

// spillTime is for writing the rest of an output that has ended.
const spillTime = 5 * time.Second

// spill opens the output file that the request asks for, if it does and that
// has not been done yet.
func (r *Runner) spill(e *exec) error {
	if e.req.OutputFile == "" || e.file != nil {
		return nil
	}
	f, err := r.files.Create(e.req.OutputFile, e.req.AllowOutside)
	if err != nil {
		return err
	}
	e.file = &spill{file: f, rd: e.out.AttachFile(), done: make(chan struct{})}
	r.wg.Go(e.file.run)
	return nil
}

// run writes until the output ends or nothing more can be written.
func (s *spill) run() {
	defer close(s.done)
	defer s.rd.Detach()
	err := s.copy()
	if cerr := s.file.Close(); err == nil {
		err = cerr
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		s.trouble = "no space left in the sandbox: the file has only the beginning"
	default:
		s.trouble = fmt.Sprintf("the file has only the beginning: %v", err)
	}
}

func (s *spill) copy() error {
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

// wait returns when everything is in the file, or what is the matter with it.
// A spill that is nil has no file.
func (s *spill) wait() (trouble string) {
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
