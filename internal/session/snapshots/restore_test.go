package snapshots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// oneRow is a store that knows one snapshot.
type oneRow struct {
	Store

	row Snapshot
}

func (o oneRow) GetSnapshot(context.Context, string, string) (Snapshot, error) { return o.row, nil }

// Nothing is unpacked of an archive that is lost or damaged, wherever it is damaged:
// the sandbox is not even asked, which there is none of here.
func TestRestoreReadsAllBeforeItUnpacks(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	sum := sha256.Sum256(content)
	man := snapshot.Manifest{
		Format: snapshot.Format, ID: "id", Owner: "alice", Scope: snapshot.ScopeWorkspace, CreatedAt: time.Now().UTC(),
		Key:   "snapshots/a/b.tar.gz",
		Parts: []snapshot.Part{{Name: snapshot.Workspace, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}},
	}
	for name, spoil := range map[string]func([]byte) []byte{
		"missing":             func([]byte) []byte { return nil },
		"empty":               func([]byte) []byte { return []byte{} },
		"cut in the middle":   func(a []byte) []byte { return a[:len(a)/2] },
		"cut at its end":      func(a []byte) []byte { return a[:len(a)-1] },
		"changed in the head": func(a []byte) []byte { a[1] ^= 1; return a },
		"changed in the middle": func(a []byte) []byte {
			a[len(a)/2] ^= 1
			return a
		},
		"changed at its end": func(a []byte) []byte { a[len(a)-8] ^= 1; return a },
		"followed by more":   func(a []byte) []byte { return append(a, "garbage"...) },
	} {
		for form, write := range map[string]func(io.Writer, snapshot.Manifest, ...io.Reader) error{"tar": snapshot.Write, "gzip": snapshot.WriteGzip} {
			if form == "tar" && (name == "cut at its end" || name == "changed in the head" || name == "changed at its end") {
				continue // in padding, or in what the hash does not cover
			}
			t.Run(name+" "+form, func(t *testing.T) {
				t.Parallel()
				var archive bytes.Buffer
				if err := write(&archive, man, bytes.NewReader(content)); err != nil {
					t.Fatal(err)
				}
				blobs, err := blob.NewDir(filepath.Join(t.TempDir(), "blobs"), "")
				if err != nil {
					t.Fatal(err)
				}
				if spoiled := spoil(archive.Bytes()); spoiled != nil {
					if _, err := blobs.Put(t.Context(), man.Key, bytes.NewReader(spoiled)); err != nil {
						t.Fatal(err)
					}
				}
				row := Snapshot{ID: "id", Owner: "alice", State: Ready, Manifest: man}
				k := New(Options{Store: oneRow{row: row}, Blobs: blobs}, nil, nil)
				if err := k.Restore(t.Context(), row, nil); errdefs.CodeOf(err) != errdefs.Unprocessable {
					t.Errorf("%v", err)
				}
			})
		}
	}
}
