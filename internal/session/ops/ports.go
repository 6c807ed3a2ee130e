package ops

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Ports lists what programs of the session listen on, by number. Asking
// is not activity.
func (x *Execs) Ports(ctx context.Context, p auth.Principal, id string) ([]protocol.Port, error) {
	s, runner, err := x.look(ctx, p, id)
	if err != nil {
		return nil, err
	}
	ports, err := runner.Ports(ctx)
	if err != nil {
		return nil, s.Lost(ctx, err)
	}
	return slices.DeleteFunc(ports, func(one protocol.Port) bool { return x.opts.OfDoor(id, one) }), nil
}

// Dial connects to a TCP port of the sandbox's own loopback, and to nothing
// else: neither the host nor another session can be reached so. It returns
// NotFound if nothing listens there. ctx is for the dialling only. The caller
// closes the connection, which has a method CloseWrite() error; while it is
// open the session is in use, and when the session ends so does it.
func (x *Execs) Dial(ctx context.Context, p auth.Principal, id string, port int) (net.Conn, error) {
	s, err := x.sessions.Living(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if port < 1 || port > 65535 {
		return nil, errdefs.Invalid("port", "must be between 1 and 65535")
	}
	runner, end, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := runner.DialPort(ctx, port)
	if err != nil {
		end()
		return nil, s.Lost(ctx, err)
	}
	return &dialled{Conn: conn, end: end}, nil
}

// dialled is a connection that is use of the session until it is closed.
type dialled struct {
	net.Conn
	end func()
}

func (d *dialled) Close() error {
	defer d.end()
	return d.Conn.Close()
}

// CloseWrite tells the server that nothing more comes.
func (d *dialled) CloseWrite() error {
	half, ok := d.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
