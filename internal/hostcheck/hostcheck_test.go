package hostcheck

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/doctor"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/runnerbin"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestExamineTellsOfEverything(t *testing.T) {
	testenv.NeedsRoot(t)
	if _, err := runnerbin.Bytes(); errors.Is(err, runnerbin.ErrMissing) {
		testenv.Unsupported(t, "%v", err)
	}
	cfg := config.Default(drivers.Names())
	beside := t.TempDir()
	cfg.DataDir = filepath.Join(beside, "below", "data")
	cfg.DBPath = filepath.Join(cfg.DataDir, "sandkasten.db")
	seen := map[string]doctor.Finding{}
	for _, f := range Examine(t.Context(), cfg) {
		seen[f.Check] = f
	}
	if f := seen["driver native"]; f.Status != doctor.OK {
		t.Errorf("driver: %+v", f)
	}
	if f := seen["default image"]; f.Status != doctor.Warn || !strings.Contains(f.Mend, "sandkasten image build base") {
		t.Errorf("default image: %+v", f)
	}
	for _, check := range []string{"kernel", "cgroups", "daemon"} {
		if _, ok := seen[check]; !ok {
			t.Errorf("no finding of %q", check)
		}
	}
	if left, err := os.ReadDir(beside); err != nil || len(left) > 0 {
		t.Errorf("it has left %v behind, %v", left, err)
	}
}

// What the doctor looks at depends on what makes the sandboxes.
func TestHost(t *testing.T) {
	cfg := config.Default(drivers.Names())
	if h := Host(cfg); h.Engine || h.MaxIDs == 0 {
		t.Errorf("of %s: %+v", cfg.Driver, h)
	}
	cfg.Driver = "docker"
	if h := Host(cfg); !h.Engine || h.MaxIDs != 0 {
		t.Errorf("of %s: %+v", cfg.Driver, h)
	}
	cfg.ExtraDrivers = []string{runtime.Native}
	if h := Host(cfg); h.Engine || h.MaxIDs == 0 {
		t.Errorf("of %s beside: %+v", cfg.Driver, h)
	}
}
