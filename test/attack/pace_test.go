package attack

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// slowVar is the environment variable that says how many times as long as
// elsewhere this machine may take, a whole number: an emulated one is slow. What
// is promised to hold within a time is asked for that much later.
const slowVar = "SANDKASTEN_ATTACK_SLOW"

var slowness = sync.OnceValue(func() time.Duration {
	value := os.Getenv(slowVar)
	if value == "" {
		return 1
	}
	times, err := strconv.Atoi(value)
	if err != nil || times < 1 {
		panic(fmt.Sprintf("%s=%q is no number from 1", slowVar, value))
	}
	return time.Duration(times)
})

// paced is a limit of time as it is on this machine.
func paced(limit time.Duration) time.Duration { return limit * slowness() }
