package v1_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
)

// heldCreates is a driver that makes nothing until it is let go, and then fails.
type heldCreates struct {
	*runtimetest.Local
	free chan struct{}
}

func (d heldCreates) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	select {
	case <-d.free:
		return d.Local.Create(ctx, id, spec)
	default:
	}
	<-d.free
	return nil, errdefs.New(errdefs.Unavailable, "the driver was held up")
}

// Of 1,000 creates at once those over their bounds are told so while the first ones are
// still on their way, with the time after which to try again, and none waits for its turn.
func TestManyCreatesAreShedEarly(t *testing.T) {
	driver := heldCreates{runtimetest.NewLocal(t), make(chan struct{})}
	turns := admission.NewTurns()
	s := start(t, func(o *setup) {
		o.session.Driver = driver
		o.session.Admit = func(ctx context.Context, a session.Admission) error { return turns.During(ctx, a.Owner) }
	})
	const each = 500 // of two owners
	shed, all := make(chan answer, 2*each), make(chan answer, 2*each)
	var asking sync.WaitGroup
	for _, key := range []string{aliceKey, bobKey} {
		for range each {
			asking.Go(func() {
				a := s.do(t, "POST", "/v1/sessions", "{}", header("Authorization", "Bearer "+key))
				all <- a
				select {
				case <-driver.free:
				default:
					shed <- a
				}
			})
		}
	}
	begin := time.Now()
	most := turns.Most()
	for range 2*each - most {
		select {
		case a := <-shed:
			if a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
				t.Errorf("%d, %v: %s", a.status, a.header, a.body)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("creates wait that are over the bound")
		}
	}
	t.Logf("%d of %d creates were shed within %s", 2*each-most, 2*each, time.Since(begin))
	close(driver.free)
	asking.Wait()
	if n := len(shed); n > 0 {
		t.Errorf("%d more than those over the bound were shed", n)
	}
	s.create(t) // there is room again
}
