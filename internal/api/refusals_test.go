package api

import (
	"testing"
	"testing/synctest"
	"time"
)

// Many refusals of an owner are spread over time, a few are answered at once, and nobody else
// waits for them.
func TestRefusalsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRefusals()
		start := time.Now()
		for range refusalsAtOnce {
			f.pace(t.Context(), "alice")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the first took %s", took)
		}
		for range refusalsPerSecond {
			f.pace(t.Context(), "alice")
		}
		if took := time.Since(start).Round(time.Millisecond); took != time.Second {
			t.Errorf("as many as in a second took %s", took)
		}
		start = time.Now()
		for range 10 * refusalsPerSecond {
			go f.pace(t.Context(), "alice")
		}
		synctest.Wait()
		f.pace(t.Context(), "alice")
		if took := time.Since(start); took != refusalPatience {
			t.Errorf("one of very many took %s", took)
		}
		start = time.Now()
		f.pace(t.Context(), "bob")
		if took := time.Since(start); took != 0 {
			t.Errorf("another owner's took %s", took)
		}
	})
}
