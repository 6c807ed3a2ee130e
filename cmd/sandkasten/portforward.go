package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type portForwardCmd struct {
	Address string   `default:"127.0.0.1" placeholder:"IP" help:"Address of this machine to listen on."`
	Expose  bool     `help:"Allow an --address that other machines can reach. They then reach the port without a key."`
	Session string   `arg:"" help:"Session: its name, its id or a prefix of the id."`
	Ports   []string `arg:"" name:"port" help:"PORT, LOCAL:PORT with another number on this machine, or :PORT with a free one."`
}

func (portForwardCmd) Help() string {
	return `Listens on ports of this machine and forwards connections to ports of the session,
until Ctrl-C. It forwards any protocol over TCP. If nothing listens inside yet, it
prints a message and closes the connection.

  sandkasten port-forward $id 3000
  sandkasten port-forward $id 8080:3000 5432`
}

// forward is a port of this machine and where it leads.
type forward struct {
	listener *net.TCPListener
	port     int
}

func (c portForwardCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) (err error) {
	if err := c.checkAddress(); err != nil {
		return err
	}
	// Who mistyped the session learns it now, not at the first connection.
	s := cl.Session(c.Session)
	if _, err := s.ListPorts(ctx); err != nil {
		return err
	}
	forwards, err := c.listen(ctx)
	if err != nil {
		return err
	}
	for _, f := range forwards {
		if _, err := fmt.Fprintf(a.Out, "%s -> port %d of %s\n", f.listener.Addr(), f.port, c.Session); err != nil {
			return errors.Join(err, closeAll(forwards))
		}
	}
	return c.serve(ctx, a, s, forwards)
}

func (c portForwardCmd) checkAddress() error {
	ip, err := netip.ParseAddr(c.Address)
	if err != nil {
		return cli.Wrong("--address %s is no IP address: write it as 127.0.0.1 or ::1", c.Address)
	}
	if !ip.IsLoopback() && !c.Expose {
		return cli.Wrong("other machines can reach --address %s, and no key protects the port there: add --expose to allow that", c.Address)
	}
	return nil
}

// listen opens all ports, or none.
func (c portForwardCmd) listen(ctx context.Context) ([]forward, error) {
	var forwards []forward
	for _, spec := range c.Ports {
		local, port, err := parseForward(spec)
		var l net.Listener
		if err == nil {
			l, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Address, strconv.Itoa(local)))
		}
		if err != nil {
			return nil, errors.Join(err, closeAll(forwards))
		}
		forwards = append(forwards, forward{l.(*net.TCPListener), port})
	}
	return forwards, nil
}

// parseForward reads PORT, LOCAL:PORT or :PORT. A local port of 0 is any.
func parseForward(spec string) (local, port int, err error) {
	near, far, two := strings.Cut(spec, ":")
	if !two {
		far = near
	}
	p, err := strconv.ParseUint(far, 10, 16)
	var l uint64
	if near != "" && err == nil {
		l, err = strconv.ParseUint(near, 10, 16)
	}
	if err != nil || p == 0 || near != "" && l == 0 {
		return 0, 0, cli.Wrong("%q is no port: write 3000, 8080:3000 or :3000, with numbers from 1 to 65535", spec)
	}
	return int(l), int(p), nil
}

func closeAll(forwards []forward) error {
	var errs []error
	for _, f := range forwards {
		if err := f.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// serve connects whoever comes, until ctx ends, which is no failure, or the
// session has.
func (c portForwardCmd) serve(ctx context.Context, a *cli.App, s *sandkasten.Session, forwards []forward) error {
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	said := make(chan string)
	var wg sync.WaitGroup
	for _, f := range forwards {
		wg.Go(func() { stop(c.accept(ctx, s, f, said)) })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	for {
		select {
		case text := <-said:
			a.Say("%s", text)
		case <-ctx.Done():
			err := closeAll(forwards)
			<-done
			if outer.Err() != nil {
				return err
			}
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// accept serves one port. It returns when ctx ends or the session has, and its
// connections are closed.
func (c portForwardCmd) accept(ctx context.Context, s *sandkasten.Session, f forward, said chan<- string) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for {
		conn, err := f.listener.AcceptTCP()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		wg.Go(func() {
			defer func() { // when it is said why: who sees it closed may end us
				if conn.Close() != nil {
					return // it was closed at its end
				}
			}()
			err := c.connect(ctx, s, conn, f.port)
			if errors.Is(err, sandkasten.ErrConflict) {
				cancel(err) // the session has ended
				err = f.listener.Close()
			}
			if err == nil {
				return
			}
			select {
			case said <- fmt.Sprintf("port %d: %s", f.port, cli.Explain(err)):
			case <-ctx.Done():
			}
		})
	}
}

// connect passes everything between a connection, which the caller closes, and a
// port of the session.
func (c portForwardCmd) connect(ctx context.Context, s *sandkasten.Session, conn *net.TCPConn, port int) error {
	t, err := s.DialPort(ctx, port)
	if err != nil {
		return err
	}
	closeBoth := sync.OnceFunc(func() {
		if err := errors.Join(conn.Close(), t.Close()); err != nil {
			return // it had broken, which who used it has been told
		}
	})
	defer closeBoth()
	stop := context.AfterFunc(ctx, closeBoth)
	defer stop()
	both := make(chan error, 2)
	go func() { both <- pipe(t, conn) }()
	go func() { both <- pipe(conn, t) }()
	first := <-both
	if first != nil {
		closeBoth() // ends the other direction
	}
	second := <-both
	switch {
	case ctx.Err() != nil:
		return nil
	case first != nil:
		return first
	default:
		return second
	}
}

// pipe copies to the end of src, and ends dst's direction there.
func pipe(dst interface {
	io.Writer
	CloseWrite() error
}, src io.Reader,
) error {
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.CloseWrite()
}
