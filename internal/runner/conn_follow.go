package runner

import (
	"io"
	"time"

	"github.com/sandkasten/sandkasten/internal/runner/output"
	"github.com/sandkasten/sandkasten/protocol"
)

func (c *conn) attach(req protocol.Attach, _ int64) error {
	if req.Offset < 0 || req.MaxBytes < 0 || req.WaitMS < 0 {
		return protocol.Refuse(protocol.CodeInvalid, "offset, max_bytes and wait_ms must not be negative")
	}
	e, err := c.r.records.get(req.ID)
	if err != nil {
		return err
	}
	rd := e.out.Attach(req.Offset)
	defer rd.Detach()
	if req.Poll {
		return c.poll(e, rd, req)
	}
	return c.follow(e, rd, true)
}

// poll sends what there is behind the reader's position, and the record as it
// is then. If there is nothing it waits for it.
func (c *conn) poll(e *exec, rd *output.Reader, req protocol.Attach) error {
	until := time.Now().Add(time.Duration(min(req.WaitMS, maxWait.Milliseconds())) * time.Millisecond)
	for !rd.Ready() && time.Now().Before(until) {
		if err := c.awaitOutput(rd, until); err != nil {
			return err
		}
	}
	left := req.MaxBytes
	if left == 0 {
		left = output.Limit
	}
	buf := make([]byte, min(left, sendBuffer))
	for left > 0 {
		chunk, ended := rd.Read(buf[:min(left, int64(len(buf)))])
		if ended {
			<-e.done
		}
		if chunk.Bytes == 0 {
			break
		}
		left -= int64(chunk.Bytes)
		if err := c.out.Put(protocol.TypeOutput, protocol.Output{Offset: chunk.Offset, Stream: chunk.Stream}, buf[:chunk.Bytes]); err != nil {
			return err
		}
	}
	if err := e.failure(); err != nil {
		return err
	}
	return c.out.Send(protocol.TypeDone, e.record(), nil)
}

func (c *conn) cancel(req protocol.Cancel, _ int64) error {
	e, err := c.r.records.get(req.ID)
	if err != nil {
		return err
	}
	e.cancel()
	return c.out.Send(protocol.TypeOK, nil, nil)
}

// accepted follows an exec that can be found from now on, and says so if asked.
func (c *conn) accepted(e *exec, rd *output.Reader, say bool) error {
	if say {
		if err := c.out.Send(protocol.TypeAccepted, nil, nil); err != nil {
			return err
		}
	}
	return c.follow(e, rd, e.live)
}

// gatherTime is how long output waits for more, so that both travel together.
const gatherTime = time.Millisecond

// gathering decides how long output waits for more to go with it. If nobody looks at
// it before the end, it always waits, so that a short command's output and end travel
// together. If somebody does, the first bytes after a quiet time go at once, and those
// that follow soon wait for what is left of gatherTime since then.
type gathering struct {
	live bool
	sent time.Time // when bytes went last
}

func (g *gathering) wait() time.Duration {
	if !g.live {
		return gatherTime
	}
	return gatherTime - time.Since(g.sent)
}

// follow sends an exec's output from the reader's position on, and its record
// at the end. The exec goes on without it if the daemon goes away. live says that
// somebody looks at the output as it comes.
func (c *conn) follow(e *exec, rd *output.Reader, live bool) error {
	if c.buf == nil {
		c.buf = make([]byte, smallBuffer)
	}
	gather := gathering{live: live}
	for {
		chunk, ended := rd.Read(c.buf)
		switch {
		case chunk.Bytes > 0:
			if err := c.out.Put(protocol.TypeOutput, protocol.Output{Offset: chunk.Offset, Stream: chunk.Stream}, c.buf[:chunk.Bytes]); err != nil {
				return err
			}
			if chunk.Bytes == smallBuffer {
				c.buf = make([]byte, sendBuffer)
			}
			if rd.Settle(gather.wait()) {
				continue // there is more, or the end, to go with it
			}
			if err := c.out.Flush(); err != nil {
				return err
			}
			gather.sent = time.Now()
		case ended:
			<-e.done
			if err := e.failure(); err != nil {
				return err
			}
			if len(c.buf) > smallBuffer {
				c.buf = nil
			}
			return c.out.Send(protocol.TypeDone, e.record(), nil)
		default:
			if err := c.awaitOutput(rd, time.Time{}); err != nil {
				return err
			}
		}
	}
}

// smallBuffer is enough for most outputs, and little for an idle connection;
// sendBuffer is for the others.
const (
	smallBuffer = 2 << 10
	sendBuffer  = 32 << 10
)

// maxWait is the longest that a request waits for something to happen.
const maxWait = 10 * time.Minute

// goneCheck is how often a quiet exec's connection is looked at.
const goneCheck = time.Second

// awaitOutput waits until the reader has something to read, or until a time
// that is not zero. It fails when the daemon has gone away.
func (c *conn) awaitOutput(rd *output.Reader, until time.Time) error {
	timer := time.NewTimer(untilNext(goneCheck, until))
	defer timer.Stop()
	for {
		select {
		case <-rd.Wake:
			return nil
		case <-timer.C:
			if c.gone() {
				return io.ErrClosedPipe
			}
			if !until.IsZero() && !time.Now().Before(until) {
				return nil
			}
			timer.Reset(untilNext(goneCheck, until))
		}
	}
}
