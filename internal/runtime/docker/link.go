package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/relay"
)

// link returns the link to a sandbox, and opens it if there is none: after a
// restart of ours or the engine's.
func (d *Driver) link(ctx context.Context, id runtime.ID) (*relay.Link, error) {
	if l := d.linkNow(id); l != nil {
		return l, nil
	}
	opened := d.dials.DoChan(string(id), func() (any, error) {
		if l := d.linkNow(id); l != nil { // another was faster
			return l, nil
		}
		// Others may wait for it whose requests go on.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), linkTime)
		defer cancel()
		l, err := d.openLink(ctx, id)
		if err != nil {
			return nil, err
		}
		return d.keepLink(id, l)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-opened:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*relay.Link), nil //nolint:forcetypeassert // what the function above returns
	}
}

// linkNow returns the link if there is one that works.
func (d *Driver) linkNow(id runtime.ID) *relay.Link {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.links[id]; l != nil && !l.Ended() {
		return l
	}
	return nil
}

// keepLink makes l the link that all share, unless there is one already, and
// returns that.
func (d *Driver) keepLink(id runtime.ID, l *relay.Link) (*relay.Link, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errors.Join(errors.New("the driver is closed"), l.Close())
	}
	if was := d.links[id]; was != nil && !was.Ended() {
		return was, l.Close()
	}
	d.links[id] = l
	return l, nil
}

// unlink ends the link to a sandbox that is about to go.
func (d *Driver) unlink(id runtime.ID) error {
	d.mu.Lock()
	l := d.links[id]
	delete(d.links, id)
	d.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.Close()
}

// attach returns the streams of a container that is about to be started.
func (d *Driver) attach(ctx context.Context, id runtime.ID) (client.HijackedResponse, error) {
	attached, err := d.engine.ContainerAttach(ctx, d.container(id), client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	return attached.HijackedResponse, d.classify(err, id)
}

// openLink starts a relay in the container.
func (d *Driver) openLink(ctx context.Context, id runtime.ID) (*relay.Link, error) {
	made, err := d.engine.ExecCreate(ctx, d.container(id), client.ExecCreateOptions{
		User: "0:0", AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Cmd: []string{program, relay.Command},
	})
	if cerrdefs.IsConflict(err) { // it exists and does not run
		return nil, errdefs.Wrap(err, errdefs.NotFound, "sandbox %s is not running", id)
	}
	if err != nil {
		return nil, d.classify(err, id)
	}
	attached, err := d.engine.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return nil, d.classify(err, id)
	}
	return d.speak(ctx, id, attached.HijackedResponse)
}

// speak opens the link to a sandbox over the streams of a process in it.
func (d *Driver) speak(ctx context.Context, id runtime.ID, attached client.HijackedResponse) (*relay.Link, error) {
	said := new(lastWords)
	l, err := relay.Open(ctx, &stream{
		frames: frames{from: attached.Reader, only: stdoutStream, rest: said},
		conn:   attached.Conn,
	})
	if err == nil {
		return l, nil
	}
	err = fmt.Errorf("open the link to sandbox %s: %w: %s", id, d.unavailable(err), said)
	if got, inspectErr := d.inspect(ctx, id); inspectErr != nil || !got.State.Running {
		return nil, errdefs.Wrap(errors.Join(err, inspectErr), errdefs.NotFound, "sandbox %s is not running", id)
	}
	return nil, err
}

// stream is what the engine gives for a process: its input as it is, its
// outputs in frames.
type stream struct {
	frames
	conn io.WriteCloser
}

func (s *stream) Write(p []byte) (int, error) { return s.conn.Write(p) }
func (s *stream) Close() error                { return s.conn.Close() }

// The engine's numbers for streams in frames.
const (
	stdoutStream = 1
	stderrStream = 2
)

// frames reads one stream of several that come in the engine's frames: a byte
// with the stream's number, three zeros, the length in four bytes.
type frames struct {
	from io.Reader
	only byte
	rest io.Writer // gets the others; may be nil

	left int64 // of the frame that is being read
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	for f.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(f.from, head[:]); err != nil {
			return 0, err
		}
		size := int64(binary.BigEndian.Uint32(head[4:]))
		if head[0] == f.only {
			f.left = size
			continue
		}
		rest := f.rest
		if rest == nil {
			rest = io.Discard
		}
		if _, err := io.CopyN(rest, f.from, size); err != nil {
			return 0, err
		}
	}
	n, err := f.from.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}

// lastWords keeps the beginning of what a process says on its standard error.
type lastWords struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p[:min(len(p), max(0, 1<<10-w.text.Len()))])
	return len(p), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%q", w.text.String())
}
