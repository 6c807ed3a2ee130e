package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"
)

// logBytes bounds what is shown of the daemon's log after a failure.
const logBytes = 16 << 10

// logTail keeps the end of what is written to it.
type logTail struct {
	mu  sync.Mutex
	end []byte // guarded by mu
	cut bool   // guarded by mu; the beginning is gone
}

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = append(l.end, p...)
	if more := len(l.end) - logBytes; more > 0 {
		l.end, l.cut = slices.Delete(l.end, 0, more), true
	}
	return len(p), nil
}

// contains reports whether the end has text.
func (l *logTail) contains(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.end, []byte(text))
}

// show writes the whole lines of the end for a person to read.
func (l *logTail) show(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.end
	if l.cut {
		_, end, _ = bytes.Cut(end, []byte("\n"))
	}
	if len(end) == 0 {
		end = []byte("(empty)\n")
	}
	fmt.Fprintf(w, "run: the end of the daemon's log:\n%s", end) //nolint:errcheck // there is nowhere else to say it
}
