package v1_test

import (
	"strings"
	"testing"
)

// A name that no session has is repeated, and what became of the last one that had it is
// told: that it ended, when and why. Of others' sessions nothing is.
func TestUnknownSessionsAreNamed(t *testing.T) {
	s := start(t)
	says := func(path string, as ...edit) string {
		t.Helper()
		a := s.do(t, "GET", path, "", as...)
		a.wantError(t, 404, "not_found", "")
		return string(a.body)
	}
	if said := says("/v1/sessions/nosuch/ports"); !strings.Contains(said, `no such session: \"nosuch\"`) || strings.Contains(said, "ended") {
		t.Errorf("%s", said)
	}
	var made struct{ ID string }
	s.do(t, "POST", "/v1/sessions", `{"name":"build"}`).into(t, 201, &made)
	if bob := says("/v1/sessions/build/ports", header("Authorization", "Bearer "+bobKey)); strings.Contains(bob, made.ID) {
		t.Errorf("to others: %s", bob)
	}
	s.do(t, "DELETE", "/v1/sessions/build", "")
	for _, path := range []string{"/v1/sessions/build/ports", "/v1/sessions/build"} {
		said := says(path)
		for _, part := range []string{`\"build\"`, made.ID, " was destroyed at 20", "a client destroyed it"} {
			if !strings.Contains(said, part) {
				t.Errorf("%s: %s; want %s", path, said, part)
			}
		}
	}
	gone := s.do(t, "POST", "/v1/sessions/"+made.ID+"/exec", `{"cmd":"true"}`)
	gone.wantError(t, 409, "conflict", "")
	if said := string(gone.body); !strings.Contains(said, made.ID+" is destroyed: 20") {
		t.Errorf("by id: %s", said)
	}
	if bob := says("/v1/sessions/build/ports", header("Authorization", "Bearer "+bobKey)); strings.Contains(bob, made.ID) {
		t.Errorf("to others: %s", bob)
	}
}
