package runner_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/protocol"
)

// serveEnv makes the test binary a runner that serves the directory it names.
const serveEnv = "SANDKASTEN_TEST_SERVE"

func serve(dir string) error {
	r, err := runner.New(runner.Options{Listener: 3, Workspace: dir, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		return err
	}
	return r.Serve()
}

// newBenchHost is a runner in a process of its own, as it is in a sandbox: the
// threads of client and runner then do not share a scheduler.
func newBenchHost(b *testing.B) *host {
	b.Helper()
	dir := b.TempDir()
	h := &host{t: b, workspace: filepath.Join(dir, "workspace"), socket: filepath.Join(dir, "s")}
	must(b, os.Mkdir(h.workspace, 0o755))
	listener := os.NewFile(uintptr(h.listen()), "listener")
	cmd := exec.CommandContext(b.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), serveEnv+"="+h.workspace)
	cmd.ExtraFiles = []*os.File{listener}
	cmd.Stderr = os.Stderr
	must(b, cmd.Start())
	must(b, listener.Close())
	b.Cleanup(func() {
		must(b, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			b.Error("the runner ended by itself")
		}
	})
	return h
}

// latencies collects what single calls took.
type latencies []time.Duration

func (l latencies) report(b *testing.B) {
	slices.Sort(l)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(l[len(l)*p/100].Nanoseconds())/1e3, fmt.Sprintf("p%d-us", p))
	}
}

// BenchmarkRoundTrip is a request, a line in the shell, and the answer.
func BenchmarkRoundTrip(b *testing.B) {
	for _, command := range []string{"true", "echo ok", "/bin/true"} {
		b.Run(command, func(b *testing.B) {
			p := newBenchHost(b).dial()
			p.sh("true")
			var took latencies
			for b.Loop() {
				begin := time.Now()
				p.sh(command)
				took = append(took, time.Since(begin))
			}
			took.report(b)
		})
	}
}

// BenchmarkFirstBytes is from the moment when a command prints until the daemon has it,
// while the command goes on.
func BenchmarkFirstBytes(b *testing.B) {
	p := newBenchHost(b).dial()
	p.sh("true")
	var took latencies
	for b.Loop() {
		p.start(protocol.Exec{Accept: true, TimeoutMS: 10_000}, `echo ${EPOCHREALTIME/./}; sleep 0.01`)
		for range 2 { // accepted, and the output
			if _, err := p.in.Next(); err != nil {
				b.Fatal(err)
			}
		}
		text, err := io.ReadAll(p.in)
		arrived := time.Now()
		must(b, err)
		printed, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		must(b, err)
		took = append(took, arrived.Sub(time.UnixMicro(printed)))
		if _, err := p.finish(); err != nil {
			b.Fatal(err)
		}
	}
	took.report(b)
}

// BenchmarkPaced leaves the shell alone between two commands, as agents do.
func BenchmarkPaced(b *testing.B) {
	p := newBenchHost(b).dial()
	p.sh("true")
	var took latencies
	for b.Loop() {
		time.Sleep(30 * time.Millisecond)
		begin := time.Now()
		p.sh("true")
		took = append(took, time.Since(begin))
	}
	took.report(b)
}

// BenchmarkParallel has n shells of one runner busy at once.
func BenchmarkParallel(b *testing.B) {
	for _, n := range []int{2, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := newBenchHost(b)
			var wg sync.WaitGroup
			work := make(chan struct{})
			for i := range n {
				p, e := h.dial(), protocol.Exec{Shell: fmt.Sprintf("s%d", i)}
				p.run(e, "true")
				wg.Go(func() {
					for range work {
						p.run(e, "true")
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
		})
	}
}

// BenchmarkOutput is how fast a command's output comes through.
func BenchmarkOutput(b *testing.B) {
	const size = 256 << 20
	p := newBenchHost(b).dial()
	p.sh("true")
	b.SetBytes(size)
	buf := make([]byte, 256<<10)
	for b.Loop() {
		p.start(protocol.Exec{}, fmt.Sprintf("head -c %d /dev/zero", size))
		for got := int64(0); ; {
			h, err := p.in.Next()
			if err != nil {
				b.Fatal(err)
			}
			if h.Type == protocol.TypeDone {
				if got != size {
					b.Fatalf("%d bytes, want %d", got, size)
				}
				break
			}
			n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{p.in}, buf)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
	}
}

// BenchmarkBareShell is the floor: bash on two pipes, without anything else.
func BenchmarkBareShell(b *testing.B) {
	var in, out [2]int
	must(b, unix.Pipe2(in[:], unix.O_CLOEXEC))
	must(b, unix.Pipe2(out[:], unix.O_CLOEXEC))
	r, w := os.NewFile(uintptr(in[0]), "in"), os.NewFile(uintptr(out[1]), "out")
	cmd := exec.CommandContext(context.Background(), "bash", "--norc", "-s") // ended by the end of its script
	cmd.Stdin, cmd.Stdout = r, w
	must(b, cmd.Start())
	must(b, r.Close())
	must(b, w.Close())
	b.Cleanup(func() {
		must(b, unix.Close(in[1]))
		must(b, cmd.Wait())
		must(b, unix.Close(out[0]))
	})
	buf := make([]byte, 16)
	var took latencies
	for b.Loop() {
		begin := time.Now()
		if _, err := unix.Write(in[1], []byte("echo ok\n")); err != nil {
			b.Fatal(err)
		}
		if n, err := unix.Read(out[0], buf); err != nil || n != 3 {
			b.Fatal(n, err)
		}
		took = append(took, time.Since(begin))
	}
	took.report(b)
}
