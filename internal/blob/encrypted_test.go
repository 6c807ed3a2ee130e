package blob_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/blobtest"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func encrypt(t *testing.T, s blob.Store, keyByte byte) *blob.Encrypted {
	t.Helper()
	e, err := blob.NewEncrypted(s, bytes.Repeat([]byte{keyByte}, blob.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEncrypted(t *testing.T) {
	blobtest.TestStore(t, func(t *testing.T) blob.Store { return encrypt(t, openDir(t, filepath.Join(t.TempDir(), "blobs")), 1) })
}

// The parts of an encrypted blob, as its format has them.
const (
	head  = 36
	chunk = 64<<10 + 16
)

func TestEncryptedRefusesWhatWasChanged(t *testing.T) {
	data := blobtest.Bytes(3*64<<10 + 100) // four chunks
	tests := map[string]func(b []byte) []byte{
		"empty":              func([]byte) []byte { return nil },
		"plain text":         func([]byte) []byte { return data },
		"half a head":        func(b []byte) []byte { return b[:head/2] },
		"head alone":         func(b []byte) []byte { return b[:head] },
		"other version":      func(b []byte) []byte { b[3]++; return b },
		"other salt":         func(b []byte) []byte { b[head-1]++; return b },
		"bit in first chunk": func(b []byte) []byte { b[head] ^= 1; return b },
		"bit in last chunk":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"last byte cut":      func(b []byte) []byte { return b[:len(b)-1] },
		"last chunk cut":     func(b []byte) []byte { return b[:head+3*chunk] },
		"all but one cut":    func(b []byte) []byte { return b[:head+chunk] },
		"byte more":          func(b []byte) []byte { return append(b, 0) },
		"first chunk cut":    func(b []byte) []byte { return slices.Delete(b, head, head+chunk) },
		"middle chunk cut":   func(b []byte) []byte { return slices.Delete(b, head+chunk, head+2*chunk) },
		"chunk twice":        func(b []byte) []byte { return slices.Insert(b, head+chunk, b[head:head+chunk]...) },
		"chunks swapped": func(b []byte) []byte {
			return slices.Concat(b[:head], b[head+chunk:head+2*chunk], b[head:head+chunk], b[head+2*chunk:])
		},
		"last chunk in the middle": func(b []byte) []byte { return slices.Insert(b, head+chunk, b[head+3*chunk:]...) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			e := encrypt(t, openDir(t, path), 1)
			blobtest.Put(t, e, "a", data)
			blobtest.Put(t, e, "b", data) // which opens, so that the key is right
			file := filepath.Join(path, "a")
			stored, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, change(stored), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := blobtest.Read(t.Context(), e, "a", 0)
			blobtest.WantCode(t, "read", err, errdefs.Unprocessable)
			if !bytes.HasPrefix(data, got) {
				t.Errorf("%d bytes were handed out that were never put", len(got))
			}
			if got := blobtest.Keys(t, e, ""); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("the store lists %q", got)
			}
		})
	}
}

// Reading from the end on must not pass over a cut either.
func TestEncryptedSeesACutFromAnyOffset(t *testing.T) {
	path := t.TempDir()
	e := encrypt(t, openDir(t, path), 1)
	blobtest.Put(t, e, "a", blobtest.Bytes(4*64<<10))
	blobtest.Put(t, e, "b", []byte("which opens"))
	if err := os.Truncate(filepath.Join(path, "a"), head+3*chunk); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{0, 64 << 10, 2*64<<10 + 1, 3 * 64 << 10} {
		_, err := blobtest.Read(t.Context(), e, "a", offset)
		blobtest.WantCode(t, "read", err, errdefs.Unprocessable)
	}
}

func TestEncryptedBlobsBelongToTheirKeys(t *testing.T) {
	path := t.TempDir()
	d := openDir(t, path)
	e := encrypt(t, d, 1)
	blobtest.Put(t, e, "alice/data", []byte("of alice"))
	blobtest.Put(t, e, "mallory/data", []byte("of mallory"))
	blobtest.Put(t, e, "other", []byte("which opens"))
	if err := os.Rename(filepath.Join(path, "alice_data"), filepath.Join(path, "mallory_data")); err != nil {
		t.Fatal(err)
	}
	_, err := blobtest.Read(t.Context(), e, "mallory/data", 0)
	blobtest.WantCode(t, "read what was moved", err, errdefs.Unprocessable)
}

// A key that is wrong, or there or not there since, is no damage: the right one brings all
// back.
func TestEncryptedNeedsTheSameKey(t *testing.T) {
	d := openDir(t, t.TempDir())
	blobtest.Put(t, encrypt(t, d, 1), "a", []byte("secret"))
	blobtest.Put(t, encrypt(t, d, 1), "b", []byte("secret"))
	blobtest.Put(t, d, "plain", []byte("\x28\xb5\x2f\xfd and what follows in an archive, without a key"))
	for what, read := range map[string]struct {
		store blob.Store
		key   string
	}{
		"another key":            {encrypt(t, d, 2), "a"},
		"no key":                 {blob.Plain{Store: d}, "a"},
		"a key, put without one": {encrypt(t, d, 1), "plain"},
	} {
		_, err := blobtest.Read(t.Context(), read.store, read.key, 0)
		blobtest.WantCode(t, "read with "+what, err, errdefs.Unavailable)
	}
	if got, err := blobtest.Read(t.Context(), blob.Plain{Store: d}, "plain", 0); err != nil || !bytes.HasPrefix(got, []byte{0x28}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEncryptedKeepsNothingReadable(t *testing.T) {
	d := openDir(t, t.TempDir())
	e := encrypt(t, d, 1)
	secret := bytes.Repeat([]byte("secret words "), 10_000)
	blobtest.Put(t, e, "a", secret)
	blobtest.Put(t, e, "b", secret)
	a, err := blobtest.Read(t.Context(), d, "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := blobtest.Read(t.Context(), d, "b", 0)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(a, []byte("secret")) {
		t.Error("the blob can be read in the store")
	}
	if bytes.Equal(a[head:], b[head:]) {
		t.Error("the same blob twice looks the same in the store")
	}
}

func TestParseKey(t *testing.T) {
	digits := strings.Repeat("0a", blob.KeySize)
	for text, ok := range map[string]bool{
		digits: true, " " + digits + "\n": true, strings.ToUpper(digits): true,
		"": false, digits[2:]: false, digits + "00": false, "x" + digits[1:]: false, digits[1:]: false,
	} {
		key, err := blob.ParseKey(text)
		if (err == nil) != ok || ok && !bytes.Equal(key, bytes.Repeat([]byte{0x0a}, blob.KeySize)) {
			t.Errorf("ParseKey(%q) = %x, %v", text, key, err)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells the key: %v", err)
		}
	}
	if _, err := blob.NewEncrypted(nil, make([]byte, 31)); err == nil {
		t.Error("NewEncrypted took a short key")
	}
}
