package main

import (
	"context"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/report"
)

// bullyCommands take all they can of one thing each, until their session ends.
// The test of test/limits has the same five.
var bullyCommands = []string{
	`bomb() { bomb | bomb & }; while :; do bomb 2>/dev/null; sleep 0.05; done`,
	`while :; do python3 -c 'held = []
while True: held.append(bytearray(b"x" * (1 << 20)))' 2>/dev/null; done`,
	`while :; do dd if=/dev/zero of=full bs=1M 2>/dev/null; rm -f full; done`,
	`yes`,
	`for i in 1 2 3 4; do while :; do :; done & done; wait`,
}

// bullies measures commands and creates with nothing beside them, and then with
// five sessions that do their worst.
func (s *suite) bullies(ctx context.Context) (err error) {
	if s.daemon == nil {
		return nil
	}
	s.results.Bullies = map[string]report.Summary{}
	ours := &sandkastenSubject{s.daemon}
	box, err := ours.create(ctx)
	if err != nil {
		return err
	}
	boxes := []sandbox{box}
	defer func() { err = errors.Join(err, destroyAll(ctx, boxes, 1)) }()
	measure := func(exec, create string) error {
		execs, err := interleave(ctx, s.rng, []contestant{execution(exec, box, 1)}, 20, s.rounds(1000))
		if err != nil {
			return err
		}
		creates, err := interleave(ctx, s.rng, []contestant{lifecycle(ours, 1)}, 1, s.rounds(30))
		s.results.Bullies[exec] = execs["exec"][exec]
		s.results.Bullies[create] = creates["ready"][ours.name()]
		return err
	}
	if err := measure("true, alone", "create, alone"); err != nil {
		return err
	}
	for _, command := range bullyCommands {
		bully, err := ours.create(ctx)
		if err != nil {
			return err
		}
		boxes = append(boxes, bully)
		if err := s.daemon.call(ctx, "POST", "/v1/sessions/"+bully.(*session).id+"/processes",
			object{"cmd": []string{"bash", "-c", command}, "background": true}, nil); err != nil {
			return err
		}
	}
	select {
	case <-time.After(2 * time.Second): // until all are at work
	case <-ctx.Done():
		return ctx.Err()
	}
	return measure(report.Bullied, "create, beside five bullies")
}
