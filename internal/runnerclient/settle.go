package runnerclient

import (
	"context"

	"github.com/sandkasten/sandkasten/protocol"
)

// Settle gives a sandbox that was made ahead to its session, with variables
// NAME=VALUE to add to its environment. It returns Conflict if the sandbox has
// been used. No string may have a NUL byte.
func (c *Client) Settle(ctx context.Context, s protocol.Settle, env []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	payload := appendStrings(nil, env)
	k, err := c.begin(ctx, func(k *call) error { return k.send(protocol.TypeSettle, s, payload) }, never)
	if err != nil {
		return err
	}
	if _, err := k.next(protocol.TypeOK); err != nil {
		return err
	}
	return k.done()
}
