package v1_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	imageshapes "github.com/sandkasten/sandkasten/internal/api/v1/images"
	"github.com/sandkasten/sandkasten/internal/api/v1/users"
	"github.com/sandkasten/sandkasten/internal/audit"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
)

// admins are root, an admin, and dora and emil, who are none, with a session each.
type admins struct {
	*server

	asRoot, asDora, asEmil edit
	ofDora, ofEmil         v1.Session
}

func startAdmins(t *testing.T, options ...func(*setup)) *admins {
	t.Helper()
	s := &admins{server: start(t, append(options, func(o *setup) { o.api.Authenticator = keys{operator: "alice"} })...)}
	s.newUser(t, "root", "admin")
	s.newUser(t, "dora", "user")
	s.newUser(t, "emil", "user")
	s.asRoot = bearer(s.newKey(t, `{"user":"root","scope":"admin"}`).Text)
	s.asDora, s.asEmil = bearer(s.newKey(t, `{"user":"dora"}`).Text), bearer(s.newKey(t, `{"user":"emil"}`).Text)
	s.do(t, "POST", "/v1/sessions", `{"name":"build"}`, s.asDora).into(t, 201, &s.ofDora)
	s.do(t, "POST", "/v1/sessions", `{"name":"build"}`, s.asEmil).into(t, 201, &s.ofEmil)
	return s
}

func (s *admins) owners(t *testing.T, query string, as edit) string {
	t.Helper()
	var all []v1.Session
	s.do(t, "GET", "/v1/sessions"+query, "", as).into(t, 200, &all)
	var owners []string
	for _, one := range all {
		owners = append(owners, one.Owner)
	}
	return strings.Join(owners, " ")
}

func TestAnAdminListsAndEndsTheSessionsOfAll(t *testing.T) {
	t.Parallel()
	s := startAdmins(t)
	for query, want := range map[string]string{"": "dora emil", "?owner=emil": "emil", "?mine=true": "", "?include_ended=true&limit=10": "dora emil"} {
		if got := s.owners(t, query, s.asRoot); got != want {
			t.Errorf("%s: an admin sees sessions of %q, want %q", query, got, want)
		}
	}
	for query, want := range map[string]string{"": "dora", "?owner=emil": "", "?mine=true": "dora"} {
		if got := s.owners(t, query, s.asDora); got != want {
			t.Errorf("%s: dora sees sessions of %q, want %q", query, got, want)
		}
	}
	s.do(t, "GET", "/v1/sessions?mine=true&owner=emil", "", s.asRoot).wantError(t, 400, "invalid_argument", "mine")
	dora, emil := "/v1/sessions/"+string(s.ofDora.ID), "/v1/sessions/"+string(s.ofEmil.ID)
	for _, path := range []string{"", "/stats", "/network"} {
		s.do(t, "GET", dora+path, "", s.asRoot).into(t, 200, &json.RawMessage{})
		s.do(t, "GET", dora+path, "", s.asEmil).wantError(t, 404, "not_found", "")
	}
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/exec", `{"cmd":"true"}`},
		{"GET", "/fs/read?path=x", ""},
		{"GET", "/execs", ""},
		{"GET", "/ports", ""},
		{"POST", "/previews", `{"port":80}`},
		{"GET", "/shells", ""},
		{"POST", "/start", ""},
		{"PATCH", "", `{"ttl_seconds":60}`},
		{"POST", "/fork", `{"count":1}`},
		{"GET", "/network/log", ""},
	} {
		s.do(t, r.method, dora+r.path, r.body, s.asRoot).wantError(t, 403, "permission_denied", "")
		s.do(t, r.method, dora+r.path, r.body, s.asEmil).wantError(t, 404, "not_found", "")
	}
	s.do(t, "DELETE", "/v1/sessions/build", "", s.asRoot).wantError(t, 404, "not_found", "") // whose?
	var bulk v1.BulkAnswer
	s.do(t, "POST", "/v1/sessions/bulk", fmt.Sprintf(`{"action":"destroy","ids":[%q,"build"]}`, s.ofDora.ID), s.asRoot).into(t, 200, &bulk)
	if bulk.Results[0].Status != 200 || bulk.Results[1].Status != 404 {
		t.Errorf("at once: %+v", bulk)
	}
	s.do(t, "DELETE", emil, "", s.asRoot).into(t, 200, &v1.OK{})
	var ended v1.Session
	s.do(t, "GET", emil, "", s.asEmil).into(t, 200, &ended)
	if ended.EndReason != "the admin root destroyed it" {
		t.Errorf("emil reads %q", ended.EndReason)
	}
}

// What the right opens is in the audit log, also what only reads, and its owner reads of it
// there and in a list of their own. Without the right nothing is told.
func TestAnInspectionIsToldAndAudited(t *testing.T) {
	t.Parallel()
	log, err := audit.Open(audit.Options{Dir: t.TempDir(), MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	s := startAdmins(t, func(o *setup) { o.api.Audit, o.v1.Audit = log, log })
	dora := "/v1/sessions/" + string(s.ofDora.ID)
	looked := func() (n int) {
		var told users.Inspections
		s.do(t, "GET", "/v1/me/inspections", "", s.asDora).into(t, 200, &told)
		for _, i := range told.Inspections {
			if i.By == "root" && i.What == "a session" && i.SessionID == string(s.ofDora.ID) && time.Since(i.LastAt) < time.Hour {
				n++
			}
		}
		return n
	}
	s.do(t, "GET", dora+"/fs/list?path=.", "", s.asRoot).wantError(t, 403, "permission_denied", "")
	if looked() != 0 {
		t.Error("dora is told of what was refused")
	}
	s.do(t, "PATCH", "/v1/users/root", `{"inspect":true}`, s.asRoot).wantError(t, 403, "permission_denied", "")
	s.do(t, "PATCH", "/v1/users/root", `{"inspect":true}`).into(t, 200, &users.User{})
	s.do(t, "GET", dora+"/fs/list?path=.", "", s.asRoot).into(t, 200, &json.RawMessage{})
	s.do(t, "GET", dora+"/fs/list?path=.", "", s.asRoot).into(t, 200, &json.RawMessage{})
	if n := looked(); n != 1 {
		t.Errorf("dora is told of %d inspections, of the same twice", n)
	}
	var page v1.AuditPage
	s.do(t, "GET", "/v1/audit?session="+string(s.ofDora.ID)+"&limit=10", "", s.asDora).into(t, 200, &page)
	lists := 0
	for _, e := range page.Entries {
		if e.Owner == "root" && e.Of == "dora" && e.Route == "GET /v1/sessions/{id}/fs/list" && e.Remote == "" {
			lists++
		}
	}
	if lists != 2 {
		t.Errorf("dora sees %d lines of two looks: %+v", lists, page.Entries)
	}
	page = v1.AuditPage{}
	s.do(t, "GET", "/v1/audit", "", s.asEmil).into(t, 200, &page)
	for _, e := range page.Entries {
		if e.Of == "dora" {
			t.Errorf("emil sees who looked into what dora has: %+v", e)
		}
	}
	s.do(t, "GET", "/v1/me/inspections", "", s.asEmil).into(t, 200, &json.RawMessage{})
	// A token for a preview that the right made ends with it.
	port := inside(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "inside") })
	var preview v1.Preview
	s.do(t, "POST", dora+"/previews", `{"port":`+port+`}`, s.asRoot).into(t, 201, &preview)
	show := func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-Preview-Token", preview.Token) }
	if got := s.do(t, "GET", dora+"/ports/"+port+"/", "", show); got.status != 200 {
		t.Fatalf("the preview %d %s", got.status, got.body)
	}
	s.do(t, "PATCH", "/v1/users/root", `{"inspect":false}`).into(t, 200, &users.User{})
	s.do(t, "GET", dora+"/ports/"+port+"/", "", show).wantError(t, 401, "unauthenticated", "")
	s.do(t, "GET", dora+"/fs/list?path=.", "", s.asRoot).wantError(t, 403, "permission_denied", "")
}

// A key of another user is a way to look in: the first one is for every admin, others are
// not, and the user reads of each.
func TestAKeyForAnotherIsToldOf(t *testing.T) {
	t.Parallel()
	s := startAdmins(t)
	s.do(t, "POST", "/v1/users", `{"name":"nina"}`, s.asRoot).into(t, 201, &users.User{})
	first := s.newKey(t, `{"user":"nina"}`, s.asRoot)
	s.do(t, "POST", "/v1/keys", `{"user":"nina"}`, s.asRoot).wantError(t, 403, "permission_denied", "")
	s.do(t, "POST", "/v1/keys", `{"user":"dora"}`, s.asRoot).wantError(t, 403, "permission_denied", "")
	s.do(t, "PATCH", "/v1/users/dora", `{"password":"of the admin's own"}`, s.asRoot).wantError(t, 403, "permission_denied", "")
	s.newKey(t, `{"user":"nina"}`) // by the daemon's own key
	var told users.Inspections
	s.do(t, "GET", "/v1/me/inspections", "", bearer(first.Text)).into(t, 200, &told)
	by := map[string]string{}
	for _, i := range told.Inspections {
		by[i.By] = i.What
	}
	if !maps.Equal(by, map[string]string{"root": "a key", "admin": "a key"}) {
		t.Errorf("nina is told %+v", told.Inspections)
	}
}

func TestUsageOfAllByDay(t *testing.T) {
	t.Parallel()
	s := startAdmins(t)
	var all users.OwnersUsage
	s.do(t, "GET", "/v1/usage", "", s.asRoot).into(t, 200, &all)
	owners := map[string]users.OwnerShare{}
	for _, o := range all.Owners {
		owners[o.Owner] = o
	}
	if one := owners["dora"]; len(owners) != 2 || one.Now.Sessions != 1 || one.SessionsCreated != 1 || one.Now.MemoryMB == 0 {
		t.Errorf("an admin sees %+v", all)
	}
	var days users.UsageDays
	s.do(t, "GET", "/v1/usage/days", "", s.asRoot).into(t, 200, &days)
	today := time.Now().UTC().Format(time.DateOnly)
	seen := []string{}
	for _, d := range days.Days {
		if seen = append(seen, d.Owner); d.Day != today || d.SessionsCreated != 1 || d.SessionSeconds <= 0 {
			t.Errorf("a day is %+v", d)
		}
	}
	if !slices.Equal(seen, []string{"dora", "emil"}) {
		t.Errorf("days of %q", seen)
	}
	table := s.do(t, "GET", "/v1/usage/days?format=csv&owner=emil", "", s.asRoot)
	lines, err := csv.NewReader(strings.NewReader(string(table.body))).ReadAll()
	if err != nil || len(lines) != 2 || lines[0][0] != "day" || lines[1][1] != "emil" || !strings.HasPrefix(table.header.Get("Content-Type"), "text/csv") {
		t.Errorf("as a table %q, %v", table.body, err)
	}
	days = users.UsageDays{}
	s.do(t, "GET", "/v1/usage/days", "", s.asDora).into(t, 200, &days)
	if len(days.Days) != 1 || days.Days[0].Owner != "dora" {
		t.Errorf("dora sees %+v", days)
	}
	s.do(t, "GET", "/v1/usage", "", s.asDora).wantError(t, 403, "permission_denied", "")
	s.do(t, "GET", "/v1/usage/days?owner=emil", "", s.asDora).wantError(t, 404, "not_found", "")
	s.do(t, "GET", "/v1/usage/days?since=2026-13-01", "", s.asRoot).wantError(t, 400, "invalid_argument", "since")
	s.do(t, "GET", "/v1/usage/days?since=2020-01-01&until=2020-01-31", "", s.asRoot).into(t, 200, &days)
	if len(days.Days) != 0 {
		t.Errorf("long ago: %+v", days)
	}
}

// Users make images whom an admin lets, below their own names and within a quota, and see
// no job of another.
func TestImagesOfUsers(t *testing.T) {
	t.Parallel()
	s := startAdmins(t, withLibrary(t))
	s.importImage(t, "base")
	registry := httptest.NewServer(http.NotFoundHandler())
	defer registry.Close()
	ref := strings.TrimPrefix(registry.URL, "http://") + "/tool:1"
	pull := func(name string) answer {
		return s.do(t, "POST", "/v1/images/pull", fmt.Sprintf(`{"ref":%q,"name":%q}`, ref, name), s.asDora)
	}
	build := func(name string) answer {
		return s.do(t, "POST", "/v1/images/build", fmt.Sprintf(`{"name":%q,"recipe":"suite: bookworm\npackages: [hello]\n"}`, name), s.asDora)
	}
	pull("dora/tool").wantError(t, 403, "permission_denied", "")
	s.do(t, "PATCH", "/v1/users/dora", `{"images":"pull"}`, s.asDora).wantError(t, 403, "permission_denied", "")
	s.do(t, "PATCH", "/v1/users/dora", `{"images":"pull","quota":{"max_images":2}}`, s.asRoot).into(t, 200, &users.User{})
	for _, name := range []string{"base", "emil/tool", "dora", "doras/tool", "docker.io/tool", "docker.io/library/base", "docker.io/dora", ""} {
		if got := pull(name); got.status != 400 {
			t.Errorf("as %q: %d %s", name, got.status, got.body)
		}
	}
	build("dora/built").wantError(t, 403, "permission_denied", "")
	s.do(t, "POST", "/v1/images/pull", fmt.Sprintf(`{"ref":%q,"name":"dora/tool","insecure":true}`, ref), s.asDora).wantError(t, 400, "invalid_argument", "insecure")
	s.do(t, "POST", "/v1/images/commit", fmt.Sprintf(`{"name":"dora/stolen","session_id":%q}`, s.ofEmil.ID), s.asDora).wantError(t, 404, "not_found", "")
	s.do(t, "DELETE", "/v1/images/base", "", s.asDora).wantError(t, 400, "invalid_argument", "name")
	var mine imageshapes.ImageJob
	pull("dora/tool").into(t, 202, &mine)
	var seen imageshapes.ImageJobs
	s.do(t, "GET", "/v1/image-jobs", "", s.asDora).into(t, 200, &seen)
	if len(seen.Jobs) != 1 || seen.Jobs[0].ID != mine.ID {
		t.Errorf("dora sees the jobs %+v", seen)
	}
	s.do(t, "PATCH", "/v1/users/emil", `{"images":"pull"}`, s.asRoot).into(t, 200, &users.User{})
	for _, r := range []struct{ method, path string }{{"GET", ""}, {"GET", "/events"}, {"DELETE", ""}} {
		s.do(t, r.method, "/v1/image-jobs/"+mine.ID+r.path, "", s.asEmil).wantError(t, 404, "not_found", "")
	}
	if job := s.ended(t, mine.ID); job.Status != jobs.Failed {
		t.Errorf("the job is %+v", job)
	}
	// Two images are there: a third one is too many, and the place of one of them is not.
	s.importImage(t, "dora/one")
	s.importImage(t, "dora/two")
	pull("dora/three").wantError(t, 429, "resource_exhausted", "")
	pull("dora/two").into(t, 202, &mine)
	s.do(t, "DELETE", "/v1/images/dora%2Fone", "", s.asDora).into(t, 200, &v1.OK{})
	pull("dora/three").into(t, 202, &mine)
}
