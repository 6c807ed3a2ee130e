package api_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/auth"
)

// TestKeysInBothHeaders: of a surface that takes either key, one valid one is enough, and two
// of different owners are none. Other surfaces take one key, in one header.
func TestKeysInBothHeaders(t *testing.T) {
	known, err := auth.NewKeys(
		auth.Key{ID: "a", Owner: "alice", Hash: auth.HashKey("the-key-of-alice")}, auth.Key{ID: "b", Owner: "bob", Hash: auth.HashKey("the-key-of-bob")})
	if err != nil {
		t.Fatal(err)
	}
	owner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, api.Caller(r.Context()).Owner) })
	h := api.Handler(api.Options{Authenticator: known},
		api.Surface{Name: "either", Prefix: "/either/", EitherKey: true, Routes: []api.Route{{Pattern: "GET /either/thing", Scope: api.Key, Handler: owner}}},
		api.Surface{Name: "one", Prefix: "/one/", Routes: []api.Route{{Pattern: "GET /one/thing", Scope: api.Key, Handler: owner}}})
	for _, tt := range []struct {
		target, bearer, key string
		want                string // the owner; "" is refused
	}{
		{"/either/thing", "the-key-of-alice", "the-key-of-alice", "alice"},
		{"/either/thing", "the-key-of-alice", "another service's", "alice"},
		{"/either/thing", "another.service's", "the-key-of-bob", "bob"},
		{"/either/thing", "the-key-of-alice", "the-key-of-bob", ""},
		{"/either/thing", "wrong", "wrong", ""},
		{"/one/thing", "the-key-of-alice", "the-key-of-alice", ""},
	} {
		w := serve(h, request("GET", tt.target, set("Authorization", "Bearer "+tt.bearer), set("X-API-Key", tt.key)))
		if tt.want == "" {
			wantError(t, w, http.StatusUnauthorized, "unauthenticated")
		} else if w.Code != http.StatusOK || w.Body.String() != tt.want {
			t.Errorf("%s with %s and %s: %d %s, want %s", tt.target, tt.bearer, tt.key, w.Code, w.Body, tt.want)
		}
	}
}
