package fault

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

var (
	seed   = flag.Uint64("seed", 0, "of the monkey; 0 takes one from the clock")
	length = flag.Duration("for", 0, "how long the monkey goes on; 0 is what SANDKASTEN_MONKEY says, or else ten minutes")
)

func seedOf() uint64 { return cmp.Or(*seed, uint64(time.Now().UnixNano())) }

func spanOf(t *testing.T) time.Duration {
	t.Helper()
	span := *length
	if text := os.Getenv("SANDKASTEN_MONKEY"); span == 0 && text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	return cmp.Or(span, 10*time.Minute)
}

// crowd is how many sessions the monkey has at most.
const crowd = 20

// A monkey does everything to the daemon, its host and its sessions, in an order
// that a seed gives, and knows what must be true: sessions that were
// acknowledged are there, with the files that were, and those that were
// destroyed are gone.
func TestF37_Monkey(t *testing.T) {
	h := start(t, "admission: {memory_reserve_mb: 0}\nexec: {kill_grace_seconds: 1}")
	m := &monkey{h: h, t: t, seed: seedOf()}
	m.r = rand.New(rand.NewPCG(m.seed, 0))
	span := spanOf(t)
	t.Logf("seed %d, for %s", m.seed, span)
	t.Cleanup(m.tell)
	for end := time.Now().Add(span); time.Now().Before(end); m.done++ {
		m.act()
		if m.done%50 == 49 {
			m.checkAll()
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	m.checkAll()
	t.Logf("%d actions: %v", m.done, m.count)
	h.oracle()
	h.wantNothing()
}

// monkey is one at work.
type monkey struct {
	h    *host
	t    *testing.T
	r    *rand.Rand
	seed uint64

	subjects   []*subject
	workspaces []*volume
	snapshots  []saved
	keys       int

	done    int
	history []string
	count   map[string]int
}

// subject is a session as it must be.
type subject struct {
	*sandkasten.Session
	volume *volume
	state  string
	shared bool // its files are a workspace's
}

// volume is what must be in a /workspace.
type volume struct {
	id    string // of a workspace
	files map[string]string
}

// saved is a snapshot and what must be in it.
type saved struct {
	id    string
	files map[string]string
}

// deeds are what the monkey does, and how often in comparison.
var deeds = []struct {
	name   string
	weight int
	do     func(*monkey)
}{
	{"create", 12, (*monkey).create},
	{"write by a command", 12, (*monkey).writeByCommand},
	{"write by the API", 12, (*monkey).writeByAPI},
	{"read", 12, (*monkey).read},
	{"command that is late", 4, (*monkey).late},
	{"client that leaves", 6, (*monkey).leave},
	{"hostile command", 8, (*monkey).hostile},
	{"snapshot", 4, (*monkey).snapshot},
	{"fork", 3, (*monkey).fork},
	{"pause", 4, func(m *monkey) { m.turn("paused") }},
	{"resume", 4, func(m *monkey) { m.turn("running") }},
	{"stop", 4, func(m *monkey) { m.turn("stopped") }},
	{"start", 6, func(m *monkey) { m.turn("running") }},
	{"destroy", 8, (*monkey).destroy},
	{"kill a runner", 2, (*monkey).killRunner},
	{"stop a runner", 2, (*monkey).stopRunner},
	{"kill the daemon", 3, (*monkey).killDaemon},
	{"kill the daemon at work", 4, (*monkey).killAtWork},
	{"restart the daemon", 2, (*monkey).restart},
}

func (m *monkey) act() {
	total := 0
	for _, d := range deeds {
		total += d.weight
	}
	n := m.r.IntN(total)
	for _, d := range deeds {
		if n -= d.weight; n < 0 {
			m.note("%s", d.name)
			if m.count == nil {
				m.count = map[string]int{}
			}
			m.count[d.name]++
			d.do(m)
			return
		}
	}
}

// note remembers what is done, for the report of a failure.
func (m *monkey) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf("%d: ", m.done)+fmt.Sprintf(format, args...))
}

func (m *monkey) tell() {
	if m.t.Failed() {
		m.t.Logf("to do it again: go tool task test:monkey -- -seed %d\nthe last actions:\n\t%s", m.seed,
			strings.Join(m.history[max(0, len(m.history)-60):], "\n\t"))
	}
}

// key is a new idempotency key.
func (m *monkey) key() string { m.keys++; return fmt.Sprintf("monkey-%d", m.keys) }

// any chooses a session in one of these states, or nil.
func (m *monkey) any(states ...string) *subject {
	n := m.r.IntN(1 << 30)
	var fit []*subject
	for _, s := range m.subjects {
		if slices.Contains(states, s.state) {
			fit = append(fit, s)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	s := fit[n%len(fit)]
	m.note("  session %s, %s", s.ID, s.state)
	return s
}

// must fails unless a call succeeds; one that is told to come back does.
func (m *monkey) must(what string, call func() error) {
	m.t.Helper()
	err := patiently(settle, func() error {
		err := call()
		if err != nil && code(err) != "unavailable" {
			m.judge(what, err)
		}
		return err
	})
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", what, err, m.h.Log())
	}
}

// judge fails for an error that no client should see.
func (m *monkey) judge(what string, err error) {
	m.t.Helper()
	if c := code(err); c == "internal" {
		m.t.Fatalf("%s: %v (%s)\n%s", what, err, c, m.h.Log())
	}
}
