package pipe

import (
	"errors"
	"io"
	"os"
	"time"
)

// Input is the open stdin of a program or of a shell's command: the writing end of
// a pipe, or a terminal.
type Input struct {
	file *os.File
	turn chan struct{} // holds a token while nobody writes
}

// NewInput makes file, which the Go runtime polls, an Input's own.
func NewInput(file *os.File) *Input {
	in := &Input{file: file, turn: make(chan struct{}, 1)}
	in.turn <- struct{}{}
	return in
}

// Hold takes the turn of an Input that nobody else knows yet.
func (in *Input) Hold() { <-in.turn }

// wantedCheck is how often somebody who waits is asked whether that is still wanted.
const wantedCheck = time.Second

// untilNext is the time to the next such question.
func untilNext(until time.Time) time.Duration { return max(0, min(wantedCheck, time.Until(until))) }

// Take waits for the other writers until a time, as long as wanted says so.
// The turn must be given back.
func (in *Input) Take(until time.Time, wanted func() bool) bool {
	timer := time.NewTimer(untilNext(until))
	defer timer.Stop()
	for {
		select {
		case <-in.turn:
			return true
		case now := <-timer.C:
			if !now.Before(until) || !wanted() {
				return false
			}
			timer.Reset(untilNext(until))
		}
	}
}

// Give gives the turn back.
func (in *Input) Give() { in.turn <- struct{}{} }

// Feed writes the stdin that came with the request, and then closes, if it is
// all that there is. The turn is taken already.
func (in *Input) Feed(b []byte, last bool) {
	defer in.Give()
	if err := in.file.SetWriteDeadline(time.Time{}); err != nil {
		return // closed: the program has ended
	}
	if _, err := in.file.Write(b); err != nil {
		return // it does not want it
	}
	if last {
		in.Close()
	}
}

// Copy writes what src has until a time, as long as wanted says so. It returns
// how much was written: all of it if err is nil.
func (in *Input) Copy(src io.Reader, until time.Time, wanted func() bool) (written int64, err error) {
	buf := make([]byte, 4<<10)
	for {
		n, rerr := src.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			if err := in.file.SetWriteDeadline(earlier(until, time.Now().Add(wantedCheck))); err != nil {
				return written, err
			}
			m, err := in.file.Write(b)
			written, b = written+int64(m), b[m:]
			if err == nil {
				continue
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(until) || !wanted() {
				return written, err
			}
		}
		if errors.Is(rerr, io.EOF) {
			return written, nil
		}
		if rerr != nil {
			return written, rerr
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Close is the end of file, or after the program's end nothing.
func (in *Input) Close() {
	if err := in.file.Close(); err != nil {
		return // it is closed already
	}
}
