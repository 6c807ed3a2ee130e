package daemon

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Bounds of what waits for a reader of the log.
const (
	logQueue = 4096            // lines
	logFlush = 2 * time.Second // for what waits when the daemon ends
)

// LogWriter hands lines on to a writer that may be slow or not take any: a pipe
// that nobody reads, or a disk that is full. Who logs never waits for it. What
// does not fit into the queue is counted, and the number written when there is
// room again.
type LogWriter struct {
	w     io.Writer
	lines chan []byte
	done  chan struct{}

	mu     sync.Mutex
	lost   int  // guarded by mu; lines since the last that was queued
	closed bool // guarded by mu
}

// NewLogWriter starts to write to w. The caller closes it.
func NewLogWriter(w io.Writer) *LogWriter {
	l := &LogWriter{w: w, lines: make(chan []byte, logQueue), done: make(chan struct{})}
	go l.run()
	return l
}

func (l *LogWriter) run() {
	defer close(l.done)
	for line := range l.lines {
		// There is nobody to tell of an error.
		_, _ = l.w.Write(line)
	}
}

// Write queues one or more whole lines. It never fails.
func (l *LogWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return len(line), nil
	}
	queued := append([]byte(nil), line...)
	if l.lost > 0 {
		queued = fmt.Appendf(nil, "{\"level\":\"WARN\",\"msg\":\"the log was not taken: lines are missing\",\"lines\":%d}\n%s", l.lost, line)
	}
	select {
	case l.lines <- queued:
		l.lost = 0
	default:
		l.lost++
	}
	return len(line), nil
}

// Close writes what waits, and gives up if that is not taken in two seconds.
func (l *LogWriter) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if !closed {
		close(l.lines)
	}
	select {
	case <-l.done:
		return nil
	case <-time.After(logFlush):
		return fmt.Errorf("the log was not taken within %s: its last lines are missing", logFlush)
	}
}
