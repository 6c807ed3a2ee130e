package attack

import (
	"archive/tar"
	"bytes"
	"fmt"
	"mime/multipart"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

// fileCalls is every call to a file, with the same path wherever it takes one.
// other is a path beside it that the caller may write.
func fileCalls(t testing.TB, b *target, file, other string) map[string]func() reply {
	t.Helper()
	query := func(call, rest string) func() reply {
		return func() reply { return b.do(t, "GET", b.file(call, file)+rest, nil) }
	}
	post := func(call string, body map[string]any) func() reply {
		return func() reply { return b.do(t, "POST", b.at("/fs/"+call), body) }
	}
	put := func(call, text string) func() reply {
		return func() reply {
			return b.do(t, "PUT", b.file(call, file), text, header("Content-Type", "application/octet-stream"))
		}
	}
	return map[string]func() reply{
		"read":        query("read", ""),
		"raw":         query("read", "&raw=1"),
		"list":        query("list", "&depth=2"),
		"stat":        query("stat", "&follow=true"),
		"glob":        query("glob", "&pattern=*"),
		"grep":        query("grep", "&pattern=e"),
		"tar":         query("archive", "&format=tar"),
		"zip":         query("archive", "&format=zip"),
		"write":       post("write", map[string]any{"path": file, "text": overwritten}),
		"append":      post("write", map[string]any{"path": file, "text": overwritten, "append": true}),
		"create":      post("write", map[string]any{"path": file, "text": overwritten, "create": true}),
		"edit":        post("edit", map[string]any{"path": file, "old": "e", "new": overwritten}),
		"mkdir":       post("mkdir", map[string]any{"path": file + "/made", "parents": true}),
		"chmod":       post("chmod", map[string]any{"path": file, "mode": "0777"}),
		"move":        post("move", map[string]any{"from": file, "to": other}),
		"move onto":   post("move", map[string]any{"from": other, "to": file, "overwrite": true}),
		"copy":        post("copy", map[string]any{"from": file, "to": other, "overwrite": true, "recursive": true}),
		"copy onto":   post("copy", map[string]any{"from": other, "to": file, "overwrite": true}),
		"put":         put("raw", overwritten),
		"put archive": put("archive", oneFile(t, "canary", overwritten)),
		"upload":      func() reply { return upload(t, b, file, overwritten) },
		"snapshot": func() reply {
			return b.do(t, "POST", b.at("/snapshots"), map[string]any{"include_paths": []string{file}})
		},
		"output": func() reply {
			return b.do(t, "POST", b.at("/exec"), map[string]any{"cmd": "echo " + overwritten, "output_file": file})
		},
		"delete": post("delete", map[string]any{"path": file, "recursive": true}),
	}
}

// overwritten is what an attacker writes wherever it gets.
const overwritten = "overwritten-by-the-attack"

// upload sends one file as a form does.
func upload(t testing.TB, b *target, file, text string) reply {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if err := w.WriteField("path", file); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreateFormFile("file", path.Base(file))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(part, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.do(t, "POST", b.at("/fs/upload"), form.Bytes(), header("Content-Type", w.FormDataContentType()))
}

// oneFile is a tar file of one file.
func oneFile(t testing.TB, name, text string) string {
	return string(tarOf(t, entry{name: name, body: text}))
}

// H01: links that a session makes lead where they lead inside it, in every call
// to files: the host's file is neither told nor touched.
func TestH01_LinksInFileAPI(t *testing.T) {
	t.Parallel()
	s := stage(t, outsideToo)
	for _, tt := range []struct{ name, link string }{
		{"l", "l"},
		{"the root", "r" + s.canary},
		{"the first process", "pr" + s.canary},
		{"itself", "sr" + s.canary},
		{"up", "up" + s.canary},
		{"two", "rr" + s.canary},
		{"the directory", "dir/" + path.Base(s.canary)},
		{"named as it is", s.canary},
		{"above", "../../../../../../.." + s.canary},
		{"procfs", "/proc/1/root" + s.canary},
		{"a descriptor", "/proc/self/cwd/../../.." + s.canary},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := s.a.session(t, nil)
			b.sh(t, fmt.Sprintf(`ln -s %[1]s l; ln -s / r; ln -s /proc/1/root pr; ln -s /proc/self/root sr
				ln -s /proc/self/cwd/../../.. up; ln -s r rr; ln -s %[2]s dir; echo mine >other`, s.canary, path.Dir(s.canary)))
			for call, try := range fileCalls(t, b, tt.link, "other") {
				try().sane(t, call+" "+tt.link, s.secret)
				s.unharmed(t, call)
			}
		})
	}
}

// H01: where the calls to files are kept to the workspace, no link and no path
// leads them out of it.
func TestH01_LinksOutOfTheWorkspace(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	const beside = "beside-the-workspace"
	for _, file := range []string{"l", "r/tmp/beside/f", "sr/tmp/beside/f", "up/tmp/beside/f", "dir/f", "/tmp/beside/f", "../tmp/beside/f", "dir/../beside/f"} {
		for call, try := range fileCalls(t, b, file, "other") {
			b.sh(t, `mkdir -p /tmp/beside; echo `+beside+` >/tmp/beside/f; chmod 644 /tmp/beside/f; rm -rf l r sr up dir; echo mine >other
				ln -s /tmp/beside/f l; ln -s / r; ln -s /proc/self/root sr; ln -s .. up; ln -s /tmp/beside dir`)
			try().sane(t, call+" "+file, beside)
			if now := b.sh(t, `cd /tmp/beside; ls; stat -c %a f; cat f; cd /workspace`); now != "f\n644\n"+beside+"\n" {
				t.Errorf("%s %s: beside the workspace is %q", call, file, now)
			}
		}
	}
}

// H02: a directory that is exchanged for a link all the time leads to one or to
// the other, both inside. For 10 s.
func TestH02_LinkRaceInFileAPI(t *testing.T) {
	t.Parallel()
	s := stage(t, outsideToo)
	b := s.a.session(t, nil)
	dir := path.Dir(s.canary)
	b.sh(t, `mkdir d; echo inside >d/canary; (while :; do mv d d2; ln -s `+dir+` d; rm -rf d; ln -s /proc/1/root`+dir+` d; rm -rf d; mv d2 d; done) >/dev/null 2>&1 &`)
	var callers sync.WaitGroup
	deadline := time.Now().Add(10 * time.Second)
	for range 4 {
		callers.Go(func() {
			for n := 0; time.Now().Before(deadline); n++ {
				for call, try := range fileCalls(t, b, "d/canary", fmt.Sprintf("other%d", n)) {
					if call == "snapshot" || call == "output" {
						continue // they wait for the shell, or stop it
					}
					if a := try(); a.status == 503 && strings.Contains(a.body, "try again") {
						a.hides(t, call, s.secret) // what was begun with one has met the other
					} else {
						a.sane(t, call, s.secret)
					}
				}
			}
		})
	}
	callers.Wait()
	b.run(t, `kill $(jobs -p)`)
	s.unharmed(t, "the race")
}

// pathForms are ways to write a path that one layer may read in another way
// than the next. They are put into addresses as they are.
var pathForms = []string{
	"", ".", "..", "/", "//", "../", "../../../../CANARY", "..%2f..%2f..%2fCANARY", "%2e%2e/%2e%2e/CANARY", "%252e%252e%252fCANARY",
	"..%5c..%5cCANARY", "/./CANARY", "//CANARY", "/workspace/../CANARY", "a/../../..", "r/", "r//", "r/../..", "r/./CANARY", "f/", "f/x", "dir/",
	"dir//../f", "loop", "%00", "f%00", "%00/../CANARY", "%ff%fe", "%c0%ae%c0%ae/CANARY", "%e0%80%ae./CANARY", "-rf", "$(reboot)", "a%0ab",
	"%1b[2J", "~root", "file:///CANARY", "/dev/full", "/dev/mem", "/proc/self/mem", "/proc/kmsg", "/proc/kcore", "/proc/self/environ",
	"/proc/self/fd/0", "/proc/self/fd/3", "/proc/1/fd/3", "/proc/1/environ", "/proc/1/maps", "/proc/1/root/CANARY",
	"LONG", "LONGNAME", "DEEP", "CLIMB",
}

// H03: no form of a path gets out, and none makes the daemon fail.
func TestH03_PathFormsInFileAPI(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"in the workspace": "", "anywhere": outsideToo} {
		t.Run(name, func(t *testing.T) {
			s := stage(t, config)
			b := s.a.session(t, nil)
			b.sh(t, `ln -s / r; ln -s loop loop; mkdir dir; echo x >f`)
			for _, form := range pathForms {
				form = strings.NewReplacer(
					"CANARY", strings.TrimPrefix(s.canary, "/"), "LONGNAME", strings.Repeat("n", 300), "LONG", strings.Repeat("x", 5000),
					"DEEP", strings.Repeat("x/", 2500), "CLIMB", strings.Repeat("../", 1300)+"etc/passwd",
				).Replace(form)
				for _, call := range []string{"read", "list", "stat", "glob", "archive"} {
					rest := map[string]string{"glob": "&pattern=*", "read": "&max_bytes=1000"}[call]
					if call == "archive" && !strings.Contains(form, "CANARY") {
						continue // of the whole root it has nothing that the others do not
					}
					b.do(t, "GET", b.at("/fs/"+call+"?path="+form+rest), nil).sane(t, call+" "+form, s.secret)
				}
				if strings.HasPrefix(form, "/proc/") || strings.HasPrefix(form, "/dev/") {
					continue // what a session writes there is the session's
				}
				b.do(t, "PUT", b.at("/fs/raw?path="+form), overwritten).sane(t, "put "+form, s.secret)
				plain, err := url.PathUnescape(form)
				if err != nil {
					plain = form
				}
				for _, text := range []string{form, plain} {
					b.do(t, "POST", b.at("/fs/write"), map[string]any{"path": text, "text": overwritten}).sane(t, "write "+text, s.secret)
					b.do(t, "POST", b.at("/fs/mkdir"), map[string]any{"path": text}).sane(t, "mkdir "+text, s.secret)
				}
			}
			s.unharmed(t, "the forms")
			if got := b.sh(t, "echo fine"); got != "fine\n" {
				t.Errorf("the session says %q", got)
			}
		})
	}
}

// entry is one of a tar file that an attacker makes.
type entry struct {
	name, body, link string
	kind             byte  // 0 is a regular file
	mode             int64 // 0 is 0644
	uid              int
	pax              map[string]string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.body)), Uid: e.uid, PAXRecords: e.pax}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
