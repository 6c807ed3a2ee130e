package runtimetest

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// trees shows the operations on whole directories.
func (s *suite) trees(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	c := b.client
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	big := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	must("write", c.Write(t.Context(), protocol.Write{Path: "d/sub/big"}, int64(len(big)), bytes.NewReader(big)))
	_, r, err := c.Read(t.Context(), protocol.Read{Path: "d/sub/big"})
	must("read", err)
	got, err := io.ReadAll(r)
	must("read", err)
	if !bytes.Equal(got, big) {
		t.Errorf("read %d bytes, want what was written", len(got))
	}
	must("mkdir", c.Mkdir(t.Context(), protocol.Mkdir{Path: "d/empty"}))
	must("copy", c.Copy(t.Context(), protocol.Copy{From: "d", To: "e", Recursive: true}))
	must("move", c.Move(t.Context(), protocol.Move{From: "e/sub", To: "e/moved"}))
	must("chmod", c.Chmod(t.Context(), protocol.Chmod{Path: "e", Mode: 0o700, Recursive: true}))
	b.wantOutput(t, "stat -c '%a %s' e/moved/big", "700 3200000\n")

	list, err := c.List(t.Context(), protocol.List{Path: ".", Max: 2, Depth: -1, After: []byte("d/sub")})
	must("list", err)
	if len(list.Entries) != 2 || list.Entries[0].Name != "d/sub/big" || list.Entries[1].Name != "e" || !list.Truncated {
		t.Errorf("%+v", list)
	}
	found, err := c.Glob(t.Context(), protocol.Glob{Path: ".", Pattern: "**/bi?", Max: 10})
	must("glob", err)
	if len(found.Entries) != 2 || found.Entries[1].Name != "e/moved/big" {
		t.Errorf("%+v", found)
	}
	matches, err := c.Grep(t.Context(), protocol.Grep{Path: "e", Pattern: "^0.*e$", Max: 3})
	must("grep", err)
	if len(matches.Matches) != 3 || !matches.Truncated || matches.Matches[2].Line != 3 {
		t.Errorf("%+v", matches)
	}
	for _, format := range []string{"tar", "tar.gz", "tar.zst", "zip"} {
		archive, err := c.Pack(t.Context(), protocol.Pack{Path: "d", Format: format})
		must("pack", err)
		packed, err := io.ReadAll(archive)
		must("pack "+format, err)
		done, err := c.Unpack(t.Context(), protocol.Unpack{Path: "u/" + format, Format: format}, int64(len(packed)), bytes.NewReader(packed))
		must("unpack "+format, err)
		if done.Files != 1 || done.Bytes != int64(len(big)) {
			t.Errorf("%s: %+v", format, done)
		}
		b.wantOutput(t, "diff -r d u/"+format, "")
	}
	must("remove", c.Remove(t.Context(), protocol.Remove{Path: "u", Recursive: true}))
	_, err = c.Stat(t.Context(), protocol.Stat{Path: "u"})
	wantCode(t, "stat of what was removed", err, errdefs.NotFound)
}

// watched shows that changes are told, those in new directories, too.
func (s *suite) watched(t *testing.T) {
	b := s.create(t, s.open(t), s.spec())
	w, err := b.client.Watch(t.Context(), protocol.Watch{Path: ".", Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(time.Minute, func() { _ = w.Close() }) // Next fails then
	defer stop.Stop()
	told := func(command string, changes ...string) {
		t.Helper()
		b.run(t, command)
		for len(changes) > 0 {
			c, err := w.Next()
			if err != nil {
				t.Fatalf("%s: %v; still expected: %q", command, err, changes)
			}
			changes = slices.DeleteFunc(changes, func(want string) bool { return want == c.Op+" "+c.Path })
		}
	}
	// What is gone before it was seen may go untold: first the one, then the other.
	told("mkdir -p n/m; echo x >n/m/g", "create n", "create n/m", "create n/m/g")
	told("mv n/m/g n/m/h", "rename n/m/h")
	told("rm -r n", "remove n/m/h", "remove n/m", "remove n")
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	b.wantOutput(t, "echo on", "on\n")
}
