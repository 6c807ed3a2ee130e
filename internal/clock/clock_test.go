package clock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/clock"
)

func TestHost(t *testing.T) {
	r, err := clock.Host("/proc")()
	if err != nil || len(r.Boot) != 36 || r.Offset <= 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	drift := time.Hour
	for try := 0; try < 20 && drift > 30*time.Millisecond; try++ { // the machine may stop between both clocks
		time.Sleep(50 * time.Millisecond)
		again, err := clock.Host("/proc")()
		if err != nil || again.Boot != r.Boot {
			t.Fatalf("%+v, and then %+v, %v", r, again, err)
		}
		drift, r = (again.Offset - r.Offset).Abs(), again
	}
	if drift > 30*time.Millisecond {
		t.Errorf("it drifts by %v", drift)
	}
	proc := t.TempDir()
	if _, err := clock.Host(proc)(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for name, text := range map[string]string{"sys/kernel/random/boot_id": "x\n", "uptime": "soon 1.0\n"} {
		name = filepath.Join(proc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := clock.Host(proc)(); err == nil {
		t.Error("that is no uptime")
	}
}

// jumps are rows that follow by so much.
type jumps time.Duration

func (j jumps) Align(context.Context, clock.Reading) (time.Duration, error) {
	return time.Duration(j), nil
}

func TestKeeperTellsOfAJump(t *testing.T) {
	for by, want := range map[time.Duration]struct{ told, logged bool }{
		0: {}, time.Second: {told: true}, -time.Hour: {told: true, logged: true},
	} {
		var log bytes.Buffer
		told := false
		k := &clock.Keeper{
			Read: func() (clock.Reading, error) { return clock.Reading{}, nil },
			Rows: jumps(by), Set: func() { told = true }, Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		if err := k.Align(t.Context()); err != nil {
			t.Fatal(err)
		}
		if logged := strings.Contains(log.String(), "by=-1h0m0s"); told != want.told || logged != want.logged {
			t.Errorf("%s: told %t, log %s", by, told, log.String())
		}
	}
}
