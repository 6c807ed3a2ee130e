package v1_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/auth"
)

func (s *server) listOf(tb testing.TB, query string, edits ...edit) []v1.Session {
	tb.Helper()
	var list []v1.Session
	s.do(tb, "GET", "/v1/sessions"+query, "", edits...).into(tb, http.StatusOK, &list)
	return list
}

func sessionNames(list []v1.Session) string {
	var names []string
	for _, one := range list {
		names = append(names, one.Name)
	}
	return strings.Join(names, " ")
}

// seesAll lets alice use the sessions of every owner.
type seesAll struct{ keys }

func (k seesAll) Authenticate(ctx context.Context, key string) (auth.Principal, error) {
	p, err := k.keys.Authenticate(ctx, key)
	if p.Owner == "alice" {
		p = p.With(auth.ScopeEveryOwner)
	}
	return p, err
}

// fillSessions makes two sessions of alice's, who sees all, and one of bob's.
func fillSessions(tb testing.TB) *server {
	tb.Helper()
	s := start(tb, func(o *setup) { o.api.Authenticator = seesAll{keys{operator: "alice"}} })
	for _, made := range []struct{ key, body string }{
		{aliceKey, `{"name": "web", "labels": {"task": "42"}}`}, {aliceKey, `{"name": "db", "image": "python", "labels": {"task": "7", "keep": ""}}`}, {bobKey, `{"name": "mine"}`},
	} {
		var created v1.Session
		s.do(tb, "POST", "/v1/sessions", made.body, header("Authorization", "Bearer "+made.key)).into(tb, http.StatusCreated, &created)
	}
	return s
}

func TestSessionsAreSelected(t *testing.T) {
	s := fillSessions(t)
	s.do(t, "POST", "/v1/sessions/db/pause", "").into(t, http.StatusOK, new(v1.Session))
	bob := header("Authorization", "Bearer "+bobKey)
	for query, want := range map[string]string{
		"":               "web db mine",
		"?status=paused": "db",
		"?status=paused&status=running&owner=alice": "web db",
		"?image=python":               "db",
		"?label=task&label=keep":      "db",
		"?label=task%3D42":            "web",
		"?owner=bob":                  "mine",
		"?search=TASK%3D4":            "web",
		"?sort=name":                  "db mine web",
		"?sort=-created&limit=2":      "mine db",
		"?search=nothing-has-this":    "",
		"?status=expired":             "",
		"?include_ended=true&limit=1": "web",
	} {
		if got := sessionNames(s.listOf(t, query)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"", "?owner=bob", "?search=mine", "?sort=-name&limit=10"} {
		if got := s.listOf(t, query, bob); sessionNames(got) != "mine" || got[0].Owner != "bob" {
			t.Errorf("bob's %s: %q", query, sessionNames(got))
		}
	}
	if got := s.listOf(t, "?owner=alice", bob); len(got) > 0 {
		t.Errorf("bob sees alice's: %q", sessionNames(got))
	}
	for query, field := range map[string]string{
		"?status=asleep": "status", "?sort=age": "sort", "?limit=0": "limit", "?limit=1001": "limit", "?after=x": "after", "?labels=x": "labels",
	} {
		s.do(t, "GET", "/v1/sessions"+query, "").wantError(t, http.StatusBadRequest, "invalid_argument", field)
	}
}

func TestSessionPages(t *testing.T) {
	s := fillSessions(t)
	first := s.listOf(t, "?limit=2&sort=-name")
	if sessionNames(first) != "web mine" {
		t.Fatalf("first page %q", sessionNames(first))
	}
	after := "&after=" + url.QueryEscape(first[1].Cursor)
	if second := s.listOf(t, "?limit=2&sort=-name"+after); sessionNames(second) != "db" {
		t.Errorf("second page %q", sessionNames(second))
	}
	s.do(t, "GET", "/v1/sessions?limit=2&sort=name"+after, "").wantError(t, http.StatusBadRequest, "invalid_argument", "after")
	// A cursor opens nothing of others.
	if got := s.listOf(t, "?limit=2&sort=-name"+after, header("Authorization", "Bearer "+bobKey)); len(got) > 0 {
		t.Errorf("bob, from alice's cursor: %q", sessionNames(got))
	}
	for _, one := range s.listOf(t, "") {
		if one.Cursor != "" || one.Usage != nil {
			t.Errorf("nobody has asked for %+v", one)
		}
	}
}

func TestSessionUsageInAList(t *testing.T) {
	s := fillSessions(t)
	s.do(t, "POST", "/v1/sessions/db/stop", "").into(t, http.StatusOK, new(v1.Session))
	for _, one := range s.listOf(t, "?usage=true") {
		if has := one.Usage != nil && !one.Usage.MeasuredAt.IsZero(); has != (one.Status == "running") {
			t.Errorf("%s is %s: usage %+v", one.Name, one.Status, one.Usage)
		}
	}
}
