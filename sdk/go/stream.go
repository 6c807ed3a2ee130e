package sandkasten

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Chunk is a piece of output.
type Chunk struct {
	Stream string // of a process: stdout or stderr; of a shell's command: output
	Data   []byte
}

// ExecStream is the output of a command while it runs. When the connection breaks,
// it goes on by itself behind the last chunk, with nothing lost or doubled, as
// long as it makes progress. It is for one goroutine.
type ExecStream struct {
	// OnStart, if it is set before the first use, gets the command's id once, when
	// the command is there and before its output.
	OnStart func(execID string)

	session *Session
	raw     bool
	first   request // starts the command; unused if execID was given
	own     string  // the id of the command that first starts
	begun   bool    // first was sent
	execID  string
	lastID  string // of the last event that had one
	end     ExecEnd
	ended   bool
}

// ExecID is the command's id, from its start on.
func (s *ExecStream) ExecID() string { return s.execID }

// End is how the command ended, and false before the last chunk.
func (s *ExecStream) End() (ExecEnd, bool) { return s.end, s.ended }

// Copy writes the output to stdout, and what a process writes to its stderr to
// stderr, and returns how the command ended. When ctx ends first, so does the command;
// after another error it goes on, as does one that Attach follows.
func (s *ExecStream) Copy(ctx context.Context, stdout, stderr io.Writer) (ExecEnd, error) {
	for chunk, err := range s.Chunks(ctx) {
		if err != nil {
			return ExecEnd{}, err
		}
		out := stdout
		if chunk.Stream == "stderr" {
			out = stderr
		}
		if _, err := out.Write(chunk.Data); err != nil {
			return ExecEnd{}, fmt.Errorf("write output: %w", err)
		}
	}
	return s.end, nil
}

// Chunks gives the output. An error is the last of the iteration. To leave it
// early does not end the command, as the end of ctx does; another iteration goes on
// behind the last chunk.
func (s *ExecStream) Chunks(ctx context.Context) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		p := patience{client: s.session.client}
		canceled := ctx.Err() != nil // before anything was sent
		for !s.ended {
			before := s.lastID
			left, err := s.follow(ctx, yield)
			if left || err == nil {
				return
			}
			if s.lastID != before {
				p.progress()
			}
			if s.execID != "" {
				err = p.resume(ctx, err)
			}
			if err != nil {
				if s.begun && !canceled {
					err = s.session.endCanceled(ctx, s.own, err)
				}
				yield(Chunk{}, err)
				return
			}
		}
	}
}

// follow reads one connection to its end, or until yield wants no more. Without
// an error the command has ended.
func (s *ExecStream) follow(ctx context.Context, yield func(Chunk, error) bool) (left bool, err error) {
	r, err := s.request()
	if err != nil {
		return false, err
	}
	for e, err := range s.session.client.events(ctx, r) {
		if err != nil {
			return false, err
		}
		if e.id != "" {
			s.lastID = e.id
		}
		switch e.name {
		case "chunk":
			chunk, err := newChunk(e)
			if err != nil {
				return false, err
			}
			if !yield(chunk, nil) {
				return true, nil
			}
		case "start", "done":
			if err := e.decode(&s.end); err != nil {
				return false, err
			}
			s.started(s.end.ExecID)
			if s.ended = e.name == "done"; s.ended {
				return false, nil
			}
		case "error":
			return false, newAPIError(0, nil, e.data)
		}
	}
	return false, nil
}

// started takes note of the command's id.
func (s *ExecStream) started(execID string) {
	first := s.execID == ""
	s.execID = execID
	if first && s.OnStart != nil {
		s.OnStart(execID)
	}
}

// request starts the command, the first time, and otherwise follows it.
func (s *ExecStream) request() (request, error) {
	if s.execID == "" {
		if s.begun {
			return request{}, errors.New("the command was begun, and what became of it is not known")
		}
		s.begun = true
		return s.first, nil
	}
	r := get(s.session.execPath(s.execID) + "/stream")
	r.setFlag("raw_output", s.raw)
	if s.lastID != "" {
		r.header = map[string][]string{"Last-Event-Id": {s.lastID}}
	}
	return r, nil
}

func newChunk(e event) (Chunk, error) {
	var wire struct {
		Text   string `json:"chunk"`
		Base64 string `json:"chunk_base64"`
		Stream string `json:"stream"`
	}
	if err := e.decode(&wire); err != nil {
		return Chunk{}, err
	}
	data, err := exact(wire.Text, wire.Base64)
	if wire.Stream == "" {
		wire.Stream = "output"
	}
	return Chunk{wire.Stream, data}, err
}
