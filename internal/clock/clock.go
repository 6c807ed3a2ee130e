// Package clock notices that a host's wall clock was set. Times that are kept are
// of the wall clock, and are to mean the same after it: it belongs here to tell how
// far the clock jumped, and to whom, and not what times there are.
package clock

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Reading relates the wall clock to the time that really passes.
type Reading struct {
	Boot   string        // names the run of the kernel
	Offset time.Duration // what the wall clock is ahead of the time since that began
}

// Host reads the clocks of the host whose /proc is at proc, to the hundredth of a
// second.
func Host(proc string) func() (Reading, error) {
	return func() (Reading, error) {
		boot, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
		if err != nil {
			return Reading{}, err
		}
		uptime, err := os.ReadFile(filepath.Join(proc, "uptime")) // counts the time in which the host was suspended
		now := time.Now()
		if err != nil {
			return Reading{}, err
		}
		text, _, _ := strings.Cut(string(uptime), " ")
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return Reading{}, fmt.Errorf("read uptime: %w", err)
		}
		up := time.Duration(seconds * float64(time.Second))
		return Reading{Boot: strings.TrimSpace(string(boot)), Offset: time.Duration(now.UnixNano()) - up}, nil
	}
}

// Rows are what is kept and has times.
type Rows interface {
	// Align notes r, and changes all times by what the wall clock has jumped since
	// it was last noted in the same run of the kernel, which it returns.
	Align(ctx context.Context, r Reading) (jumped time.Duration, err error)
}

// Keeper has times follow the clock. All fields are required.
type Keeper struct {
	Read func() (Reading, error) // Host's, or a test's
	Rows Rows
	Set  func() // told of a jump when the rows have followed
	Log  *slog.Logger
}

// worthAWord is the jump that is logged. The clock of any host is set by less every
// day.
const worthAWord = time.Minute

// Align has the times of rows follow a wall clock that was set since the last
// call, also by an earlier process, so that what is left until times that depend on
// them stays as it was. After a restart of the host nothing can be told, and rows
// keep their times. It is to be called before such times are compared with the
// clock.
func (k *Keeper) Align(ctx context.Context) error {
	r, err := k.Read()
	if err != nil {
		return fmt.Errorf("look at the clocks: %w", err)
	}
	jumped, err := k.Rows.Align(ctx, r)
	if err != nil || jumped == 0 {
		return err
	}
	if jumped.Abs() >= worthAWord {
		k.Log.WarnContext(ctx, "the host's clock was set; what is left of the time of sessions, workspaces and snapshots stays as it was", "by", jumped.Round(time.Second))
	}
	k.Set()
	return nil
}
