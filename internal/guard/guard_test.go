package guard_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/guard"
)

// defect panics as a program does that has one.
func defect() {
	some := []string{os.DevNull}
	_ = some[len(os.Args)+1]
}

func TestTry(t *testing.T) {
	if err := guard.Try(func() error { return io.EOF }); err != io.EOF {
		t.Errorf("%v", err)
	}
	err := guard.Try(func() error { defect(); return nil })
	if _, ok := errors.AsType[*guard.Fault](err); !ok || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("%v", err)
	}
}

// A panic ends the goroutine, not the process, and its owner hears of it, even
// if that panics as well.
func TestGoroutinesThatPanic(t *testing.T) {
	told := make(chan error, 1)
	tell := func(err error) { told <- err }
	var g guard.Group
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, start := range map[string]func(){
		"Go":       func() { guard.Go(defect, tell) },
		"After":    func() { guard.After(time.Millisecond, defect, tell) },
		"Group":    func() { g.Go(defect, tell) },
		"WhenDone": func() { guard.WhenDone(over, defect, tell) },
		"twice":    func() { g.Go(defect, func(err error) { tell(err); defect() }) },
	} {
		start()
		if err := <-told; err == nil {
			t.Errorf("%s: no fault", name)
		}
	}
	g.Wait()
}
