package v1_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session"
)

// post does something to a session that must work.
func (s *server) post(t *testing.T, path, body string) v1.Session {
	t.Helper()
	var got v1.Session
	s.do(t, "POST", path, body).into(t, 200, &got)
	return got
}

func TestPauseAndResume(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "x=1")
	for _, body := range []string{"", "{}", `{"memory":"ram"}`} {
		if got := s.post(t, path+"/pause", body); got.Status != session.Paused || got.EndReason == "" {
			t.Errorf("pause %q: %+v", body, got)
		}
	}
	if a := s.do(t, "GET", path+"/stats", ""); a.status != 200 {
		t.Errorf("stats of a paused session: %d %s", a.status, a.body)
	}
	for range 2 {
		if got := s.post(t, path+"/resume", ""); got.Status != session.Running || got.EndReason != "" {
			t.Errorf("resume: %+v", got)
		}
	}
	s.post(t, path+"/pause", "")
	if got := s.exec(t, path, "echo $x"); got.Output != "1\n" {
		t.Errorf("a command to a paused session: %q", got.Output)
	}
	var got v1.Session
	s.do(t, "GET", path, "").into(t, 200, &got)
	if got.Status != session.Running {
		t.Errorf("the command has not woken it: %s", got.Status)
	}
}

func TestPauseWithoutAutoResume(t *testing.T) {
	s := start(t)
	var made v1.Session
	s.do(t, "POST", "/v1/sessions", `{"auto_resume":false}`).into(t, 201, &made)
	path := "/v1/sessions/" + string(made.ID)
	if made.AutoResume {
		t.Errorf("made %+v", made)
	}
	s.post(t, path+"/pause", "")
	refused := s.do(t, "POST", path+"/exec", `{"cmd":"true"}`)
	refused.wantError(t, 409, "conflict", "")
	if !strings.Contains(string(refused.body), "resume it first") {
		t.Errorf("it does not say what to do: %s", refused.body)
	}
	s.do(t, "GET", path+"/fs/list", "").wantError(t, 409, "conflict", "")
	s.do(t, "PATCH", path, `{"auto_resume":true}`).into(t, 200, &made)
	s.exec(t, path, "true")
}

func TestMemoryToDisk(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.do(t, "POST", path+"/pause", `{"memory":"disk"}`).wantError(t, 501, "unimplemented", "memory")
	s.do(t, "POST", path+"/pause", `{"memory":"tape"}`).wantError(t, 400, "invalid_argument", "memory")
	s.exec(t, path, "true")
}

func TestStopAndStart(t *testing.T) {
	s := start(t)
	path := s.create(t)
	s.exec(t, path, "echo kept > file; x=1; cd /")
	var running v1.Session
	s.do(t, "GET", path, "").into(t, 200, &running)
	for range 2 {
		if got := s.post(t, path+"/stop", ""); got.Status != session.Stopped || got.EndedAt != nil {
			t.Errorf("stop: %+v", got)
		}
	}
	refused := s.do(t, "POST", path+"/exec", `{"cmd":"true"}`)
	refused.wantError(t, 409, "conflict", "")
	if !strings.Contains(string(refused.body), "start it first") {
		t.Errorf("it does not say what to do: %s", refused.body)
	}
	for _, what := range []string{"/pause", "/resume"} {
		s.do(t, "POST", path+what, "").wantError(t, 409, "conflict", "")
	}
	got := s.post(t, path+"/start", "")
	if got.Status != session.Running || got.Cwd != "/workspace" || got.BootID == running.BootID || running.BootID == "" {
		t.Errorf("started %+v, boot %s before", got, running.BootID)
	}
	if again := s.post(t, path+"/start", ""); again.BootID != got.BootID {
		t.Error("starting what runs has booted it again")
	}
	if got := s.exec(t, path, "cat file; echo $x"); got.Output != "kept\n\n" {
		t.Errorf("after the start: %q", got.Output)
	}
}

func TestUpdate(t *testing.T) {
	s := start(t)
	path := s.create(t)
	var got v1.Session
	s.do(t, "PATCH", path, `{"ttl_seconds":600,"lifetime_seconds":7200,"on_idle":"stop","on_expiry":"stop","idle_timeout_seconds":60,"auto_resume":false,"labels":{"a":"b"}}`).into(t, 200, &got)
	if got.TTLSeconds != 600 || got.OnExpiry != session.OnExpiryStop || got.Lifetime != 7200 || got.OnIdle != session.OnIdleStop || got.IdleTimeout != 60 || got.AutoResume || got.Labels["a"] != "b" {
		t.Errorf("%+v", got)
	}
	s.do(t, "PATCH", path, `{}`).into(t, 200, &got)
	if got.TTLSeconds != 600 || got.OnIdle != session.OnIdleStop || got.OnExpiry != session.OnExpiryStop || got.AutoResume || got.Labels["a"] != "b" {
		t.Errorf("nothing changed something: %+v", got)
	}
	for body, field := range map[string]string{
		`{"ttl_seconds":0}`:                                   "ttl_seconds",
		`{"ttl_seconds":31536000}`:                            "ttl_seconds",
		`{"ttl_seconds":30}`:                                  "idle_timeout_seconds",
		`{"idle_timeout_seconds":600}`:                        "idle_timeout_seconds",
		`{"lifetime_seconds":-1}`:                             "lifetime_seconds",
		`{"on_idle":"hibernate"}`:                             "on_idle",
		`{"on_idle":null}`:                                    "on_idle",
		`{"on_expiry":"pause"}`:                               "on_expiry",
		`{"auto_resume":"yes"}`:                               "auto_resume",
		`{"labels":{"":"x"}}`:                                 "labels",
		`{"image":"other"}`:                                   "image",
		`{"labels":{"a":"` + strings.Repeat("x", 300) + `"}}`: "labels",
	} {
		s.do(t, "PATCH", path, body).wantError(t, 400, "invalid_argument", field)
	}
	s.do(t, "PATCH", path, "").wantError(t, 400, "invalid_argument", "")
	s.do(t, "DELETE", path, "")
	s.do(t, "PATCH", path, `{"ttl_seconds":60}`).wantError(t, 409, "conflict", "")
}

func TestHeartbeat(t *testing.T) {
	s := start(t)
	path := s.create(t)
	before := s.post(t, path+"/pause", "")
	for { // the clock may not have moved yet
		got := s.post(t, path+"/heartbeat", "")
		if got.Status != session.Paused {
			t.Fatalf("a heartbeat made it %s", got.Status)
		}
		if got.LastActivity.After(before.LastActivity) && got.ExpiresAt.After(before.ExpiresAt) {
			break
		}
	}
	s.do(t, "DELETE", path, "")
	s.do(t, "POST", path+"/heartbeat", "").wantError(t, 409, "conflict", "")
}

func TestCreateWithPolicy(t *testing.T) {
	s := start(t)
	var got v1.Session
	s.do(t, "POST", "/v1/sessions", `{"on_idle":"pause","ttl_seconds":3600}`).into(t, 201, &got)
	if got.OnIdle != session.OnIdlePause || got.IdleTimeout != 300 || !got.AutoResume || got.BootID == "" || !got.ExpiresAt.Equal(got.LastActivity.Add(time.Hour)) {
		t.Errorf("%+v", got)
	}
	s.do(t, "POST", "/v1/sessions", `{"idle_timeout_seconds":60}`).into(t, 201, &got)
	if got.OnIdle != session.OnIdleDestroy || !got.ExpiresAt.Equal(got.LastActivity.Add(time.Minute)) {
		t.Errorf("%+v", got)
	}
	s.do(t, "POST", "/v1/sessions", `{"on_idle":"stop","idle_timeout_seconds":3600}`).wantError(t, 400, "invalid_argument", "idle_timeout_seconds")
}

// What happens at the end of the ttl is in every answer, and the info says what it is for
// who asks for nothing.
func TestOnExpiryIsShown(t *testing.T) {
	for setting, want := range map[session.OnExpiry]struct{ told, named, without string }{
		"":                      {"named", "stop", "destroy"},
		session.OnExpiryStop:    {"stop", "stop", "stop"},
		session.OnExpiryDestroy: {"destroy", "destroy", "destroy"},
	} {
		s := start(t, func(o *setup) { o.session.Defaults.OnExpiry = setting })
		var info v1.Info
		s.do(t, "GET", "/v1/info", "").into(t, 200, &info)
		if info.Defaults.OnExpiry != want.told {
			t.Errorf("info of %q: %q", setting, info.Defaults.OnExpiry)
		}
		var named, without, again v1.Session
		s.do(t, "POST", "/v1/sessions", `{"name":"build"}`).into(t, 201, &named)
		s.do(t, "POST", "/v1/sessions", `{}`).into(t, 201, &without)
		s.do(t, "GET", "/v1/sessions/build", "").into(t, 200, &again)
		if string(named.OnExpiry) != want.named || again.OnExpiry != named.OnExpiry || string(without.OnExpiry) != want.without {
			t.Errorf("setting %q: %q with a name, later %q, %q without", setting, named.OnExpiry, again.OnExpiry, without.OnExpiry)
		}
		var all []v1.Session
		s.do(t, "GET", "/v1/sessions", "").into(t, 200, &all)
		if len(all) != 2 || all[0].OnExpiry != named.OnExpiry {
			t.Errorf("setting %q: the list has %+v", setting, all)
		}
	}
}

// A request by the name of a session that has ended says what became of it, whatever it is.
func TestRequestsByTheNameOfWhatHasEnded(t *testing.T) {
	s := start(t)
	s.do(t, "POST", "/v1/sessions", `{"name":"build"}`)
	s.do(t, "DELETE", "/v1/sessions/build", "")
	for _, request := range [][3]string{
		{"POST", "/v1/sessions/build/exec", `{"cmd":"true"}`},
		{"GET", "/v1/sessions/build/ports", ""},
		{"GET", "/v1/sessions/build", ""},
		{"GET", "/v1/events?session=build", ""},
	} {
		s.do(t, request[0], request[1], request[2]).wantError(t, 404, "not_found", "")
		if got := s.do(t, request[0], request[1], request[2]).body; !strings.Contains(string(got), "was destroyed at") {
			t.Errorf("%s %s: %s", request[0], request[1], got)
		}
	}
	var bulk v1.BulkAnswer
	s.do(t, "POST", "/v1/sessions/bulk", `{"action":"stop","ids":["build"]}`).into(t, 200, &bulk)
	if len(bulk.Results) != 1 || bulk.Results[0].Error == nil || !strings.Contains(bulk.Results[0].Error.Error, "was destroyed at") {
		t.Errorf("%+v", bulk)
	}
}

// TestNoRoom: the reason of a refusal reaches the client.
func TestNoRoom(t *testing.T) {
	full := false
	s := start(t, func(o *setup) {
		o.session.Admit = func(context.Context, session.Admission) error {
			if full {
				return errdefs.New(errdefs.Unavailable, "no memory: raise it")
			}
			return nil
		}
	})
	path := s.create(t)
	s.post(t, path+"/stop", "")
	full = true
	for _, p := range []string{"/v1/sessions", path + "/start"} {
		a := s.do(t, "POST", p, "")
		a.wantError(t, 503, "unavailable", "")
		if a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "no memory: raise it") {
			t.Errorf("%s: %v %s", p, a.header, a.body)
		}
	}
	full = false
	s.post(t, path+"/start", "")
}
