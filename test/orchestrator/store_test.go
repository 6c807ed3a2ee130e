package orchestrator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/blob/s3/s3test"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// TestStoresThatFail ends sessions while the bucket of their archives fails, in each of
// its ways and on each driver. What was acknowledged outlives that: on the disk as long as
// it lasts, and in the bucket afterwards.
func TestStoresThatFail(t *testing.T) {
	t.Parallel()
	for _, m := range []mode{native, docker} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			testenv.NeedsRoot(t)
			bucket := s3test.StartBreakable(t)
			d := blackbox.Start(t, blackbox.Options{Config: m.config(t) + bucket.Config() + "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n"})
			n := 0
			for way, fail := range s3test.Ways {
				for name, end := range map[string]struct{ method, path string }{"stop": {http.MethodPost, "stop/"}, "delete": {http.MethodDelete, ""}} {
					n++
					id := fmt.Sprintf("6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0d%02d", n)
					t.Run(way+", "+name, func(t *testing.T) {
						t.Parallel()
						x := saver{client: clientOf(t, d, d.Key), id: id, path: sessionsPath + id + "/"}
						x.outlive(func() { x.must(nil, end.method, x.path+end.path, "", http.StatusNoContent) }, func() func() { return bucket.Break(id, fail) })
					})
				}
			}
		})
	}
}

// saver is the client of one session.
type saver struct {
	client

	id, path string
}

// outlive ends a session twice while its store fails.
func (x saver) outlive(end func(), fail func() (mend func())) {
	x.t.Helper()
	x.must(nil, http.MethodPost, sessionsPath, `{"id":"`+x.id+`"}`, http.StatusCreated)
	x.upload("first")
	large := x.exec("head -c 2500000 /dev/urandom >large; sha256sum large") // it is sent in parts
	mend := fail()
	defer mend()
	x.must(nil, http.MethodPost, x.path+"snapshot/", "{}", http.StatusServiceUnavailable)
	end()
	x.await("unsaved", true)
	if got := x.read(); got != "first" {
		x.t.Errorf("with a store that fails it goes on with %q", got)
	}
	x.upload("second")
	end()
	x.await("unsaved", true)
	mend()
	x.await("saved", false)
	if got := x.read(); got != "second" {
		x.t.Errorf("it was saved later, and has %q", got)
	}
	if got := x.exec("sha256sum large"); got != large {
		x.t.Errorf("the large file has the sum %q, and had %q", got, large)
	}
	x.must(nil, http.MethodDelete, x.path+"?force=true", "", http.StatusNoContent)
}

func (x saver) upload(content string) {
	x.t.Helper()
	x.must(nil, http.MethodPost, x.path+"upload/", `{"path":"f","content":"`+content+`"}`, http.StatusOK)
}

// read returns the file, for which the session begins anew.
func (x saver) read() string {
	x.t.Helper()
	status, content, err := x.call(x.t.Context(), http.MethodGet, x.path+"files/content/?path=f", "")
	if err != nil || status != http.StatusOK {
		x.t.Fatalf("read: %d %s, %v", status, content, err)
	}
	return string(content)
}

func (x saver) exec(command string) (out string) {
	x.t.Helper()
	var ran struct {
		Stdout string `json:"stdout"`
	}
	x.must(&ran, http.MethodPost, x.path+"exec/", `{"command":"`+command+`"}`, http.StatusOK)
	return strings.TrimSpace(ran.Stdout)
}

// await waits until the session has ended and is unsaved, with the reason, or saved, with
// a snapshot.
func (x saver) await(what string, unsaved bool) {
	x.t.Helper()
	x.awaitSession(x.path, what, func(now session) bool {
		told := now.Metadata["latest_snapshot_id"] != nil
		if unsaved {
			told = strings.Contains(now.Error, "the blob store")
		}
		is, _ := now.Metadata["unsaved"].(bool)
		return now.Status == "terminated" && is == unsaved && told
	})
}
