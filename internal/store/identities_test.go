package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
)

// A user's subjects go with the user, and no other user's.
func TestIdentitiesGoWithTheirUser(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	for _, name := range []string{"alice", "bob"} {
		u := accounts.User{ID: "id-of-" + name, Name: name, Role: accounts.RoleUser, State: accounts.Active, CreatedAt: time.Now()}
		if err := s.PutUser(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		if err := s.PutIdentity(t.Context(), "https://id.example.net", name, u.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.DeleteUser(t.Context(), "id-of-alice"); err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]string{"alice": "", "bob": "id-of-bob"} {
		if got, err := s.IdentityUser(t.Context(), "https://id.example.net", subject); err != nil || got != want {
			t.Errorf("%s is %q, want %q: %v", subject, got, want, err)
		}
	}
}
