//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Hit does what SANDKASTEN_FAILPOINT says for name. It returns an error only
// for the action "error" and for an action that does not exist.
func Hit(name string) error {
	for setting := range strings.SplitSeq(os.Getenv("SANDKASTEN_FAILPOINT"), ";") {
		point, action, _ := strings.Cut(setting, "=")
		if point == name {
			return act(name, action)
		}
	}
	return nil
}

func act(name, action string) error {
	verb, argument, _ := strings.Cut(action, ":")
	switch verb {
	case "kill9":
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return fmt.Errorf("failpoint %s: %w", name, err)
		}
		select {} // the signal ends the process; nothing may run after the point
	case "error":
		return fmt.Errorf("failpoint %s", name)
	case "sleep":
		d, err := time.ParseDuration(argument)
		if err != nil {
			return fmt.Errorf("failpoint %s: %w", name, err)
		}
		time.Sleep(d)
		return nil
	default:
		return fmt.Errorf("failpoint %s: unknown action %q", name, action)
	}
}
