package v1_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/snapshots"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	saved "github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

func TestSnapshots(t *testing.T) {
	s := start(t)
	path := s.create(t)
	id := strings.TrimPrefix(path, "/v1/sessions/")
	s.exec(t, path, "mkdir src; echo kept > src/f; echo no > other")
	var made, same snapshots.Snapshot
	request := `{"name":"first","label":"a note","scope":"workspace","include_paths":["src"]}`
	key := header("Idempotency-Key", "k")
	s.do(t, "POST", path+"/snapshots", request, key).into(t, http.StatusCreated, &made)
	if made.Owner != "alice" || made.Name != "first" || made.Label != "a note" || made.SessionID != id || made.Files != 2 || made.FileBytes != 5 || made.SizeBytes == 0 || made.Image != "base" {
		t.Errorf("made %+v", made)
	}
	s.do(t, "POST", path+"/snapshots", request, key).into(t, http.StatusCreated, &same)
	if same.ID != made.ID {
		t.Errorf("the same request made %s and %s", made.ID, same.ID)
	}
	s.do(t, "POST", path+"/snapshots", "", key).wantError(t, 422, "unprocessable", "")

	archive := s.do(t, "GET", "/v1/snapshots/"+made.ID+"/download", "")
	if archive.status != 200 || int64(len(archive.body)) != made.SizeBytes || archive.header.Get("Content-Type") != "application/x-tar" ||
		!strings.Contains(archive.header.Get("Content-Disposition"), made.ID) {
		t.Errorf("%d with %d bytes: %v", archive.status, len(archive.body), archive.header)
	}
	bob := header("Authorization", "Bearer "+bobKey)
	var copied snapshots.Snapshot
	s.do(t, "POST", "/v1/snapshots?name=copy", string(archive.body), bob).into(t, http.StatusCreated, &copied)
	if copied.Name != "copy" || copied.ID == made.ID || copied.Files != 2 {
		t.Errorf("uploaded %+v", copied)
	}
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/snapshots/" + made.ID},
		{"GET", "/v1/snapshots/" + made.ID + "/download"},
		{"DELETE", "/v1/snapshots/" + made.ID},
		{"GET", "/v1/snapshots/" + strings.Repeat("a", 26)},
	} {
		s.do(t, c.method, c.path, "", bob).wantError(t, 404, "not_found", "")
	}
	for query, want := range map[string]int{"": 1, "?name=first": 1, "?name=copy": 0, "?session_id=" + id: 1, "?session_id=x": 0} {
		var list snapshots.Snapshots
		s.do(t, "GET", "/v1/snapshots"+query, "").into(t, 200, &list)
		if len(list.Snapshots) != want || list.TotalBytes != made.SizeBytes {
			t.Errorf("%q: %+v", query, list)
		}
	}
	var restored v1.Session
	s.do(t, "POST", "/v1/sessions", `{"restore_snapshot_id":"`+made.ID+`"}`).into(t, http.StatusCreated, &restored)
	if out := s.exec(t, "/v1/sessions/"+string(restored.ID), "ls; cat src/f").Output; out != "src\nkept\n" {
		t.Errorf("restored: %q", out)
	}
	s.do(t, "POST", "/v1/sessions", `{"restore_snapshot_id":"first"}`).into(t, http.StatusCreated, &restored)
	if out := s.exec(t, "/v1/sessions/"+string(restored.ID), "cat src/f").Output; out != "kept\n" {
		t.Errorf("restored by name: %q", out)
	}
	s.do(t, "POST", "/v1/sessions", `{"restore_snapshot_id":"copy"}`).wantError(t, 400, "invalid_argument", "restore_snapshot_id")
	s.do(t, "POST", "/v1/sessions", `{"restore_snapshot_id":"`+copied.ID+`"}`).wantError(t, 404, "not_found", "restore_snapshot_id")
	s.do(t, "DELETE", "/v1/snapshots/"+made.ID, "").into(t, 200, &v1.OK{})
	s.do(t, "GET", "/v1/snapshots/"+made.ID, "").wantError(t, 404, "not_found", "")
}

func TestSnapshotMistakes(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Snapshots.MaxBytes = 10000 })
	path := s.create(t)
	for request, field := range map[string]string{
		`{"scope":"all"}`:                          "scope",
		`{"scope":"sandbox","fallback":"sandbox"}`: "fallback",
		`{"fallback":"workspace"}`:                 "fallback",
		`{"name":"a b"}`:                           "name",
		`{"include_paths":["/etc"]}`:               "include_paths",
		`{"exclude_paths":["."]}`:                  "exclude_paths",
		`{"more":1}`:                               "more",
	} {
		s.do(t, "POST", path+"/snapshots", request).wantError(t, 400, "invalid_argument", field)
	}
	s.do(t, "POST", path+"/snapshots", `{"scope":"sandbox"}`).wantError(t, 501, "unimplemented", "")
	for request, want := range map[string]snapshot.Scope{``: snapshot.ScopeWorkspace, `{"scope":"sandbox","fallback":"workspace"}`: snapshot.ScopeWorkspace} {
		var made snapshots.Snapshot
		if s.do(t, "POST", path+"/snapshots", request).into(t, http.StatusCreated, &made); made.Scope != want {
			t.Errorf("%s: the scope is %s, want %s", request, made.Scope, want)
		}
	}
	s.do(t, "POST", "/v1/snapshots", "no archive").wantError(t, 422, "unprocessable", "")
	asked := s.do(t, "POST", "/v1/snapshots", `{"session_id":"x"}`)
	asked.wantError(t, 422, "unprocessable", "")
	if !strings.Contains(string(asked.body), "POST /v1/sessions/ID/snapshots") {
		t.Errorf("%s", asked.body)
	}
	s.do(t, "POST", "/v1/snapshots?name=a+b", "x").wantError(t, 400, "invalid_argument", "name")
	s.do(t, "POST", "/v1/snapshots", strings.Repeat("x", 10001)).wantError(t, 413, "too_large", "")
	s.exec(t, path, "head -c 20000 /dev/urandom > f")
	s.do(t, "POST", path+"/snapshots", "").wantError(t, 413, "too_large", "")

	full := start(t, func(o *setup) { o.session.Quotas = auth.FixedQuotas{General: auth.Quota{SnapshotBytes: 2 << 20}} })
	path = full.create(t)
	full.exec(t, path, "head -c 1100000 /dev/urandom > f")
	full.do(t, "POST", path+"/snapshots", "").into(t, 201, &snapshots.Snapshot{})
	refused := full.do(t, "POST", path+"/snapshots", "")
	refused.wantError(t, 507, "insufficient_space", "")
	var body api.ErrorBody
	refused.into(t, 507, &body)
	if want := (api.QuotaBody{Name: "snapshot_mb", Used: 1, Limit: 2}); body.Reason != errdefs.QuotaExceeded || body.Quota == nil || *body.Quota != want {
		t.Errorf("quota %+v of reason %q, want %+v", body.Quota, body.Reason, want)
	}

	none := start(t, func(o *setup) { o.session.Snapshots = saved.Options{} })
	path = none.create(t)
	none.do(t, "POST", path+"/snapshots", "").wantError(t, 501, "unimplemented", "")
	none.do(t, "GET", "/v1/snapshots", "").wantError(t, 501, "unimplemented", "")
	none.do(t, "POST", "/v1/snapshots", "x").wantError(t, 501, "unimplemented", "")
	none.do(t, "POST", "/v1/sessions", `{"restore_snapshot_id":"`+strings.Repeat("a", 26)+`"}`).wantError(t, 501, "unimplemented", "restore_snapshot_id")
}
