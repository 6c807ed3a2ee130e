package multidriver_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/multidriver"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite holds each of two drivers to the contract, through the one that
// both make, beside the other.
func TestSuite(t *testing.T) {
	for _, name := range []string{runtime.Native, "other"} {
		t.Run(name, func(t *testing.T) {
			locals := map[string]*runtimetest.Local{runtime.Native: runtimetest.NewLocal(t), "other": runtimetest.NewLocal(t)}
			open := func(*testing.T) runtime.Driver {
				drivers := map[string]runtime.Driver{}
				for name, l := range locals {
					drivers[name] = &runtimetest.Local{Dir: l.Dir, Runner: l.Runner}
				}
				return multidriver.New(drivers, name)
			}
			runtimetest.TestDriver(t, open, runtimetest.Options{
				Driver:     name,
				Image:      runtimetest.LocalImage,
				Kill:       func(t *testing.T, id runtime.ID) { locals[name].KillRunner(t, id) },
				Unlimited:  true,
				NoClaims:   true,
				NoRoots:    true,
				NoNetworks: true,
			})
		})
	}
}

// plain is a driver without any optional part.
type plain struct{ runtime.Driver }

// broken is one that can do nothing.
type broken struct{ runtime.Driver }

var errBroken = errors.New("broken for the test")

func (broken) Check(context.Context) error { return errBroken }

func spec() runtime.Spec { return runtime.Spec{Image: runtimetest.LocalImage} }

func create(t *testing.T, d runtime.Driver, id runtime.ID) {
	t.Helper()
	if sandbox, err := d.Create(t.Context(), id, spec()); err != nil || sandbox.ID() != id {
		t.Fatalf("Create %s: %v, %v", id, sandbox, err)
	}
}

func list(t *testing.T, d runtime.Driver) []runtime.ID {
	t.Helper()
	var all []runtime.ID
	for s, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.ID)
	}
	return all
}

func TestEachSandboxIsOfOneDriver(t *testing.T) {
	native, other := runtimetest.NewLocal(t), runtimetest.NewLocal(t)
	d := multidriver.New(map[string]runtime.Driver{runtime.Native: native, "other": other}, runtime.Native)
	create(t, d, "a")
	create(t, d, "other_a")
	if got := list(t, d); !slices.Equal(got, []runtime.ID{"a", "other_a"}) {
		t.Errorf("both: %v", got)
	}
	if a, b := list(t, native), list(t, other); !slices.Equal(a, []runtime.ID{"a"}) || !slices.Equal(b, []runtime.ID{"other_a"}) {
		t.Errorf("native: %v, other: %v", a, b)
	}
	for s, err := range d.List(t.Context()) { // may be left after the first
		if s.ID != "a" || err != nil {
			t.Errorf("%v, %v", s, err)
		}
		break
	}
	if err := d.Destroy(t.Context(), "other_a"); err != nil {
		t.Error(err)
	}
	if _, err := d.Open(t.Context(), "a"); err != nil {
		t.Errorf("the other's namesake was destroyed with it: %v", err)
	}
}

// TestDriverThatIsGone: sandboxes of one that is not configured any more are
// as gone as they are without it.
func TestDriverThatIsGone(t *testing.T) {
	ctx := t.Context()
	for left, id := range map[string]runtime.ID{runtime.Native: "gone_a", "other": "a"} { // native may be the one that is gone
		d := multidriver.New(map[string]runtime.Driver{left: runtimetest.NewLocal(t)}, left)
		for name, call := range map[string]func() error{
			"Open":       func() error { _, err := d.Open(ctx, id); return err },
			"Stop":       func() error { return d.Stop(ctx, id) },
			"Start":      func() error { _, err := d.Start(ctx, id); return err },
			"StartQuiet": func() error { _, err := d.StartQuiet(ctx, id); return err },
			"Fork":       func() error { _, err := d.Fork(ctx, id, nil, spec()); return err },
		} {
			if err := call(); !errdefs.Is(err, errdefs.NotFound) {
				t.Errorf("%s %s: %v", name, id, err)
			}
		}
		if err := d.Destroy(ctx, id); err != nil {
			t.Errorf("Destroy %s: %v", id, err)
		}
		if _, err := d.Create(ctx, id, spec()); !errdefs.Is(err, errdefs.Unimplemented) {
			t.Errorf("Create %s: %v", id, err)
		}
	}
}

// A daemon may have no driver that keeps workspaces.
func TestNobodyKeepsWorkspaces(t *testing.T) {
	d := multidriver.New(map[string]runtime.Driver{"one": runtimetest.NewLocal(t), "two": runtimetest.NewLocal(t)}, "")
	withWorkspace := spec()
	withWorkspace.Workspace = "w"
	_, err := d.Create(t.Context(), "one_a", withWorkspace)
	for what, err := range map[string]error{"a session with one": err, "one": d.CreateWorkspace(t.Context(), "w", 1)} {
		if !errdefs.Is(err, errdefs.Unimplemented) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatADriverLacksIsUnimplemented(t *testing.T) {
	ctx := t.Context()
	local := runtimetest.NewLocal(t)
	lacking := multidriver.New(map[string]runtime.Driver{runtime.Native: local, "plain": plain{runtimetest.NewLocal(t)}}, "plain")
	split := multidriver.New(map[string]runtime.Driver{runtime.Native: local, "other": runtimetest.NewLocal(t)}, runtime.Native)
	withWorkspace := spec()
	withWorkspace.Workspace = "w"
	for name, call := range map[string]func() error{
		"stop":        func() error { return lacking.Stop(ctx, "plain_a") },
		"start":       func() error { _, err := lacking.Start(ctx, "plain_a"); return err },
		"quiet start": func() error { _, err := lacking.StartQuiet(ctx, "plain_a"); return err },
		"claim":       func() error { _, err := lacking.Claim(ctx, "plain_a", "plain_b", spec()); return err },
		"fork": func() error {
			_, err := lacking.Fork(ctx, "plain_a", []runtime.Branch{{ID: "plain_b"}}, spec())
			return err
		},
		"workspace": func() error {
			return lacking.CreateWorkspace(ctx, "w", 1)
		},
		"end of a workspace": func() error { return lacking.DestroyWorkspace(ctx, "w") },
		"size of a workspace": func() error {
			_, err := lacking.WorkspaceBytes(ctx, "w")
			return err
		},
		"workspaces": func() error {
			for _, err := range lacking.Workspaces(ctx) {
				return err
			}
			return nil
		},
		"claim from another":     func() error { _, err := split.Claim(ctx, "a", "other_b", spec()); return err },
		"fork into another":      func() error { _, err := split.Fork(ctx, "a", []runtime.Branch{{ID: "other_b"}}, spec()); return err },
		"workspace of the other": func() error { _, err := split.Create(ctx, "other_a", withWorkspace); return err },
	} {
		if err := call(); !errdefs.Is(err, errdefs.Unimplemented) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := slices.Concat(list(t, lacking), list(t, split)); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

func TestCheckSaysWhich(t *testing.T) {
	d := multidriver.New(map[string]runtime.Driver{runtime.Native: runtimetest.NewLocal(t), "other": broken{}}, runtime.Native)
	if err := d.Check(t.Context()); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "other: ") {
		t.Errorf("%v", err)
	}
}

// failing is one whose list ends with an error.
type failing struct {
	runtime.Driver
	err error
}

func (f failing) List(context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) { yield(runtime.Status{}, f.err) }
}

// TestSurvey: the sandboxes of the others are seen if one does not answer, and
// none if one is broken.
func TestSurvey(t *testing.T) {
	native := runtimetest.NewLocal(t)
	of := func(err error) *multidriver.Driver {
		return multidriver.New(map[string]runtime.Driver{"absent": failing{native, err}, runtime.Native: native}, runtime.Native)
	}
	away := errdefs.New(errdefs.Unavailable, "away for the test")
	create(t, of(nil), "a")
	seen, err := runtime.Survey(t.Context(), of(away))
	if err != nil || len(seen.Sandboxes) != 1 || !seen.Sandboxes["a"].Alive || len(seen.Absent) != 1 || !errors.Is(seen.Absent["absent"], away) {
		t.Errorf("%+v, %v", seen, err)
	}
	if seen, err := runtime.Survey(t.Context(), of(errBroken)); !errors.Is(err, errBroken) {
		t.Errorf("%+v, %v", seen, err)
	}
	for s, err := range of(away).List(t.Context()) { // may be left there, too
		if err == nil || !strings.Contains(err.Error(), "absent") {
			t.Errorf("%v, %v", s, err)
		}
		break
	}
}

// silent is one that lists nothing until nobody waits any more.
type silent struct{ runtime.Driver }

func (silent) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		<-ctx.Done()
		yield(runtime.Status{}, ctx.Err())
	}
}

// one lists a sandbox.
type one struct{ runtime.Driver }

func (one) List(context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) { yield(runtime.Status{ID: "a", Alive: true}, nil) }
}

// The sandboxes of the others are seen in time beside any number of drivers that do not
// answer, and nothing is absent for want of the caller's patience.
func TestSurveyOfTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := multidriver.New(map[string]runtime.Driver{"a": silent{}, "b": silent{}, runtime.Native: one{}}, "")
		began := time.Now()
		seen, err := runtime.Survey(t.Context(), d)
		if err != nil || len(seen.Sandboxes) != 1 || len(seen.Absent) != 2 || time.Since(began) > time.Minute {
			t.Errorf("after %v: %+v, %v", time.Since(began), seen, err)
		}
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if seen, err := runtime.Survey(hurried, d); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in a second: %+v, %v", seen, err)
		}
	})
}
