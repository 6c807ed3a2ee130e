package runtimetest

import (
	"bytes"
	"io"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

// snapshot: the files of a sandbox whose programs stand still can be packed and
// are the same in another one. Of a root that is not known to the runner it
// says so.
func (s *suite) snapshot(t *testing.T) {
	d := s.open(t)
	from, to := s.create(t, d, s.spec()), s.create(t, d, s.spec())
	const look = "find . -printf '%p %y %m %U:%G %s %l\\n' | sort"
	from.wantOutput(t, "mkdir -p d/e; echo text > d/f; chmod 640 d/f; chown 12:34 d/f 2>/dev/null; ln -s f d/l; truncate -s 5M zeros; touch 'a b'", "")
	want, _ := from.run(t, look)
	pauser, pauses := from.Sandbox.(runtime.Pauser)
	if pauses {
		if err := pauser.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := from.client.Pack(t.Context(), protocol.Pack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotTree})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := from.client.Pack(t.Context(), protocol.Pack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotLayer})
	if err == nil {
		_, err = io.Copy(io.Discard, layer)
	}
	if err != nil && !errdefs.Is(err, errdefs.Unimplemented) {
		t.Error(err)
	}
	if pauses {
		if err := pauser.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	unpack := protocol.Unpack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotTree}
	if _, err := to.client.Unpack(t.Context(), unpack, int64(len(data)), bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if got, _ := to.run(t, look); got != want {
		t.Errorf("unpacked:\n%s\nwant:\n%s", got, want)
	}
}
