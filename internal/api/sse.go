package api

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// Heartbeat is the time between signs of life while nothing happens.
const Heartbeat = 15 * time.Second

// Events writes server-sent events. A client that does not take an event
// within WriteTimeout has lost the stream: every later Send fails too.
type Events struct {
	control *http.ResponseController

	mu  sync.Mutex
	w   http.ResponseWriter // guarded by mu
	buf []byte              // guarded by mu; kept for the next event
	err error               // guarded by mu; the first failure

	stop chan struct{}
	done sync.WaitGroup
}

// StartEvents answers with status 200 and begins a stream. Until Close it
// sends a comment every Heartbeat, so that nobody between here and the client
// takes a quiet command for a dead connection.
func StartEvents(w http.ResponseWriter) *Events {
	e := &Events{control: http.NewResponseController(w), w: w, stop: make(chan struct{})}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	e.err = e.flush() // nobody else has e yet
	e.done.Go(e.beat)
	return e
}

// Close ends the heartbeats. The caller's handler then returns.
func (e *Events) Close() {
	close(e.stop)
	e.done.Wait()
}

// Send writes one event with data as JSON. An empty id is left out; none may
// have a newline.
func (e *Events) Send(name, id string, data any) error {
	return e.send(name, id, func(b []byte) ([]byte, error) { return appendJSON(b, data) })
}

// SendText is Send of data that EventText has made.
func (e *Events) SendText(name, id string, data []byte) error {
	return e.send(name, id, func(b []byte) ([]byte, error) { return append(b, data...), nil })
}

// EventText is data as Send writes it.
func EventText(data any) ([]byte, error) { return appendJSON(nil, data) }

// Mark tells the client another id to resume from, without an event.
func (e *Events) Mark(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.buf = append(e.buf[:0], "id: "+id+"\n\n"...)
		e.err = e.flush()
	}
	return e.err
}

func (e *Events) send(name, id string, appendData func([]byte) ([]byte, error)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	b := append(e.buf[:0], "event: "+name+"\n"...)
	if id != "" {
		b = append(b, "id: "+id+"\n"...)
	}
	b, err := appendData(append(b, "data: "...)) // one line: JSON escapes newlines in strings
	if err != nil {
		return err
	}
	if protection.Off(protection.EventLines) {
		b = bytes.ReplaceAll(b, []byte(`\n`), []byte("\n"))
	}
	e.buf = append(b, "\n\n"...)
	e.err = e.flush()
	return e.err
}

// beat runs until Close.
func (e *Events) beat() {
	ticker := time.NewTicker(Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
		}
		e.mu.Lock()
		if e.err == nil {
			e.buf = append(e.buf[:0], ": still here\n\n"...)
			e.err = e.flush()
		}
		e.mu.Unlock()
	}
}

// flush sends what is in buf. The caller holds mu.
func (e *Events) flush() error {
	if err := e.control.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
		return err
	}
	if _, err := e.w.Write(e.buf); err != nil {
		return err
	}
	return e.control.Flush()
}
