package v1_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
)

// bulk changes sessions, and must get an answer for each.
func (s *server) bulk(t *testing.T, action string, ids []string, edits ...edit) []v1.BulkResult {
	t.Helper()
	body, err := json.Marshal(v1.BulkRequest{Action: action, IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	var answer v1.BulkAnswer
	s.do(t, "POST", "/v1/sessions/bulk", string(body), edits...).into(t, 200, &answer)
	if len(answer.Results) != len(ids) {
		t.Fatalf("%d results for %d ids", len(answer.Results), len(ids))
	}
	for i, one := range answer.Results {
		if one.ID != ids[i] {
			t.Errorf("result %d is of %s, not of %s", i, one.ID, ids[i])
		}
	}
	return answer.Results
}

func (s *server) newID(t *testing.T, edits ...edit) string {
	t.Helper()
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{}`, edits...).into(t, 201, &made)
	return string(made.ID)
}

func TestBulkChanges(t *testing.T) {
	s := start(t)
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = s.newID(t)
	}
	for _, c := range []struct {
		action string
		want   session.State
	}{
		{"pause", session.Paused},
		{"pause", session.Paused},
		{"resume", session.Running},
		{"resume", session.Running},
		{"stop", session.Stopped},
		{"stop", session.Stopped},
		{"start", session.Running},
		{"start", session.Running},
		{"destroy", ""},
		{"destroy", ""},
	} {
		for _, one := range s.bulk(t, c.action, ids) {
			switch {
			case one.Status != 200 || one.Error != nil:
				t.Errorf("%s: %+v", c.action, one.Error)
			case c.want == "" && one.Session != nil, c.want != "" && (one.Session == nil || one.Session.Status != c.want):
				t.Errorf("%s: %+v", c.action, one.Session)
			}
		}
	}
	for _, id := range ids {
		var got v1.Session
		s.do(t, "GET", "/v1/sessions/"+id, "").into(t, 200, &got)
		if got.Status != session.Destroyed {
			t.Errorf("%s is %s", id, got.Status)
		}
	}
}

// A session that cannot be changed has a result like the answer to a request for it
// alone, and the others are changed.
func TestBulkFailuresStayInTheirRows(t *testing.T) {
	s := start(t, func(o *setup) { o.api.Authenticator = keys{operator: "nobody"} })
	mine, ended, foreign := s.newID(t), s.newID(t), s.newID(t, asBob)
	s.do(t, "DELETE", "/v1/sessions/"+ended, "")
	absent := strings.Repeat("a", 26)
	ids := []string{absent, foreign, ended, "no-such-name", "../x", mine}
	results := s.bulk(t, "stop", ids)
	for i, want := range []int{404, 404, 409, 404, 404, 200} {
		got := results[i]
		if got.Status != want || (want == 200) != (got.Error == nil) {
			t.Fatalf("%s: %+v", ids[i], got)
		}
		if got.Error != nil && (got.Error.Code == "" || got.Error.Error == "" || got.Session != nil) {
			t.Errorf("%s: %+v", ids[i], got.Error)
		}
		if ids[i] == "../x" { // no path of a request has it
			continue
		}
		if alone := s.do(t, "POST", "/v1/sessions/"+ids[i]+"/stop", ""); alone.status != want {
			t.Errorf("%s alone: %d", ids[i], alone.status)
		}
	}
	var got v1.Session
	s.do(t, "GET", "/v1/sessions/"+foreign, "", asBob).into(t, 200, &got)
	if got.Status != session.Running {
		t.Errorf("a stranger's session is %s", got.Status)
	}
	s.bulk(t, "destroy", ids)
	s.do(t, "GET", "/v1/sessions/"+foreign, "", asBob).into(t, 200, &got)
	if got.Status != session.Running {
		t.Errorf("a stranger's session is %s after a destroy", got.Status)
	}
}

func TestBulkTakesNamesAndPrefixes(t *testing.T) {
	s := start(t)
	s.do(t, "POST", "/v1/sessions", `{"name":"build"}`)
	id := s.newID(t)
	for _, one := range s.bulk(t, "stop", []string{"build", id[:12], id, id}) {
		if one.Status != 200 || one.Session.Status != session.Stopped {
			t.Errorf("%s: %+v", one.ID, one)
		}
	}
}

func TestBulkRequestsAreRefused(t *testing.T) {
	s := start(t)
	many := `["` + strings.Repeat(`a","`, 1000) + `a"]`
	for body, field := range map[string]string{
		``:                             "",
		`{"action":"stop"}`:            "ids",
		`{"ids":["a"]}`:                "action",
		`{"action":"stop","ids":[]}`:   "ids",
		`{"action":"fly","ids":["a"]}`: "action",
		fmt.Sprintf(`{"action":"stop","ids":%s}`, many): "ids",
	} {
		s.do(t, "POST", "/v1/sessions/bulk", body).wantError(t, 400, "invalid_argument", field)
	}
}

// wantStatus makes a request, whose answer must have the status.
func (s *server) wantStatus(t *testing.T, method, path, body string, status int) answer {
	t.Helper()
	a := s.do(t, method, path, body)
	if a.status != status {
		t.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// A change of many sessions costs what as many requests cost. More than a burst are
// changed at once only with all of it, and later requests wait for the rest.
func TestBulkCountsAsManyRequests(t *testing.T) {
	for name, c := range map[string]struct{ burst, before, ids, status, retryAfter, later int }{
		"as many as there are": {burst: 5, ids: 5, status: 200, later: 429},
		"fewer":                {burst: 5, ids: 4, status: 200, later: 200},
		"more than are left":   {burst: 5, before: 2, ids: 4, status: 429, retryAfter: 200, later: 200},
		"more than a burst":    {burst: 5, ids: 12, status: 200, later: 429},
		"a burst that is used": {burst: 5, before: 1, ids: 12, status: 429, retryAfter: 200, later: 200},
		"a burst of one":       {burst: 1, ids: 3, status: 200, later: 429},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(o *setup) {
				o.api.Quotas = auth.FixedQuotas{General: auth.Quota{RequestsPerSecond: 0.01, Burst: c.burst}}
			})
			for range c.before {
				s.wantStatus(t, "GET", "/v1/me", "", 200)
			}
			body, err := json.Marshal(v1.BulkRequest{Action: "stop", IDs: slices.Repeat([]string{"absent"}, c.ids)})
			if err != nil {
				t.Fatal(err)
			}
			a := s.wantStatus(t, "POST", "/v1/sessions/bulk", string(body), c.status)
			if c.retryAfter > 0 {
				a.wantError(t, 429, "resource_exhausted", "")
				if after, _ := strconv.Atoi(a.header.Get("Retry-After")); after < c.retryAfter-5 || after > c.retryAfter {
					t.Errorf("Retry-After is %d, want %d", after, c.retryAfter)
				}
			}
			s.wantStatus(t, "GET", "/v1/me", "", c.later)
		})
	}
}

// The log says of each session what became of it, as it does after single requests.
func TestBulkIsAudited(t *testing.T) {
	log, err := audit.Open(audit.Options{Dir: t.TempDir(), MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	s := start(t, func(o *setup) { o.api.Audit, o.v1.Audit = log, log })
	id, absent := s.newID(t), strings.Repeat("a", 26)
	s.bulk(t, "destroy", []string{id, absent})
	for id, status := range map[string]int{id: 200, absent: 404} {
		var page v1.AuditPage
		s.do(t, "GET", "/v1/audit?session="+id+"&route=DELETE%20/v1/sessions/{id}", "").into(t, 200, &page)
		if len(page.Entries) != 1 || page.Entries[0].Status != status || page.Entries[0].Owner != "alice" || page.Entries[0].RequestID == "" {
			t.Errorf("%s: %+v", id, page.Entries)
		}
	}
	var page v1.AuditPage
	s.do(t, "GET", "/v1/audit?route=POST%20/v1/sessions/bulk", "").into(t, 200, &page)
	if len(page.Entries) != 1 {
		t.Errorf("the request itself: %+v", page.Entries)
	}
}

// slowStopper counts how many stops are under way.
type slowStopper struct {
	*runtimetest.Local
	now, most atomic.Int64
}

func (d *slowStopper) Stop(ctx context.Context, id runtime.ID) error {
	now := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); now > most && !d.most.CompareAndSwap(most, now); most = d.most.Load() {
	}
	time.Sleep(20 * time.Millisecond)
	return d.Local.Stop(ctx, id)
}

func TestBulkChangesAFewAtATime(t *testing.T) {
	driver := &slowStopper{Local: runtimetest.NewLocal(t)}
	s := start(t, func(o *setup) { o.session.Driver = driver })
	ids := make([]string, 24)
	for i := range ids {
		ids[i] = s.newID(t)
	}
	s.bulk(t, "stop", ids)
	if most := driver.most.Load(); most < 2 || most > 8 {
		t.Errorf("%d at a time", most)
	}
}
