package extract_test

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/sandkasten/sandkasten/internal/images/extract"
)

// FuzzTree gives the extractor whatever bytes there are. The jail checks that
// nothing beside the root changes, and limits that nothing runs away.
func FuzzTree(f *testing.F) {
	for _, items := range [][]item{
		{dir("d"), file("d/f", "x"), symlink("l", "d"), hardlink("h", "d/f"), file("l/g", "y")},
		{file(".wh.x", ""), dir("o"), file("o/.wh..wh..opq", "")},
		{symlink("a", ".."), file("a/canary", "x")},
		{special("c", tar.TypeChar), {name: "p", mode: 0o7777, pax: map[string]string{"SCHILY.xattr.user.x": "y"}}},
	} {
		data := archive(f, items...)
		f.Add(data, false)
		f.Add(data, true)
		f.Add(gzipped(f, data), true)
		f.Add(zstandard(f, data), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, layer bool) {
		j := newJail(t)
		_, err := j.extract(t, data, func(o *extract.Options) {
			o.Limits.Bytes, o.Limits.Entries = 1<<20, 200
			if layer {
				o.Kind = extract.Layer
			}
		})
		if err != nil {
			return
		}
		if _, err := extract.Digest(t.Context(), j.root); err != nil {
			t.Errorf("a tree was made that cannot be read: %v", err)
		}
	})
}

// FuzzEntries gives the extractor archives that are sound but for what their
// entries are: names, kinds and links, over each other.
func FuzzEntries(f *testing.F) {
	f.Add("d", byte(tar.TypeDir), "", "d/f", byte(tar.TypeReg), "", true)
	f.Add("l", byte(tar.TypeSymlink), "..", "l/canary", byte(tar.TypeReg), "", false)
	f.Add("h", byte(tar.TypeLink), "../canary", "h", byte(tar.TypeReg), "", true)
	f.Add("a/../../x", byte(tar.TypeReg), "", ".wh.x", byte(tar.TypeReg), "", true)
	f.Fuzz(func(t *testing.T, name string, kind byte, to, name2 string, kind2 byte, to2 string, layer bool) {
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		for _, h := range []*tar.Header{
			{Name: name, Typeflag: kind, Linkname: to, Mode: 0o4755},
			{Name: name2, Typeflag: kind2, Linkname: to2, Mode: 0o644},
		} {
			if w.WriteHeader(h) != nil {
				return // no archive can say that
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		j := newJail(t)
		_, err := j.extract(t, packed.Bytes(), func(o *extract.Options) {
			if layer {
				o.Kind = extract.Layer
			}
		})
		if err != nil {
			return
		}
		if _, err := extract.Digest(t.Context(), j.root); err != nil {
			t.Errorf("a tree was made that cannot be read: %v", err)
		}
	})
}
