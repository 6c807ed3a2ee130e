package seal_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/seal"
)

func newKey(t *testing.T, fill byte) *seal.Key {
	t.Helper()
	key, err := seal.NewKey(bytes.Repeat([]byte{fill}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSealedValueOpens(t *testing.T) {
	t.Parallel()
	key := newKey(t, 1)
	for _, plain := range []string{"", "a secret", strings.Repeat("a secret", 4096)} {
		sealed := key.Seal([]byte(plain), []byte("alice\x00github"))
		if plain != "" && bytes.Contains(sealed, []byte(plain)) {
			t.Errorf("a value of %d bytes is to be read in what is sealed", len(plain))
		}
		got, err := key.Open(sealed, []byte("alice\x00github"))
		if err != nil || string(got) != plain {
			t.Errorf("opened %d bytes of %d, %v", len(got), len(plain), err)
		}
		if again := key.Seal([]byte(plain), []byte("alice\x00github")); bytes.Equal(sealed, again) {
			t.Error("the same value is sealed to the same bytes twice")
		}
	}
}

func TestSealedValueDoesNotOpen(t *testing.T) {
	t.Parallel()
	key := newKey(t, 1)
	about := []byte("alice\x00github")
	sealed := key.Seal([]byte("a secret"), about)
	tests := []struct {
		name   string
		key    *seal.Key
		sealed []byte
		about  string
	}{
		{"with another key", newKey(t, 2), sealed, string(about)},
		{"of another owner", key, sealed, "bob\x00github"},
		{"of another name", key, sealed, "alice\x00gitlab"},
		{"about nothing", key, sealed, ""},
		{"of another version", key, append([]byte{2}, sealed[1:]...), string(about)},
		{"cut", key, sealed[:len(sealed)-1], string(about)},
		{"cut to its version", key, sealed[:1], string(about)},
		{"empty", key, nil, string(about)},
		{"longer", key, append(bytes.Clone(sealed), 0), string(about)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if plain, err := tt.key.Open(tt.sealed, []byte(tt.about)); !errors.Is(err, seal.ErrSealed) || plain != nil {
				t.Errorf("opened %q, %v", plain, err)
			}
		})
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := key.Open(changed, about); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("with byte %d changed: %v", i, err)
		}
	}
}

func TestKeyHasItsSize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := seal.NewKey(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes is taken", n)
		}
	}
}

func TestKeyFileIsMadeOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	keys := make([]*seal.Key, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			var err error
			if keys[i], err = seal.Open(file); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	sealed := keys[0].Seal([]byte("a secret"), nil)
	for i, key := range keys {
		if plain, err := key.Open(sealed, nil); err != nil || string(plain) != "a secret" {
			t.Errorf("key %d opens %q, %v", i, plain, err)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 || info.Size() != 2*seal.KeySize+1 {
		t.Errorf("the file is %+v, %v", info, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("beside it there is %v, %v", entries, err)
	}
}

func TestKeyFileIsRefused(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("ab", seal.KeySize)
	tests := []struct {
		name, text string
		mode       fs.FileMode
		want       string // "" is that it is taken
	}{
		{"with a newline", digits + "\n", 0o600, ""},
		{"only for reading", digits, 0o400, ""},
		{"for others", digits, 0o644, "chmod 600"},
		{"for the group", digits, 0o640, "chmod 600"},
		{"empty", "", 0o600, "64 hexadecimal digits"},
		{"short", digits[2:], 0o600, "64 hexadecimal digits"},
		{"long", digits + "ab", 0o600, "64 hexadecimal digits"},
		{"of no digits", "zz" + digits[2:], 0o600, "64 hexadecimal digits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(file, []byte(tt.text), tt.mode); err != nil {
				t.Fatal(err)
			}
			_, err := seal.Open(file)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if text, err := os.ReadFile(file); err != nil || string(text) != tt.text {
				t.Errorf("it has %q afterwards, %v", text, err)
			}
		})
	}
	if _, err := seal.Open(filepath.Join(t.TempDir(), "none", "key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is missing: %v", err)
	}
}
