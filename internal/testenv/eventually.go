package testenv

import (
	"testing"
	"time"
)

// eventualPatience is how long Eventually waits: a busy machine is slow, and only
// a defect makes a test wait so long.
const eventualPatience = time.Minute

// Eventually waits until something holds, and ends the test if it never does.
// Tests use it instead of a sleep, which is too long on an idle machine and too
// short on a busy one.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(eventualPatience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s this does not hold: %s", eventualPatience, what)
		}
	}
}
