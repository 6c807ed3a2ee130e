package doctor

import (
	"fmt"

	"github.com/sandkasten/sandkasten/internal/dirlock"
)

// Daemon says whether a daemon works on the data directory. It is not one of
// Examine's checks: a daemon at its start holds the lock itself.
func Daemon(h Host) Finding {
	f := lockHolder(h)
	f.Check = "daemon"
	return f
}

func lockHolder(h Host) Finding {
	switch pid, held, err := dirlock.Holder(h.DataDir); {
	case err != nil:
		return warn("unknown: "+err.Error(), "run it as the daemon's user")
	case held:
		return fine(fmt.Sprintf("running, process %d", pid))
	}
	return fine("not running")
}
