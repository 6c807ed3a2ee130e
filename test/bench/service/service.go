// Package service waits for daemons to be there, and ends them. What a daemon is,
// how it starts and how it is spoken to is its owner's business: nothing here
// knows one by name.
package service

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// Terminate asks a daemon to end and waits until it has.
func Terminate(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		return errors.Join(fmt.Errorf("%s did not end and was killed", cmd.Args[0]), cmd.Process.Kill(), <-ended)
	}
}

// WaitFor calls probe until it succeeds or the time is over.
func WaitFor(ctx context.Context, limit time.Duration, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
