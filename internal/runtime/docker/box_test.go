package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// box is a sandbox in a test, destroyed when that ends.
type box struct {
	runtime.Sandbox
	d      *Driver
	client *runnerclient.Client
}

func testSpec() runtime.Spec {
	return runtime.Spec{
		Image:  testImage,
		Limits: runtime.Limits{CPU: 1, MemoryMB: 256, Pids: 64, DiskMB: 64},
	}
}

func newBox(t testing.TB, d *Driver, id runtime.ID, change ...func(*runtime.Spec)) *box {
	t.Helper()
	spec := testSpec()
	for _, do := range change {
		do(&spec)
	}
	sandbox, err := d.Create(context.WithoutCancel(t.Context()), id, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	x := use(d, sandbox)
	t.Cleanup(func() {
		if err := x.destroy(); err != nil {
			t.Errorf("Destroy at the end: %v", err)
		}
	})
	return x
}

// use makes a box of a sandbox that somebody else destroys.
func use(d *Driver, sandbox runtime.Sandbox) *box {
	return &box{sandbox, d, &runnerclient.Client{Dial: sandbox.DialRunner}}
}

func (x *box) destroy() error {
	return errors.Join(x.client.Close(), x.d.Destroy(context.Background(), x.ID()))
}

// run executes a command, which must succeed, and returns its output.
func (x *box) run(t testing.TB, command string) string {
	t.Helper()
	out, record := x.try(t, command)
	if record.ExitCode != 0 {
		t.Fatalf("%s: %+v, %q", command, record, out)
	}
	return out
}

// try executes a command and returns its output and its end.
func (x *box) try(t testing.TB, command string) (string, protocol.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	e := protocol.Exec{ID: strings.ToLower(rand.Text()), OutputLimit: 1 << 20, GraceMS: 100, TimeoutMS: 30_000}
	record, err := x.client.Exec(ctx, e, command, nil, &out)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSuffix(out.String(), "\n"), record
}
