package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/coder/websocket"
)

// maxTerminalMessage bounds one message of a terminal's output.
const maxTerminalMessage = 1 << 20

// Terminal is an interactive program in a sandbox. Read and Write may be called
// concurrently with each other, and Resize with both. The caller closes it.
type Terminal struct {
	conn *websocket.Conn
	ctx  context.Context
	id   string
	seq  int64 // of the next byte of output; the reader's own
	rest []byte
}

// TerminalRequest opens a terminal, or one that is there.
type TerminalRequest struct {
	Term string // the kind of the caller's terminal, like xterm
	Size Size

	// ID attaches to a terminal, from Seq on. A negative Seq is some lines
	// before its end.
	ID  string
	Seq int64
}

// Size of a terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// resizeMessage is what we say in JSON.
type resizeMessage struct {
	Resize Size `json:"resize"`
}

// daemonMessage is what the daemon says in JSON.
type daemonMessage struct {
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
	Error
}

// Terminal opens a login shell on a terminal, or attaches to the terminal that
// req names. It is attached until its program ends, Close, or the end of ctx,
// and the program lives on for some time without it.
func (c *Client) Terminal(ctx context.Context, id string, req TerminalRequest) (*Terminal, error) {
	query := url.Values{
		"term": {req.Term},
		"rows": {strconv.Itoa(int(req.Size.Rows))},
		"cols": {strconv.Itoa(int(req.Size.Cols))},
	}
	if req.ID != "" {
		query.Set("terminal_id", req.ID)
		query.Set("since_seq", strconv.FormatInt(max(req.Seq, -1), 10))
	}
	header := http.Header{}
	c.authorize(header)
	address := "ws" + strings.TrimPrefix(c.base, "http") + sessionPath(id, "/terminal?", query.Encode())
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: header})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, replyError(resp)
		}
		return nil, &UnreachableError{URL: c.base, Cause: err}
	}
	conn.SetReadLimit(maxTerminalMessage)
	t := &Terminal{conn: conn, ctx: ctx}
	if err := t.begin(); err != nil {
		return nil, errors.Join(err, conn.CloseNow())
	}
	return t, nil
}

// begin reads the daemon's first message.
func (t *Terminal) begin() error {
	_, data, err := t.conn.Read(t.ctx)
	if err != nil {
		return fmt.Errorf("the terminal's connection broke: %w", err)
	}
	var m daemonMessage
	if err := json.Unmarshal(data, &m); err != nil || m.Started == nil {
		return errors.New("the daemon did not say which terminal this is")
	}
	t.id, t.seq = m.Started.ID, m.Started.Seq
	return nil
}

// ID is what to attach to the terminal with.
func (t *Terminal) ID() string { return t.id }

// Seq is where to go on when the connection has broken. It is not for use
// beside Read.
func (t *Terminal) Seq() int64 { return t.seq - int64(len(t.rest)) }

// Read returns the terminal's output. It returns an *ExitError when the
// program has ended.
func (t *Terminal) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		kind, data, err := t.conn.Read(t.ctx)
		if err != nil {
			return 0, fmt.Errorf("the terminal's connection broke: %w", err)
		}
		if kind == websocket.MessageBinary {
			t.rest = data
			t.seq += int64(len(data))
			continue
		}
		if err := t.told(data); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// ExitError is the end of a terminal's program.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exited with %d", e.Code) }

// told is the end that a text message tells, or nil for another message.
func (t *Terminal) told(data []byte) error {
	var m daemonMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("decode the terminal's message: %w", err)
	}
	switch {
	case m.Exit != nil:
		return &ExitError{Code: m.Exit.ExitCode}
	case m.Dropped != nil:
		t.seq += m.Dropped.Bytes
	case m.Message != "":
		return &m.Error
	}
	return nil
}

// Write types p.
func (t *Terminal) Write(p []byte) (int, error) {
	if err := t.conn.Write(t.ctx, websocket.MessageBinary, p); err != nil {
		return 0, fmt.Errorf("type into the terminal: %w", err)
	}
	return len(p), nil
}

// Resize tells the terminal its new size.
func (t *Terminal) Resize(size Size) error {
	data, err := json.Marshal(resizeMessage{size})
	if err != nil {
		return fmt.Errorf("encode size: %w", err)
	}
	if err := t.conn.Write(t.ctx, websocket.MessageText, data); err != nil {
		return fmt.Errorf("resize the terminal: %w", err)
	}
	return nil
}

// Close detaches. The program goes on.
func (t *Terminal) Close() error { return t.conn.CloseNow() }
