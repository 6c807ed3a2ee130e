package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
)

// maxEvent bounds one server-sent event.
const maxEvent = 4 << 20

type event struct {
	name string
	data []byte
}

// events reads server-sent events until the end of body or the first error.
// Comments (heartbeats), ids and retry times are skipped. An event that the
// end of the body cuts short is dropped, as the standard says.
func events(body io.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
		var e event
		seen := false
		for lines.Scan() {
			line := lines.Bytes()
			if len(line) == 0 {
				if seen && !yield(e, nil) {
					return
				}
				e, seen = event{}, false
				continue
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "event":
				e.name, seen = string(value), true
			case "data":
				if e.data != nil {
					e.data = append(e.data, '\n')
				}
				e.data, seen = append(e.data, value...), true
			}
			if len(e.data) > maxEvent {
				yield(event{}, fmt.Errorf("read stream: an event of more than %d bytes", maxEvent))
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(event{}, fmt.Errorf("read stream: %w", err))
		}
	}
}

// streamError is the error that an event tells.
func streamError(data []byte) error {
	failure := &Error{Status: http.StatusOK}
	if err := json.Unmarshal(data, failure); err != nil {
		return fmt.Errorf("decode error: %w", err)
	}
	return failure
}
