package hostcas_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandkasten/sandkasten/internal/network/hostcas"
	"github.com/sandkasten/sandkasten/internal/network/relay"
)

func newCertificate(t *testing.T) []byte {
	t.Helper()
	a, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a.Certificate()
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir, one, two, three := t.TempDir(), newCertificate(t), newCertificate(t), newCertificate(t)
	file := filepath.Join(t.TempDir(), "company.pem")
	for path, text := range map[string][]byte{
		filepath.Join(dir, "a.crt"):          one,
		filepath.Join(dir, "below", "b.crt"): append([]byte("a word before\n"), append(two, one...)...),
		filepath.Join(dir, "note.txt"):       three,
		filepath.Join(dir, "broken.crt"):     []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
		file:                                 append(two, three...),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("gone", filepath.Join(dir, "link.crt")); err != nil {
		t.Fatal(err)
	}
	got, err := hostcas.Read([]string{dir, filepath.Join(dir, "missing")}, []string{file})
	if want := bytes.Join([][]byte{one, two, three}, nil); err != nil || !bytes.Equal(bytes.Join(got, nil), want) {
		t.Errorf("%v\n%s\nwant\n%s", err, bytes.Join(got, nil), want)
	}
	for _, file := range []string{filepath.Join(dir, "none.pem"), filepath.Join(dir, "broken.crt")} {
		if _, err := hostcas.Read(nil, []string{file}); err == nil {
			t.Errorf("%s was taken", file)
		}
	}
}
