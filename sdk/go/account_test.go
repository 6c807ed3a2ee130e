package sandkasten

import (
	"strings"
	"testing"
	"time"
)

func TestAccounts(t *testing.T) {
	c, d := start(t,
		answer{status: 201, body: `{"id":"k1","user":"alice","scope":"run","created_at":"2026-11-21T09:00:00Z","expires_at":"2026-11-21T10:00:00Z","key":"sk_text"}`},
		answer{status: 200, body: `{"name":"alice","role":"user","state":"disabled","has_password":false,"created_at":"2026-11-21T09:00:00Z"}`},
		answer{status: 200, body: `{"owner":"alice","admin":false,"user":{"name":"alice"},"key":{"id":"k1"}}`},
	)
	key, err := c.CreateKey(t.Context(), &KeyOptions{User: "alice", TTL: time.Hour})
	if err != nil || key.Text != "sk_text" || key.ID != "k1" || key.ExpiresAt == nil {
		t.Errorf("%+v, %v", key, err)
	}
	none, disabled := "", "disabled"
	user, err := c.UpdateUser(t.Context(), "alice", &UserUpdate{Email: &none, State: &disabled})
	if err != nil || user.State != "disabled" {
		t.Errorf("%+v, %v", user, err)
	}
	me, err := c.Me(t.Context())
	if err != nil || me.User.Name != "alice" || me.Key.ID != "k1" {
		t.Errorf("%+v, %v", me, err)
	}
	for i, want := range []string{`{"user":"alice","ttl_seconds":3600}`, `{"email":"","state":"disabled"}`, ``} {
		if got := strings.TrimSpace(d.seen()[i].body); got != want {
			t.Errorf("request %d is %s, want %s", i, got, want)
		}
	}
}
