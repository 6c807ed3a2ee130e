package sandkasten

import (
	"bufio"
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxMessage = 1 << 20 // bytes of a message, in either direction
	maxControl = 125     // bytes of a ping, a pong or a close

	acceptKey = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // what RFC 6455 has both sides add to the key
)

// opcode is what a frame of a WebSocket is.
type opcode byte

const (
	opContinuation opcode = 0x0
	opText         opcode = 0x1
	opBinary       opcode = 0x2
	opClose        opcode = 0x8
	opPing         opcode = 0x9
	opPong         opcode = 0xa

	opControl = 0x8 // the bit of those that are no part of a message
	finalBit  = 0x80
	maskBit   = 0x80
)

// socket is a WebSocket (RFC 6455), as far as a daemon needs one: without
// extensions and subprotocols. One goroutine may read while others write. It is
// here since the standard library has none, and to be a user of this package is to
// depend on nothing else.
type socket struct {
	client  *Client
	request request
	outer   context.Context // the caller's
	ctx     context.Context // ends with outer, in silence, and with close
	cancel  context.CancelCauseFunc
	conn    io.ReadWriteCloser
	in      *bufio.Reader // of conn, against the clock

	owed atomic.Pointer[[]byte] // the pong to the last ping, until it is sent
	mu   sync.Mutex             // one frame at a time
	out  []byte                 // guarded by mu; kept for the next frame
}

// dial sends a request that a WebSocket answers. It lives until close or the end
// of ctx.
func (c *Client) dial(ctx context.Context, r request) (*socket, error) {
	nonce := make([]byte, 16)
	crand.Read(nonce) // never fails
	key := base64.StdEncoding.EncodeToString(nonce)
	r.header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {key},
	}
	resp, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	sum := sha1.Sum([]byte(key + acceptKey))
	if !ok || resp.Header.Get("Sec-Websocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: the answer is no WebSocket", r.op())
	}
	s := &socket{client: c, request: r, outer: ctx, conn: conn}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(s.ctx, func() { conn.Close() }) // whoever uses it sees that
	timer := time.AfterFunc(c.silence, func() { s.cancel(errStreamSilent) })
	timer.Stop()
	s.in = bufio.NewReader(&watched{conn, timer, c})
	return s, nil
}

// close ends the connection, which is no error however often.
func (s *socket) close() { s.cancel(errors.New("it was closed")) }

// failed is the error of a connection that err broke, which it ends.
func (s *socket) failed(err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		err = cause
	} else if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // a message is missing: io.EOF would say that all is there
	}
	s.close()
	return s.client.broken(s.outer, s.request, err)
}

// read returns the next message, text or binary.
func (s *socket) read() (kind opcode, message []byte, err error) {
	for {
		op, final, data, err := s.frame(maxMessage - len(message))
		switch {
		case err != nil:
			return 0, nil, s.failed(err)
		case op == opPing:
			s.owed.Store(&data)
			err = s.answerPing()
		case op == opClose:
			err = closedWith(data)
		case op == opContinuation && kind != 0, (op == opText || op == opBinary) && kind == 0:
			kind, message = max(kind, op), append(message, data...)
			if final {
				return kind, message, nil
			}
		case op != opPong:
			err = fmt.Errorf("a frame of kind %d where none may be", op)
		}
		if err != nil {
			return 0, nil, s.failed(err)
		}
	}
}

// frame reads one frame, of a message at most so many bytes.
func (s *socket) frame(most int) (op opcode, final bool, data []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return 0, false, nil, err
	}
	op, final = opcode(head[0]&0xf), head[0]&finalBit != 0
	size := uint64(head[1])
	var long [8]byte
	switch size {
	case 126:
		_, err = io.ReadFull(s.in, long[6:])
		size = binary.BigEndian.Uint64(long[:])
	case 127:
		_, err = io.ReadFull(s.in, long[:])
		size = binary.BigEndian.Uint64(long[:])
	}
	if op&opControl != 0 {
		most = maxControl
	}
	switch {
	case err != nil:
		return 0, false, nil, err
	case head[0]&0x70 != 0 || head[1]&maskBit != 0 || op&opControl != 0 && !final:
		return 0, false, nil, errors.New("a frame that no daemon sends")
	case size > uint64(most):
		return 0, false, nil, fmt.Errorf("a message of more than %d bytes", maxMessage)
	}
	data = make([]byte, size)
	_, err = io.ReadFull(s.in, data)
	return op, final, data, err
}

// closedWith is the error that a close frame stands for.
func closedWith(data []byte) error {
	if len(data) < 2 {
		return errors.New("the daemon closed the connection")
	}
	return fmt.Errorf("the daemon closed the connection: %d %s", binary.BigEndian.Uint16(data), bytes.ToValidUTF8(data[2:], nil))
}

// answerPing sends the pong that is owed, unless somebody writes just now, who
// does it behind that: a reader must not wait for a connection that takes nothing,
// or two ends that both wait would do so for ever.
func (s *socket) answerPing() error {
	for s.owed.Load() != nil && s.mu.TryLock() {
		var err error
		if data := s.owed.Swap(nil); data != nil {
			err = s.put(opPong, *data)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends one message of at most maxMessage bytes.
func (s *socket) send(kind opcode, message []byte) error {
	err := context.Cause(s.ctx)
	if err == nil {
		s.mu.Lock()
		err = s.put(kind, message)
		s.mu.Unlock()
	}
	if err == nil {
		err = s.answerPing()
	}
	if err != nil {
		return s.failed(err)
	}
	return nil
}

// put writes one frame. The caller holds mu.
func (s *socket) put(op opcode, data []byte) error {
	head := append(s.out[:0], finalBit|byte(op))
	switch size := len(data); {
	case size < 126:
		head = append(head, maskBit|byte(size))
	case size < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, maskBit|126), uint16(size))
	default:
		head = binary.BigEndian.AppendUint64(append(head, maskBit|127), uint64(size))
	}
	var mask [4]byte
	crand.Read(mask[:]) // never fails
	s.out = append(append(head, mask[:]...), data...)
	body := s.out[len(s.out)-len(data):]
	for i := range body {
		body[i] ^= mask[i%len(mask)]
	}
	_, err := s.conn.Write(s.out)
	return err
}

// Write sends p in binary messages.
func (s *socket) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		part := p[written:min(written+maxMessage, len(p))]
		if err := s.send(opBinary, part); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}
