package runtimetest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// result is what a program wrote and how it ended.
type result struct {
	protocol.Record
	streams map[protocol.Stream]string
}

// start runs a program to its end.
func (b box) start(t *testing.T, s protocol.Start, stdin string, argv ...string) result {
	t.Helper()
	conn, err := b.DialRunner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	list := strings.Join(argv, "\x00") + "\x00"
	s.ID, s.ArgvBytes, s.OutputLimit = string(newID()), int64(len(list)), 1<<20
	if err := protocol.NewWriter(conn).Send(protocol.TypeStart, s, []byte(list+stdin)); err != nil {
		t.Fatal(err)
	}
	r := result{streams: make(map[protocol.Stream]string)}
	in := protocol.NewReader(conn, protocol.Runner)
	for {
		h, err := in.Next()
		if err != nil {
			t.Fatalf("%q: %v", argv, err)
		}
		switch h.Type {
		case protocol.TypeOutput:
			var o protocol.Output
			text, err := io.ReadAll(in)
			if err := errors.Join(err, h.Decode(&o)); err != nil {
				t.Fatal(err)
			}
			r.streams[o.Stream] += string(text)
		case protocol.TypeDone:
			if err := h.Decode(&r.Record); err != nil {
				t.Fatal(err)
			}
			return r
		case protocol.TypeError:
			var refused protocol.Error
			if err := h.Decode(&refused); err != nil {
				t.Fatal(err)
			}
			t.Fatalf("%q: %v", argv, &refused)
		default:
			t.Fatalf("%q: a %s frame", argv, h.Type)
		}
	}
}

// want checks what a program wrote to stdout, and its end.
func (r result) want(t *testing.T, stdout string, code int, cause protocol.Cause) {
	t.Helper()
	if got := r.streams[protocol.StreamStdout]; got != stdout || r.ExitCode != code || r.Cause != cause {
		t.Errorf("%q: %q, %q on stderr, code %d, %s; want %q, %d, %s", r.Command, got, r.streams[protocol.StreamStderr], r.ExitCode, r.Cause, stdout, code, cause)
	}
}

// process shows that programs run without a shell, streams apart.
func (s *suite) process(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	r := b.start(t, protocol.Start{}, "", "sh", "-c", "echo out; echo err >&2; exit 3")
	if r.want(t, "out\n", 3, protocol.CauseExited); r.streams[protocol.StreamStderr] != "err\n" {
		t.Errorf("%q on stderr", r.streams[protocol.StreamStderr])
	}
	b.start(t, protocol.Start{}, strings.Repeat("x", 300_000), "wc", "-c").want(t, "300000\n", 0, protocol.CauseExited)
	b.start(t, protocol.Start{Cwd: "/"}, "", "pwd").want(t, "/\n", 0, protocol.CauseExited)
	r = b.start(t, protocol.Start{OutputFile: "whole"}, "", "head", "-c", "2000000", "/dev/zero")
	if r.Cause != protocol.CauseExited || r.OutputFileError != "" {
		t.Errorf("%+v", r.Record)
	}
	b.wantOutput(t, "wc -c <whole", "2000000\n")
	// A daemon holds nothing up and lives on.
	b.start(t, protocol.Start{}, "", "sh", "-c", "setsid sh -c 'echo $$ >daemon; exec sleep 600' & while [ ! -s daemon ]; do sleep 0.01; done").want(t, "", 0, protocol.CauseExited)
	b.wantOutput(t, "kill -0 $(cat daemon) && echo alive", "alive\n")
}

// processUser shows that as a user a program has nothing of root's.
func (s *suite) processUser(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	if got, _ := b.run(t, "id -u"); got != "0\n" {
		return // the driver's sandboxes have no root, who alone could become others
	}
	script := "id -u; id -G; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u; echo x >/etc/x || echo again >/dev/stdout"
	b.start(t, protocol.Start{User: "1234:77", Cwd: "/"}, "", "sh", "-c", script).want(t, "1234\n77\n0000000000000000\nagain\n", 0, protocol.CauseExited)
	b.start(t, protocol.Start{User: "root"}, "", "id", "-u").want(t, "0\n", 0, protocol.CauseExited)
	// What root may do to other users' processes, a user may not do to root's.
	b.start(t, protocol.Start{User: "1234", Cwd: "/"}, "", "sh", "-c", "kill -9 1 2>/dev/null || echo refused").want(t, "refused\n", 0, protocol.CauseExited)
	b.wantOutput(t, "echo fine", "fine\n")
}

func (s *suite) processTimeout(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	// The host's other sandboxes may be in sight, and do the same.
	mine, theirs := fmt.Sprint("600.", rand.Uint32()), fmt.Sprint("600.", rand.Uint32())
	b.wantOutput(t, "sleep "+theirs+" & x=kept", "")
	r := b.start(t, protocol.Start{TimeoutMS: 300, GraceMS: 100}, "", "sh", "-c",
		"echo before; (trap '' TERM; setsid setsid sleep "+mine+" &); trap '' TERM HUP; while :; do sleep "+mine+"; done")
	r.want(t, "before\n", 124, protocol.CauseTimeout)
	// The pattern does not match itself.
	b.wantOutput(t, "for i in '"+mine+"' '"+theirs+"'; do cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx \"[${i%${i#?}}]${i#?}\"; done; echo $x", "0\n1\nkept\n")
}

func (s *suite) terminal(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	r := b.start(t, protocol.Start{TTY: true, Rows: 11, Cols: 77}, "echo $((40+2))\rexit 4\r", "sh", "-c", "stty size; exec sh")
	if got := r.streams[protocol.StreamOutput]; r.ExitCode != 4 || !r.TTY || !strings.HasPrefix(got, "11 77\r\n") && !strings.Contains(got, "\n11 77\r\n") || !strings.Contains(got, "42\r\n") {
		t.Errorf("%q, %+v", got, r.Record)
	}
}
