package v1_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/session"
)

// TestContract holds the names that clients rely on.
func TestContract(t *testing.T) {
	s := start(t)
	names := func(a answer) []string {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(a.body, &object); err != nil {
			t.Fatalf("%v in %s", err, a.body)
		}
		return slices.Collect(maps.Keys(object))
	}
	has := func(a answer, status int, want ...string) {
		t.Helper()
		if a.status != status {
			t.Errorf("status %d, want %d: %s", a.status, status, a.body)
		}
		got := names(a)
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("no %s in %s", name, a.body)
			}
		}
	}
	created := s.do(t, "POST", "/v1/sessions", `{"image":"base","ttl_seconds":60}`)
	has(created, 201, "id", "image", "status", "cwd", "created_at", "expires_at", "last_activity")
	var session v1.Session
	created.into(t, 201, &session)
	path := "/v1/sessions/" + string(session.ID)

	has(s.do(t, "GET", path, ""), 200, "id", "image", "status", "cwd", "created_at", "expires_at", "last_activity")
	has(s.do(t, "GET", path+"/stats", ""), 200, "memory_bytes", "memory_limit", "cpu_usage_usec")
	has(s.do(t, "POST", path+"/exec", `{"cmd":"true"}`), 200, "exit_code", "cwd", "output", "truncated", "duration_ms", "exec_id", "cause", "timed_out", "shell_restarted", "output_bytes", "dropped_bytes")
	has(s.do(t, "POST", path+"/fs/write", `{"path":"a","text":"hi"}`), 200, "ok")
	has(s.do(t, "GET", path+"/fs/read?path=a", ""), 200, "path", "content_base64", "truncated")
	has(s.do(t, "GET", "/v1/nothing", ""), 404, "error", "code", "request_id")
	has(s.do(t, "DELETE", path, ""), 200, "ok")
	if got := string(s.do(t, "GET", "/healthz", "", header("Authorization", "")).body); got != `{"status":"ok"}`+"\n" {
		t.Errorf("/healthz is %s", got)
	}
	if got := string(s.do(t, "GET", "/v1/sessions", "").body); got != "[]\n" {
		t.Errorf("no sessions are listed as %s", got)
	}
}

func TestSessionLife(t *testing.T) {
	s := start(t)
	before := time.Now().Add(-time.Second)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{"image":"base","ttl_seconds":600,"env":{"GREETING":"hi"},"hostname":"box","labels":{"task":"1"},
		"memory_mb":64,"pids":32,"cpu":0.5,"disk_mb":100,"network_mode":"none","readonly_rootfs":false,"driver":"native"}`).into(t, 201, &made)
	if made.Image != "base" || made.Status != session.Running || made.Cwd != "/workspace" || made.TTLSeconds != 600 ||
		made.Hostname != "box" || made.Labels["task"] != "1" || made.Limits != (v1.Limits{CPU: 0.5, MemoryMB: 64, Pids: 32, DiskMB: 100}) {
		t.Errorf("made %+v", made)
	}
	if made.CreatedAt.Before(before) || made.CreatedAt.Location() != time.UTC || !made.ExpiresAt.Equal(made.LastActivity.Add(10*time.Minute)) {
		t.Errorf("times %v, %v, %v", made.CreatedAt, made.LastActivity, made.ExpiresAt)
	}
	path := "/v1/sessions/" + string(made.ID)
	if r := s.exec(t, path, "echo $GREETING"); r.Output != "hi\n" {
		t.Errorf("environment: %q", r.Output)
	}
	if body := string(s.do(t, "GET", path, "").body); strings.Contains(body, "GREETING") {
		t.Errorf("the environment is shown: %s", body)
	}
	for range 2 {
		if a := s.do(t, "DELETE", path, ""); a.status != 200 || string(a.body) != `{"ok":true}`+"\n" {
			t.Errorf("DELETE gave %d %s", a.status, a.body)
		}
	}
	var ended v1.Session
	s.do(t, "GET", path, "").into(t, 200, &ended)
	if ended.Status != session.Destroyed || ended.EndReason == "" || ended.EndedAt == nil {
		t.Errorf("ended %+v", ended)
	}
	s.do(t, "POST", path+"/exec", `{"cmd":"true"}`).wantError(t, 409, "conflict", "")
	var all []v1.Session
	s.do(t, "GET", "/v1/sessions?include_ended=true", "").into(t, 200, &all)
	if len(all) != 1 || all[0].ID != made.ID {
		t.Errorf("with ended ones: %+v", all)
	}
	s.do(t, "GET", "/v1/sessions", "").into(t, 200, &all)
	if len(all) != 0 {
		t.Errorf("without ended ones: %+v", all)
	}
}

func TestCreateWithoutBody(t *testing.T) {
	s := start(t)
	for _, body := range []string{"", "{}", `{"limits":{"memory_mb":64}}`} {
		if a := s.do(t, "POST", "/v1/sessions", body); a.status != 201 {
			t.Errorf("body %q: %d %s", body, a.status, a.body)
		}
	}
}

// contextRoutes are those of code that runs in kernels.
func contextRoutes(path string) []scopedRoute {
	all, one := path+"/contexts", path+"/contexts/python"
	run := one + "/runs/" + strings.Repeat("a", 26)
	return []scopedRoute{
		{"POST", path + "/run-code", `{"code":"1"}`},
		{"POST", path + "/run-code/stream", `{"code":"1"}`},
		{"POST", all, `{"language":"python"}`},
		{"GET", all, ""},
		{"GET", one, ""},
		{"DELETE", one, ""},
		{"POST", one + "/run", `{"code":"1"}`},
		{"POST", one + "/run/stream", `{"code":"1"}`},
		{"POST", one + "/interrupt", ""},
		{"POST", one + "/restart", ""},
		{"GET", run, ""},
		{"GET", run + "/stream", ""},
	}
}

// TestOwners is A02: what belongs to another key does not exist.
func TestOwners(t *testing.T) {
	s := start(t)
	path := s.create(t)
	exec := path + "/execs/" + s.exec(t, path, "echo secret").ExecID
	process := strings.Replace(exec, "/execs/", "/processes/", 1)
	asBob := header("Authorization", "Bearer "+bobKey)
	routes := []scopedRoute{
		{"GET", path, ""},
		{"DELETE", path, ""},
		{"GET", path + "/stats", ""},
		{"GET", path + "/stats/history", ""},
		{"PATCH", path, `{"ttl_seconds":60}`},
		{"POST", path + "/pause", ""},
		{"POST", path + "/snapshots", ""},
		{"POST", path + "/fork", `{"count":1}`},
		{"POST", path + "/resume", ""},
		{"POST", path + "/stop", ""},
		{"POST", path + "/start", ""},
		{"POST", path + "/heartbeat", ""},
		{"POST", path + "/exec", `{"cmd":"true"}`},
		{"POST", path + "/exec/stream", `{"cmd":"true"}`},
		{"GET", path + "/execs", ""},
		{"GET", path + "/exec/stream?cmd=true", ""},
		{"POST", path + "/processes", `{"cmd":["true"]}`},
		{"POST", path + "/processes/stream", `{"cmd":["true"]}`},
		{"GET", path + "/processes", ""},
		{"DELETE", process, ""},
		{"GET", path + "/shells", ""},
		{"DELETE", path + "/shells/default", ""},
		{"GET", path + "/terminal", ""},
		{"GET", path + "/ports", ""},
		{"GET", path + "/network", ""},
		{"PUT", path + "/network", `{"mode":"none"}`},
		{"POST", path + "/network/allow", `{"entries":["example.org"]}`},
		{"GET", path + "/network/log", ""},
		{"GET", path + "/network/log/stream", ""},
		{"POST", path + "/previews", `{"port":80}`},
		{"GET", path + "/tunnel?port=80", ""},
		{"GET", path + "/fs/watch", ""},
	}
	routes = append(routes, fileRoutes(path)...)
	routes = append(routes, contextRoutes(path)...)
	for _, one := range []string{exec, process} {
		routes = append(routes, []scopedRoute{
			{"GET", one, ""},
			{"GET", one + "/stream", ""},
			{"POST", one + "/cancel", ""},
			{"GET", one + "/output", ""},
			{"POST", one + "/wait", `{"timeout_ms":1}`},
			{"POST", one + "/stdin", `{"data":"x"}`},
			{"POST", one + "/signal", `{"signal":9}`},
			{"POST", one + "/resize", `{"rows":1,"cols":1}`},
		}...)
	}
	unknown := "/v1/sessions/" + strings.Repeat("a", 26)
	for _, r := range routes {
		theirs := s.do(t, r.method, r.path, r.body, asBob)
		theirs.wantError(t, 404, "not_found", "")
		for _, id := range []string{unknown, "/v1/sessions/short"} {
			s.do(t, r.method, strings.Replace(r.path, path, id, 1), r.body).wantError(t, 404, "not_found", "")
		}
	}
	if n := s.routesBelow(t, "/v1/sessions/{id}"); n != len(routes) {
		t.Errorf("%d routes of one session, %d of them tested here", n, len(routes))
	}
	var all []v1.Session
	s.do(t, "GET", "/v1/sessions", "", asBob).into(t, 200, &all)
	if len(all) != 0 {
		t.Errorf("another key's sessions are listed: %+v", all)
	}
	if a := s.do(t, "GET", path, ""); a.status != 200 {
		t.Errorf("the session is gone for its owner: %d", a.status)
	}
}

// TestIdempotency is A12.
func TestIdempotency(t *testing.T) {
	s := start(t)
	key := header("Idempotency-Key", "job-1")
	var mu sync.Mutex
	ids := map[string]bool{}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			a := s.do(t, "POST", "/v1/sessions", `{"ttl_seconds":60}`, key)
			var made v1.Session
			if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 {
				t.Errorf("%d %s", a.status, a.body)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[string(made.ID)] = true
		})
	}
	group.Wait()
	if len(ids) != 1 {
		t.Errorf("one key made %d sessions", len(ids))
	}
	s.do(t, "POST", "/v1/sessions", `{"ttl_seconds":61}`, key).wantError(t, 422, "unprocessable", "")
	var other v1.Session
	s.do(t, "POST", "/v1/sessions", `{"ttl_seconds":60}`, key, header("Authorization", "Bearer "+bobKey)).into(t, 201, &other)
	if ids[string(other.ID)] {
		t.Error("a key reached another owner's session")
	}
	for _, bad := range []string{strings.Repeat("x", 256), "a b", "\u00e4"} {
		s.do(t, "POST", "/v1/sessions", `{}`, header("Idempotency-Key", bad)).wantError(t, 400, "invalid_argument", "Idempotency-Key")
	}
}

type scopedRoute struct{ method, path, body string }

// fileRoutes are those that a session and a workspace have.
func fileRoutes(path string) []scopedRoute {
	return []scopedRoute{
		{"GET", path + "/fs/read?path=a", ""},
		{"POST", path + "/fs/write", `{"path":"a","text":""}`},
		{"POST", path + "/fs/upload", ""},
		{"GET", path + "/fs/list", ""},
		{"PUT", path + "/fs/raw?path=a", ""},
		{"GET", path + "/fs/stat?path=a", ""},
		{"POST", path + "/fs/mkdir", `{"path":"d"}`},
		{"POST", path + "/fs/move", `{"from":"a","to":"b"}`},
		{"POST", path + "/fs/copy", `{"from":"a","to":"b"}`},
		{"POST", path + "/fs/delete", `{"path":"a"}`},
		{"POST", path + "/fs/chmod", `{"path":"a","mode":"0600"}`},
		{"POST", path + "/fs/edit", `{"path":"a","old":"x","new":"y"}`},
		{"GET", path + "/fs/glob?pattern=*", ""},
		{"GET", path + "/fs/grep?pattern=x", ""},
		{"GET", path + "/fs/archive", ""},
		{"PUT", path + "/fs/archive", ""},
	}
}

// routesBelow counts the documented routes whose patterns begin so.
func (s *server) routesBelow(t *testing.T, prefix string) (n int) {
	t.Helper()
	var doc document
	if err := json.Unmarshal(s.do(t, "GET", "/openapi.json", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	for pattern, item := range doc.Paths {
		if strings.HasPrefix(pattern, prefix) {
			n += len(item)
		}
	}
	return n
}

func TestNotReady(t *testing.T) {
	s := start(t, func(o *setup) { o.idle = true })
	for _, r := range []struct{ method, path, body string }{{"GET", "/readyz", ""}, {"POST", "/v1/sessions", "{}"}} {
		a := s.do(t, r.method, r.path, r.body)
		a.wantError(t, 503, "unavailable", "")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: 503 without Retry-After", r.path)
		}
	}
	if a := s.do(t, "GET", "/healthz", ""); a.status != 200 {
		t.Errorf("/healthz: %d", a.status)
	}
	if a := start(t).do(t, "GET", "/readyz", "", header("Authorization", "")); a.status != 200 {
		t.Errorf("/readyz of a ready daemon: %d %s", a.status, a.body)
	}
}

func TestInfo(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Maxima.TTL = time.Hour; o.session.Maxima.Sessions = 7 })
	var info v1.Info
	s.do(t, "GET", "/v1/info", "").into(t, 200, &info)
	if info.Version != "test" || info.Driver != "native" || !slices.Equal(info.Drivers, []string{"native"}) || info.Limits.TTLSeconds != 3600 || info.Limits.Sessions != 7 ||
		info.Defaults.Image != "base" || info.Limits.CommandBytes != 1<<20 || info.Defaults.Limits.MemoryMB == 0 {
		t.Errorf("%+v", info)
	}
}

func TestMetrics(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "true")
	s.do(t, "POST", "/v1/workspaces", `{"id":"idle","size_mb":64}`).into(t, http.StatusCreated, &v1.Workspace{})
	s.do(t, "POST", "/v1/workspaces", `{"id":"used","size_mb":32}`).into(t, http.StatusCreated, &v1.Workspace{})
	var with v1.Session
	s.do(t, "POST", "/v1/sessions", `{"workspace_id":"used"}`).into(t, http.StatusCreated, &with)
	s.exec(t, "/v1/sessions/"+string(with.ID), "printf 12345 > f")
	a := s.do(t, "GET", "/metrics", "")
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, want := range []string{
		`sandkasten_sessions{driver="native",state="running"} 2`,
		`sandkasten_sessions{driver="native",state="creating"} 0`,
		"sandkasten_sessions_limit 0\n",
		`sandkasten_session_create_duration_seconds_count{outcome="ok"} 2`,
		`sandkasten_exec_duration_seconds_count{cause="exited"} 2`,
		`sandkasten_exec_duration_seconds_count{cause="oom_killed"} 0`,
		"sandkasten_exec_disk_full_total 0\n",
		`sandkasten_http_requests_total{route="POST /v1/sessions/{id}/exec",status="200"} 2`,
		`sandkasten_workspaces{in_use="true"} 1`,
		`sandkasten_workspaces{in_use="false"} 1`,
		"sandkasten_workspaces_bytes 5\n",
		"sandkasten_workspaces_limit_bytes 1.00663296e+08\n",
	} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(string(a.body), strings.TrimPrefix(path, "/v1/sessions/")) {
		t.Error("a metric names a session")
	}
	s.do(t, "GET", "/metrics", "", header("Authorization", "")).wantError(t, 401, "unauthenticated", "")
}

// TestNames holds that a name, or enough of an id, may stand where a path has the
// session's id: for its owner only.
func TestNames(t *testing.T) {
	s := start(t)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{"image":"base","name":"build-7"}`).into(t, 201, &made)
	if made.Name != "build-7" {
		t.Errorf("its name is %q", made.Name)
	}
	for _, ref := range []string{"build-7", string(made.ID[:8])} {
		path := "/v1/sessions/" + ref
		var got v1.Session
		s.do(t, "GET", path, "").into(t, 200, &got)
		if got.ID != made.ID {
			t.Errorf("%s is %s", ref, got.ID)
		}
		if r := s.exec(t, path, "echo hi"); r.Output != "hi\n" {
			t.Errorf("exec in %s prints %q", ref, r.Output)
		}
		s.do(t, "POST", path+"/fs/write", `{"path":"a","text":"hi"}`).into(t, 200, &struct{}{})
		// A port is asked for where its path has the whole id, and refused as one is.
		s.do(t, "GET", path+"/ports/1/", "").wantError(t, 502, "bad_gateway", "")

		theirs := s.do(t, "GET", path, "", header("Authorization", "Bearer "+bobKey))
		never := s.do(t, "GET", "/v1/sessions/never-was", "", header("Authorization", "Bearer "+bobKey))
		if theirs.status != never.status || strings.ReplaceAll(withoutID(theirs), ref, "never-was") != withoutID(never) {
			t.Errorf("another's session is told apart from one that never was: %s, %s", theirs.body, never.body)
		}
	}
	s.beginnings(t, "/v1/sessions/build-7", string(made.ID))
	s.do(t, "POST", "/v1/sessions", `{"image":"base","name":"build-7"}`).wantError(t, 409, "already_exists", "")
	s.do(t, "POST", "/v1/sessions", `{"image":"base","name":"a b"}`).wantError(t, 400, "invalid_argument", "name")
	s.do(t, "DELETE", "/v1/sessions/build-7", "").into(t, 200, &struct{}{})
	s.do(t, "GET", "/v1/sessions/build-7", "").wantError(t, 404, "not_found", "")
}

// beginnings calls a command and a snapshot of a session by the beginnings of their ids.
func (s *server) beginnings(t *testing.T, path, id string) {
	t.Helper()
	exec := s.exec(t, path, "echo found").ExecID
	var record v1.ExecRecord
	for _, ref := range []string{exec, exec[:6]} {
		if s.do(t, "GET", path+"/execs/"+ref, "").into(t, 200, &record); record.ExecID != exec {
			t.Errorf("%s is %s", ref, record.ExecID)
		}
	}
	s.do(t, "GET", path+"/execs/"+exec[:2], "").wantError(t, 404, "not_found", "")
	s.do(t, "GET", path+"/execs/"+exec[:6], "", header("Authorization", "Bearer "+bobKey)).wantError(t, 404, "not_found", "")
	var snapshot struct {
		ID        string `json:"id"`
		SessionID string `json:"session_id"`
	}
	s.do(t, "POST", path+"/snapshots", `{}`).into(t, 201, &snapshot)
	made := snapshot.ID
	if s.do(t, "GET", "/v1/snapshots/"+made[:6], "").into(t, 200, &snapshot); snapshot.ID != made || snapshot.SessionID != id {
		t.Errorf("%s is %+v", made[:6], snapshot)
	}
	if body := string(s.do(t, "GET", "/v1/snapshots?session_id=build-7", "").body); !strings.Contains(body, made) {
		t.Errorf("the snapshots of build-7 are %s", body)
	}
	s.do(t, "GET", "/v1/snapshots/"+made[:6], "", header("Authorization", "Bearer "+bobKey)).wantError(t, 404, "not_found", "")
	s.do(t, "POST", "/v1/sessions", `{"restore_snapshot_id":"`+made[:6]+`"}`).into(t, 201, &struct{}{})
	s.do(t, "DELETE", "/v1/snapshots/"+made[:6], "").into(t, 200, &struct{}{})
}

// withoutID is an answer without what is of its request alone.
func withoutID(a answer) string {
	return regexp.MustCompile(`"request_id":"[^"]*"`).ReplaceAllString(string(a.body), "")
}

// 0 is the default in every limit, as in the command line and the SDKs.
func TestLimitsOfZero(t *testing.T) {
	s := start(t)
	var plain, zero v1.Session
	s.do(t, "POST", "/v1/sessions", `{}`).into(t, http.StatusCreated, &plain)
	for _, body := range []string{`{"cpu":0,"memory_mb":0,"pids":0,"disk_mb":0}`, `{"limits":{"cpu":0,"memory_mb":0,"pids":0,"disk_mb":0}}`} {
		s.do(t, "POST", "/v1/sessions", body).into(t, http.StatusCreated, &zero)
		if zero.Limits != plain.Limits {
			t.Errorf("%s: %+v; want %+v", body, zero.Limits, plain.Limits)
		}
	}
	for body, field := range map[string]string{
		`{"cpu":0.001}`: "limits.cpu", `{"cpu":-1}`: "cpu", `{"memory_mb":-1}`: "memory_mb", `{"pids":-1}`: "pids", `{"disk_mb":-1}`: "disk_mb",
	} {
		s.do(t, "POST", "/v1/sessions", body).wantError(t, http.StatusBadRequest, "invalid_argument", field)
	}
}

// Who stops a session learns how long it is kept.
func TestStopTellsRetention(t *testing.T) {
	s := start(t, func(o *setup) { o.session.Defaults.Retention = 48 * time.Hour })
	var stopped v1.Session
	s.do(t, "POST", s.create(t)+"/stop", "").into(t, http.StatusOK, &stopped)
	if left := time.Until(stopped.ExpiresAt); stopped.Retention != 48*3600 || left < 47*time.Hour {
		t.Errorf("kept for %d s, to %s", stopped.Retention, stopped.ExpiresAt)
	}
}
