package linux

import (
	goruntime "runtime"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestBootsTakeTurns: an owner makes as many sandboxes at once as there are processors, and
// one of another owner's is made beside these.
func TestBootsTakeTurns(t *testing.T) {
	testenv.NeedsRoot(t)
	d := newDriverWithPool(t, 0)
	for range goruntime.NumCPU() {
		if err := d.boots.Enter(t.Context(), "greedy"); err != nil {
			t.Fatal(err)
		}
	}
	late := make(chan error)
	go func() {
		_, err := d.Create(t.Context(), "late", runtime.Spec{Image: "test", Owner: "greedy"})
		late <- err
	}()
	create(t, d, "other", runtime.Spec{Owner: "other"})
	select {
	case err := <-late:
		session(t, d, "late")
		t.Fatalf("one too many was made: %v", err)
	default:
	}
	for range goruntime.NumCPU() {
		d.boots.Leave("greedy")
	}
	if err := <-late; err != nil {
		t.Fatal(err)
	}
	session(t, d, "late")
}
