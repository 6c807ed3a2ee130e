package mcpserver

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio is the transport of a program that a client has started. The connection ends when
// the client closes its side and all of its questions are answered: the library would
// drop the answers that are still to come.
func Stdio(in io.ReadCloser, out io.WriteCloser) mcp.Transport {
	return stdio{&mcp.IOTransport{Reader: in, Writer: out}}
}

type stdio struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (t stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &answering{Connection: c, parent: os.Getppid(), open: map[jsonrpc.ID]bool{}, closed: make(chan struct{})}, nil
}

// answering is a connection that remembers which questions have no answer yet.
type answering struct {
	mcp.Connection

	parent int           // process, which is the client
	closed chan struct{} // by Close
	once   sync.Once

	mu   sync.Mutex
	open map[jsonrpc.ID]bool // guarded by mu
	idle chan struct{}       // guarded by mu; closed when open is empty, if somebody waits
}

// Read implements mcp.Connection. What ends the reading is told when all is answered.
func (c *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if err != nil {
		c.awaitAnswers(ctx)
		return nil, err
	}
	if request, ok := message.(*jsonrpc.Request); ok {
		c.asked(request)
	}
	return message, nil
}

// awaitAnswers returns when all questions are answered, or nobody is left to read: a client
// that has crashed is not the parent of its program any more.
func (c *answering) awaitAnswers(ctx context.Context) {
	answered, look := c.answered(), time.NewTicker(time.Second)
	defer look.Stop()
	for os.Getppid() == c.parent {
		select {
		case <-answered:
			return
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

func (c *answering) asked(r *jsonrpc.Request) {
	switch r.Method {
	case "subscriptions/listen": // which is answered when its client does not listen any more
	case "notifications/cancelled":
		var cancelled struct {
			ID any `json:"requestId"`
		}
		if json.Unmarshal(r.Params, &cancelled) != nil {
			return // the library says so
		}
		if id, err := jsonrpc.MakeID(cancelled.ID); err == nil {
			c.close(id)
		}
	default:
		if r.IsCall() {
			c.mu.Lock()
			c.open[r.ID] = true
			c.mu.Unlock()
		}
	}
}

// Write implements mcp.Connection.
func (c *answering) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if answer, ok := message.(*jsonrpc.Response); ok {
		c.close(answer.ID)
	}
	return err
}

// close notes that a question needs no answer any more.
func (c *answering) close(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
	if len(c.open) == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// answered returns a channel that is closed when no question is open.
func (c *answering) answered() <-chan struct{} {
	idle := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 {
		close(idle)
	} else {
		c.idle = idle
	}
	return idle
}

// Close implements mcp.Connection.
func (c *answering) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
