package session_test

import (
	"io"
	"testing"

	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/ops"
)

// BenchmarkExec is the round trip of a command below HTTP and without
// isolation: the manager, the protocol, the runner and its shell.
func BenchmarkExec(b *testing.B) {
	d := newHost(b).start(b)
	s := d.create(b, session.CreateRequest{})
	for b.Loop() {
		if _, err := d.Execs.Run(b.Context(), everyone, string(s.ID), ops.ExecRequest{Command: "true"}, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCreateDestroy has two rows of work and, on the local driver, the
// start of one process.
func BenchmarkCreateDestroy(b *testing.B) {
	d := newHost(b).start(b)
	for b.Loop() {
		s := d.create(b, session.CreateRequest{})
		if err := d.Sessions.Destroy(b.Context(), everyone, s.ID); err != nil {
			b.Fatal(err)
		}
	}
}
