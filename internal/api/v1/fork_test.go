package v1_test

import (
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/session"
)

func TestFork(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "echo kept > file")
	for body, count := range map[string]int{"": 1, "{}": 1, `{"count":3,"labels":{"a":"b"},"ttl_seconds":60,"memory_mb":100}`: 3} {
		var made v1.Forked
		s.do(t, "POST", path+"/fork", body).into(t, 201, &made)
		if len(made.Sessions) != count || !made.Copied {
			t.Fatalf("%s: %+v", body, made)
		}
		for _, f := range made.Sessions {
			if f.Status != session.Running || !strings.HasSuffix(path, string(f.ForkedFrom)) || (count == 3) != (f.Labels["a"] == "b" && f.TTLSeconds == 60 && f.Limits.MemoryMB == 100) {
				t.Errorf("%s: %+v", body, f)
			}
			if got := s.exec(t, "/v1/sessions/"+string(f.ID), "cat file"); got.Output != "kept\n" {
				t.Errorf("%s: %q", body, got.Output)
			}
		}
	}
}

func TestForkIsRefused(t *testing.T) {
	s := start(t)
	path := s.create(t)
	for body, field := range map[string]string{
		`{"count":0}`:       "count",
		`{"count":101}`:     "count",
		`{"disk_mb":100}`:   "disk_mb",
		`{"hostname":"-"}`:  "hostname",
		`{"on_idle":"fly"}`: "on_idle",
		`{"workspace":"w"}`: "workspace",
	} {
		s.do(t, "POST", path+"/fork", body).wantError(t, 400, "invalid_argument", field)
	}
	s.do(t, "DELETE", path, "")
	s.do(t, "POST", path+"/fork", "").wantError(t, 409, "conflict", "")
	s.do(t, "POST", "/v1/sessions/"+strings.Repeat("a", 26)+"/fork", "").wantError(t, 404, "not_found", "")
}

func TestStatsOfAWorkspace(t *testing.T) {
	s := start(t)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{"workspace_id":"w"}`).into(t, 201, &made)
	path := "/v1/sessions/" + string(made.ID)
	s.exec(t, path, "head -c 5000 /dev/zero > file")
	var stats v1.Stats
	s.do(t, "GET", path+"/stats", "").into(t, 200, &stats)
	if stats.WorkspaceBytes != 5000 || stats.WorkspaceLimit != 1024<<20 {
		t.Errorf("%+v", stats)
	}
}
