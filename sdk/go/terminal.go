package sandkasten

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// TerminalOptions says what a terminal is like.
type TerminalOptions struct {
	Rows    uint16   // 0 is 24
	Cols    uint16   // 0 is 80
	Term    string   // the kind of the caller's terminal, like xterm-256color
	Command []string // a program and its arguments; none is a login shell
}

// AttachTerminalOptions says how to come back to a terminal.
type AttachTerminalOptions struct {
	Rows uint16 // as of TerminalOptions
	Cols uint16

	// SinceSeq is where in its output to go on, which Terminal.Seq told. A 0 is its
	// last 64 KiB, and -1 its beginning.
	SinceSeq int64
}

// OpenTerminal runs a program on a terminal of its own, and attaches to it until
// Close or the end of ctx.
func (s *Session) OpenTerminal(ctx context.Context, o *TerminalOptions) (*Terminal, error) {
	options := value(o)
	r := s.terminalRequest(options.Rows, options.Cols)
	r.set("term", options.Term)
	for _, word := range options.Command {
		r.query.Add("command", word)
	}
	return s.attachTerminal(ctx, r)
}

// AttachTerminal attaches to a terminal, or a process with one, that runs or ran
// not long ago.
func (s *Session) AttachTerminal(ctx context.Context, id string, o *AttachTerminalOptions) (*Terminal, error) {
	options := value(o)
	r := s.terminalRequest(options.Rows, options.Cols)
	r.set("terminal_id", id)
	if options.SinceSeq != 0 {
		r.set("since_seq", strconv.FormatInt(max(options.SinceSeq, 0), 10))
	}
	return s.attachTerminal(ctx, r)
}

func (s *Session) terminalRequest(rows, cols uint16) request {
	r := request{method: http.MethodGet, path: s.path + "/terminal", query: url.Values{}}
	r.setNumber("rows", int64(rows))
	r.setNumber("cols", int64(cols))
	return r
}

func (s *Session) attachTerminal(ctx context.Context, r request) (*Terminal, error) {
	conn, err := s.client.dial(ctx, r)
	if err != nil {
		return nil, err
	}
	t := &Terminal{conn: conn}
	_, data, err := conn.read()
	if err == nil {
		err = t.told(data)
	}
	if err == nil && t.id == "" {
		err = errors.New("the daemon does not say which terminal this is")
	}
	if err != nil {
		conn.close()
		return nil, err
	}
	return t, nil
}

// Terminal is an attached terminal. One goroutine may read while others write and
// resize. Its program lives on for some time when nobody is attached, also if the
// connection breaks: [Session.AttachTerminal] comes back to it.
type Terminal struct {
	conn  *socket
	id    string
	seq   int64  // of the byte behind rest
	rest  []byte // of the last message
	exit  int
	ended bool
}

// ID is what to attach to the terminal with. It is a process's, too.
func (t *Terminal) ID() string { return t.id }

// Seq is where to go on when the connection has broken. It is not for use beside
// Read.
func (t *Terminal) Seq() int64 { return t.seq - int64(len(t.rest)) }

// ExitCode is that of the program, and false while Read has not returned io.EOF.
// It is not for use beside Read.
func (t *Terminal) ExitCode() (code int, ended bool) { return t.exit, t.ended }

// Read returns what the terminal shows, and io.EOF when its program has ended. A
// *ConnectionError means that the connection has broken.
func (t *Terminal) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		if t.ended {
			return 0, io.EOF
		}
		kind, data, err := t.conn.read()
		if err != nil {
			return 0, err
		}
		if kind == opText {
			err = t.told(data)
		} else {
			t.rest = data
			t.seq += int64(len(data))
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// told takes note of what the daemon says beside the output.
func (t *Terminal) told(data []byte) error {
	var m struct {
		Started *struct {
			ID  string `json:"terminal_id"`
			Seq int64  `json:"seq"`
		} `json:"started"`
		Dropped *struct {
			Bytes int64 `json:"bytes"`
		} `json:"dropped"`
		Exit *struct {
			ExitCode int `json:"exit_code"`
		} `json:"exit"`
		Code string `json:"code"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("the terminal's message is not Sandkasten's: %w", err)
	}
	switch {
	case m.Started != nil:
		t.id, t.seq = m.Started.ID, m.Started.Seq
	case m.Dropped != nil:
		t.seq += m.Dropped.Bytes
	case m.Exit != nil:
		t.exit, t.ended = m.Exit.ExitCode, true
	case m.Code != "":
		return newAPIError(0, nil, data)
	}
	return nil
}

// Write types p.
func (t *Terminal) Write(p []byte) (int, error) { return t.conn.Write(p) }

// Resize tells the terminal its new size.
func (t *Terminal) Resize(rows, cols uint16) error {
	size := `{"resize":{"rows":` + strconv.Itoa(int(rows)) + `,"cols":` + strconv.Itoa(int(cols)) + `}}`
	return t.conn.send(opText, []byte(size))
}

// Close detaches. The program goes on; it can be ended by its id, as a process.
func (t *Terminal) Close() error {
	t.conn.close()
	return nil
}
