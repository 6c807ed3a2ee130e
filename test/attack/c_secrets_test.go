package attack

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// grepAll is a program that looks for texts, written backwards in its argument,
// in all that a session can read: files, processes and their memory.
const grepAll = `
import os, sys
secrets = [s[::-1].encode() for s in sys.argv[1].split(",")]
me = b"." + sys.argv[1].encode()
def look(name, data):
    for s in secrets:
        if s in data: print("found", s.decode()[:6], "in", name)
for pid in filter(str.isdigit, os.listdir("/proc")):
    for f in ("environ", "cmdline", "comm", "status", "mountinfo", "cgroup", "maps"):
        try: look("/proc/%s/%s" % (pid, f), open("/proc/%s/%s" % (pid, f), "rb").read())
        except OSError: pass
    if int(pid) == os.getpid(): continue
    try:
        mem = open("/proc/%s/mem" % pid, "rb", 0)
        for line in open("/proc/%s/maps" % pid):
            a, b = (int(x, 16) for x in line.split()[0].split("-"))
            if " r" in line.split("-", 1)[1][:20] and b - a < 64 << 20:
                try: mem.seek(a); look("the memory of " + pid, mem.read(b - a))
                except (OSError, ValueError, OverflowError): pass
    except OSError: pass
for dir, dirs, files in os.walk("/"):
    if dir in ("/proc", "/sys", "/usr/lib", "/usr/share"): dirs[:] = []; continue
    for f in files:
        p = os.path.join(dir, f)
        try:
            if os.path.isfile(p) and not os.path.islink(p) and os.path.getsize(p) < 32 << 20: look(p, open(p, "rb").read())
        except OSError: pass
look("environment", repr(dict(os.environ)).encode())
print("TRIED")
`

// tells looks for secrets in all that the session can read.
func (b *target) tells(t testing.TB, secrets ...string) {
	t.Helper()
	var backwards []string
	for _, s := range secrets {
		r := []rune(s)
		for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
			r[i], r[j] = r[j], r[i]
		}
		backwards = append(backwards, string(r))
	}
	b.put(t, "/workspace/.look.py", grepAll)
	out := b.sh(t, "python3 .look.py "+strings.Join(backwards, ",")+"; rm .look.py")
	found, tried := strings.CutSuffix(out, "TRIED\n")
	if !tried {
		t.Fatalf("the search did not come to its end: %s", out)
	}
	for line := range strings.Lines(found) {
		t.Errorf("in the session: %s", strings.TrimSpace(line))
	}
}

// filesTell looks for secrets in what the daemon keeps, but for what except
// says.
func (s *scene) filesTell(t testing.TB, except string, secrets ...string) {
	t.Helper()
	err := filepath.WalkDir(s.d.Data, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(file, "/"+except) {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		for _, secret := range secrets {
			// Disks are sparse; grep passes over holes.
			if exec.CommandContext(t.Context(), "grep", "-qF", "--", secret, file).Run() == nil {
				t.Errorf("%s has %.8s...", file, secret)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// C01: the daemon's secrets are nowhere but in its configuration: not in a
// session, an answer, an error, the log, the database, a snapshot or a dump.
func TestC01_DaemonSecrets(t *testing.T) {
	t.Parallel()
	const s3Secret, s3Access = "canary-s3-secret-4711", "canary-s3-access-4711"
	encryption := strings.Repeat("c0ffee42", 8)
	s := stageWith(t, blackbox.Options{Env: []string{"SANDKASTEN_SNAPSHOTS__S3_SECRET_KEY=" + s3Secret}},
		"log: {level: debug, format: text}\nsnapshots: {encryption_key: "+encryption+", s3_access_key: "+s3Access+"}\npool: {enabled: true, images: {base: 1}}")
	secrets := []string{s.a.key, s.b.key, s3Secret, s3Access, encryption}
	b := s.a.session(t, nil)
	b.sh(t, "echo x >f; (sleep 100 &)")
	b.tells(t, secrets...)
	snapshot := b.snapshot(t, map[string]any{"scope": "sandbox"})
	restored := s.a.session(t, map[string]any{"restore_snapshot_id": snapshot})
	restored.tells(t, secrets...)
	s.a.do(t, "GET", "/v1/snapshots/"+snapshot+"/download", nil).sane(t, "the snapshot", secrets...)
	for _, path := range []string{
		"/v1/info", "/metrics", "/healthz", "/readyz", "/v1/pool/status", "/v1/sessions?include_ended=true", "/v1/snapshots", "/v1/workspaces", "/openapi.json", b.at(""), b.at("/stats"), b.at("/execs"), b.at("/processes"), b.at("/ports"), "/docs/configuration.html",
		// And errors.
		"/v1/sessions/" + s.a.key, "/v1/" + s.a.key, b.at("/fs/read?path=missing"), b.at("/fs/read?path=/proc/self/environ"), "/v1/sessions?key=x", "/v1/snapshots/x/download", b.at("/ports/1/"), b.at("/terminal"),
	} {
		a := s.a.do(t, "GET", path, nil)
		if path == "/v1/sessions/"+s.a.key || path == "/v1/"+s.a.key {
			continue // what who asks has written is the log's affair, below
		}
		a.hides(t, path, secrets...)
		for name, values := range a.header {
			for _, secret := range secrets {
				if strings.Contains(strings.Join(values, " "), secret) {
					t.Errorf("%s: the header %s has it", path, name)
				}
			}
		}
	}
	s.a.do(t, "POST", "/v1/sessions", `{"image":"missing"}`).sane(t, "an error", secrets...)
	s.a.do(t, "POST", "/v1/sessions", map[string]any{"restore_snapshot_id": strings.Repeat("a", 26)}).sane(t, "an error", secrets...)
	s.uploadWrong(t, secrets)
	s.filesTell(t, "api_key", secrets...)
	s.dump(t)
	log := s.d.Log()
	asked := strings.NewReplacer("/v1/sessions/"+s.a.key, "", "/v1/"+s.a.key, "", `no such session: \"`+s.a.key, "")
	for _, secret := range secrets {
		if strings.Contains(asked.Replace(log), secret) {
			t.Errorf("the log has %.10s...", secret)
		}
	}
	s.commandLines(t, secrets...)
}

// uploadWrong sends what no snapshot is.
func (s *scene) uploadWrong(t testing.TB, secrets []string) {
	t.Helper()
	s.a.uploadSnapshot(t, []byte(strings.Repeat("x", 2000))).sane(t, "an upload", secrets...)
}

// dump has the daemon write all that its goroutines do into its log and end, as
// it does when it crashes.
func (s *scene) dump(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(s.d.PID(), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	s.d.Wait()
	if log := s.d.Log(); !strings.Contains(log, "goroutine ") {
		t.Error("there is no dump to look at")
	}
	s.d.Start()
}

// commandLines looks for secrets in what every user of the host sees of all
// processes.
func (s *scene) commandLines(t testing.TB, secrets ...string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for _, secret := range secrets {
			if strings.Contains(string(line), secret) {
				t.Errorf("%s: %.200q", file, line)
			}
		}
	}
}

// C02: what a session's environment has is known inside it, and is in no list,
// log, metric, database, command line or other session.
func TestC02_SessionSecrets(t *testing.T) {
	t.Parallel()
	s := stage(t, "log: {level: debug, format: json}")
	const secret, second = "canary-of-a-session-0815", "canary-of-a-process-0815"
	b := s.a.session(t, map[string]any{"env": map[string]string{"TOKEN": secret}})
	if got := b.sh(t, `echo $TOKEN | rev 2>/dev/null || python3 -c 'import os; print(os.environ["TOKEN"][::-1])'`); got == "\n" {
		t.Fatal("the session has no secret")
	}
	b.do(t, "POST", b.at("/processes"), map[string]any{"cmd": []string{"sleep", "100"}, "background": true, "env": map[string]string{"TOKEN": second}}).refused(t, "a process", 201)
	other, neighbour := s.a.session(t, nil), s.b.session(t, nil)
	other.tells(t, secret, second)
	neighbour.tells(t, secret, second)
	fork := map[string]any{"count": 1, "env": map[string]string{}}
	var forked struct{ Sessions []struct{ ID string } }
	b.do(t, "POST", b.at("/fork"), fork).into(t, &forked)
	bare := &target{s.a, forked.Sessions[0].ID}
	t.Cleanup(func() { bare.end(t) })
	if got := bare.sh(t, `echo "<$TOKEN>"`); got != "<>\n" {
		t.Errorf("a fork with another environment has %q", got)
	}
	for _, path := range []string{"/v1/sessions", b.at(""), b.at("/execs"), b.at("/processes"), b.at("/shells"), b.at("/stats"), "/metrics", "/v1/pool/status", "/v1/snapshots"} {
		s.a.do(t, "GET", path, nil).sane(t, path, secret, second)
	}
	made := b.snapshot(t, map[string]any{"scope": "sandbox"})
	s.a.do(t, "GET", "/v1/snapshots/"+made, nil).sane(t, "its snapshot", secret)
	s.commandLines(t, secret, second)
	if log := s.d.Log(); strings.Contains(log, secret) || strings.Contains(log, second) {
		t.Error("the log has it")
	}
	// It is kept for the next start, in the sandbox's own state, which goes with
	// it; the database never has it.
	for _, file := range []string{"sandkasten.db", "sandkasten.db-wal"} {
		if exec.CommandContext(t.Context(), "grep", "-qF", secret, filepath.Join(s.d.Data, file)).Run() == nil {
			t.Errorf("%s has it", file)
		}
	}
	bare.end(t)
	b.end(t)
	s.wantGone(t, b.id)
	s.filesTell(t, "api_key", secret, second)
}

// C03: what a failing store of snapshots says, to the client or the log, has no
// key and no signature, though the server repeats them.
func TestC03_ErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	const secret, access = "canary-s3-secret-4712", "canary-s3-access-4712"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch {
		case r.Method == http.MethodHead:
		case r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "location"):
			io.WriteString(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
		case r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "uploads"):
			io.WriteString(w, `<ListMultipartUploadsResult></ListMultipartUploadsResult>`)
		case r.Method == http.MethodGet && strings.Contains(r.URL.RawQuery, "list-type"):
			io.WriteString(w, `<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>`)
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `<Error><Code>SignatureDoesNotMatch</Code><Message>no: %[2]s</Message><AWSAccessKeyId>%[1]s</AWSAccessKeyId><SignatureProvided>deadbeef</SignatureProvided><StringToSign>%[2]s</StringToSign></Error>`, access, r.Header.Get("Authorization"))
		}
	}))
	defer server.Close()
	s := stageWith(t, blackbox.Options{}, fmt.Sprintf("log: {level: debug, format: text}\nsnapshots: {store: s3, s3_endpoint: %q, s3_bucket: bucket, s3_region: us-east-1, s3_access_key: %s, s3_secret_key: %s}", server.URL, access, secret))
	b := s.a.session(t, nil)
	b.put(t, "f", "x")
	a := b.do(t, "POST", b.at("/snapshots"), `{}`)
	if a.status < 500 {
		t.Errorf("a snapshot without a store: %d %s", a.status, a.body)
	}
	for _, word := range []string{secret, access, "Signature", "deadbeef", server.URL} {
		if strings.Contains(a.body, word) {
			t.Errorf("the answer has %q: %s", word, a.body)
		}
	}
	log := s.logOf(t, a)
	for _, word := range []string{"AWS4-HMAC-SHA256 Credential=", "Signature=", "deadbeef", secret, access} {
		if strings.Contains(log, word) {
			t.Errorf("the log has %q: %s", word, log)
		}
	}
	broken := blackbox.New(t, blackbox.Options{Images: filepath.Join(s.w.daemon.Data, "images"), Config: "api_keys: [{owner: x, key: " + secret + ", unknown: 1}]\nsnapshots: {encryption_key: " + secret + "}"})
	if err := broken.TryStart(); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a mistake in the configuration is told as %v", err)
	}
}
