package extract_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestTree(t *testing.T) {
	items := []item{
		{name: "./", kind: tar.TypeDir, mode: 0o750},
		dir("./etc/"), file("./etc/passwd", "root:x:0:0"),
		{name: "tmp", kind: tar.TypeDir, mode: 0o1777},
		{name: "run.sh", body: "#!/bin/sh", mode: 0o755},
		symlink("link", "/etc/passwd"), symlink("dangling", "nowhere/at/all"),
		hardlink("hard", "etc/passwd"),
		file("name with\nnewline and \xff", "x"), file(`a\x2db.slice`, "systemd writes such names"),
		{kind: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "git archive"}},
	}
	plain := archive(t, items...)
	var results []extract.Result
	for name, data := range map[string][]byte{"plain": plain, "gzip": gzipped(t, plain), "zstd": zstandard(t, plain)} {
		t.Run(name, func(t *testing.T) {
			j := newJail(t)
			got, err := j.extract(t, data)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, got)
			if j.read(t, "etc/passwd") != "root:x:0:0" || j.read(t, "hard") != "root:x:0:0" {
				t.Error("a file has other content")
			}
			if got := j.lstat(t, "hard").Sys().(*syscall.Stat_t).Nlink; got != 2 {
				t.Errorf("the hard link's file has %d names, want 2", got)
			}
			if to, err := os.Readlink(filepath.Join(j.root, "link")); to != "/etc/passwd" || err != nil {
				t.Errorf("the link leads to %q, %v", to, err)
			}
			for name, want := range map[string]fs.FileMode{
				"": fs.ModeDir | 0o750, "tmp": fs.ModeDir | fs.ModeSticky | 0o777, "run.sh": 0o755,
			} {
				if mode := j.lstat(t, name).Mode(); mode != want {
					t.Errorf("%q has mode %v, want %v", name, mode, want)
				}
			}
			for _, name := range []string{"etc", "etc/passwd", "link"} {
				if got := j.lstat(t, name).ModTime(); !got.Equal(time.Unix(1_700_000_000, 0)) {
					t.Errorf("%s is from %v", name, got)
				}
			}
		})
	}
	for _, r := range results {
		if r != results[0] || r.Entries != int64(len(items)) || r.Implied {
			t.Errorf("result %+v, first was %+v; want equal ones of %d entries", r, results[0], len(items))
		}
	}
}

// Later entries win, and never write through what is there.
func TestReplaced(t *testing.T) {
	j := newJail(t)
	_, err := j.extract(t, archive(t,
		file("a", "old"), hardlink("b", "a"), file("a", "new"),
		symlink("s", "../canary"), file("s", "mine"),
		dir("d"), file("d", "was a directory"),
		file("e", "was a file"), dir("e"), file("e/f", "x")))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "new", "b": "old", "s": "mine", "d": "was a directory", "e/f": "x"} {
		if got := j.read(t, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

func TestTimesAreClamped(t *testing.T) {
	j := newJail(t)
	_, err := j.extract(t, archive(t,
		item{name: "future", mode: 0o644, time: time.Unix(99999999999, 0)},
		item{name: "past", mode: 0o644, time: time.Unix(-99999, 0)}))
	if err != nil {
		t.Fatal(err)
	}
	if got := j.lstat(t, "future").ModTime(); got.After(time.Now()) {
		t.Errorf("future is from %v", got)
	}
	if got := j.lstat(t, "past").ModTime(); got.Unix() != 0 {
		t.Errorf("past is from %v", got)
	}
}

func TestOwners(t *testing.T) {
	testenv.NeedsRoot(t)
	j := newJail(t)
	got, err := j.extract(t, archive(t,
		item{name: "mail", kind: tar.TypeDir, mode: 0o2775, uid: 1000, gid: 8},
		item{name: "mail/f", uid: 65534, gid: 65534, mode: 0o640},
		item{name: "huge", uid: 65535, gid: 7, mode: 0o644},
		item{name: "huger", uid: 5, gid: 4_000_000_000, mode: 0o644},
		item{name: "l", kind: tar.TypeSymlink, link: "f", uid: 33, gid: 34}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]uint32{
		"mail": {1000, 8}, "mail/f": {65534, 65534}, "huge": {65534, 7}, "huger": {5, 65534}, "l": {33, 34},
	} {
		st := j.lstat(t, name).Sys().(*syscall.Stat_t)
		if st.Uid != want[0] || st.Gid != want[1] {
			t.Errorf("%s belongs to %d:%d, want %v", name, st.Uid, st.Gid, want)
		}
	}
	if got.Clamped != 2 {
		t.Errorf("Clamped = %d, want 2", got.Clamped)
	}
	if mode := j.lstat(t, "mail").Mode(); mode != fs.ModeDir|fs.ModeSetgid|0o775 {
		t.Errorf("mail has mode %v", mode)
	}
}

// Directories that a layer does not mention are as the layers below have them,
// and links of those are followed.
func TestImpliedDirectories(t *testing.T) {
	below := newJail(t)
	_, err := below.extract(t, archive(t, dir("usr"), dir("usr/bin"), symlink("bin", "usr/bin"),
		item{name: "tmp", kind: tar.TypeDir, mode: 0o1777}, symlink("var", "/usr/var"), file("f", "")))
	if err != nil {
		t.Fatal(err)
	}
	j := newJail(t)
	got, err := j.extract(t, archive(t, file("bin/tool", "x"), file("tmp/x", ""), file("var/log/y", ""), file("opt/z", "")), asLayer(below.root))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Implied {
		t.Error("Implied is false: the tree would be used on other layers")
	}
	if j.read(t, "usr/bin/tool") != "x" {
		t.Error("the tool is not where bin leads")
	}
	j.wantAbsent(t, "bin")
	j.wantAbsent(t, "var")
	if got := j.lstat(t, "tmp").Mode(); got != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("tmp has mode %v, unlike the one below", got)
	}
	if j.lstat(t, "usr/var/log/y").Size() != 0 || j.lstat(t, "opt").Mode() != fs.ModeDir|0o755 {
		t.Error("implied directories are wrong")
	}
	if _, err := newJail(t).extract(t, archive(t, file("f/x", "")), asLayer(below.root)); err == nil {
		t.Error("a file of the layer below was taken for a directory")
	}
}

func TestWhiteouts(t *testing.T) {
	j := newJail(t)
	_, err := j.extract(t, archive(t,
		dir("etc"), file("etc/.wh.passwd", ""),
		dir("opaque"), file("opaque/.wh..wh..opq", ""), file("opaque/new", "x"),
		file(".wh.gone", ""),
		file(".wh..wh.plnk", ""), dir(".wh..wh.aufs"),
		file("both", "x"), file(".wh.both", ""),
		file(".wh.again", ""), dir("again"), file("again/f", "x"),
		dir("before"), file("before/f", "x"), file(".wh.before", "")), asLayer())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/passwd", "gone"} {
		info := j.lstat(t, name)
		if info.Mode()&fs.ModeCharDevice == 0 || info.Sys().(*syscall.Stat_t).Rdev != 0 {
			t.Errorf("%s is %v, not a whiteout", name, info.Mode())
		}
	}
	for _, name := range []string{".wh..wh.plnk", ".wh..wh.aufs", "opaque/.wh..wh..opq", "etc/.wh.passwd"} {
		j.wantAbsent(t, name)
	}
	for _, name := range []string{"opaque", "again", "before"} {
		if value := xattr(t, filepath.Join(j.root, name), "user.overlay.opaque"); value != "y" {
			t.Errorf("%s is not opaque: %q", name, value)
		}
	}
	if j.read(t, "both") != "x" || j.read(t, "again/f") != "x" || j.read(t, "before/f") != "x" {
		t.Error("a layer's whiteout removed its own file")
	}
}

func TestWhiteoutNames(t *testing.T) {
	for _, name := range []string{".wh.", ".wh..", ".wh...", "d/.wh.."} {
		if _, err := newJail(t).extract(t, archive(t, file(name, "")), asLayer()); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	longest := strings.Repeat("n", 255)
	for _, name := range []string{".wh.n" + longest, ".wh." + longest + "/f"} {
		if _, err := newJail(t).extract(t, archive(t, file(name, "")), asLayer()); !errdefs.Is(err, errdefs.Unprocessable) {
			t.Errorf("%.10q: %v", name, err)
		}
	}
	j := newJail(t)
	if _, err := j.extract(t, archive(t, file(".wh."+longest, "")), asLayer()); err != nil {
		t.Error(err)
	}
	j.lstat(t, longest)
	// The whiteout's own directory is resolved like any other.
	if _, err := j.extract(t, archive(t, dir("d"), symlink("l", ".."), file("l/.wh.canary", "")), asLayer()); err != nil {
		t.Fatal(err)
	}
	if j.lstat(t, "canary").Mode()&fs.ModeCharDevice == 0 {
		t.Error("the whiteout is not in the root")
	}
}

// A layer may lack the end mark, which its digest makes up for, and be empty.
func TestLayersMayEndEarly(t *testing.T) {
	for name, data := range map[string][]byte{
		"no mark": cutEnd(archive(t, file("f", "x"))), "empty": archive(t), "nothing": nil,
	} {
		if _, err := newJail(t).extract(t, data, asLayer()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestView(t *testing.T) {
	bottom, top := newJail(t), newJail(t)
	_, err := bottom.extract(t, archive(t,
		dir("usr"), dir("usr/bin"), item{name: "usr/bin/dash", mode: 0o755, body: "x"}, symlink("bin", "usr/bin"),
		dir("gone"), file("gone/f", "x"), dir("hidden"), file("hidden/f", "x"), file("below", "bottom"), file("dir-now", "x"),
		dir("lost"), file("lost/f", ""), symlink("loop", "loop"), symlink("up", "../../usr/bin/../bin/dash")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = top.extract(t, archive(t,
		dir("usr"), dir("usr/bin"), symlink("usr/bin/sh", "/bin/dash"), file(".wh.gone", ""),
		dir("hidden"), file("hidden/.wh..wh..opq", ""), file("below", "top"), dir("dir-now"), file("lost", "a file"),
		dir("etc"), file("etc/environment", strings.Repeat("x", 100))), asLayer(bottom.root))
	if err != nil {
		t.Fatal(err)
	}
	v, err := extract.OpenView([]string{top.root, bottom.root})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for name, want := range map[string]string{ // "" is absent
		"bin/sh": "usr/bin/dash", "/bin/sh": "usr/bin/dash", "bin/../bin/./sh": "usr/bin/dash", "up": "usr/bin/dash",
		"below": "below", "dir-now": "dir-now", "bin": "usr/bin",
		"gone": "", "gone/f": "", "hidden/f": "", "below/x": "", "lost/f": "", "nowhere": "", "bin/nowhere/x": "",
	} {
		e, err := v.Stat(name)
		if want == "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat(%q) = %+v, %v; want ErrNotExist", name, e, err)
		}
		if want != "" && (err != nil || e.Path != want) {
			t.Errorf("Stat(%q) = %q, %v; want %q", name, e.Path, err, want)
		}
	}
	if _, err := v.Stat("loop"); err == nil {
		t.Error("a loop of links was followed to an end")
	}
	if e, err := v.Stat("/"); err != nil || !e.IsDir() {
		t.Errorf("the root is %+v, %v", e, err)
	}
	if got, err := v.ReadFile("below", 10); string(got) != "top" || err != nil {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	if _, err := v.ReadFile("etc/environment", 99); err == nil {
		t.Error("ReadFile gave more than its limit")
	}
	if _, err := v.ReadFile("bin", 99); err == nil {
		t.Error("ReadFile read a directory")
	}
}

func TestOpenViewAbsent(t *testing.T) {
	if _, err := extract.OpenView([]string{t.TempDir(), filepath.Join(t.TempDir(), "absent")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

func TestDigest(t *testing.T) {
	items := []item{
		dir("d"), file("d/f", "content"), symlink("l", "d/f"),
		{name: "x", mode: 0o755, body: "x"},
		file(".wh.w", ""),
		dir("o"), file("o/.wh..wh..opq", ""), dir("p"),
	}
	make := func(t *testing.T) (jail, string) {
		j := newJail(t)
		if _, err := j.extract(t, archive(t, items...), asLayer()); err != nil {
			t.Fatal(err)
		}
		got, err := extract.Digest(t.Context(), j.root)
		if err != nil {
			t.Fatal(err)
		}
		return j, got
	}
	_, want := make(t)
	for name, change := range map[string]func(root string) error{
		"nothing":   func(string) error { return nil },
		"content":   func(r string) error { return os.WriteFile(r+"/d/f", []byte("CONTENT"), 0o644) },
		"longer":    func(r string) error { return os.WriteFile(r+"/d/f", []byte("content2"), 0o644) },
		"mode":      func(r string) error { return os.Chmod(r+"/x", 0o754) },
		"dir mode":  func(r string) error { return os.Chmod(r+"/d", 0o700) },
		"root mode": func(r string) error { return os.Chmod(r, 0o700) },
		"more":      func(r string) error { return os.WriteFile(r+"/new", nil, 0o644) },
		"less":      func(r string) error { return os.Remove(r + "/x") },
		"link":      func(r string) error { return errors.Join(os.Remove(r+"/l"), os.Symlink("d/g", r+"/l")) },
		"rename":    func(r string) error { return os.Rename(r+"/x", r+"/y") },
		"whiteout":  func(r string) error { return errors.Join(os.Remove(r+"/w"), os.WriteFile(r+"/w", nil, 0o644)) },
		"opaque":    func(r string) error { return syscall.Setxattr(r+"/p", "user.overlay.opaque", []byte("y"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			j, before := make(t)
			if before != want {
				t.Fatalf("equal archives have the digests %s and %s", want, before)
			}
			if err := change(j.root); err != nil {
				t.Fatal(err)
			}
			after, err := extract.Digest(t.Context(), j.root)
			if err != nil || (after == before) != (name == "nothing") {
				t.Errorf("digest %s, was %s, %v", after, before, err)
			}
		})
	}
}

func xattr(t *testing.T, path, name string) string {
	t.Helper()
	buf := make([]byte, 64)
	n, err := syscall.Getxattr(path, name, buf)
	if err != nil {
		return err.Error()
	}
	return string(buf[:n])
}

// Scan counts what Tree lays down, and refuses more.
func TestScan(t *testing.T) {
	items := []item{dir("d"), file("d/f", "content"), symlink("l", "d"), hardlink("h", "d/f"), file("d/.wh.gone", "")}
	good := archive(t, items...)
	opt := extract.Options{Kind: extract.Layer, Limits: extract.DefaultLimits()}
	want, err := newJail(t).extract(t, good, asLayer())
	if err != nil {
		t.Fatal(err)
	}
	want.Implied = false // Scan has nothing that could be missing
	for name, data := range map[string][]byte{"plain": good, "zstd": zstandard(t, good), "gzip": gzipped(t, good)} {
		if got, err := extract.Scan(t.Context(), bytes.NewReader(data), opt); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	for name, data := range map[string][]byte{
		"parent":        archive(t, file("../x", "")),
		"absolute":      archive(t, file("/x", "")),
		"deep":          archive(t, file(deep(200), "")),
		"long link":     archive(t, symlink("l", strings.Repeat("x", 2000))),
		"hard link out": archive(t, hardlink("h", "../x")),
		"device":        archive(t, special("d", tar.TypeChar)),
		"pipe":          archive(t, special("p", tar.TypeFifo)),
		"high owner":    archive(t, item{name: "f", uid: 70000}),
		"negative":      archive(t, item{name: "f", gid: -1}),
		"unknown":       archive(t, item{name: "f", kind: 'Z'}),
		"cut off":       good[:len(good)-1024],
		"damaged":       zstandard(t, good)[:50],
		"two":           append(bytes.Clone(good), good...),
	} {
		if _, err := extract.Scan(t.Context(), bytes.NewReader(data), opt); !errdefs.Is(err, errdefs.Unprocessable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*extract.Limits){
		"bytes":   func(l *extract.Limits) { l.Bytes = 6 },
		"entries": func(l *extract.Limits) { l.Entries = 4 },
	} {
		opt := opt
		change(&opt.Limits)
		if _, err := extract.Scan(t.Context(), bytes.NewReader(good), opt); !errdefs.Is(err, errdefs.TooLarge) {
			t.Errorf("over the limit of %s: %v", name, err)
		}
	}
}
