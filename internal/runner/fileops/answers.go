package fileops

import (
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/protocol"
)

func (c *Conn) grep(req protocol.Grep) error {
	found, err := c.Files.Grep(req, c.check)
	if err != nil {
		return err
	}
	return c.Out.Send(protocol.TypeMatches, found, nil)
}

func (c *Conn) edit(req protocol.Edit, size int64) error {
	switch {
	case req.OldBytes < 0 || req.OldBytes > size:
		return protocol.Refuse(protocol.CodeInvalid, "old_bytes must lie within the payload")
	case req.OldBytes > protocol.MaxCommand || size-req.OldBytes > protocol.MaxCommand:
		return protocol.Refuse(protocol.CodeTooLarge, "the old and the new text are limited to %d bytes each", protocol.MaxCommand)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(c.In, payload); err != nil {
		return err
	}
	edited, diff, err := c.Files.Edit(req, payload[:req.OldBytes], payload[req.OldBytes:])
	if err != nil {
		return err
	}
	return c.Out.Send(protocol.TypeEdited, edited, diff)
}

// watch tells changes until the daemon goes away or the directory does.
func (c *Conn) watch(req protocol.Watch) error {
	w, err := c.Files.Watch(req, c.check)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := c.Out.Send(protocol.TypeChange, protocol.Change{Op: "ready"}, nil); err != nil {
		return err
	}
	for {
		p := []unix.PollFd{{Fd: int32(w.FD()), Events: unix.POLLIN}, {Fd: int32(c.FD), Events: unix.POLLRDHUP}}
		if _, err := unix.Poll(p, int(goneCheck.Milliseconds())); err != nil && err != unix.EINTR {
			return err
		}
		if err := c.check(); err != nil {
			return err
		}
		err := w.Read(func(change protocol.Change) error {
			change.Path, change.From = protocol.EscapeName(change.Path), protocol.EscapeName(change.From)
			return c.Out.Put(protocol.TypeChange, change, nil)
		})
		if ferr := c.Out.Flush(); ferr != nil {
			return ferr
		}
		if err != nil {
			return err
		}
	}
}

func (c *Conn) pack(req protocol.Pack) error {
	out := &chunks{out: c.Out, sent: time.Now()}
	check := func() error {
		if err := c.check(); err != nil {
			return err
		}
		return out.sign()
	}
	pack := func() error {
		if err := c.Files.Pack(req, out, check); err != nil {
			return err
		}
		return out.flush()
	}
	if req.Snapshot != "" { // in the runner itself: see Heavy
		return c.ok(behind(pack))
	}
	return c.ok(pack())
}

func (c *Conn) unpack(req protocol.Unpack) error {
	done, err := c.Files.Unpack(req, c.In, c.check)
	if err != nil {
		return err
	}
	return c.Out.Send(protocol.TypeUnpacked, done, nil)
}

// chunks sends what is written to it as bytes frames of the largest size.
type chunks struct {
	out  *protocol.Writer
	buf  []byte
	sent time.Time // the last frame
}

func (c *chunks) Write(p []byte) (int, error) {
	if c.buf == nil {
		c.buf = make([]byte, 0, protocol.MaxPayload)
	}
	for done := 0; done < len(p); {
		n := min(len(p)-done, cap(c.buf)-len(c.buf))
		c.buf = append(c.buf, p[done:done+n]...)
		done += n
		if len(c.buf) == cap(c.buf) {
			if err := c.flush(); err != nil {
				return done, err
			}
		}
	}
	return len(p), nil
}

func (c *chunks) flush() error {
	err := c.out.Send(protocol.TypeBytes, nil, c.buf)
	c.buf, c.sent = c.buf[:0], time.Now()
	return err
}

// signTime is how long the daemon may be left without a sign that work goes on.
const signTime = 5 * time.Second

// sign sends what there is, or an empty frame, if nothing was sent for long.
func (c *chunks) sign() error {
	if time.Since(c.sent) < signTime {
		return nil
	}
	return c.flush()
}
