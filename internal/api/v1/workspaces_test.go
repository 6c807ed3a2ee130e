package v1_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestWorkspaces(t *testing.T) {
	s := start(t)
	var made v1.Workspace
	s.do(t, "POST", "/v1/workspaces", `{"id":"project","labels":{"a":"b"},"size_mb":64}`).into(t, http.StatusCreated, &made)
	if made.ID != "project" || made.SizeMB != 64 || made.Labels["a"] != "b" || made.CreatedAt.IsZero() || made.SessionCount != 0 {
		t.Errorf("made %+v", made)
	}
	s.do(t, "POST", "/v1/workspaces", `{"id":"project"}`).wantError(t, 409, "already_exists", "")

	var created v1.Session
	s.do(t, "POST", "/v1/sessions", `{"workspace_id":"project"}`).into(t, http.StatusCreated, &created)
	if created.WorkspaceID != "project" {
		t.Errorf("session %+v", created)
	}
	s.exec(t, "/v1/sessions/"+string(created.ID), "printf 12345 > f")
	var list v1.Workspaces
	s.do(t, "GET", "/v1/workspaces", "").into(t, 200, &list)
	if len(list.Workspaces) != 1 || list.Workspaces[0].ActiveSessionCount != 1 || list.Workspaces[0].SessionCount != 1 || list.Workspaces[0].SizeBytes != 5 {
		t.Errorf("list %+v", list)
	}
	s.do(t, "DELETE", "/v1/workspaces/project", "").wantError(t, 409, "conflict", "")
	s.do(t, "DELETE", "/v1/sessions/"+string(created.ID), "")
	var got v1.Workspace
	s.do(t, "GET", "/v1/workspaces/project", "").into(t, 200, &got)
	if got.ActiveSessionCount != 0 || got.SessionCount != 1 || got.SizeBytes != 5 || got.LastUsedAt.Before(got.CreatedAt) {
		t.Errorf("after its session %+v", got)
	}
	// A session makes the workspace that it names.
	s.do(t, "POST", "/v1/sessions", `{"workspace_id":"other"}`).into(t, http.StatusCreated, &created)
	s.do(t, "DELETE", "/v1/workspaces/other?force=true", "").into(t, 200, &v1.OK{})
	var ended v1.Session
	s.do(t, "GET", "/v1/sessions/"+string(created.ID), "").into(t, 200, &ended)
	if ended.Status != session.Destroyed {
		t.Errorf("the session of a workspace that was forced away is %s", ended.Status)
	}
	s.do(t, "DELETE", "/v1/workspaces/project", "").into(t, 200, &v1.OK{})
	s.do(t, "DELETE", "/v1/workspaces/project", "").wantError(t, 404, "not_found", "")
	if a := s.do(t, "GET", "/v1/workspaces", ""); strings.TrimSpace(string(a.body)) != `{"workspaces":[]}` {
		t.Errorf("in the end: %s", a.body)
	}
	s.do(t, "POST", "/v1/workspaces", "").into(t, http.StatusCreated, &made)
	if len(made.ID) != 26 || made.SizeMB != 1024 {
		t.Errorf("from no body %+v", made)
	}
}

func TestWorkspaceMistakes(t *testing.T) {
	s := start(t)
	tests := []struct{ method, path, body, field string }{
		{"POST", "/v1/workspaces", `{"id":"../x"}`, "id"},
		{"POST", "/v1/workspaces", `{"id":".."}`, "id"},
		{"POST", "/v1/workspaces", `{"id":""}`, "id"},
		{"POST", "/v1/workspaces", `{"id":"a b"}`, "id"},
		{"POST", "/v1/workspaces", `{"id":"` + strings.Repeat("x", 65) + `"}`, "id"},
		{"POST", "/v1/workspaces", `{"size_mb":0}`, "size_mb"},
		{"POST", "/v1/workspaces", `{"size_mb":1}`, "size_mb"},
		{"POST", "/v1/workspaces", `{"size_mb":99999999}`, "size_mb"},
		{"POST", "/v1/workspaces", `{"labels":{"a":1}}`, "labels.a"},
		{"POST", "/v1/workspaces", `{"owner":"bob"}`, "owner"},
		{"POST", "/v1/workspaces", `{"volume":"x"}`, "volume"},
		{"DELETE", "/v1/workspaces/x?force=maybe", "", "force"},
		{"DELETE", "/v1/workspaces/x?recursive=1", "", "recursive"},
		{"POST", "/v1/sessions", `{"workspace_id":"../x"}`, "workspace_id"},
		{"POST", "/v1/sessions", `{"workspace_id":"a/b"}`, "workspace_id"},
	}
	for _, tt := range tests {
		s.do(t, tt.method, tt.path, tt.body).wantError(t, 400, "invalid_argument", tt.field)
	}
	if a := s.do(t, "GET", "/v1/workspaces", ""); !strings.Contains(string(a.body), `[]`) {
		t.Errorf("a mistake made one: %s", a.body)
	}
}

// To another key a workspace does not exist, and both may use one id.
func TestWorkspaceOwners(t *testing.T) {
	s := start(t)
	s.do(t, "POST", "/v1/workspaces", `{"id":"w"}`).into(t, http.StatusCreated, &v1.Workspace{})
	s.do(t, "POST", "/v1/workspaces/w/fs/write", `{"path":"f","text":"alice's"}`).into(t, 200, &v1.OK{})
	var list files.List
	s.do(t, "GET", "/v1/workspaces/w/fs?path=/workspace", "").into(t, 200, &list)
	if len(list.Entries) != 1 || list.Entries[0].Name != "f" {
		t.Errorf("the workspace has %+v", list.Entries)
	}
	asBob := header("Authorization", "Bearer "+bobKey)
	const path = "/v1/workspaces/w"
	routes := append(fileRoutes(path), []scopedRoute{
		{"GET", path, ""},
		{"GET", path + "/fs", ""},
		{"DELETE", path, ""},
	}...)
	for _, r := range routes {
		s.do(t, r.method, r.path, r.body, asBob).wantError(t, 404, "not_found", "")
		for _, id := range []string{"unknown", "..", "%2e%2e%2fw", "w%00", strings.Repeat("x", 300)} {
			if a := s.do(t, r.method, strings.Replace(r.path, path, "/v1/workspaces/"+id, 1), r.body); a.status < 300 || a.status >= 500 {
				t.Errorf("%s %s: %d", r.method, id, a.status)
			}
		}
	}
	if n := s.routesBelow(t, "/v1/workspaces/{id}"); n != len(routes) {
		t.Errorf("%d routes of one workspace, %d of them tested here", n, len(routes))
	}
	s.do(t, "DELETE", "/v1/workspaces/w?force=true", "", asBob).wantError(t, 404, "not_found", "")
	if a := s.do(t, "GET", "/v1/workspaces", "", asBob); !strings.Contains(string(a.body), `[]`) {
		t.Errorf("bob sees %s", a.body)
	}
	s.do(t, "POST", "/v1/workspaces", `{"id":"w"}`, asBob).into(t, http.StatusCreated, &v1.Workspace{})
	s.do(t, "GET", "/v1/workspaces/w/fs/read?path=f", "", asBob).wantError(t, 404, "not_found", "")
	if _, content := s.readBack(t, "/v1/workspaces/w", "path=f"); content != "alice's" {
		t.Errorf("alice reads %q", content)
	}
}

// The files of a workspace are reached without a session, and none is seen.
func TestWorkspaceFiles(t *testing.T) {
	s := start(t)
	s.do(t, "POST", "/v1/workspaces", `{"id":"w"}`).into(t, http.StatusCreated, &v1.Workspace{})
	const path = "/v1/workspaces/w"
	s.do(t, "POST", path+"/fs/write", `{"path":"dir/a","text":"written","mode":"0600"}`).into(t, 200, &v1.OK{})
	var up files.Uploaded
	s.upload(t, path, part{"path", "", "dir/"}, part{"file", "b", "uploaded"}).into(t, 200, &up)
	if len(up.Paths) != 1 || up.Paths[0] != "/workspace/dir/b" {
		t.Errorf("uploaded %v", up.Paths)
	}
	if got, content := s.readBack(t, path, "path=dir/a"); content != "written" || got.Mode != "0600" {
		t.Errorf("read %q, %+v", content, got)
	}
	var list files.List
	s.do(t, "GET", path+"/fs/list?path=dir", "").into(t, 200, &list)
	if len(list.Entries) != 2 || list.Entries[1].Name != "b" {
		t.Errorf("listed %+v", list)
	}
	s.do(t, "GET", path+"/fs/read?path=/etc/passwd", "").wantError(t, 400, "invalid_argument", "path")
	s.do(t, "GET", path+"/fs/read?path=none", "").wantError(t, 404, "not_found", "")

	var sessions []json.RawMessage
	s.do(t, "GET", "/v1/sessions?include_ended=true", "").into(t, 200, &sessions)
	if len(sessions) != 0 {
		t.Errorf("a session is seen: %s", sessions)
	}
	helpers, err := s.manager.Sessions.List(t.Context(), auth.System("test"), session.ListRequest{Helpers: true})
	if err != nil || len(helpers) != 1 {
		t.Fatalf("helpers %+v, %v", helpers, err)
	}
	s.do(t, "GET", "/v1/sessions/"+string(helpers[0].ID), "").wantError(t, 404, "not_found", "")
	s.do(t, "POST", "/v1/sessions/"+string(helpers[0].ID)+"/exec", `{"cmd":"true"}`).wantError(t, 404, "not_found", "")

	var created v1.Session
	s.do(t, "POST", "/v1/sessions", `{"workspace_id":"w"}`).into(t, http.StatusCreated, &created)
	if r := s.exec(t, "/v1/sessions/"+string(created.ID), "cat dir/a dir/b"); r.Output != "writtenuploaded" {
		t.Errorf("a session reads %q", r.Output)
	}
}

// A daemon without workspaces says so everywhere.
func TestWithoutWorkspaces(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Workspaces.Store = nil })
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v1/workspaces", "{}"},
		{"GET", "/v1/workspaces", ""},
		{"GET", "/v1/workspaces/w", ""},
		{"DELETE", "/v1/workspaces/w", ""},
		{"DELETE", "/v1/workspaces/w?force=true", ""},
		{"GET", "/v1/workspaces/w/fs/list", ""},
		{"POST", "/v1/workspaces/w/fs/write", `{"path":"a","text":""}`},
	} {
		s.do(t, r.method, r.path, r.body).wantError(t, 501, "unimplemented", "")
	}
	s.do(t, "POST", "/v1/sessions", `{"workspace_id":"w"}`).wantError(t, 501, "unimplemented", "workspace_id")
	var info, with v1.Info
	s.do(t, "GET", "/v1/info", "").into(t, 200, &info)
	start(t).do(t, "GET", "/v1/info", "").into(t, 200, &with)
	if info.Workspaces != nil || with.Workspaces == nil || with.Workspaces.MaxSizeMB != 10240 {
		t.Errorf("info: %+v without and %+v with", info.Workspaces, with.Workspaces)
	}
}
