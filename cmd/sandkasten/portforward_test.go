package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// echo serves a port that sends back what it gets, and returns its number.
func echo(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).Port
}

// forwarding is a port-forward that runs.
type forwarding struct {
	t         *testing.T
	addresses []string
	interrupt context.CancelCauseFunc
	code      chan int
	errOut    *bytes.Buffer // to be read when it has ended
}

func (tm *console) forward(id string, ports ...string) *forwarding {
	tm.t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		tm.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(tm.t.Context())
	f := &forwarding{t: tm.t, interrupt: cancel, code: make(chan int, 1), errOut: &bytes.Buffer{}}
	go func() {
		a := &cli.App{In: os.Stdin, Out: in, Err: f.errOut}
		code := run(ctx, a, append([]string{"--url", tm.url, "--api-key", tm.key, "port-forward", id}, ports...))
		in.Close()
		f.code <- code
	}()
	tm.t.Cleanup(func() {
		cancel(nil)
		out.Close()
	})
	for lines := bufio.NewScanner(out); len(f.addresses) < len(ports) && lines.Scan(); {
		address, _, _ := strings.Cut(lines.Text(), " -> port ")
		f.addresses = append(f.addresses, address)
	}
	if len(f.addresses) < len(ports) {
		tm.t.Fatalf("it ended with %d: %s", <-f.code, f.errOut)
	}
	return f
}

// through sends text to a forwarded port and returns what comes back.
func (f *forwarding) through(i int, text string) string {
	f.t.Helper()
	c, err := net.Dial("tcp", f.addresses[i])
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		return ""
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return ""
	}
	got, err := io.ReadAll(c)
	if err != nil {
		return ""
	}
	return string(got)
}

func TestPortForward(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	nobody := testenv.UnusedPort(t)
	f := tm.forward(id, fmt.Sprintf(":%d", echo(t)), fmt.Sprintf(":%d", nobody))
	big := strings.Repeat("0123456789", 300_000)
	if got := f.through(0, big); got != big {
		t.Errorf("%d of %d bytes came back", len(got), len(big))
	}
	if got := f.through(1, "hello"); got != "" {
		t.Errorf("nobody answers %q", got)
	}
	if got := f.through(0, "still here"); got != "still here" {
		t.Errorf("after a failure: %q", got)
	}
	open, err := net.Dial("tcp", f.addresses[0]) // does not keep it from ending
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	f.interrupt(cli.SignalError(syscall.SIGINT))
	if code := <-f.code; code != 0 {
		t.Errorf("exit code %d: %s", code, f.errOut)
	}
	if want := fmt.Sprintf("port %d: nothing listens on port %d", nobody, nobody); !strings.HasPrefix(f.errOut.String(), want) {
		t.Errorf("said %q, want %q", f.errOut, want)
	}
}

func TestPortForwardEndsWithTheSession(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	f := tm.forward(id, fmt.Sprintf(":%d", echo(t)))
	tm.want("rm", id)
	f.through(0, "hello")
	if code := <-f.code; code != cli.ExitFailed || !strings.Contains(f.errOut.String(), "destroyed") {
		t.Errorf("exit code %d: %s", code, f.errOut)
	}
}

func TestPortForwardRefuses(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	taken := echo(t)
	for _, tt := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{id, "--address", "0.0.0.0", "3000"}, "add --expose", cli.ExitUsage},
		{[]string{id, "--address", "::", "3000"}, "add --expose", cli.ExitUsage},
		{[]string{id, "--address", "localhost", "3000"}, "no IP address", cli.ExitUsage},
		{[]string{id, ":3000", "0"}, "is no port", cli.ExitUsage},
		{[]string{id, fmt.Sprintf("%d:80", taken)}, "in use", cli.ExitFailed},
		{[]string{strings.Repeat("a", 26), "3000"}, "no such session", cli.ExitFailed},
	} {
		if r := tm.run(append([]string{"port-forward"}, tt.args...)...); r.code != tt.code || !strings.Contains(r.errOut, tt.want) {
			t.Errorf("%q: %+v", tt.args, r)
		}
	}
}

func TestParseForward(t *testing.T) {
	for spec, want := range map[string]string{
		"3000": "3000 3000 true", "8080:3000": "8080 3000 true", ":3000": "0 3000 true", "65535": "65535 65535 true",
		"": "0 0 false", ":": "0 0 false", "0": "0 0 false", "0:1": "0 0 false", "1:0": "0 0 false", "65536": "0 0 false",
		"-1": "0 0 false", "a": "0 0 false", "1:2:3": "0 0 false", "1:": "0 0 false",
	} {
		local, port, err := parseForward(spec)
		if got := fmt.Sprint(local, port, err == nil); got != want {
			t.Errorf("%q: %s, want %s", spec, got, want)
		}
	}
}

func TestPortsLists(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	port := echo(t)
	if out, want := tm.want("ports", id), fmt.Sprintf("%d ", port); !strings.HasPrefix(out, "PORT ") || !strings.Contains(out, "\n"+want) {
		t.Errorf("no %q in %s", want, out)
	}
	if out := tm.want("ports", "--json", id); !strings.Contains(out, fmt.Sprintf(`"port": %d,`, port)) {
		t.Errorf("%s", out)
	}
}
