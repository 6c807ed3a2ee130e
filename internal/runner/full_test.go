package runner_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// A failed command's record says whether the disk was full at its end, whatever
// the command has said of it, and a successful one's does not.
func TestDiskFull(t *testing.T) {
	testenv.NeedsRoot(t)
	h := newHost(t, func(o *runner.Options) {
		dir := o.Workspace
		must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,nr_inodes=20"))
		t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	})
	p := h.dial()
	limit := func(command string) int64 { // in milliseconds; one command is to reach it
		if command == "sleep 100" {
			return 500
		}
		return 15_000
	}
	shell := func(command string) protocol.Record {
		return p.run(protocol.Exec{TimeoutMS: limit(command), GraceMS: 50}, command).Record
	}
	program := func(command string) protocol.Record {
		return p.program(protocol.Start{TimeoutMS: limit(command), GraceMS: 50}, "sh", "-c", command).Record
	}
	for _, c := range []struct {
		how     func(command string) protocol.Record
		command string
		code    int
		want    bool
	}{
		{shell, "head -c 9M /dev/zero >f; rm f; (exit 1)", 1, false}, // not any more
		{shell, "(exit 1)", 1, false},
		{program, "exit 1", 1, false},
		{shell, "head -c 9M /dev/zero >f", 1, true},
		{program, "head -c 9M /dev/zero >f", 1, true},
		{shell, "truncate -s 7M f; (exit 1)", 1, true}, // as programs leave it that write much at a time
		{shell, "true", 0, false},
		{program, "true", 0, false},
		{shell, "sleep 100", 124, true},
		{program, "sleep 100", 124, true},
		{shell, "exit 3", 3, true}, // the shell
		{shell, "exit 0", 0, false},
		{shell, "rm f; (exit 1)", 1, false},
		{shell, "for i in $(seq 30); do : >n$i || break; done; : >last", 1, true},
		{shell, "rm n*; (exit 1)", 1, false},
	} {
		r := c.how(c.command)
		if r.ExitCode != c.code || r.DiskFull != c.want {
			t.Errorf("%s: code %d, full %v; want %d, %v", c.command, r.ExitCode, r.DiskFull, c.code, c.want)
		}
		if kept := p.recordOf(r.ID); kept.DiskFull != r.DiskFull {
			t.Errorf("%s: afterwards %+v", c.command, kept)
		}
	}
}
