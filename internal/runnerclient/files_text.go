package runnerclient

import (
	"context"
	"io"

	"github.com/sandkasten/sandkasten/protocol"
)

// Grep returns the lines that match, at most g.Max, which must be set. Their
// text is the sandbox's: it is not made fit for a terminal.
func (c *Client) Grep(ctx context.Context, g protocol.Grep) (protocol.Matches, error) {
	var found protocol.Matches
	if err := c.work(ctx, protocol.TypeGrep, g, protocol.TypeMatches, &found); err != nil {
		return protocol.Matches{}, err
	}
	if err := checkMatches(&found, g); err != nil {
		return protocol.Matches{}, err
	}
	return found, nil
}

// Edit replaces before with after in a file and returns the change as a
// unified diff, at most protocol.MaxPayload bytes of it. e.OldBytes is filled
// in. After ErrLost it is not known whether the file was changed.
func (c *Client) Edit(ctx context.Context, e protocol.Edit, before, after []byte) (protocol.Edited, []byte, error) {
	e.OldBytes = int64(len(before))
	payload := make([]byte, 0, len(before)+len(after))
	payload = append(append(payload, before...), after...)
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	k, err := c.begin(ctx, func(k *call) error { return k.send(protocol.TypeEdit, e, payload) }, always)
	if err != nil {
		return protocol.Edited{}, nil, err
	}
	h, err := k.next(protocol.TypeEdited)
	if err != nil {
		return protocol.Edited{}, nil, err
	}
	var done protocol.Edited
	if err := h.Decode(&done); err != nil {
		return protocol.Edited{}, nil, k.fail(err)
	}
	if done.Replaced < 1 {
		return protocol.Edited{}, nil, k.violation("it replaced %d times", done.Replaced)
	}
	diff, err := io.ReadAll(k.r) // the frame's limit is protocol.MaxPayload
	if err != nil {
		return protocol.Edited{}, nil, k.fail(err)
	}
	return done, diff, k.done()
}
