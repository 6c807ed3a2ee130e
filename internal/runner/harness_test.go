package runner_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/protocol"
)

// pid tells the processes of this run from those of another one on the machine.
var pid = strconv.Itoa(os.Getpid())

// host is a runner on this machine, without isolation, in a directory of its
// own. Its shells have only the variables that are given here.
type host struct {
	t         testing.TB
	workspace string
	socket    string
	ids       atomic.Int64
}

func newHost(t testing.TB, change ...func(*runner.Options)) *host {
	t.Helper()
	dir := t.TempDir()
	h := &host{t: t, workspace: filepath.Join(dir, "workspace"), socket: filepath.Join(dir, "s")}
	if err := os.Mkdir(h.workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	o := runner.Options{
		Listener: h.listen(), Workspace: h.workspace,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + h.workspace, "LANG=C.UTF-8"},
	}
	for _, f := range change {
		f(&o)
	}
	r, err := runner.New(o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.Serve() }()
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return h
}

// listen makes the socket, for the runner.
func (h *host) listen() int {
	h.t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(h.t, err)
	must(h.t, unix.Bind(fd, &unix.SockaddrUnix{Name: h.socket}))
	must(h.t, unix.Listen(fd, 64))
	return fd
}

// peer is one connection, as the daemon has it.
type peer struct {
	t   testing.TB
	h   *host
	c   net.Conn
	in  *protocol.Reader
	out *protocol.Writer
}

func (h *host) dial() *peer {
	h.t.Helper()
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return &peer{t: h.t, h: h, c: c, in: protocol.NewReader(c, protocol.Runner), out: protocol.NewWriter(c)}
}

// reply is a whole answer to an exec or attach.
type reply struct {
	protocol.Record
	output []byte // of all streams
	stdout []byte
	stderr []byte
	gaps   int64 // bytes that were skipped
}

// want is the part of a reply that most tests care about.
func (r reply) want(t testing.TB, output string, code int, cause protocol.Cause) {
	t.Helper()
	if got := string(r.output); got != output || r.ExitCode != code || r.Cause != cause {
		t.Errorf("%q: got %q, code %d, %s; want %q, code %d, %s", r.Command, clip(got), r.ExitCode, r.Cause, clip(output), code, cause)
	}
}

func clip(s string) string {
	if len(s) > 300 {
		return s[:150] + "..." + s[len(s)-150:]
	}
	return s
}

// start sends an exec and returns its id.
func (p *peer) start(e protocol.Exec, command string, stdin ...byte) string {
	p.t.Helper()
	if e.ID == "" {
		e.ID = fmt.Sprintf("e%d", p.h.ids.Add(1))
	}
	e.CommandBytes = int64(len(command))
	if err := p.out.Send(protocol.TypeExec, e, append([]byte(command), stdin...)); err != nil {
		p.t.Fatal(err)
	}
	return e.ID
}

// finish reads the answer of an exec or attach.
func (p *peer) finish() (reply, error) {
	var r reply
	next := int64(-1)
	for {
		h, err := p.in.Next()
		if err != nil {
			return r, err
		}
		switch h.Type {
		case protocol.TypeOutput:
			var o protocol.Output
			if err := h.Decode(&o); err != nil {
				return r, err
			}
			if next >= 0 {
				if o.Offset < next {
					return r, fmt.Errorf("offset %d after %d", o.Offset, next)
				}
				r.gaps += o.Offset - next
			}
			b, err := io.ReadAll(p.in)
			if err != nil {
				return r, err
			}
			r.output = append(r.output, b...)
			switch o.Stream {
			case protocol.StreamStdout:
				r.stdout = append(r.stdout, b...)
			case protocol.StreamStderr:
				r.stderr = append(r.stderr, b...)
			}
			next = o.Offset + int64(len(b))
		case protocol.TypeDone:
			return r, h.Decode(&r.Record)
		case protocol.TypeError:
			var e protocol.Error
			if err := h.Decode(&e); err != nil {
				return r, err
			}
			return r, &refused{e}
		default:
			return r, fmt.Errorf("unexpected %s", h.Type)
		}
	}
}

type refused struct{ e protocol.Error }

func (r *refused) Error() string { return r.e.Code + ": " + r.e.Message }

func codeOf(err error) string {
	if r, ok := errors.AsType[*refused](err); ok {
		return r.e.Code
	}
	return fmt.Sprint(err)
}

// run is a whole exec.
func (p *peer) run(e protocol.Exec, command string, stdin ...byte) reply {
	p.t.Helper()
	p.start(e, command, stdin...)
	if err := p.c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	r, err := p.finish()
	if err != nil {
		p.t.Fatalf("%q: %v", clip(command), err)
	}
	return r
}

// sh is run with nothing special.
func (p *peer) sh(command string) reply {
	p.t.Helper()
	return p.run(protocol.Exec{TimeoutMS: 10_000}, command)
}

// next checks that the shell is in order. A machine may be slow, but nothing hangs.
func (p *peer) next() reply {
	p.t.Helper()
	begin := time.Now()
	r := p.run(protocol.Exec{TimeoutMS: 15_000}, "echo NEXT")
	r.want(p.t, "NEXT\n", 0, protocol.CauseExited)
	if took := time.Since(begin); took > 15*time.Second { // less than a reply may take
		p.t.Errorf("the next command took %v", took)
	}
	return r
}

func repeat(s string, n int) string { return string(bytes.Repeat([]byte(s), n)) }
