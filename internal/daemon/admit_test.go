package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/sandkasten/sandkasten/internal/admission"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// elsewhere is a driver that may be remote, and says whether it has room.
type elsewhere struct {
	drivers.HostDriver
	remote bool
	admit  func(context.Context) error
}

func (e elsewhere) Remote() bool                    { return e.remote }
func (e elsewhere) Admit(ctx context.Context) error { return e.admit(ctx) }

func TestARemoteDriverSaysWhetherThereIsRoom(t *testing.T) {
	full := errdefs.New(errdefs.InsufficientSpace, "no room there")
	part := func(name string, d drivers.HostDriver) drivers.Part {
		return drivers.Part{Row: drivers.Row{Name: name}, Driver: d}
	}
	refuse := func(context.Context) error { return full }
	set := &drivers.Set{Parts: []drivers.Part{
		part("here", struct{ drivers.HostDriver }{}),
		part("roomy", elsewhere{remote: true, admit: func(context.Context) error { return nil }}),
		part("full", elsewhere{remote: true, admit: refuse}),
		part("near", elsewhere{remote: false, admit: refuse}),
		part("slow", elsewhere{remote: true, admit: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}),
	}}
	synctest.Test(t, func(t *testing.T) {
		empty := admission.New(func() (admission.Reading, error) { return admission.Reading{}, nil }, admission.Reserve{MemoryBytes: 1})
		for driver, want := range map[string]errdefs.Code{
			"here": errdefs.Unavailable, "near": errdefs.Unavailable, "": errdefs.Unavailable,
			"roomy": "", "full": errdefs.InsufficientSpace, "slow": errdefs.Unavailable,
		} {
			if err := roomOf(set, driver, empty)(t.Context()); (err == nil) != (want == "") || err != nil && errdefs.CodeOf(err) != want {
				t.Errorf("%q: %v, want %q", driver, err, want)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := roomOf(set, "slow", empty)(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("of a client that has left: %v", err)
		}
	})
}
