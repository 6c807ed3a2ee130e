package runnerclient

import (
	"context"
	"errors"

	"github.com/sandkasten/sandkasten/protocol"
)

// Settle gives a sandbox that was made ahead to its session, with variables
// NAME=VALUE to add to its environment. It returns Conflict if the sandbox has
// been used. No string may have a NUL byte. Meanwhile, which may be nil, is called
// while the runner wakes up, and not if it cannot be told; its error is returned, too.
func (c *Client) Settle(ctx context.Context, s protocol.Settle, env []string, meanwhile func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	payload := appendStrings(nil, env)
	var other error
	k, err := c.begin(ctx, func(k *call) error {
		err := k.send(protocol.TypeSettle, s, payload)
		if err == nil && meanwhile != nil {
			other = meanwhile()
		}
		return err
	}, never)
	if err == nil {
		_, err = k.next(protocol.TypeOK)
	}
	if err == nil {
		err = k.done()
	}
	return errors.Join(err, other)
}
