package files_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/protocol"
)

// FuzzPath gives the calls for files whatever path there is, in a workspace
// with links to everywhere. Nothing beside the workspace is read or changed,
// and what is refused is refused in words for the client.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"f", "d/f", "../beside", "up/beside", "out", "abs", "d/../../beside", "d/up/../../beside", "/", "./d//f", "loop", "d/f/", "new/x/y",
		"/proc/self/root/etc/passwd", "..", ".", "fd/0", "d/..\\..\\beside", "a\x00b", strings.Repeat("x", 300), strings.Repeat("d/../", 900) + "f",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		outside := t.TempDir()
		inside := filepath.Join(outside, "workspace")
		plant(t, inside, map[string]string{"f": "mine", "d/f": "mine"})
		beside := filepath.Join(outside, "beside")
		if err := os.WriteFile(beside, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, to := range map[string]string{
			"up": "..", "out": "../beside", "abs": beside, "loop": "loop", "d/up": "../..", "fd": "/proc/self/fd",
		} {
			if err := os.Symlink(to, filepath.Join(inside, name)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := files.Open(inside, -1, "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		useEverywhere(t, s, path)
		if text, err := os.ReadFile(beside); err != nil || string(text) != "secret" {
			t.Errorf("%q: what is beside the workspace has %q, %v", path, text, err)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) != 2 {
			t.Errorf("%q: beside the workspace there is %v, %v", path, list, err)
		}
	})
}

// useEverywhere makes each call with the path. An absolute one that is in the
// workspace anyway counts like any other.
func useEverywhere(t *testing.T, s *files.Server, path string) {
	t.Helper()
	check := func(call string, err error) {
		if _, ok := errors.AsType[*protocol.Error](err); err != nil && !ok {
			t.Errorf("%s of %q: %v is not for a client", call, path, err)
		}
	}
	file, err := s.Read(protocol.Read{Path: path})
	check("read", err)
	if err == nil {
		text, err := io.ReadAll(file)
		if err != nil || string(text) == "secret" {
			t.Errorf("read %q: %q, %v", path, text, err)
		}
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}
	if info, err := s.Stat(protocol.Stat{Path: path, Follow: true}); err == nil && info.Size == int64(len("secret")) && info.Mode&0o777 == 0o600 {
		t.Errorf("stat %q: %+v", path, info)
	}
	_, err = s.List(protocol.List{Path: path, Depth: 1}, always)
	check("list", err)
	if filepath.IsAbs(path) {
		return // on a machine where it went wrong the files would be gone
	}
	check("mkdir", s.Mkdir(protocol.Mkdir{Path: path + "/made"}))
	_, err = s.Write(protocol.Write{Path: path}, strings.NewReader("new"), 3)
	check("write", err)
	check("remove", s.Remove(protocol.Remove{Path: path}, always))
}
