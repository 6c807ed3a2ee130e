package guest

import (
	"context"
	"errors"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// settleTimeout is for a runner that has nothing else to do.
const settleTimeout = 10 * time.Second

// Settle tells the runner of a sandbox that was made ahead whose it is now, with
// env added to its environment. It is for claims, where there is nothing to tell
// too: that the runner answers proves that it is alive and has served nobody. The
// connection is parked, if the sandbox can do that. Meanwhile is for runnerclient's
// Settle.
func Settle(ctx context.Context, s runtime.Sandbox, message protocol.Settle, env map[string]string, meanwhile func() error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	client := &runnerclient.Client{Dial: s.DialRunner}
	if p, ok := s.(runtime.Parker); ok {
		client.Park = p.Park
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return client.Settle(ctx, message, Variables(env), meanwhile)
}
