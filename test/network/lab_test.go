package network

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
	"github.com/sandkasten/sandkasten/test/netfixture"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// world is a daemon in a lab, and who speaks to it.
type world struct {
	*netfixture.Lab

	daemon *blackbox.Daemon
	key    string // "" is that of the owner admin
	ca     string // of the lab's sites
}

// enter starts a daemon in a lab of its own, where good.test and bad.test are sites.
func enter(t *testing.T, config string) *world {
	t.Helper()
	lab := netfixture.New(t)
	w := &world{Lab: lab, daemon: blackbox.New(t, blackbox.Options{
		Program: lab.Program(testenv.Program(t)), Config: config,
		Env: []string{"SANDKASTEN_NETWORK__TRUST_HOST_CAS=false"}, // the lab's authority is the only one
	})}
	lab.Publish(w.daemon.URL)
	w.daemon.Start()
	ca, err := os.ReadFile(lab.CA)
	if err != nil {
		t.Fatal(err)
	}
	w.ca = string(ca)
	lab.Name("good.test", "60 A 198.51.100.1", "60 AAAA 2001:db8:1::1")
	lab.Name("bad.test", "60 A 198.51.100.2")
	return w
}

// as is the world as another key sees it.
func (w *world) as(key string) *world {
	other := *w
	other.key = key
	return &other
}

// request sends a request and returns its open answer.
func (w *world) request(t *testing.T, ctx context.Context, method, path string, body any) *http.Response {
	t.Helper()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, w.daemon.URL+path, in)
	if err != nil {
		t.Fatal(err)
	}
	key := w.key
	if key == "" {
		key = w.daemon.Key
	}
	r.Header.Set("Authorization", "Bearer "+key)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute}).Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// try sends a request and returns its answer.
func (w *world) try(t *testing.T, method, path string, body any) (status int, text string) {
	t.Helper()
	answer := w.request(t, context.WithoutCancel(t.Context()), method, path, body)
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer.StatusCode, string(read)
}

// do is try for what has to succeed.
func (w *world) do(t *testing.T, method, path string, body, into any) {
	t.Helper()
	status, text := w.try(t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
}

// object is one of JSON.
type object = map[string]any

// sandbox is a session.
type sandbox struct {
	*world

	id string
}

// create makes a session with a network, which ends with the test.
func (w *world) create(t *testing.T, network object, more ...object) *sandbox {
	t.Helper()
	body := object{}
	if network != nil {
		body["network"] = network
	}
	for _, one := range more {
		for name, value := range one {
			body[name] = value
		}
	}
	var made struct{ ID string }
	w.do(t, "POST", "/v1/sessions", body, &made)
	return w.session(t, made.ID)
}

// session is the one of an id, which ends with the test.
func (w *world) session(t *testing.T, id string) *sandbox {
	t.Helper()
	s := &sandbox{w, id}
	t.Cleanup(func() { w.try(t, "DELETE", s.at(""), nil) })
	s.install(t)
	return s
}

// install puts the client into the sandbox, and the lab's certificate.
func (s *sandbox) install(t *testing.T) {
	t.Helper()
	for path, text := range map[string]string{"/workspace/get.py": get, "/workspace/ca.pem": s.ca} {
		s.do(t, "POST", s.at("/fs/write"), object{"path": path, "text": text}, nil)
	}
}

func (s *sandbox) at(rest string) string { return "/v1/sessions/" + s.id + rest }

// denial is what a sandbox was refused.
type denial struct {
	Name, Address, Why string
	Port               int
}

// result is the end of a command.
type result struct {
	Output        string
	ExitCode      int      `json:"exit_code"`
	NetworkDenied []denial `json:"network_denied"`
}

// run runs a command.
func (s *sandbox) run(t *testing.T, command string) (r result) {
	t.Helper()
	s.do(t, "POST", s.at("/exec"), object{"cmd": command, "timeout_ms": 60000}, &r)
	return r
}

// get is a client of the web: it prints what it gets, or why it gets nothing.
const get = `
import os, ssl, sys, urllib.request
ctx = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
if os.path.exists("/workspace/ca.pem") and "SSL_CERT_FILE" not in os.environ: ctx.load_verify_locations("/workspace/ca.pem")
r = urllib.request.Request(sys.argv[1], headers=dict(h.split(": ", 1) for h in sys.argv[2:]))
try:
    with urllib.request.urlopen(r, context=ctx, timeout=20) as a: print(a.status, a.read().decode(errors="replace"), dict(a.headers))
except urllib.error.HTTPError as e: print(e.code, e.read().decode(errors="replace"))
except Exception as e: print("failed:", e)
`

// get fetches a URL in the sandbox.
func (s *sandbox) get(t *testing.T, url string, headers ...string) result {
	t.Helper()
	command := "python3 /workspace/get.py '" + url + "'"
	for _, header := range headers {
		command += ` "` + header + `"`
	}
	return s.run(t, command)
}
