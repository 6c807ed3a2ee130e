package docker

import (
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
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
