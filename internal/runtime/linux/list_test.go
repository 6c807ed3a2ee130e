package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
)

// newLister is a driver that can list, and has n sandboxes whose runner we are.
func newLister(t testing.TB, n int) *Driver {
	t.Helper()
	d := &Driver{sandboxes: t.TempDir(), bootID: "this boot"}
	start, _, err := inspect.Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		id := runtime.ID(fmt.Sprint("s", i))
		if err := d.claim(id); err != nil {
			t.Fatal(err)
		}
		put(t, d, state{
			ID: id, Spec: runtime.Spec{Image: "sha256:0123", Env: map[string]string{"A": "b"}}, CreatedAt: time.Unix(int64(i), 0).UTC(),
			Process: process{BootID: d.bootID, PID: os.Getpid(), StartTime: start},
		})
		if err := os.WriteFile(filepath.Join(d.dir(id), socketFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func put(t testing.TB, d *Driver, s state) {
	t.Helper()
	if err := d.writeState(s); err != nil {
		t.Fatal(err)
	}
}

func list(t testing.TB, d *Driver) map[runtime.ID]runtime.Status {
	t.Helper()
	all := map[runtime.ID]runtime.Status{}
	for s, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[s.ID] = s
	}
	return all
}

func TestListSeesWhatHasChanged(t *testing.T) {
	d := newLister(t, 4)
	want := map[runtime.ID]runtime.Status{}
	for i := range 4 {
		id := runtime.ID(fmt.Sprint("s", i))
		want[id] = runtime.Status{ID: id, Alive: true, CreatedAt: time.Unix(int64(i), 0).UTC()}
	}
	check := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, list(t, d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("at first")
	check("again")

	stopped, err := d.readState("s1")
	if err != nil {
		t.Fatal(err)
	}
	stopped.Stopped, stopped.Process = true, process{}
	put(t, d, *stopped)
	want["s1"] = runtime.Status{ID: "s1", Startable: true, CreatedAt: stopped.CreatedAt}
	check("after a stop")

	path := filepath.Join(d.dir("s2"), stateFile)
	if err := errors.Join(os.WriteFile(path+".tmp", []byte("{"), 0o600), os.Rename(path+".tmp", path)); err != nil {
		t.Fatal(err)
	}
	got := list(t, d)["s2"]
	if got.Alive || got.CreatedAt.IsZero() {
		t.Errorf("without a state that can be read: %+v", got)
	}
	want["s2"] = got

	if err := os.RemoveAll(d.dir("s3")); err != nil {
		t.Fatal(err)
	}
	delete(want, "s3")
	check("after a removal")
}

func TestListSeesARunnersEnd(t *testing.T) {
	d := newLister(t, 1)
	if !list(t, d)["s0"].Alive {
		t.Error("we are not alive")
	}
	d.bootID = "next boot"
	if list(t, d)["s0"].Alive {
		t.Error("a process of another boot is alive")
	}
}

// BenchmarkList is what a round of the reaper costs above many idle sandboxes.
func BenchmarkList(b *testing.B) {
	d := newLister(b, 2000)
	b.ReportAllocs()
	for b.Loop() {
		list(b, d)
	}
}
