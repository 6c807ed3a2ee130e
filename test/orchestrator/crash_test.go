package orchestrator

import (
	"net/http"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// TestCrashBetweenSandboxAndRow kills the daemon at steps of the core that are in the
// middle of a create or a stop here. The session is never left starting, the next
// create makes it anew with its files, and no other sandbox is left.
func TestCrashBetweenSandboxAndRow(t *testing.T) {
	t.Parallel()
	testenv.NeedsRoot(t)
	program := testenv.Program(t, "failpoint")
	for name, test := range map[string]struct {
		point  string
		method string
		path   string
		body   string
		after  []string // statuses that the session has then, before the next create
	}{
		"create, the core's row is there": {"create.row", http.MethodPost, sessionsPath, `{"id":"` + someID + `"}`, []string{"failed"}},
		"create, the sandbox is there":    {"create.sandbox", http.MethodPost, sessionsPath, `{"id":"` + someID + `"}`, []string{"failed"}},
		"create, the sandbox is ready":    {"create.running", http.MethodPost, sessionsPath, `{"id":"` + someID + `"}`, []string{"failed"}},
		"stop, the sandbox goes":          {"destroy.row", http.MethodPost, one + "stop/", "", []string{"terminated"}},
		"stop, the sandbox is gone":       {"destroy.done", http.MethodPost, one + "stop/", "", []string{"terminated"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := blackbox.Start(t, blackbox.Options{Program: program, Config: "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n"})
			f := &follower{client: clientOf(t, d, d.Key), daemon: d, model: model{saved: map[string]string{}}}
			f.create("", http.StatusCreated)
			f.must(nil, http.MethodPost, one+"upload/", `{"path":"f","content":"kept"}`, http.StatusOK)
			if test.method+test.path == http.MethodPost+sessionsPath {
				f.must(nil, http.MethodPost, one+"stop/", "", http.StatusNoContent)
			}
			d.Stop()
			d.SetEnv("SANDKASTEN_FAILPOINT=" + test.point + "=kill9")
			d.Start()
			if status, answer, err := f.call(t.Context(), test.method, test.path, test.body); err == nil {
				t.Fatalf("the daemon is not dead at %s: %d %s", test.point, status, answer)
			}
			d.Wait()
			d.SetEnv()
			d.Start()
			f.await(test.after)
			f.model = model{ready: true, file: "kept"}
			f.must(nil, http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`, http.StatusCreated)
			f.compare()
		})
	}
}

// await waits until the session has one of several statuses.
func (f *follower) await(statuses []string) {
	f.t.Helper()
	var x session
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && !f.t.Failed(); time.Sleep(20 * time.Millisecond) {
		f.must(&x, http.MethodGet, one, "", http.StatusOK)
		for _, want := range statuses {
			if x.Status == want {
				return
			}
		}
	}
	f.t.Errorf("%+v; want %v", x, statuses)
}
