package archive_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/baseline"
	"github.com/sandkasten/sandkasten/internal/runner/archive"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// takeBaseline lists what is below a directory, and returns when whatever is
// changed from now on has a later time.
func takeBaseline(t *testing.T, dir string) (list []byte, taken unix.Timespec) {
	t.Helper()
	var out bytes.Buffer
	w := baseline.NewWriter(&out)
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		var st unix.Stat_t
		must(t, unix.Lstat(dir+"/"+path, &st))
		return w.Add(baseline.Entry{Path: path, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Size: st.Size, MTime: st.Mtim.Sec})
	}))
	must(t, w.Flush())
	now := func() unix.Timespec {
		var st unix.Stat_t
		must(t, unix.Lstat(t.TempDir(), &st))
		return st.Ctim
	}
	for taken = now(); now() == taken; { // its clock has ticks
	}
	return out.Bytes(), taken
}

func difference(t *testing.T, dir string, base archive.Baseline, which archive.Selection) ([]byte, error) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	var out bytes.Buffer
	err = archive.PackChanges(&out, archive.Tar, fd, base, which, always)
	return out.Bytes(), err
}

func tarNames(t *testing.T, data []byte) []string {
	t.Helper()
	return names(headers(t, data))
}

func fill(t *testing.T, dir string, paths string) {
	t.Helper()
	for _, path := range strings.Fields(paths) {
		if path, ok := strings.CutSuffix(path, "/"); ok {
			must(t, os.MkdirAll(dir+"/"+path, 0o755))
			continue
		}
		must(t, os.WriteFile(dir+"/"+path, []byte("old"), 0o644))
	}
}

func TestPackChanges(t *testing.T) {
	const made = "a/ a/f a/sub/ a/sub/f a- e/ e/f e/g/ e/g/f z z2"
	for name, c := range map[string]struct {
		do               func(dir string) error
		include, exclude string
		want             string
	}{
		"nothing":     {do: func(string) error { return nil }},
		"new":         {do: func(d string) error { return os.WriteFile(d+"/a/new", nil, 0o644) }, want: "a/ a/new"},
		"content":     {do: func(d string) error { return os.WriteFile(d+"/a/sub/f", []byte("longer"), 0o644) }, want: "a/ a/sub/ a/sub/f"},
		"mode":        {do: func(d string) error { return os.Chmod(d+"/a/sub/f", 0o600) }, want: "a/ a/sub/ a/sub/f"},
		"mode of dir": {do: func(d string) error { return os.Chmod(d+"/e/g", 0o700) }, want: "e/ e/g/"},
		"forged": {do: func(d string) error {
			fi, err := os.Stat(d + "/z")
			must(t, err)
			return errors.Join(os.WriteFile(d+"/z", []byte("new"), 0o644), os.Chtimes(d+"/z", fi.ModTime(), fi.ModTime()))
		}, want: "z"},
		"removed":      {do: func(d string) error { return os.Remove(d + "/a/f") }, want: "a/ a/.wh.f"},
		"last removed": {do: func(d string) error { return os.Remove(d + "/z2") }, want: ".wh.z2"},
		"last in dir":  {do: func(d string) error { return os.RemoveAll(d + "/e/g") }, want: "e/ e/.wh.g"},
		"dir removed":  {do: func(d string) error { return os.RemoveAll(d + "/a") }, want: ".wh.a"},
		"dir to file": {do: func(d string) error {
			return errors.Join(os.RemoveAll(d+"/a"), os.WriteFile(d+"/a", nil, 0o644))
		}, want: "a"},
		"file to dir": {do: func(d string) error {
			return errors.Join(os.Remove(d+"/z"), os.Mkdir(d+"/z", 0o755), os.WriteFile(d+"/z/f", nil, 0o644))
		}, want: "z/ z/f"},
		"dir anew": {do: func(d string) error {
			return errors.Join(os.RemoveAll(d+"/e"), os.Mkdir(d+"/e", 0o755), os.WriteFile(d+"/e/other", nil, 0o644))
		}, want: "e/ e/.wh.f e/.wh.g e/other"},
		"renamed": {do: func(d string) error { return os.Rename(d+"/e", d+"/b") }, want: ".wh.e b/ b/f b/g/ b/g/f"},
		"link":    {do: func(d string) error { return errors.Join(os.Remove(d+"/z"), os.Symlink("nowhere", d+"/z")) }, want: "z"},
		"all": {do: func(d string) error {
			return errors.Join(os.RemoveAll(d+"/a"), os.RemoveAll(d+"/e"), os.Remove(d+"/a-"), os.Remove(d+"/z"), os.Remove(d+"/z2"))
		}, want: ".wh.a .wh.a- .wh.e .wh.z .wh.z2"},
		"fakes": {do: func(d string) error {
			return errors.Join(os.WriteFile(d+"/a/.wh.f", nil, 0o644), os.WriteFile(d+"/a/.wh..wh..opq", nil, 0o644))
		}, want: "a/"},
		"excluded": {do: func(d string) error {
			return errors.Join(os.RemoveAll(d+"/a/sub"), os.Remove(d+"/z"), os.Remove(d+"/e/f"))
		}, exclude: "a/sub e", want: "a/ .wh.z"},
		"excluded above": {do: func(d string) error { return errors.Join(os.RemoveAll(d+"/a"), os.Remove(d+"/z")) }, exclude: "a", want: ".wh.z"},
		"included":       {do: func(d string) error { return errors.Join(os.RemoveAll(d+"/a"), os.Remove(d+"/z")) }, include: "a/sub", want: "a/.wh.sub"},
		"not included":   {do: func(d string) error { return errors.Join(os.RemoveAll(d+"/a"), os.Remove(d+"/z")) }, include: "e", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fill(t, dir, made)
			list, taken := takeBaseline(t, dir)
			must(t, c.do(dir))
			which := archive.Selection{Include: strings.Fields(c.include), Exclude: strings.Fields(c.exclude)}
			data, err := difference(t, dir, archive.Baseline{List: bytes.NewReader(list), Taken: taken}, which)
			must(t, err)
			got, want := tarNames(t, data), strings.Fields(c.want)
			slices.Sort(got) // a directory's removal comes where it would have been
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// Overlayfs's marks are none where there is no upper directory: a program may
// have set them.
func TestPackChangesFakeOpaque(t *testing.T) {
	testenv.NeedsRoot(t) // the file system of temporary files may not know them for others
	dir := t.TempDir()
	fill(t, dir, "d/ d/f")
	list, taken := takeBaseline(t, dir)
	must(t, unix.Setxattr(dir+"/d", "user.overlay.opaque", []byte("y"), 0))
	data, err := difference(t, dir, archive.Baseline{List: bytes.NewReader(list), Taken: taken}, archive.Selection{})
	if got := tarNames(t, data); err != nil || !slices.Equal(got, []string{"d/"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// What is unpacked on what it was made of is the same again.
func TestChangesComeBack(t *testing.T) {
	testenv.NeedsRoot(t) // owners
	from, to := t.TempDir(), t.TempDir()
	for _, dir := range []string{from, to} {
		fill(t, dir, "a/ a/b/ a/b/f c d/ d/e/ d/e/f")
	}
	list, taken := takeBaseline(t, from)
	must(t, errors.Join(os.RemoveAll(from+"/a/b"), os.Mkdir(from+"/a/b", 0o700), os.WriteFile(from+"/a/b/g", []byte("x"), 0o600),
		os.Chown(from+"/a/b/g", 7, 8), os.Remove(from+"/c"), os.Mkdir(from+"/c", 0o755), os.RemoveAll(from+"/d"), os.Symlink("c", from+"/d")))
	data, err := difference(t, from, archive.Baseline{List: bytes.NewReader(list), Taken: taken}, archive.Selection{})
	must(t, err)
	_, err = unpackAs(t, to, archive.Tar, protocol.SnapshotLayer, bytes.NewReader(data))
	must(t, err)
	again, err := difference(t, to, archive.Baseline{List: bytes.NewReader(list), Taken: taken}, archive.Selection{})
	must(t, err)
	if !slices.Equal(tarNames(t, again), tarNames(t, data)) {
		t.Errorf("%q, want %q", tarNames(t, again), tarNames(t, data))
	}
}

// A list that is damaged is an error, not another layer.
func TestPackChangesDamaged(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "a b c")
	list, taken := takeBaseline(t, dir)
	for _, damaged := range [][]byte{nil, list[:10], list[:len(list)-1]} {
		if data, err := difference(t, dir, archive.Baseline{List: bytes.NewReader(damaged), Taken: taken}, archive.Selection{}); err == nil {
			t.Errorf("of %d bytes of a list: %q", len(damaged), tarNames(t, data))
		}
	}
}
