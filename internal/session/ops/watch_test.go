package ops_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/protocol"
)

// filesFirst is a driver that takes a sandbox's files away before its runner.
type filesFirst struct {
	*runtimetest.Local
	files  string
	runner chan struct{} // closed when the runner may go
}

func (f *filesFirst) Destroy(ctx context.Context, id runtime.ID) error {
	if err := os.RemoveAll(f.files); err != nil {
		return err
	}
	<-f.runner
	return f.Local.Destroy(ctx, id)
}

// A watch that ends because its session does says so, also if it loses its
// directory before its connection.
func TestAWatchSaysThatItsSessionEnds(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	driver := &filesFirst{Local: runtimetest.NewLocal(t), runner: make(chan struct{})}
	d := h.start(t, func(o *session.Options) { o.Driver = driver })
	s := d.create(t, session.CreateRequest{})
	driver.files = strings.TrimSpace(d.output(t, s.ID, "mkdir d; cd d; pwd -P"))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- d.Files.Watch(t.Context(), everyone, string(s.ID), protocol.Watch{Path: "d"}, func(c protocol.Change) error {
			if c.Op == "ready" {
				close(ready)
			}
			return nil
		})
	}()
	<-ready
	destroyed := make(chan error, 1)
	go func() { destroyed <- d.Sessions.Destroy(t.Context(), everyone, s.ID) }()
	select {
	case err := <-ended:
		wantCode(t, err, errdefs.Conflict)
	case <-time.After(time.Minute):
		t.Error("the watch goes on")
	}
	close(driver.runner)
	if err := <-destroyed; err != nil {
		t.Error(err)
	}
}
