package orchestrator

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// The environment variables of a run that is repeated, or longer.
const (
	modelSeed  = "SANDKASTEN_TEST_MODEL_SEED"  // a number; the time
	modelSteps = "SANDKASTEN_TEST_MODEL_STEPS" // 300
)

func number(t *testing.T, variable string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// model is what one session must be: its file as it was written last, and as its
// snapshots have it.
type model struct {
	ready  bool
	file   string
	latest string            // id of a snapshot
	saved  map[string]string // the file, by the id of a snapshot
}

// begin is what a session begins with that is not ready.
func (m *model) begin(snapshot string) {
	if m.ready {
		return
	}
	m.ready, m.file = true, m.saved[snapshot]
}

// follower takes steps with a session of a real daemon and with the model.
type follower struct {
	client

	daemon *blackbox.Daemon
	model  model
	random *rand.Rand
	taken  []string
}

// TestRealSessionFollowsTheModel takes many steps with one session on the native
// driver, each compared with what the model says. Its time passes, the daemon is
// killed, and its sandbox is ended behind its back in between. The package
// internal/orchestrator has more steps, over fakes.
func TestRealSessionFollowsTheModel(t *testing.T) {
	t.Parallel()
	d := blackbox.Start(t, blackbox.Options{Config: "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n"})
	seed, steps := number(t, modelSeed, time.Now().UnixNano()), number(t, modelSteps, 300)
	t.Logf("%s=%d repeats it", modelSeed, seed)
	f := &follower{
		client: clientOf(t, d, d.Key), daemon: d, model: model{saved: map[string]string{}}, random: rand.New(rand.NewPCG(uint64(seed), 0)),
	}
	f.create("", http.StatusCreated)
	for i := range steps {
		step := f.step(fmt.Sprint(i))
		f.taken = append(f.taken, step)
		f.compare()
		if t.Failed() {
			t.Fatalf("step %d of seed %d: %s\nsteps: %s\n%s", i, seed, step, strings.Join(f.taken, ", "), d.Log())
		}
	}
}

const one = sessionsPath + someID + "/"

func (f *follower) create(snapshot string, status int) {
	f.t.Helper()
	body := `{"id":"` + someID + `"}`
	if snapshot != "" {
		body = `{"id":"` + someID + `","restore_snapshot_id":"` + snapshot + `"}`
	}
	var made session
	f.must(&made, http.MethodPost, sessionsPath, body, status)
	if made.Status != "ready" {
		f.t.Errorf("created: %+v", made)
	}
	if snapshot == "" {
		snapshot = f.model.latest
	}
	f.model.begin(snapshot)
}

// made is the status of a create's answer.
func (f *follower) made() int {
	if f.model.ready {
		return http.StatusOK
	}
	return http.StatusCreated
}

// step takes one step and returns its name.
func (f *follower) step(text string) string {
	f.t.Helper()
	switch n := f.random.IntN(100); {
	case n < 15:
		f.create("", f.made())
		return "create"
	case n < 22:
		f.createAtOnce()
		return "create at once"
	case n < 50:
		f.must(nil, http.MethodPost, one+"upload/", `{"path":"f","content":"`+text+`"}`, http.StatusOK)
		f.model.begin(f.model.latest)
		f.model.file = text
		return "write"
	case n < 62:
		f.must(nil, http.MethodPost, one+"stop/", "", http.StatusNoContent)
		f.end()
		return "stop"
	case n < 72:
		f.must(nil, http.MethodPost, one+"heartbeat/", "", http.StatusOK)
		return "heartbeat"
	case n < 82:
		f.must(nil, http.MethodPost, one+"snapshot/", "{}", http.StatusCreated)
		f.model.begin(f.model.latest)
		f.noteSnapshot()
		return "snapshot"
	case n < 90:
		return f.restore()
	case n < 94:
		f.destroy()
		return "destroy"
	case n < 98:
		f.reap()
		return "reap"
	}
	f.daemon.Kill()
	f.daemon.Start()
	return "kill"
}

// createAtOnce has several clients create it at the same time: all get the same.
func (f *follower) createAtOnce() {
	f.t.Helper()
	var all sync.WaitGroup
	made := make([]session, 4)
	status := f.made()
	for i := range made {
		all.Go(func() {
			f.must(&made[i], http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`, status, http.StatusOK)
		})
	}
	all.Wait()
	for _, x := range made {
		if x.Ref != made[0].Ref || x.Status != "ready" {
			f.t.Errorf("creates at once: %+v", made)
		}
	}
	f.model.begin(f.model.latest)
}

// snapshots are the ids of those that there are, newest first.
func (f *follower) snapshots() (ids []string) {
	f.t.Helper()
	var list struct {
		Snapshots []struct{ ID string }
	}
	f.must(&list, http.MethodGet, one+"snapshots/", "", http.StatusOK)
	for _, shot := range list.Snapshots {
		ids = append(ids, shot.ID)
	}
	return ids
}

// noteSnapshot takes note of the one that has been made.
func (f *follower) noteSnapshot() {
	f.t.Helper()
	ids := f.snapshots()
	if len(ids) == 0 {
		f.t.Error("no snapshot")
		return
	}
	if _, known := f.model.saved[ids[0]]; known {
		f.t.Errorf("no new snapshot: %v", ids)
	}
	f.model.latest = ids[0]
	f.model.saved[ids[0]] = f.model.file
}

// end is what remains of a session that is saved and ended.
func (f *follower) end() {
	f.t.Helper()
	if f.model.ready {
		f.noteSnapshot()
	}
	f.model.ready = false
}

// restore begins a session that is not ready with any of its snapshots.
func (f *follower) restore() string {
	f.t.Helper()
	ids := f.snapshots()
	if f.model.ready || len(ids) == 0 {
		return "no restore"
	}
	f.create(ids[f.random.IntN(len(ids))], http.StatusCreated)
	return "restore"
}

// destroy ends what the session runs in, as /v1 does: nothing is saved.
func (f *follower) destroy() {
	f.t.Helper()
	if !f.model.ready {
		return
	}
	var x session
	f.must(&x, http.MethodGet, one, "", http.StatusOK)
	f.must(nil, http.MethodDelete, "/v1/sessions/"+path.Base(x.Ref), "", http.StatusOK)
	f.model.ready = false
}

// reap lets the session's time be up, in the daemon's database, and waits until the
// reaper has seen it.
func (f *follower) reap() {
	f.t.Helper()
	if !f.model.ready {
		return
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(f.daemon.Data, "sandkasten.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := db.ExecContext(f.t.Context(), "UPDATE orchestrator_sessions SET expires_at = 1"); err != nil {
		f.t.Error(err)
	}
	if err := db.Close(); err != nil {
		f.t.Error(err)
	}
	var x session
	for end := time.Now().Add(time.Minute); x.Status != "terminated" && time.Now().Before(end) && !f.t.Failed(); time.Sleep(20 * time.Millisecond) {
		f.must(&x, http.MethodGet, one, "", http.StatusOK)
	}
	if x.Metadata["terminated_reason"] != "max_lifetime" {
		f.t.Errorf("reaped: %+v", x)
	}
	f.end()
}

// compare holds the session against the model. There is one sandbox at most, and
// none of a session that is not ready.
func (f *follower) compare() {
	f.t.Helper()
	var x session
	f.must(&x, http.MethodGet, one, "", http.StatusOK)
	if (x.Status == "ready") != f.model.ready {
		f.t.Errorf("%+v; want %+v", x, f.model)
		return
	}
	if alive := f.alive(); alive > 1 || (alive == 1) != f.model.ready {
		f.t.Errorf("%d sandboxes of a session that is %s", alive, x.Status)
	}
	if !f.model.ready {
		return
	}
	status, content, err := f.call(f.t.Context(), http.MethodGet, one+"files/content/?path=f", "")
	missing := status == http.StatusBadRequest && f.model.file == ""
	if err != nil || !missing && (status != http.StatusOK || string(content) != f.model.file) {
		f.t.Errorf("the file: %d %s, %v; want %q", status, content, err, f.model.file)
	}
}

// alive counts the sandboxes. One that is being ended has a while.
func (f *follower) alive() int {
	f.t.Helper()
	var living []struct{ Status string }
	for range 500 {
		f.must(&living, http.MethodGet, "/v1/sessions", "", http.StatusOK)
		if len(living) <= 1 && (len(living) == 1) == f.model.ready {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return len(living)
}
