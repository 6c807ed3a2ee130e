package drivers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/docker"
	"github.com/sandkasten/sandkasten/internal/runtime/linux"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var silent = slog.New(slog.DiscardHandler)

func TestUnknownDriver(t *testing.T) {
	cfg := config.Default(Names())
	cfg.Driver = "magic"
	if _, err := Open(t.Context(), cfg, nil, silent); err == nil || !strings.Contains(err.Error(), "native") {
		t.Errorf("Open = %v, want the list of drivers", err)
	}
	cfg.ExtraDrivers = []string{"docker"}
	if _, err := Open(t.Context(), cfg, nil, silent); err == nil || !strings.Contains(err.Error(), "magic") {
		t.Errorf("Open = %v, want the list here, too", err)
	}
}

// fake is a driver with an ability or two.
type fake struct {
	HostDriver
	dir    string
	closed int
}

func (f *fake) PoolDir() string        { return f.dir }
func (f *fake) LimitsDisk(r bool) bool { return !r }
func (f *fake) Close() error           { f.closed++; return nil }

type plain struct{ HostDriver }

func (plain) Close() error { return nil }

func TestAbilitiesAreFoundByAssertion(t *testing.T) {
	able := &fake{dir: "/pool"}
	set := &Set{Parts: []Part{{Row{Name: "plain"}, plain{}}, {Row{Name: "able"}, able}}}
	if got := set.PoolDir(); got != "/pool" {
		t.Errorf("PoolDir is %q", got)
	}
	for _, c := range []struct {
		driver   string
		readonly bool
		want     bool
	}{{"plain", true, true}, {"able", false, true}, {"able", true, false}, {"none", true, true}} {
		if got := set.DiskLimited(c.driver, c.readonly); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for name, found := range Able[runtime.DiskPool](set) {
		if name != "able" || found != runtime.DiskPool(able) {
			t.Errorf("%s is %v", name, found)
		}
	}
	for name := range Able[runtime.ImageLoader](set) {
		t.Errorf("%s loads images", name)
	}
	if err := set.Close(); err != nil || able.closed != 1 {
		t.Errorf("closed %d times, %v", able.closed, err)
	}
}

// resting is a driver whose other end has stopped answering.
type resting struct{ plain }

func (resting) Sweep(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

type swept struct {
	plain
	done bool
}

func (s *swept) Sweep(context.Context) error { s.done = true; return nil }

// The sessions of the others are not held up by a driver that waits for another host.
func TestSweepDoesNotWaitForAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := &swept{}
		set := &Set{Parts: []Part{{Row{Name: "far"}, resting{}}, {Row{Name: "near", HostKernel: true}, near}}}
		began := time.Now()
		err := set.Sweep(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "far") || time.Since(began) != sweepTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if !near.done {
			t.Error("the other is not swept")
		}
	})
}

// The workspaces are those of the first driver that can keep any.
func TestWorkspaceDriver(t *testing.T) {
	bare, keeps := Row{Name: "bare"}, Row{Name: "keeps", Workspaces: true}
	for want, names := range map[string][]string{
		"":       {"bare"},
		"native": {"bare", "native", "keeps"},
		"keeps":  {"keeps", "bare", "native"},
		"docker": {"docker", "native"},
	} {
		cfg := config.Default(Names())
		cfg.Driver, cfg.ExtraDrivers = names[0], names[1:]
		if got := WorkspaceDriver(cfg, bare, keeps); got != want {
			t.Errorf("of %v: %q, want %q", names, got, want)
		}
	}
}

// What the table says of a driver before there is one is so.
func TestTableTellsAbilities(t *testing.T) {
	for _, row := range table() {
		var d runtime.Driver = (*linux.Driver)(nil)
		if row.Name == dockerName {
			d = (*docker.Driver)(nil)
		}
		_, loads := d.(runtime.ImageLoader)
		_, resolves := d.(runtime.ImageResolver)
		_, keeps := d.(runtime.WorkspaceKeeper)
		if row.LoadsImages != loads || row.OwnImages != resolves || row.Workspaces != keeps {
			t.Errorf("%s: loads images %v, has its own %v, keeps workspaces %v", row.Name, loads, resolves, keeps)
		}
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range table() {
		if row.Name == "" || seen[row.Name] || strings.ContainsAny(row.Name, "_/.") || row.Open == nil || row.Uses == nil || row.Title == "" || Planned(row.Name) {
			t.Errorf("%+v", row)
		}
		seen[row.Name] = true
	}
	for name, title := range planned() {
		if seen[name] || title == "" || Title(name) != title {
			t.Errorf("%q is planned as %q", name, title)
		}
	}
	if got := Title(runtime.Native) + Title("none"); got != "native" || Planned("none") {
		t.Errorf("titles %q", got)
	}
	if Names()[0] != runtime.Native {
		t.Errorf("the default is %s: ids without a driver are %s's", Names()[0], runtime.Native)
	}
}
