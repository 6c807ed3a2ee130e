package runner

import (
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/runner/ports"
	"github.com/sandkasten/sandkasten/protocol"
)

// maxDials bounds the connections to ports: the rest is for everything else.
const maxDials = maxConns / 2

// ports answers with what is listened on. The runner itself listens on no port.
func (c *conn) ports() error {
	list, err := ports.List(c.r.opts.Proc)
	if err != nil {
		return protocol.Refuse(protocol.CodeUnavailable, "the sandbox's ports cannot be listed (%v)", err)
	}
	return c.out.Send(protocol.TypePortList, protocol.PortList{Ports: list}, nil)
}

// errUsedUp ends a connection that has become a port's.
var errUsedUp = errors.New("the connection was a port's")

// dial connects to a port. The daemon's connection then carries that one's
// bytes, to its end.
func (c *conn) dial(req protocol.Dial, _ int64) error {
	defer c.r.dials.Add(-1)
	if c.r.dials.Add(1) > maxDials {
		return protocol.Refuse(protocol.CodeExhausted, "the sandbox has %d connections to its ports, which is the limit; close some", maxDials)
	}
	port, err := ports.Dial(req.Port)
	if err != nil {
		return err
	}
	err = c.out.Send(protocol.TypeOK, nil, nil)
	if err == nil {
		err = c.file.SetWriteDeadline(time.Time{}) // which the answer has left
	}
	if err == nil {
		err = port.Splice(c.file, c.in.Rest())
	}
	return errors.Join(errUsedUp, err, port.Close())
}
