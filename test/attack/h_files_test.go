package attack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// H04: what is no regular file is refused within a second, nothing waits for a
// pipe, and a snapshot leaves them out.
func TestH04_SpecialFiles(t *testing.T) {
	s := stage(t, outsideToo)
	b := s.a.session(t, nil)
	b.sh(t, `mkfifo p; ln -s /dev/zero z; ln -s /dev/tty t; ln -s /dev/stdin i; mknod n c 0 0 || true
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'; echo text >f`)
	before := s.goroutines(t)
	for _, file := range []string{"p", "z", "t", "i", "s", "n", "/dev/zero", "/dev/random", "/dev/ptmx", "/dev/tty", "/dev"} {
		for _, call := range []string{"read", "raw"} {
			a := b.do(t, "GET", b.file("read", file)+map[string]string{"raw": "&raw=1"}[call], nil)
			a.refused(t, call+" "+file, 400, 403, 404, 409, 422)
			if a.took > paced(5*time.Second) {
				t.Errorf("%s of %s took %s", call, file, a.took)
			}
		}
		for _, try := range []reply{
			b.do(t, "POST", b.at("/fs/copy"), map[string]any{"from": file, "to": "copied"}),
			b.do(t, "GET", b.file("grep", file)+"&pattern=x", nil),
			b.do(t, "POST", b.at("/fs/edit"), map[string]any{"path": file, "old": "x", "new": "y"}),
		} {
			if try.sane(t, file); try.took > paced(5*time.Second) {
				t.Errorf("a call to %s took %s", file, try.took)
			}
		}
	}
	a := b.do(t, "GET", b.file("archive", ".")+"&format=tar", nil)
	kinds := ""
	for r := tar.NewReader(strings.NewReader(a.body)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds += string(h.Typeflag)
	}
	if strings.Trim(kinds, "025") != "" {
		t.Errorf("the archive has entries of the types %q", kinds)
	}
	made := b.snapshot(t, nil)
	restored := s.a.session(t, map[string]any{"restore_snapshot_id": made})
	if got := restored.sh(t, `find . -mindepth 1 ! -type f ! -type l ! -type d; cat f`); got != "text\n" {
		t.Errorf("the snapshot brought %q", got)
	}
	if after := s.goroutines(t); after > before+20 {
		t.Errorf("%d goroutines before, %d after", before, after)
	}
}

// H05: a file with a huge hole is read as far as somebody reads, and no
// snapshot or archive of it fills a disk.
func TestH05_HugeFiles(t *testing.T) {
	s := stage(t, outsideToo)
	b := s.a.session(t, nil)
	b.sh(t, `truncate -s 15T huge; truncate -s 8000000T /dev/shm/huge 2>/dev/null || truncate -s 1T /dev/shm/huge`)
	disk, memory := s.diskUsed(t), s.memory(t)
	for _, file := range []string{"huge", "/dev/shm/huge"} {
		a := b.do(t, "GET", b.file("read", file)+"&max_bytes=1000", nil)
		if a.status != 200 || !strings.Contains(a.body, `"truncated":true`) {
			t.Errorf("read %s: %d %.300s", file, a.status, a.body)
		}
		b.do(t, "GET", b.file("read", file), nil, header("Range", "bytes=1000000000000-1000000000009")).refused(t, "a range of "+file, 206, 416)
		b.do(t, "GET", b.file("read", file), nil, header("Range", "bytes=-10")).refused(t, "the end of "+file, 206)
		b.do(t, "GET", b.file("grep", file)+"&pattern=x", nil).sane(t, "grep "+file)
	}
	// 256 MiB of the stream are read, and the connection is closed.
	if a := b.do(t, "GET", b.file("read", "huge")+"&raw=1", nil); len(a.body) != maxAnswer {
		t.Errorf("of the stream there came %d bytes, %v", len(a.body), a.broken)
	}
	b.do(t, "POST", b.at("/fs/copy"), map[string]any{"from": "huge", "to": "copied"}).sane(t, "copy")
	b.do(t, "POST", b.at("/snapshots"), map[string]any{}).refused(t, "snapshot", 413, 507)
	if now := s.diskUsed(t); now > disk+512<<20 {
		t.Errorf("data_dir took %d MiB and takes %d", disk>>20, now>>20)
	}
	if now := s.memory(t); now > memory+100<<20 {
		t.Errorf("the daemon had %d MiB and has %d", memory>>20, now>>20)
	}
}

// H06: files that grow and shrink while they are read are given with the length
// that was announced, or break off; snapshots of them work.
func TestH06_ShiftingFiles(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	b.sh(t, `(while :; do head -c 300000 /dev/urandom >>f; [ $(stat -c %s f) -lt 5000000 ] || : >f; done) 2>/dev/null &
		(while :; do head -c 2000000 /dev/zero >g; : >g; done) 2>/dev/null &`)
	for range 60 {
		for _, file := range []string{"f", "g"} {
			a := b.do(t, "GET", b.file("read", file)+"&raw=1", nil)
			a.sane(t, "read "+file)
			if length := a.header.Get("Content-Length"); a.status == 200 && a.broken == nil && length != fmt.Sprint(len(a.body)) {
				t.Errorf("%d bytes of the %s announced, and no error", len(a.body), length)
			}
		}
	}
	for range 2 {
		b.snapshot(t, nil)
	}
	b.do(t, "GET", b.file("archive", ".")+"&format=tar.zst", nil).sane(t, "archive")
	b.run(t, `kill $(jobs -p)`)
}

// H07: a tree of 5,000 levels, 30,000 files in one directory and names that
// mean something elsewhere are listed in pages; the session is destroyed within
// 10 s, with nothing left. The disk of a default session has no room for more.
func TestH07_HugeTrees(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	b.python(t, `
import os
os.mkdir("many")
for i in range(30000): os.close(os.open("many/%d" % i, os.O_CREAT | os.O_WRONLY))
os.mkdir("names")
for name in [b"a\nb", b"\x1b]0;x\x07", b"\xff\xfe", b"n" * 255, b"-rf", b"$(reboot)", b"a\"b\\c", b"<script>", b".wh.x", b"a\rb"]:
    open(b"names/" + name, "w").close()
here = os.open(".", os.O_RDONLY)
for i in range(5000): os.mkdir("d"); os.chdir("d")
`)
	var page struct {
		Entries    []struct{ Name string }
		NextCursor string `json:"next_cursor"`
	}
	seen := map[string]bool{}
	for cursor := ""; ; cursor = "&cursor=" + url.QueryEscape(page.NextCursor) {
		page.NextCursor = ""
		b.do(t, "GET", b.file("list", "many")+"&limit=10000"+cursor, nil).into(t, &page)
		for _, e := range page.Entries {
			seen[e.Name] = true
		}
		if page.NextCursor == "" {
			break
		}
	}
	if len(seen) != 30000 {
		t.Errorf("%d of 30000 files are listed", len(seen))
	}
	a := b.do(t, "GET", b.file("list", "names"), nil)
	if a.status != 200 || strings.ContainsAny(strings.TrimSpace(a.body), "\n\r\x1b\x00") || strings.Count(a.body, `"name":`) != 10 {
		t.Errorf("the names: %d %q", a.status, a.body)
	}
	b.do(t, "GET", b.file("list", ".")+"&depth=-1&limit=10000", nil).sane(t, "list all")
	b.do(t, "GET", b.file("glob", ".")+"&pattern=**/x", nil).sane(t, "glob")
	b.do(t, "GET", b.file("archive", ".")+"&format=tar", nil).sane(t, "archive")
	b.do(t, "POST", b.at("/snapshots"), map[string]any{}).sane(t, "snapshot")
	begin := time.Now()
	b.end(t)
	if took := time.Since(begin); took > paced(10*time.Second) {
		t.Errorf("its end took %s", took)
	}
	s.wantGone(t, b.id)
}

// H08: modes, links and attributes that a session gives its files keep neither
// their owner from reading them by the API nor the daemon from removing them.
func TestH08_ForbiddingFiles(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	b.sh(t, `mkdir -p d/e; echo text >d/e/f
		python3 -c 'import os; [os.link("d/e/f", "d/%d" % i) for i in range(2000)]'; chattr +i d/e/f 2>/dev/null
		python3 - <<'X'
import os
for i in range(50):
    try: os.setxattr("d/e/f", "user.a%d" % i, b"x" * 3000)
    except OSError: pass
X
		chmod -R 000 d`)
	if got := b.get(t, "d/e/f"); got != "text\n" {
		t.Errorf("the owner reads %q", got)
	}
	b.do(t, "POST", b.at("/snapshots"), map[string]any{}).sane(t, "snapshot")
	b.do(t, "POST", b.at("/fs/delete"), map[string]any{"path": "d", "recursive": true}).refused(t, "delete", 200)
	b.sh(t, `mkdir e; echo x >e/f; chmod 000 e`)
	b.end(t)
	s.wantGone(t, b.id)
}

// H09: whatever lies where the runner's socket might, the daemon connects to
// nothing else: a listener of the host's and one of the session's hear nothing.
func TestH09_ReplacedSockets(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	dir := t.TempDir()
	host, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	heard := make(chan struct{}, 1)
	go func() {
		if c, err := host.Accept(); err == nil {
			c.Close()
			heard <- struct{}{}
		}
	}()
	b := s.a.session(t, nil)
	if got := b.run(t, `find / -xdev -type s 2>/dev/null; grep -hv 'ath$' /proc/net/unix`); strings.Contains(got.Output, "/") {
		t.Errorf("sockets with names: %s", got.Output)
	}
	b.python(t, `
import os, socket, subprocess, sys
names = ["runner.sock", "socket", "s", "control", "agent.sock", "daemon.sock"]
for d in ["/run", "/run/sandkasten", "/var/run/sandkasten", "/var/lib/sandkasten", "/tmp", "/workspace", "/dev/shm"]:
    try: os.makedirs(d, exist_ok=True)
    except OSError: continue
    for i, n in enumerate(names):
        try:
            if i % 2: os.symlink(`+fmt.Sprintf("%q", host.Addr())+`, d + "/" + n)
            else: socket.socket(socket.AF_UNIX).bind(d + "/" + n)
        except OSError: pass
subprocess.Popen([sys.executable, "-c", """
import socket, time
for n in ["\\0runner", "\\0sandkasten", "/tmp/listening.sock"]:
    s = socket.socket(socket.AF_UNIX); s.bind(n); s.listen()
s.settimeout(30)
try: s.accept(); open("/workspace/heard", "w")
except OSError: pass
"""], start_new_session=True)
`)
	for range 20 {
		if got := b.sh(t, "echo fine"); got != "fine\n" {
			t.Errorf("the session says %q", got)
		}
		b.put(t, "mark", "x")
		b.get(t, "mark")
	}
	select {
	case <-heard:
		t.Error("the daemon connected to a socket of the host's that a session named")
	default:
	}
	b.do(t, "GET", b.file("stat", "heard"), nil).refused(t, "what the listener inside wrote", 404)
}

// H11: a set-user-id program and a file with capabilities in a session are
// worth nothing on the host, where no other user reaches them.
func TestH11_OnTheHost(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	b.sh(t, `cp /bin/sh shell; chmod 6755 shell; cp /bin/sh /root/shell; chmod 6755 /root/shell; chmod 777 /root /workspace; sync`)
	if got := b.sh(t, `grep -E ' (/|/workspace) ' /proc/self/mountinfo | grep -vc nosuid || true`); got != "0\n" {
		t.Errorf("%s file systems obey set-user-id bits", strings.TrimSpace(got))
	}
	look := exec.CommandContext(t.Context(), "find", s.d.Data, "-print")
	look.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	look.Dir = "/"
	text, err := look.CombinedOutput()
	if err == nil || strings.Count(string(text), "\n") > 2 || strings.Contains(string(text), "sandboxes") {
		t.Errorf("a user of the host sees %v:\n%.1000s", err, text)
	}
	info, err := os.Stat(s.d.Data)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("data_dir: %v, %v", info.Mode(), err)
	}
	found, err := exec.CommandContext(t.Context(), "find", s.d.Data, "-path", "*/images/*", "-prune", "-o", "-type", "f", "-perm", "/6000", "-print").Output()
	if err != nil || len(found) > 0 {
		t.Errorf("set-user-id files on the host: %s, %v", found, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(filepath.Join(s.d.Data, "sandboxes"))) {
		t.Errorf("a session's files are mounted where the host sees them: %v", err)
	}
}

// H12: who reads a file that others write has one of their contents, whole; an
// upload that breaks off leaves the old one and no other file.
func TestH12_ConcurrentWrites(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	const size = 1 << 20
	b.put(t, "f", strings.Repeat("0", size))
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for range 8 {
				b.do(t, "PUT", b.file("raw", "f"), strings.Repeat(fmt.Sprint(writer), size)).refused(t, "put", 200)
			}
		})
	}
	for range 3 {
		group.Go(func() {
			for range 12 {
				if got := b.get(t, "f"); len(got) != size || strings.Trim(got, got[:1]) != "" {
					t.Errorf("read %d bytes of several writers", len(got))
				}
			}
		})
	}
	group.Wait()
	b.put(t, "f", "old")
	for range 5 {
		b.halfUpload(t, "f", size)
	}
	if got := b.get(t, "f"); got != "old" {
		t.Errorf("after uploads that broke off: %.20q", got)
	}
	b.sh(t, `mkdir dir; touch dir/x; mkdir ro; echo old >ro/f`)
	b.do(t, "PUT", b.file("raw", "dir"), "x").refused(t, "over a directory", 400, 409, 422)
	if got := b.sh(t, `for i in 1 2 3 4 5 6 7 8 9 10; do [ "$(ls -A)" = "$(printf 'dir\nf\nro')" ] && break; sleep 0.3; done; ls -A`); got != "dir\nf\nro\n" {
		t.Errorf("left: %q", got)
	}
}

// halfUpload begins to write a file and goes away.
func (b *target) halfUpload(t testing.TB, file string, size int) {
	t.Helper()
	c := b.dial(t)
	defer c.Close()
	fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", b.file("raw", file), b.key, size, strings.Repeat("n", size/2))
}

// dial is a bare connection to the daemon.
func (c *caller) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.d.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// bare sends text as it is and returns the status and the rest of what comes
// until the daemon closes the connection or the time is up. A status of 0 is
// none.
func (c *caller) bare(t testing.TB, text string, within time.Duration) (status int, rest string) {
	t.Helper()
	conn := c.dial(t)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, text) // the daemon may close before it has all
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// H13: ranges without sense, or too many, are refused or answered with no more
// than the file.
func TestH13_Ranges(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	b.put(t, "f", "0123456789")
	for _, value := range []string{
		"bytes=" + strings.TrimSuffix(strings.Repeat("0-0,", 1000), ","), "bytes=-9223372036854775808", "bytes=9223372036854775807-", "bytes=-9223372036854775809",
		"bytes=99999999999999999999-", "bytes=0-99999999999999999999", "bytes=5-2", "bytes=-0", "bytes=--1", "bytes=", "bytes=a-b", "bytes=0x1-", "bytes= 1 - 2",
		"bytes=0-0\t,1-1", "lines=0-1", "bytes=0-,0-,0-", "bytes=+1-2",
	} {
		a := b.do(t, "GET", b.file("read", "f"), nil, header("Range", value))
		a.refused(t, value, 200, 206, 400, 416)
		if len(a.body) > 1000 {
			t.Errorf("%.40q: %d bytes", value, len(a.body))
		}
	}
	for _, query := range []string{"offset=-1", "offset=9223372036854775808", "max_bytes=-9223372036854775808", "offset=1e3"} {
		b.do(t, "GET", b.file("read", "f")+"&"+query, nil).refused(t, query, 400)
	}
}

// H14: a name that a session chose puts nothing into a header, and a browser
// saves what it downloads instead of running it.
func TestH14_NamesInHeaders(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	b := s.a.session(t, nil)
	names := []string{"x\"\r\nSet-Cookie: a=b", "x\r\n\r\n<script>", "page.html", "image.svg", "a;b=c", "a\x7f", "ü€", "\x1b[2J", strings.Repeat("n", 250), `back\slash`}
	for _, name := range names {
		b.put(t, name, "<script>alert(1)</script>")
		a := b.do(t, "GET", b.file("read", name)+"&raw=1", nil)
		kind, params, err := mime.ParseMediaType(a.header.Get("Content-Disposition"))
		if err != nil || kind != "attachment" || strings.ContainsAny(params["filename"], "\r\n") && params["filename"] != name {
			t.Errorf("%q: Content-Disposition %q", name, a.header.Get("Content-Disposition"))
		}
		if a.header.Get("Set-Cookie") != "" || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Content-Security-Policy") != "sandbox" ||
			a.header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%q: headers %v", name, a.header)
		}
		dir := b.do(t, "GET", b.file("archive", ".")+"&format=zip", nil)
		if !strings.HasPrefix(dir.header.Get("Content-Disposition"), "attachment") || dir.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("an archive: headers %v", dir.header)
		}
	}
	if kinds := slices.Collect(func(yield func(string) bool) {
		for _, name := range names {
			yield(b.do(t, "GET", b.file("read", name), nil).header.Get("Content-Type"))
		}
	}); slices.ContainsFunc(kinds, func(kind string) bool { return !strings.HasPrefix(kind, "application/json") }) {
		t.Errorf("as JSON: types %v", kinds)
	}
}
