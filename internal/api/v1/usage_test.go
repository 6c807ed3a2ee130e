package v1_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/api/v1/users"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestUsage(t *testing.T) {
	s := start(t)
	s.newUser(t, "dora", "user")
	asDora := bearer(s.newKey(t, `{"user":"dora"}`).Text)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{"limits":{"cpu":0.5,"memory_mb":128}}`, asDora).into(t, 201, &made)
	time.Sleep(50 * time.Millisecond)
	var used users.OwnerUsage
	s.do(t, "GET", "/v1/me/usage", "", asDora).into(t, 200, &used)
	now := time.Now().UTC()
	if used.Owner != "dora" || used.Month != now.Format("2006-01") || used.FreesAt.Before(now) || used.FreesAt.Day() != 1 ||
		used.SessionSeconds < 0.05 || used.SessionSeconds > 60 || used.SessionsCreated != 1 {
		t.Errorf("used %+v", used)
	}
	if n := used.Now; n.Sessions != 1 || n.RunningSessions != 1 || n.CPU != 0.5 || n.MemoryMB != 128 || n.DiskMB == 0 {
		t.Errorf("now %+v", n)
	}
	var same users.OwnerUsage
	s.do(t, "GET", "/v1/users/dora/usage", "").into(t, 200, &same) // as an admin
	if same.Owner != "dora" || same.SessionsCreated != 1 {
		t.Errorf("an admin sees %+v", same)
	}
	s.do(t, "GET", "/v1/users/dora/usage", "", asDora).into(t, 200, &same)
	s.do(t, "GET", "/v1/users/bob/usage", "").into(t, 200, &same) // an owner of the configuration
	s.do(t, "GET", "/v1/me/usage?month=2020-02", "", asDora).into(t, 200, &same)
	if same.Month != "2020-02" || same.SessionSeconds != 0 || same.Now.Sessions != 1 {
		t.Errorf("long ago %+v", same)
	}
	s.do(t, "GET", "/v1/me/usage?month=2020-13", "", asDora).wantError(t, 400, "invalid_argument", "month")
	for _, name := range []string{"bob", "nobody", "alice"} {
		s.do(t, "GET", "/v1/users/"+name+"/usage", "", asDora).wantError(t, 404, "not_found", "")
	}
	s.do(t, "GET", "/v1/users/nobody/usage", "").wantError(t, 404, "not_found", "")
}

// A quota holds from the answer to its change on, and says what it is about.
func TestQuotasOfUsersChange(t *testing.T) {
	s := start(t)
	s.newUser(t, "dora", "user")
	asDora := bearer(s.newKey(t, `{"user":"dora"}`).Text)
	create := func(status int) api.ErrorBody {
		t.Helper()
		var e api.ErrorBody
		got := s.do(t, "POST", "/v1/sessions", `{"limits":{"cpu":1,"disk_mb":100}}`, asDora)
		if got.status != status {
			t.Fatalf("%d: %s", got.status, got.body)
		}
		if err := json.Unmarshal(got.body, &e); err != nil && status >= 400 {
			t.Fatal(err)
		}
		return e
	}
	set := func(quota string) (u users.User) {
		t.Helper()
		s.do(t, "PATCH", "/v1/users/dora", `{"quota":`+quota+`}`).into(t, 200, &u)
		return u
	}
	create(201)
	if u := set(`{"max_sessions":1,"cpu":7.5}`); u.Quota == nil || *u.Quota.Sessions != 1 || *u.Quota.CPU != 7.5 || u.Quota.DiskMB != nil {
		t.Errorf("quota %+v", u.Quota)
	}
	if e := create(429); e.Reason != errdefs.QuotaExceeded || e.Quota == nil || e.Quota.Name != "max_sessions" || e.Quota.Used != 1 || e.Quota.Limit != 1 || e.Quota.FreesAt != nil {
		t.Errorf("refused with %+v, %+v", e, e.Quota)
	}
	if u := set(`{"max_sessions":null,"disk_mb":199}`); u.Quota == nil || u.Quota.Sessions != nil || *u.Quota.CPU != 7.5 {
		t.Errorf("quota %+v", u.Quota)
	}
	if e := create(507); e.Quota == nil || e.Quota.Name != "disk_mb" {
		t.Errorf("refused with %+v", e)
	}
	set(`{"disk_mb":0,"session_seconds_per_month":1}`)
	time.Sleep(time.Second) // that the session lives
	if e := create(429); e.Quota == nil || e.Quota.Name != "session_seconds_per_month" || e.Quota.FreesAt == nil || e.Quota.FreesAt.Day() != 1 || e.Quota.FreesAt.Before(time.Now()) {
		t.Errorf("refused with %+v", e)
	}
	var used users.OwnerUsage
	s.do(t, "GET", "/v1/me/usage", "", asDora).into(t, 200, &used)
	if used.Quota.SessionSeconds == nil || *used.Quota.SessionSeconds != 1 || used.Quota.DiskMB != nil {
		t.Errorf("the quota is shown as %+v", used.Quota)
	}
	if u := set(`{"cpu":null,"disk_mb":null,"session_seconds_per_month":null}`); u.Quota != nil {
		t.Errorf("quota %+v", u.Quota)
	}
	create(201)

	s.do(t, "PATCH", "/v1/users/dora", `{"quota":{"cpu":1}}`, asDora).wantError(t, 403, "permission_denied", "")
	s.do(t, "PATCH", "/v1/users/dora", `{"quota":{"cpu":-1}}`).wantError(t, 400, "invalid_argument", "quota.cpu")
	s.do(t, "PATCH", "/v1/users/dora", `{"quota":{"memory_mb":0.5}}`).wantError(t, 400, "invalid_argument", "quota.memory_mb")
	s.do(t, "PATCH", "/v1/users/dora", `{"quota":{"cores":1}}`).wantError(t, 400, "invalid_argument", "quota.cores")
	s.do(t, "PATCH", "/v1/users/dora", `{"quota":null}`).wantError(t, 400, "invalid_argument", "quota")
}

// Workspaces are in what an owner has and may have, by number and size.
func TestWorkspacesInUsageAndQuota(t *testing.T) {
	s := start(t)
	s.newUser(t, "dora", "user")
	asDora := bearer(s.newKey(t, `{"user":"dora"}`).Text)
	s.do(t, "POST", "/v1/workspaces", `{"id":"a","size_mb":64}`, asDora).into(t, 201, &json.RawMessage{})
	s.do(t, "POST", "/v1/sessions", `{"workspace_id":"a","limits":{"disk_mb":100}}`, asDora).into(t, 201, &json.RawMessage{})
	var used users.OwnerUsage
	s.do(t, "GET", "/v1/me/usage", "", asDora).into(t, 200, &used)
	if n := used.Now; n.Workspaces != 1 || n.WorkspaceMB != 64 || n.DiskMB != 164 || used.Quota.Workspaces != nil {
		t.Errorf("now %+v of %+v", n, used.Quota)
	}
	refused := func(quota string, status int, name string, limit float64) {
		t.Helper()
		s.do(t, "PATCH", "/v1/users/dora", `{"quota":`+quota+`}`).into(t, 200, &json.RawMessage{})
		got := s.do(t, "POST", "/v1/workspaces", `{"size_mb":64}`, asDora)
		var e api.ErrorBody
		if err := json.Unmarshal(got.body, &e); err != nil || got.status != status || e.Reason != errdefs.QuotaExceeded || e.Quota == nil || e.Quota.Name != name || e.Quota.Limit != limit {
			t.Errorf("%s: %d %s, %v", quota, got.status, got.body, err)
		}
	}
	refused(`{"max_workspaces":1}`, 429, "max_workspaces", 1)
	refused(`{"max_workspaces":null,"disk_mb":227}`, 507, "disk_mb", 227)
	s.do(t, "PATCH", "/v1/users/dora", `{"quota":{"disk_mb":228}}`).into(t, 200, &json.RawMessage{})
	s.do(t, "POST", "/v1/workspaces", `{"size_mb":64}`, asDora).into(t, 201, &json.RawMessage{})
	s.do(t, "PATCH", "/v1/users/dora", `{"quota":{"max_workspaces":-1}}`).wantError(t, 400, "invalid_argument", "quota.max_workspaces")
}
