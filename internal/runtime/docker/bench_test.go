package docker

import (
	"errors"
	"io"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

func benchDriver(b *testing.B) *Driver {
	b.Helper()
	testenv.NeedsRoot(b)
	d := open(b, options(b, testenv.StartEngine(b)))
	if err := newBox(b, d, "first").destroy(); err != nil { // brings in the image and the runner
		b.Fatal(err)
	}
	return d
}

// BenchmarkExec is `true` in a shell over the shared link.
func BenchmarkExec(b *testing.B) {
	x := newBox(b, benchDriver(b), "exec")
	for b.Loop() {
		x.run(b, "true")
	}
}

// BenchmarkCreate is a sandbox up to its first answer, and its end.
func BenchmarkCreate(b *testing.B) {
	d := benchDriver(b)
	for b.Loop() {
		x := newBox(b, d, "again")
		x.run(b, "true")
		b.StopTimer()
		if err := x.destroy(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkClaim is BenchmarkCreate where a container is ready.
func BenchmarkClaim(b *testing.B) {
	d := benchDriver(b)
	spec := testSpec()
	spec.Env = map[string]string{"GREETING": "hi"}
	for b.Loop() {
		b.StopTimer()
		ready := newBox(b, d, "ready")
		if err := ready.client.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		sandbox, err := d.Claim(b.Context(), "ready", "claimed", spec)
		if err != nil {
			b.Fatal(err)
		}
		x := use(d, sandbox)
		x.run(b, "true")
		b.StopTimer()
		if err := x.destroy(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkFork is one, of a sandbox with 100 MB in its root and 10 in its
// workspace, up to its first answer.
func BenchmarkFork(b *testing.B) {
	d := benchDriver(b)
	source := newBox(b, d, "source")
	source.run(b, "head -c 100000000 /dev/urandom >/opt/big; head -c 10000000 /dev/urandom >/workspace/small")
	for b.Loop() {
		made, err := d.Fork(b.Context(), "source", []runtime.Branch{{ID: "fork"}}, testSpec())
		if err != nil {
			b.Fatal(err)
		}
		x := use(d, made.Sandboxes[0])
		x.run(b, "true")
		b.StopTimer()
		if err := x.destroy(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkPackRoot is a snapshot of a root of which 100 MB in one file have
// changed, or nothing.
func BenchmarkPackRoot(b *testing.B) {
	x := newBox(b, benchDriver(b), "packed")
	pack := func(b *testing.B) {
		for b.Loop() {
			packed, err := x.client.Pack(b.Context(), protocol.Pack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotLayer})
			if err != nil {
				b.Fatal(err)
			}
			_, err = io.Copy(io.Discard, packed)
			if err := errors.Join(err, packed.Close()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("nothing", pack)
	const size = 100_000_000
	x.run(b, "base64 /dev/urandom | head -c 100000000 >/opt/big")
	b.Run("100MB", func(b *testing.B) {
		b.SetBytes(size)
		pack(b)
	})
}
