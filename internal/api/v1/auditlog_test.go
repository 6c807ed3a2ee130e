package v1_test

import (
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/audit"
)

// Who is no admin sees what its own owner did, whatever it asks for.
func TestOwnAudit(t *testing.T) {
	log, err := audit.Open(audit.Options{Dir: t.TempDir(), MaxBytes: 1 << 20, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	s := start(t, func(o *setup) {
		o.api.Audit, o.v1.Audit = log, log
		o.api.Authenticator = keys{operator: "alice"}
	})
	entries := func(query string, edits ...edit) []v1.AuditEntry {
		t.Helper()
		var page v1.AuditPage
		s.do(t, "GET", "/v1/audit"+query, "", edits...).into(t, 200, &page)
		return page.Entries
	}
	s.newUser(t, "dora", "user")
	asDora := bearer(s.newKey(t, `{"user":"dora"}`).Text)
	s.create(t)
	var ofBob v1.Session
	s.do(t, "POST", "/v1/sessions", `{}`, asBob).into(t, 201, &ofBob)
	s.do(t, "POST", "/v1/sessions", `{}`, asDora)

	for name, as := range map[string]edit{"bob": asBob, "dora": asDora} {
		for _, query := range []string{"", "?owner=" + name, "?limit=1000", "?route=POST%20/v1/sessions", "?since=2020-01-01T00:00:00Z"} {
			got := entries(query, as)
			if len(got) == 0 {
				t.Errorf("%s%s sees nothing", name, query)
			}
			for _, one := range got {
				if one.Owner != name && one.Of != name {
					t.Errorf("%s%s sees %+v", name, query, one)
				}
			}
		}
		s.do(t, "GET", "/v1/audit?owner=alice", "", as).wantError(t, 403, "permission_denied", "")
	}
	if got := entries("?session="+string(ofBob.ID), asDora); len(got) != 0 {
		t.Errorf("dora sees of bob's session %+v", got)
	}
	if got := entries("?owner=bob"); len(got) == 0 {
		t.Error("an admin sees nothing of bob")
	}

	s.do(t, "DELETE", "/v1/users/dora", "")
	s.newUser(t, "dora", "user")
	if got := entries("", bearer(s.newKey(t, `{"user":"dora"}`).Text)); len(got) != 1 || got[0].Route != "POST /v1/keys" {
		t.Errorf("another dora sees more than who made her key: %+v", got)
	}
}
