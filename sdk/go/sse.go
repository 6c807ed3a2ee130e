package sandkasten

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// maxEvent bounds one server-sent event.
const maxEvent = 32 << 20

// event is one server-sent event.
type event struct {
	name string
	id   string
	data []byte
}

func (e event) decode(out any) error {
	if err := json.Unmarshal(e.data, out); err != nil {
		return fmt.Errorf("the event %q is not Sandkasten's: %w", e.name, err)
	}
	return nil
}

var (
	errStreamEnded  = errors.New("the stream ended early")
	errStreamSilent = errors.New("the stream fell silent")
)

// events sends a request and gives the events that answer it. The last element is
// an error, of the end of the answer too, unless the caller has left before.
func (c *Client) events(ctx context.Context, r request) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		inner, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		resp, err := c.open(inner, r)
		if err != nil {
			yield(event{}, err)
			return
		}
		defer resp.Body.Close()
		if r.opened != nil {
			r.opened()
		}
		timer := time.AfterFunc(c.silence, func() { cancel(errStreamSilent) })
		defer timer.Stop()
		left, err := readEvents(&watched{resp.Body, timer, c}, yield)
		if left {
			return
		}
		if err == nil {
			err = errStreamEnded
		} else if cause := context.Cause(inner); cause != nil {
			err = cause
		}
		yield(event{}, c.broken(ctx, r, err))
	}
}

// watched is a reader whose timer runs while it waits for bytes.
type watched struct {
	io.Reader

	timer  *time.Timer
	client *Client
}

// Read reads, against the clock.
func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.client.silence)
	defer w.timer.Stop()
	return w.Reader.Read(p)
}

// readEvents reads to the end of body or until yield wants no more. An event that
// the end cuts short is dropped, as the standard says.
func readEvents(body io.Reader, yield func(event, error) bool) (left bool, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var e event
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			// One without a name only tells another id to resume from.
			if (e.name != "" || e.id != "") && !yield(e, nil) {
				return true, nil
			}
			e = event{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "id":
			e.id = string(value)
		case "data": // ours has one line
			e.data = append(e.data, value...)
		}
	}
	return false, lines.Err()
}
