package runner_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/protocol"
)

// Programs and shells that live and have printed more than all outputs may take
// cost nobody anything: each keeps its first and last bytes, and more can start.
func TestOutputsOfManyThatLive(t *testing.T) {
	h := newHost(t)
	p := h.dial()
	const programs, shells = 40, 40
	const command = "seq 1 150000; exec sleep 300"
	for range programs {
		p.background(protocol.Start{}, "sh", "-c", command)
	}
	for i := range shells {
		q := h.dial()
		q.start(protocol.Exec{ID: fmt.Sprintf("s%d", i), Shell: fmt.Sprintf("s%d", i)}, command)
		must(t, q.c.Close()) // or the command waits for its reader
	}
	const total = 938895 // of seq
	for i := range programs {
		h.wantEnds(t, fmt.Sprintf("p%d", i+1), total)
	}
	for i := range shells {
		h.wantEnds(t, fmt.Sprintf("s%d", i), total)
	}
	h.dial().next()
}

// wantEnds waits until an exec has written so much and reads what is kept of it.
func (h *host) wantEnds(t *testing.T, id string, total int64) {
	t.Helper()
	p := h.dial()
	waitFor(t, func() bool { return p.recordOf(id).OutputBytes >= total })
	must(t, p.out.Send(protocol.TypeAttach, protocol.Attach{ID: id, Poll: true}, nil))
	r, err := p.finish()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.output); !strings.HasPrefix(got, "1\n2\n3\n") || !strings.HasSuffix(got, "\n149999\n150000\n") {
		t.Errorf("%s keeps %q", id, clip(got))
	}
}

// FuzzOutputs has many execs write, end, be read and be left at the same time,
// in an order that the seed chooses. Whatever it is, the runner goes on.
func FuzzOutputs(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		h := newHost(t)
		var living []string
		for i := range 30 {
			p, id := h.dial(), fmt.Sprintf("x%d", i)
			size := []int{0, 1, 60_000, 70_000, 1_000_000, 5_000_000}[random.IntN(6)]
			end := []string{"", "; exec sleep 300", "; exit 3"}[random.IntN(3)]
			command := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x%s", size, end)
			switch random.IntN(4) {
			case 0:
				p.start(protocol.Exec{ID: id, Shell: fmt.Sprint(i % 7), TimeoutMS: 2000, GraceMS: 50}, command) // nobody reads on
			case 1:
				p.background(protocol.Start{ID: id, TimeoutMS: 60_000}, "sh", "-c", command)
			case 2:
				p.background(protocol.Start{ID: id, TTY: true, TimeoutMS: 60_000}, "sh", "-c", command)
			default:
				p.background(protocol.Start{ID: id, OutputLimit: 1 + random.Int64N(1<<20)}, "sh", "-c", command)
				must(t, p.out.Send(protocol.TypeAttach, protocol.Attach{ID: id}, nil))
			}
			living = append(living, id)
			if other := living[random.IntN(len(living))]; random.IntN(3) == 0 {
				q := h.dial()
				must(t, q.out.Send(protocol.TypeCancel, protocol.Cancel{ID: other}, nil))
			}
		}
		h.dial().next()
	})
}

// Whoever starts a terminal gets all that it shows, however late the attach comes
// behind the start.
func TestNewTerminalKeepsItsBeginning(t *testing.T) {
	p := newHost(t).dial()
	rec := p.background(protocol.Start{TTY: true, HangupMS: 60_000}, "seq", "1", "200000")
	waitFor(t, func() bool { return p.recordOf(rec.ID).OutputBytes > 200_000 })
	time.Sleep(50 * time.Millisecond) // for it to write more, if it does not wait
	r := p.attach(rec.ID, 0)
	if !strings.HasPrefix(string(r.output), "1\r\n2\r\n") || r.gaps > 0 || int64(len(r.output)) != r.OutputBytes || r.ExitCode != 0 {
		t.Errorf("%d of %d bytes, %d in gaps: %q", len(r.output), r.OutputBytes, r.gaps, clip(string(r.output)))
	}
}
