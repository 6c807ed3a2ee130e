package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

// cpu measures what requests cost the daemon's process, whatever their clients and
// sandboxes cost: one at a time, and with as many clients as keep it busy.
func (s *suite) cpu(ctx context.Context) (err error) {
	if s.daemon == nil {
		return nil
	}
	const clients = 8
	boxes := make([]sandbox, clients)
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, 1)) }()
	ours := &sandkastenSubject{s.daemon}
	for i := range boxes {
		if boxes[i], err = ours.create(ctx); err != nil {
			return err
		}
	}
	probe := func(context.Context, int) sandbox { return health{s.daemon} }
	command := func(_ context.Context, i int) sandbox { return boxes[i] }
	s.results.DaemonCPU = make(map[string]time.Duration)
	for _, m := range []struct {
		name    string
		clients int
		of      func(context.Context, int) sandbox
	}{
		{report.CPUProbe, 1, probe},
		{report.CPUExec, 1, command},
		{report.CPUProbeBusy, clients, probe},
		{report.CPUExecBusy, clients, command},
	} {
		if s.results.DaemonCPU[m.name], err = s.cpuOf(ctx, m.clients, m.of); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// cpuOf is the processor time of one operation of as many clients, after a warm-up.
func (s *suite) cpuOf(ctx context.Context, clients int, of func(context.Context, int) sandbox) (time.Duration, error) {
	idle := make(chan sandbox, clients)
	for i := range clients {
		idle <- of(ctx, i)
	}
	run := func(n int) error {
		done := closedLoop(ctx, clients, budget{n: n}, func(ctx context.Context, _ int) (time.Time, error) {
			box := <-idle // at once: one for each client
			err := box.exec(ctx)
			idle <- box
			return time.Now(), err
		})
		if done.Failures > 0 {
			return errors.New(done.FirstErr)
		}
		return nil
	}
	n := s.rounds(5000)
	if err := run(max(1, n/10)); err != nil {
		return 0, err
	}
	before, err := processorTime(s.daemon.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := run(n); err != nil {
		return 0, err
	}
	after, err := processorTime(s.daemon.cmd.Process.Pid)
	return (after - before) / time.Duration(n), err
}

// processorTime is what all threads of a process have had of processors, in the
// kernel's hundredths of a second.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Behind the name, which may have spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const userTime, systemTime, perSecond = 11, 12, 100
	user, err := strconv.Atoi(fields[userTime])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[systemTime])
	return time.Duration(user+system) * time.Second / perSecond, err
}
