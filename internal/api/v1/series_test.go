package v1_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// anyone makes an owner of every key.
type anyone struct{}

func (anyone) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	return auth.Principal{Owner: key}, nil
}

// series is how many there are, and their names.
func (s *server) series(tb testing.TB) (n int, names string) {
	tb.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		n += len(f.GetMetric())
		fmt.Fprintf(&b, "%s %d\n", f.GetName(), len(f.GetMetric()))
	}
	return n, b.String()
}

// counted waits until n requests have been: an answer is counted when it has been
// given, perhaps after its client has it.
func (s *server) counted(tb testing.TB, n uint64) {
	tb.Helper()
	testenv.Eventually(tb, fmt.Sprintf("%d requests are counted", n), func() bool {
		families, err := s.registry.Gather()
		if err != nil {
			tb.Fatal(err)
		}
		now := uint64(0)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "sandkasten_http_request_duration_seconds" {
					now += m.GetHistogram().GetSampleCount()
				}
			}
		}
		return now == n
	})
}

// The first session's requests make all series that there will be: neither more
// sessions nor more owners, commands and paths make others.
func TestSeriesDoNotGrowWithSessionsOrOwners(t *testing.T) {
	s := start(t, func(o *setup) { o.api.Authenticator = anyone{} })
	work := func(owner, what string) {
		as := header("Authorization", "Bearer "+owner)
		var created struct{ ID string }
		s.do(t, "POST", "/v1/sessions", "{}", as).into(t, http.StatusCreated, &created)
		path := "/v1/sessions/" + created.ID
		s.do(t, "POST", path+"/exec", js(t, map[string]any{"cmd": "echo " + what, "shell": what}), as)
		s.do(t, "GET", path+"/stats", "", as)
		s.do(t, "GET", path+"/fs/read?path="+what, "", as)
		s.do(t, "GET", "/"+what, "", as)
		s.do(t, "DELETE", path, "", as)
	}
	work("first", "first")
	s.do(t, "GET", "/metrics", "")
	s.counted(t, 7)
	before, were := s.series(t)
	for owner := range 5 {
		for i := range 3 {
			work(fmt.Sprint("owner", owner), fmt.Sprint("x", owner, "y", i))
		}
	}
	if after, are := s.series(t); after != before {
		t.Errorf("%d series became %d:\n%s\n%s", before, after, were, are)
	}
}

// What a program in a sandbox answers makes no series of its own.
func TestSandboxCannotMakeSeries(t *testing.T) {
	s := start(t)
	path := s.create(t)
	port := inside(t, func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(r.URL.Query().Get("status"))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	})
	ask := func(status int) {
		if a := s.do(t, "GET", fmt.Sprintf("%s/ports/%s/?status=%d", path, port, status), ""); a.status != status {
			t.Errorf("%d instead of %d", a.status, status)
		}
	}
	ask(700)
	s.counted(t, 2)
	before, _ := s.series(t)
	for status := 701; status < 800; status += 7 {
		ask(status)
	}
	if after, names := s.series(t); after != before {
		t.Errorf("%d series became %d:\n%s", before, after, names)
	}
}

// What all sessions use and may use is added up, and measured no more often than
// every few seconds however many look.
func TestUseOfAllSessions(t *testing.T) {
	s := start(t)
	create := func(limits map[string]any) {
		s.do(t, "POST", "/v1/sessions", js(t, map[string]any{"limits": limits})).into(t, http.StatusCreated, &struct{}{})
	}
	use := func() map[string]float64 {
		families, err := s.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]float64{}
		for _, f := range families {
			name, ok := strings.CutPrefix(f.GetName(), "sandkasten_sessions_")
			for _, m := range f.GetMetric() {
				if ok && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetName() == "driver" {
					found[name] += m.GetGauge().GetValue()
				}
			}
		}
		return found
	}
	create(map[string]any{"memory_mb": 64, "pids": 30, "disk_mb": 100})
	create(map[string]any{"memory_mb": 32, "pids": 20, "disk_mb": 50})
	got := use()
	if got["memory_limit_bytes"] != 96<<20 || got["pids_limit"] != 50 || got["disk_limit_bytes"] != 150<<20 || got["unmeasured"] != 0 {
		t.Errorf("the limits of two sessions are %v", got)
	}
	if got["memory_bytes"] <= 0 || got["pids"] < 2 || len(got) != 7 {
		t.Errorf("two sessions use %v", got)
	}
	create(map[string]any{"memory_mb": 16})
	if again := use(); again["memory_limit_bytes"] != 96<<20 {
		t.Errorf("measured again at once: %v", again)
	}
}
