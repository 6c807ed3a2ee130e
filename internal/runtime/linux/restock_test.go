package linux

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// While runners cannot be prepared the driver tries less and less often, however many
// sandboxes are created, and is back at once when it can.
func TestRestockBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken for the test")
		var tries []time.Duration
		begin := time.Now()
		d := &Driver{opts: Options{Log: slog.New(slog.DiscardHandler)}, quit: make(chan struct{})}
		d.makeReady = func(context.Context) (*prepared, error) {
			tries = append(tries, time.Since(begin))
			return &prepared{}, broken
		}
		for range 600 { // a create a second, each of which would have it tried
			d.restock()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if n := len(tries); n < 10 || n > 16 {
			t.Errorf("%d tries in ten minutes: %v", n, tries)
		}
		for i := 2; i < len(tries); i++ {
			last, pause := tries[i-1]-tries[i-2], tries[i]-tries[i-1]
			if want := min(2*last, lastRetry); pause != want {
				t.Errorf("the pause after %v is %v, want %v", last, pause, want)
			}
		}
		broken = nil
		time.Sleep(lastRetry)
		synctest.Wait()
		if n := len(d.shelf); n != readyRunners {
			t.Errorf("%d runners are ready", n)
		}
		// A driver that ends waits for no pause.
		broken, d.shelf = errors.New("broken again"), nil
		d.restock()
		time.Sleep(time.Second)
		synctest.Wait()
		began := time.Now()
		if err := d.clearShelf(); err != nil || time.Since(began) > 0 {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
	})
}
