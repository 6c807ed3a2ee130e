package execstream

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// noID is for events that nobody resumes behind.
const noID = ""

// started is the data of the event start.
type started struct {
	ExecID string `json:"exec_id"`
}

// event is the data of the event chunk: an object with the text as chunk,
// chunk_base64 where that cannot say it, stream for the stdout or stderr of a
// process, and when it was sent: timestamp in milliseconds since 1970, and time.
type event struct {
	chunk  []byte
	stream protocol.Stream
	at     time.Time // in UTC
}

// AppendJSON is called for all output there is, so it goes over the chunk once
// and writes it where it is sent from.
func (e event) AppendJSON(b []byte) []byte {
	b, valid := api.AppendJSONString(append(b, `{"chunk":`...), e.chunk)
	if !valid {
		b = base64.StdEncoding.AppendEncode(append(b, `,"chunk_base64":"`...), e.chunk)
		b = append(b, '"')
	}
	if e.stream != protocol.StreamOutput {
		b = append(b, `,"stream":"`+e.stream+`"`...) // one of two words
	}
	b = strconv.AppendInt(append(b, `,"timestamp":`...), e.at.UnixMilli(), 10)
	b = e.at.AppendFormat(append(b, `,"time":"`...), time.RFC3339Nano)
	return append(b, `"}`...)
}

// Place is where a reader of an exec's events is: behind so many bytes of its
// output, or behind its end. As an event's id it is "exec:offset" or "exec:end".
type Place struct {
	Exec   string // "" in the short form, a number
	Offset int64
	Ended  bool
}

const endOfEvents = "end"

// String is the id of an event.
func (p Place) String() string {
	if p.Ended {
		return p.Exec + ":" + endOfEvents
	}
	return p.Exec + ":" + strconv.FormatInt(p.Offset, 10)
}

// ParsePlace reads a Last-Event-ID.
func ParsePlace(id string) (Place, error) {
	if id == "" {
		return Place{}, nil
	}
	exec, rest, long := strings.Cut(id, ":")
	if !long {
		exec, rest = "", id
	}
	if exec != "" && rest == endOfEvents {
		return Place{Exec: exec, Ended: true}, nil
	}
	offset, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || offset < 0 || long && exec == "" {
		return Place{}, errdefs.Invalid("Last-Event-ID", "must be the id of an event of this path")
	}
	return Place{Exec: exec, Offset: offset}, nil
}

// Events turns an exec's output into events. It is a runnerclient.Sink. The id
// of each event has the offset in the raw output from which a stream can go
// on: never inside a control sequence or a character, unless the other stream
// of a process or a gap comes in between.
type Events struct {
	events *api.Events
	plain  *api.Plain   // writes to text; nil for raw output
	text   bytes.Buffer // not sent yet
	at     Place        // of the raw output, behind the last byte written
	last   []byte       // the last few raw bytes
	stream protocol.Stream
	gaps   int64 // raw bytes that were dropped before they could be sent
	err    error // of At
}

// NewEvents returns Events that have not begun.
func NewEvents(raw bool) *Events {
	e := &Events{}
	if !raw {
		e.plain = api.NewPlain(&e.text)
	}
	return e
}

// Begin answers the request and sends the event start. End or Fail must follow.
func (e *Events) Begin(w http.ResponseWriter, at Place) error {
	e.events, e.at = api.StartEvents(w), at
	return e.events.Send("start", at.String(), started{at.Exec})
}

// At is told where the next bytes come from, and sends what waits for more of
// what came before.
func (e *Events) At(stream protocol.Stream, offset int64) {
	if stream == e.stream && offset == e.at.Offset {
		return
	}
	e.err = e.flush()
	e.gaps += max(0, offset-e.at.Offset)
	e.stream, e.at.Offset, e.last = stream, offset, e.last[:0]
}

// Write sends the next bytes of the output as one event.
func (e *Events) Write(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	e.at.Offset += int64(len(p))
	held := int64(0)
	if e.plain != nil {
		if _, err := e.plain.Write(p); err != nil {
			return 0, err
		}
		held = e.plain.Held()
	} else {
		e.text.Write(p)
	}
	e.last = append(e.last, p[max(0, len(p)-utf8.UTFMax):]...)
	e.last = e.last[max(0, len(e.last)-utf8.UTFMax):]
	// A character that is cut here waits for its rest, unless a control
	// sequence follows: no offset would then lie before all that waits.
	cut := api.Unfinished(e.text.Bytes())
	if held > 0 || !bytes.HasSuffix(e.last, e.text.Bytes()[e.text.Len()-cut:]) {
		cut = 0
	}
	if err := e.send(e.text.Len()-cut, held+int64(cut)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send sends the first n bytes of text. So many raw bytes wait behind them.
func (e *Events) send(n int, waiting int64) error {
	if n == 0 {
		return nil
	}
	at := e.at
	at.Offset -= waiting
	return e.events.Send("chunk", at.String(), event{e.text.Next(n), e.stream, time.Now().UTC()})
}

// flush sends what waits.
func (e *Events) flush() error {
	if e.plain != nil {
		if err := e.plain.Flush(); err != nil {
			return err
		}
	}
	return e.send(e.text.Len(), 0)
}

// Missing is how many of the total bytes of an ended exec's output, from where the
// events began, were not sent: they were not kept any more, or a control string without
// an end hides them.
func (e *Events) Missing(total int64) int64 {
	missing := e.gaps + max(0, total-e.at.Offset)
	if e.plain != nil {
		missing += e.plain.Hidden()
	}
	return missing
}

// Begun reports whether the answer has begun.
func (e *Events) Begun() bool { return e.events != nil }

// End sends what is left and the event done, and closes the stream.
func (e *Events) End(done any) error {
	defer e.events.Close()
	if err := e.flush(); err != nil {
		return err
	}
	e.at.Ended = true
	return e.events.Send("done", e.at.String(), done)
}

// Fail sends the event error instead of done, and closes the stream. Its reader
// may come back to where it was.
func (e *Events) Fail(body any) error {
	defer e.events.Close()
	return e.events.Send("error", noID, body)
}
