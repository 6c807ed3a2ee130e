package tools

import (
	"context"
	"time"
)

// tellEvery is between two words of a call's progress.
const tellEvery = 5 * time.Second

// tell does something that may take long, and says so meanwhile to whom the context
// names.
func tell(ctx context.Context, what string, do func() error) error {
	progress, ok := ctx.Value(progressKey{}).(Progress)
	if !ok {
		return do()
	}
	what, _ = shorten(what, 200, "more")
	start, stop, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(tellEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				progress(time.Since(start), "running: "+what)
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	return do()
}
