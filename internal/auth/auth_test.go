package auth_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestNewKey(t *testing.T) {
	a, b := auth.NewKey(), auth.NewKey()
	if a == b {
		t.Error("two keys are the same")
	}
	if !regexp.MustCompile(`^sk_[a-z2-7]{52}$`).MatchString(a) {
		t.Errorf("key %q", a)
	}
}

func keys(t *testing.T, known ...auth.Key) *auth.Keys {
	t.Helper()
	k, err := auth.NewKeys(known...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAuthenticate(t *testing.T) {
	k := keys(t, auth.Key{"1", "alice", auth.HashKey("a-key")}, auth.Key{"2", auth.Admin, auth.HashKey("b-key")})
	for key, want := range map[string]auth.Principal{
		"a-key": {Owner: "alice", ID: "1", Quota: "alice"}, "b-key": {Owner: auth.Admin, ID: "2", Quota: auth.Admin, Scopes: auth.ScopeDaemon | auth.ScopeOversee},
	} {
		if p, err := k.Authenticate(t.Context(), key); err != nil || p != want {
			t.Errorf("%q: %+v, %v", key, p, err)
		}
	}
	for _, key := range []string{"", "a-ke", "a-key ", "A-KEY", "a-keyb-key", "\x00"} {
		if p, err := k.Authenticate(t.Context(), key); p != (auth.Principal{}) || !errdefs.Is(err, errdefs.Unauthenticated) {
			t.Errorf("%q: %+v, %v", key, p, err)
		}
	}
	if _, err := keys(t).Authenticate(t.Context(), ""); !errdefs.Is(err, errdefs.Unauthenticated) {
		t.Errorf("no keys at all: %v", err)
	}
}

func TestNewKeysRefuses(t *testing.T) {
	for name, known := range map[string][]auth.Key{
		"no owner":  {{"1", "", auth.HashKey("a")}},
		"empty key": {{"1", "alice", auth.HashKey("")}},
		"twice":     {{"1", "alice", auth.HashKey("a")}, {"2", "bob", auth.HashKey("a")}},
	} {
		if _, err := auth.NewKeys(known...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	first, created, err := auth.KeyFile(path)
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	again, created, err := auth.KeyFile(path)
	if err != nil || created || again != first {
		t.Errorf("second: %q, created %v, %v; first %q", again, created, err, first)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v", entries, err)
	}
}

func TestKeyFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var all sync.WaitGroup
	found := make([]string, 20)
	made := make([]bool, len(found))
	for i := range found {
		all.Go(func() {
			var err error
			if found[i], made[i], err = auth.KeyFile(path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	creators := 0
	for i := range found {
		if found[i] != found[0] {
			t.Errorf("two keys: %q and %q", found[i], found[0])
		}
		if made[i] {
			creators++
		}
	}
	if creators != 1 {
		t.Errorf("%d created it", creators)
	}
}

func TestKeyFileRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"readable by others": {func(p string) error { return os.WriteFile(p, []byte("sk_x"), 0o644) }, "chmod 600"},
		"empty":              {func(p string) error { return os.WriteFile(p, []byte("\n"), 0o600) }, "remove it"},
		"two keys":           {func(p string) error { return os.WriteFile(p, []byte("a\nb\n"), 0o600) }, "remove it"},
		"a directory":        {func(p string) error { return os.Mkdir(p, 0o700) }, "regular"},
		"a link":             {func(p string) error { return os.Symlink("/etc/hostname", p) }, "regular"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		if key, _, err := auth.KeyFile(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
	if _, _, err := auth.KeyFile(filepath.Join(t.TempDir(), "no", "such", "dir")); err == nil {
		t.Error("made a key in a directory that is not there")
	}
}
