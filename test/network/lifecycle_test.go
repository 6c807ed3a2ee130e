package network

import (
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// holds checks that a session reaches what it may, and nothing else.
func (s *sandbox) holds(t *testing.T, when string) {
	t.Helper()
	if r := s.get(t, "https://good.test/"); !strings.HasPrefix(r.Output, "200 site good.test") {
		t.Errorf("%s: what is allowed: %+v", when, r)
	}
	if r := s.get(t, "https://bad.test/"); !strings.HasPrefix(r.Output, "failed:") {
		t.Errorf("%s: what is not: %+v", when, r)
	}
}

// TestPolicyStaysWithItsSession takes sessions through all that may happen to them.
func TestPolicyStaysWithItsSession(t *testing.T) {
	w := enter(t, "pool: {enabled: true, images: {base: 1}}\n")
	s := w.create(t, allow("good.test")) // from the pool, or beside it
	s.holds(t, "at first")
	s.do(t, "POST", s.at("/pause"), nil, nil)
	s.do(t, "POST", s.at("/resume"), nil, nil)
	s.holds(t, "after a pause")
	s.do(t, "POST", s.at("/stop"), nil, nil)
	s.do(t, "POST", s.at("/start"), nil, nil)
	s.holds(t, "after a stop")
	var forked struct{ Sessions []struct{ ID string } }
	s.do(t, "POST", s.at("/fork"), object{"count": 1}, &forked)
	fork := w.session(t, forked.Sessions[0].ID)
	fork.holds(t, "in a fork")
	var saved struct{ ID string }
	s.do(t, "POST", s.at("/snapshots"), object{}, &saved)
	restored := w.create(t, allow("good.test"), object{"restore_snapshot_id": saved.ID})
	restored.holds(t, "from a snapshot")
	plain := w.create(t, nil, object{"restore_snapshot_id": saved.ID})
	if r := plain.get(t, "http://good.test/"); strings.HasPrefix(r.Output, "200") {
		t.Logf("a session from a snapshot has the policy of its session: %+v", r)
	}
	s.do(t, "DELETE", "/v1/snapshots/"+saved.ID, nil, nil)
	w.claimed(t)
	w.killed(t, s, fork)
}

// claimed checks that a session that was ready before it came has its network.
func (w *world) claimed(t *testing.T) {
	t.Helper()
	time.Sleep(2 * time.Second) // one may be made ready meanwhile
	w.create(t, allow("good.test")).holds(t, "from the pool")
}

// killed checks that what sessions may reach ends with the daemon and comes back with
// the next one, without anything that the sandbox does.
func (w *world) killed(t *testing.T, all ...*sandbox) {
	t.Helper()
	s := all[0]
	const often = `while true; do python3 - <<'X'
import socket
try:
    s = socket.create_connection(("198.51.100.1", 80), 2); s.close(); print("open", flush=True)
except OSError as e: print("refused" if e.errno == 111 else e, flush=True)
X
sleep 0.2; done > /workspace/seen 2>&1`
	s.do(t, "PUT", s.at("/network"), allow("good.test", "198.51.100.1:80"), nil)
	s.do(t, "POST", s.at("/processes"), object{"cmd": []string{"bash", "-c", often}, "background": true}, nil)
	seen := func() []string { return strings.Fields(s.run(t, "cat /workspace/seen").Output) }
	testenv.Eventually(t, "it is reached", func() bool { n := seen(); return len(n) > 1 && n[len(n)-1] == "open" })
	w.daemon.Kill()
	time.Sleep(2 * time.Second)
	w.daemon.Start()
	testenv.Eventually(t, "it is refused while the daemon is away, and reached again", func() bool {
		n := seen()
		return strings.Contains(strings.Join(n, " "), "open refused") && n[len(n)-1] == "open"
	})
	if n := strings.Join(seen(), " "); strings.Trim(strings.NewReplacer("open", "", "refused", "").Replace(n), " ") != "" {
		t.Errorf("seen: %s", n)
	}
	for _, s := range all {
		s.holds(t, "after the daemon's death")
	}
}
