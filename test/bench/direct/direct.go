// Package direct is an HTTP/1.1 client that does no more than it must: it writes
// a request to a kept connection and reads the answer from it, on the caller's
// goroutine. The client of net/http passes both through goroutines of its own,
// and what that takes would be counted against whoever answers.
package direct

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// maxIdle connections are kept for the next requests.
const maxIdle = 256

// transport is an http.RoundTripper.
type transport struct {
	dial func(ctx context.Context) (net.Conn, error)
	idle chan *keptConn
}

// NewClient returns a client whose connections all come from dial, whatever
// host a request names. They live as long as the program.
func NewClient(dial func(ctx context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &transport{dial: dial, idle: make(chan *keptConn, maxIdle)}}
}

// keptConn is a connection that carries one request after another.
type keptConn struct {
	net.Conn
	in *bufio.Reader
}

// RoundTrip sends req and returns the answer as soon as its header is there.
// The connection is kept when the body has been read to its end.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	conn, err := t.take(req.Context())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(req.Context(), func() { conn.Close() })
	if err := req.Write(conn); err != nil {
		stop()
		return nil, errors.Join(err, conn.Close())
	}
	resp, err := http.ReadResponse(conn.in, req)
	if err != nil {
		stop()
		return nil, errors.Join(err, conn.Close())
	}
	resp.Body = &keptBody{ReadCloser: resp.Body, t: t, conn: conn, stop: stop, keep: !resp.Close}
	return resp, nil
}

func (t *transport) take(ctx context.Context) (*keptConn, error) {
	select {
	case conn := <-t.idle:
		return conn, nil
	default:
	}
	conn, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &keptConn{conn, bufio.NewReaderSize(conn, 64<<10)}, nil
}

// keptBody gives its connection back at its end.
type keptBody struct {
	io.ReadCloser
	t     *transport
	conn  *keptConn
	stop  func() bool
	keep  bool
	ended bool
}

func (b *keptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

func (b *keptBody) Close() error {
	if b.conn == nil {
		return nil
	}
	conn := b.conn
	b.conn = nil
	if b.stop() && b.ended && b.keep {
		select {
		case b.t.idle <- conn:
			return nil
		default:
		}
	}
	return conn.Close()
}

// FreePort returns an address nobody listens on.
func FreePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Answer does req and reads the whole answer, which has to be a success. It is
// decoded from JSON into result, if there is one.
func Answer(client *http.Client, req *http.Request, result any) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, data)
	}
	if result == nil {
		return data, nil
	}
	return data, json.Unmarshal(data, result)
}
