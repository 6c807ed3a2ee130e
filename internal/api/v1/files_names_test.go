package v1_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/api/v1/files"
)

// gbk is what a program of another age calls 资料.
const gbk = "\xd7\xca\xc1\xcf"

// Every name that a listing shows can be used, whatever its bytes are, and archives have
// the bytes.
func TestNamesThatAreNotUTF8(t *testing.T) {
	for _, format := range []string{"tar", "zip"} {
		t.Run(format, func(t *testing.T) {
			s := start(t)
			path := s.create(t)
			archive := bytes.ReplaceAll(packed(t, format, "XXXX.txt", "ä€.txt", `back\xe9.txt`), []byte("XXXX"), []byte(gbk))
			if format == "tar" {
				archive = tarOf(t, gbk+".txt", "ä€.txt", `back\xe9.txt`)
			}
			s.put(t, path+"/fs/archive?path=in&format="+format, string(archive)).into(t, 200, &files.Unpacked{})
			escaped := `\xd7\xca\xc1\xcf.txt`
			want := []string{escaped, `back\x5cxe9.txt`, "ä€.txt"}
			var list files.List
			s.do(t, "GET", path+"/fs/list?path=in", "").into(t, 200, &list)
			var names []string
			for _, e := range list.Entries {
				names = append(names, e.Name)
				if a := s.do(t, "GET", path+"/fs/read?raw=1&path="+url.QueryEscape("in/"+e.Name), ""); a.status != 200 || len(a.body) == 0 {
					t.Errorf("read %q: %d %s", e.Name, a.status, a.body)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, want) {
				t.Fatalf("%q, want %q", names, want)
			}
			at := js(t, "in/"+escaped)
			s.do(t, "POST", path+"/fs/write", `{"path":`+at+`,"text":"new"}`).into(t, 200, &struct{}{})
			s.do(t, "POST", path+"/fs/edit", `{"path":`+at+`,"old":"new","new":"newer"}`).into(t, 200, &struct{}{})
			s.do(t, "POST", path+"/fs/copy", `{"from":`+at+`,"to":"in/caf\\xe9"}`).into(t, 200, &struct{}{})
			if r := s.exec(t, path, `cat in/$'\xd7\xca\xc1\xcf.txt' in/$'caf\xe9'`); r.Output != "newernewer" {
				t.Errorf("the files have %q", r.Output)
			}
			s.do(t, "POST", path+"/fs/move", `{"from":"in/caf\\xe9","to":"in/plain"}`).into(t, 200, &struct{}{})
			s.do(t, "POST", path+"/fs/delete", `{"path":"in/plain"}`).into(t, 200, &struct{}{})
			got := s.do(t, "GET", path+"/fs/archive?path=in&format="+format, "")
			if inside := namesIn(t, format, got.body); !slices.Equal(inside, []string{`back\xe9.txt`, "ä€.txt", gbk + ".txt"}) {
				t.Errorf("the archive has %q", inside)
			}
		})
	}
}

// A zip file says of a name beyond ASCII that it is UTF-8, without which other programs
// take it for an older code.
func namesIn(t *testing.T, format string, archive []byte) (names []string) {
	t.Helper()
	if format == "zip" {
		r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			names = append(names, f.Name)
			if utf8 := f.Flags&0x800 != 0; utf8 != strings.Contains(f.Name, "€") && !strings.Contains(f.Name, `\`) {
				t.Errorf("%q is marked as UTF-8: %v", f.Name, utf8)
			}
		}
	} else {
		r := tar.NewReader(bytes.NewReader(archive))
		for {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, h.Name)
		}
	}
	slices.Sort(names)
	return names
}

// tarOf is an archive of files with x in them.
func tarOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1, Format: tar.FormatGNU}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// A file that is sent gets the time that the client says.
func TestWriteWithATime(t *testing.T) {
	s := start(t)
	path := s.create(t)
	at := time.Date(2001, 9, 9, 1, 46, 40, 789_000_000, time.UTC)
	s.put(t, path+"/fs/raw?path=f&modified_at="+url.QueryEscape(at.Format(time.RFC3339Nano)), "x").into(t, 200, &struct{}{})
	if r := s.exec(t, path, "stat -c %.3Y f"); r.Output != "1000000000.789\n" {
		t.Errorf("the file is of %q", r.Output)
	}
	s.put(t, path+"/fs/raw?path=f&modified_at=yesterday", "x").wantError(t, 400, "invalid_argument", "modified_at")
	s.put(t, path+"/fs/raw?path=f&append=true&modified_at=2001-09-09T01:46:40Z", "x").wantError(t, 400, "invalid_argument", "modified_at")
}
