package v1_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// anyone makes an owner of every key.
type anyone struct{}

func (anyone) Authenticate(key string) (string, error) { return key, nil }

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

// The first session's requests make all series that there will be: neither more
// sessions nor more owners, commands and paths make others.
func TestSeriesDoNotGrowWithSessionsOrOwners(t *testing.T) {
	s := start(t, func(o *setup) { o.api.Keys = anyone{} })
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
	before, _ := s.series(t)
	for status := 701; status < 800; status += 7 {
		ask(status)
	}
	if after, names := s.series(t); after != before {
		t.Errorf("%d series became %d:\n%s", before, after, names)
	}
}
