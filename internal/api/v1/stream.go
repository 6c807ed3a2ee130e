package v1

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/session"
)

// noID is for events that nobody resumes behind.
const noID = -1

// started is the data of the event start.
type started struct {
	ExecID string `json:"exec_id"`
}

// chunk is the data of the event chunk.
type chunk struct {
	Chunk       string    `json:"chunk"`
	ChunkBase64 string    `json:"chunk_base64,omitempty"` // where Chunk cannot say it
	Timestamp   time.Time `json:"timestamp"`
}

// done is the data of the event done.
type done struct {
	End
	DroppedBytes int64 `json:"dropped_bytes"` // not kept for a reader that came late
}

func (s *surface) execStream(ctx context.Context, in *execInput) (*huma.StreamResponse, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	return streaming(func(w http.ResponseWriter, r *http.Request) {
		out := &chunks{}
		if !in.Body.RawOutput {
			out.plain = api.NewPlain(&out.text)
		}
		req := in.Body.request()
		req.Started = func(execID string) {
			out.events = api.StartEvents(w)
			// If it fails, so does the first chunk, which ends the stream.
			if err := out.events.Send("start", noID, started{execID}); err != nil {
				api.Failed(ctx, err)
			}
		}
		result, err := s.manager.Exec(ctx, id, req, out)
		if out.events == nil { // the command was refused
			api.WriteError(w, r, err)
			return
		}
		if err == nil {
			s.metrics.ran(result)
		}
		out.end(ctx, result, err)
	}), nil
}

type attachInput struct {
	ExecPath
	LastEventID int64 `header:"Last-Event-ID" minimum:"0" maximum:"9007199254740991" doc:"The id of the last event that arrived."`
	RawOutput   bool  `query:"raw_output" doc:"Leave the output as it is; see exec."`
}

func (s *surface) attachStream(ctx context.Context, in *attachInput) (*huma.StreamResponse, error) {
	id, record, err := s.findExec(ctx, in.ExecPath)
	if err != nil {
		return nil, err
	}
	return streaming(func(w http.ResponseWriter, _ *http.Request) {
		out := &chunks{events: api.StartEvents(w), offset: in.LastEventID}
		if !in.RawOutput {
			out.plain = api.NewPlain(&out.text)
		}
		err := out.events.Send("start", noID, started{record.ID})
		if err == nil {
			record, err = s.manager.Attach(ctx, id, in.ExecID, in.LastEventID, out)
		}
		out.end(ctx, record, err)
	}), nil
}

// chunks turns a command's output into events. The id of each is the offset
// in the raw output from which a stream can go on: never inside a control
// sequence or a character.
type chunks struct {
	events *api.Events
	plain  *api.Plain   // writes to text; nil for raw output
	text   bytes.Buffer // not sent yet
	offset int64        // of the raw output, behind the last byte written
	last   []byte       // the last few raw bytes
}

// Write sends the next bytes of the output as one event.
func (c *chunks) Write(p []byte) (int, error) {
	c.offset += int64(len(p))
	held := int64(0)
	if c.plain != nil {
		if _, err := c.plain.Write(p); err != nil {
			return 0, err
		}
		held = c.plain.Held()
	} else {
		c.text.Write(p)
	}
	c.last = append(c.last, p[max(0, len(p)-utf8.UTFMax):]...)
	c.last = c.last[max(0, len(c.last)-utf8.UTFMax):]
	// A character that is cut here waits for its rest, unless a control
	// sequence follows: no offset would then lie before all that waits.
	cut := api.Unfinished(c.text.Bytes())
	if held > 0 || !bytes.HasSuffix(c.last, c.text.Bytes()[c.text.Len()-cut:]) {
		cut = 0
	}
	if err := c.send(c.text.Len()-cut, c.offset-held-int64(cut)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Skip is told where output is missing, before what comes behind the gap.
func (c *chunks) Skip(n int64) { c.offset += n }

// send sends the first n bytes of text.
func (c *chunks) send(n int, id int64) error {
	if n == 0 {
		return nil
	}
	text := c.text.Next(n)
	data := chunk{Timestamp: time.Now().UTC()}
	if utf8.Valid(text) {
		data.Chunk = string(text)
	} else {
		data.Chunk = strings.ToValidUTF8(string(text), "\uFFFD")
		data.ChunkBase64 = base64.StdEncoding.EncodeToString(text)
	}
	return c.events.Send("chunk", id, data)
}

// end sends what is left and the last event, and closes the stream.
func (c *chunks) end(ctx context.Context, result session.ExecResult, err error) {
	defer c.events.Close()
	if err == nil && c.plain != nil {
		err = c.plain.Flush()
	}
	if err == nil {
		err = c.send(c.text.Len(), c.offset)
	}
	if err == nil {
		err = c.events.Send("done", noID, done{End: endOf(result), DroppedBytes: result.DroppedBytes})
	} else {
		body, _ := api.Describe(ctx, err)
		err = c.events.Send("error", noID, body)
	}
	if err != nil { // the client is gone
		api.Failed(ctx, err)
	}
}
