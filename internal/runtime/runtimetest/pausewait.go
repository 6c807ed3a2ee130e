package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// pauseWait: what was asked for before a pause and has not begun, or is out of
// time, waits for the end of the pause: a command behind one in the same shell,
// and the shell that is to run it.
func (s *suite) pauseWait(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	size := func(path string) int64 {
		stat, err := b.client.Stat(t.Context(), protocol.Stat{Path: path})
		if err != nil {
			return -1 // there is none
		}
		return stat.Size
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 2)
	run := func(command string, timeoutMS int64, cause protocol.Cause) {
		e := protocol.Exec{ID: string(newID()), OutputLimit: 1 << 20, GraceMS: 50, TimeoutMS: timeoutMS}
		record, err := b.client.Exec(ctx, e, command, nil, new(bytes.Buffer))
		if err == nil && record.Cause != cause {
			t.Errorf("%s: %+v, want %s", command, record, cause)
		}
		ended <- err
	}
	asked := time.Now()
	size("ticks")
	away := time.Since(asked) // the first is not to be out of time before it is paused
	runs := 3*time.Second + 12*away
	began := time.Now()
	go run("while :; do echo x >>ticks; sleep 0.01; done", runs.Milliseconds(), protocol.CauseTimeout)
	eventually(t, "the first command begins", func() bool { return size("ticks") > 0 })
	go run("echo x >>behind", 30_000, protocol.CauseExited)
	eventually(t, "the second command waits", func() bool {
		all, err := b.client.Execs(t.Context())
		return err == nil && len(all) == 2
	})
	if err := pauser(t, b).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	still := size("ticks")
	time.Sleep(time.Until(began.Add(runs + time.Second))) // in which the first is out of time
	if now := size("ticks"); now != still || size("behind") >= 0 {
		t.Errorf("while it was paused the first command wrote %d bytes and the second %d", now-still, size("behind"))
	}
	if err := pauser(t, b).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	if size("behind") != 2 {
		t.Errorf("the second command wrote %d bytes", size("behind"))
	}
}
