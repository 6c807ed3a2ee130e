package extract_test

import (
	"archive/tar"
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
