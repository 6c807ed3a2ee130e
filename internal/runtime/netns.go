package runtime

import (
	"context"
	"os"
)

// Networked is a Sandbox whose network namespace the daemon can enter, to open a way
// out of it. A driver's sandboxes have it if the driver can do it.
type Networked interface {
	// NetNS opens the sandbox's network namespace, which has loopback only. The
	// caller closes it. It returns NotFound when the sandbox's processes are gone,
	// and Unimplemented, with the reason, where they are on another host.
	NetNS(ctx context.Context) (*os.File, error)
}
