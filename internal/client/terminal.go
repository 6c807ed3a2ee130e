package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/coder/websocket"
)

// maxTerminalMessage bounds one message of a terminal's output.
const maxTerminalMessage = 1 << 20

// Terminal is an interactive shell in a sandbox. Read and Write may be called
// concurrently with each other, and Resize with both. The caller closes it.
type Terminal struct {
	conn *websocket.Conn
	ctx  context.Context
	rest []byte
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

// endMessage is what the daemon says in JSON: how the program ended, or what
// went wrong.
type endMessage struct {
	Exit *struct {
		ExitCode int `json:"exit_code"`
	} `json:"exit"`
	Error
}

// Terminal opens a login shell on a terminal of the kind term ("xterm"). It
// lives until its program ends, Close, or the end of ctx.
func (c *Client) Terminal(ctx context.Context, id, term string, size Size) (*Terminal, error) {
	query := url.Values{
		"term": {term},
		"rows": {strconv.Itoa(int(size.Rows))},
		"cols": {strconv.Itoa(int(size.Cols))},
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
	return &Terminal{conn: conn, ctx: ctx}, nil
}

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
			continue
		}
		if err := messageError(data); err != nil {
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

// messageError is the end that a text message tells, or nil for a message
// that we do not know.
func messageError(data []byte) error {
	var m endMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("decode the terminal's message: %w", err)
	}
	switch {
	case m.Exit != nil:
		return &ExitError{Code: m.Exit.ExitCode}
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

// Close detaches. The session goes on.
func (t *Terminal) Close() error { return t.conn.CloseNow() }
