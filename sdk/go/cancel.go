package sandkasten

import (
	"context"
	crand "crypto/rand"
	"errors"
	"strings"
	"time"
)

const (
	// endTime is what the end of a command adds to a call that its caller cancels.
	endTime = 2 * time.Second

	// The request for a command may still be on its way when its end is asked for.
	firstEndPause = 50 * time.Millisecond
	lastEndPause  = 400 * time.Millisecond
)

// newExecID is as the daemon's own ids are.
func newExecID() string { return strings.ToLower(crand.Text()) }

// run sends the request that runs a command to its end, whose caller may cancel it.
func (s *Session) run(ctx context.Context, path, execID string, body, result any) error {
	sent := ctx.Err() == nil
	err := s.client.call(ctx, post(s.path+path, body), result)
	if !sent {
		return err
	}
	return s.endCanceled(ctx, execID, err)
}

// endCanceled ends the command of a call that failed because its caller canceled it, and
// returns the call's error. Otherwise the command would keep the session's shell. After a
// broken connection it goes on, and can be attached to.
func (s *Session) endCanceled(ctx context.Context, execID string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	for pause := firstEndPause; pause <= lastEndPause; pause *= 2 {
		resp, failed := s.client.send(ending, post(s.execPath(execID)+"/cancel", nil))
		if failed == nil {
			resp.Body.Close()
			return err
		}
		var refused *APIError
		if !errors.As(failed, &refused) || refused.Reason != ReasonNoSuchExec {
			return err // the daemon cannot be reached, or the session has ended
		}
		select {
		case <-time.After(pause):
		case <-ending.Done():
		}
	}
	return err // it never began
}
