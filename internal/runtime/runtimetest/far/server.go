package far

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
)

// Server is the other host: it makes sandboxes with a Local, for whoever connects.
type Server struct {
	Local *runtimetest.Local

	listener net.Listener
	serving  sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{} // guarded by mu; nil once it is closed
}

// NewServer serves until the test ends.
func NewServer(t testing.TB) *Server {
	t.Helper()
	local := runtimetest.NewLocal(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Local: local, listener: listener, conns: make(map[net.Conn]struct{})}
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // which ends the goroutine that accepts
		s.mu.Lock()
		conns := s.conns
		s.conns = nil
		s.mu.Unlock()
		for conn := range conns {
			_ = conn.Close()
		}
		s.serving.Wait()
	})
	return s
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// serve answers the one request of a connection. A client that closes its side of it
// wants what is under way to end.
func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	late := s.conns == nil
	if !late {
		s.conns[conn] = struct{}{}
	}
	s.mu.Unlock()
	if late {
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	}()
	var req request
	if err := readLine(conn, &req); err != nil {
		return
	}
	if req.Op == opDial {
		s.dial(conn, req.ID)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.serving.Go(func() {
		_, _ = io.Copy(io.Discard, conn) // until the client closes it, or serve does
		cancel()
	})
	got, err := s.do(ctx, req)
	if err != nil {
		got = answer{Failure: failureOf(err)}
	}
	_ = writeLine(conn, got) // to a client that may have gone
}

// dial makes a connection one to a sandbox's runner.
func (s *Server) dial(conn net.Conn, id runtime.ID) {
	sandbox, err := s.Local.Open(context.Background(), id)
	var inner net.Conn
	if err == nil {
		inner, err = sandbox.DialRunner(context.Background())
	}
	if err != nil {
		_ = writeLine(conn, answer{Failure: failureOf(err)}) // to a client that may have gone
		return
	}
	defer inner.Close()
	if writeLine(conn, answer{}) != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { join(conn, inner) })
	both.Go(func() { join(inner, conn) })
	both.Wait()
}

// join copies one direction to its end. Where nobody reads any more both end.
func join(from, to net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil {
		_, _ = from.Close(), to.Close()
	}
}

func (s *Server) do(ctx context.Context, req request) (a answer, err error) {
	l := s.Local
	switch req.Op {
	case opCheck:
		return a, l.Check(ctx)
	case opCreate:
		_, err = l.Create(ctx, req.ID, req.Spec)
	case opOpen:
		_, err = l.Open(ctx, req.ID)
	case opList:
		for status, err := range l.List(ctx) {
			if err != nil {
				return a, err
			}
			a.List = append(a.List, status)
		}
	case opDestroy:
		err = l.Destroy(ctx, req.ID)
	case opStop:
		err = l.Stop(ctx, req.ID)
	case opStart:
		_, err = l.Start(ctx, req.ID)
	case opStartQuiet:
		_, err = l.StartQuiet(ctx, req.ID)
	case opResolve:
		if a.Image = runtimetest.LocalImage; req.Image != Image {
			err = errdefs.New(errdefs.NotFound, "there is no image %q at the far end", req.Image)
		}
	case opFork:
		made, err := l.Fork(ctx, req.ID, req.Branches, req.Spec)
		for _, sandbox := range made.Sandboxes {
			a.Sandboxes = append(a.Sandboxes, sandbox.ID())
		}
		a.Copied = made.Copied
		return a, err
	case opCreateWorkspace, opDestroyWorkspace, opWorkspaces, opWorkspaceBytes:
		return s.doWorkspace(ctx, req)
	default:
		return s.doSandbox(ctx, req)
	}
	return a, err
}

func (s *Server) doWorkspace(ctx context.Context, req request) (a answer, err error) {
	switch req.Op {
	case opCreateWorkspace:
		err = s.Local.CreateWorkspace(ctx, req.Workspace, req.SizeMB)
	case opDestroyWorkspace:
		err = s.Local.DestroyWorkspace(ctx, req.Workspace)
	case opWorkspaceBytes:
		a.Bytes, err = s.Local.WorkspaceBytes(ctx, req.Workspace)
	default:
		for id, err := range s.Local.Workspaces(ctx) {
			if err != nil {
				return a, err
			}
			a.Workspaces = append(a.Workspaces, id)
		}
	}
	return a, err
}

// doSandbox is what the handle of a sandbox can do.
func (s *Server) doSandbox(ctx context.Context, req request) (a answer, err error) {
	sandbox, err := s.Local.Open(ctx, req.ID)
	if err != nil {
		return a, err
	}
	pauser := sandbox.(runtime.Pauser)
	switch req.Op {
	case opStats:
		a.Stats, err = sandbox.Stats(ctx)
	case opPause:
		err = pauser.Pause(ctx)
	case opResume:
		err = pauser.Resume(ctx)
	case opPaused:
		a.Paused, err = pauser.Paused()
	default:
		err = errors.New("no such operation: " + string(req.Op))
	}
	return a, err
}
