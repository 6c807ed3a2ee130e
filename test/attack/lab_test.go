package attack

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
	"github.com/sandkasten/sandkasten/test/netfixture"
)

// labScene is a scene whose daemon is in a lab, with hosts that sandboxes may reach and
// others.
type labScene struct {
	*scene

	lab      *netfixture.Lab
	hostPort int // of a server of the daemon's host, at all its addresses

	mu   sync.Mutex
	seen []string // guarded by mu; who came to that server
}

// stageLab begins a case with a daemon in a lab.
func stageLab(t *testing.T, config string) *labScene {
	t.Helper()
	s := &labScene{scene: newScene(t)}
	s.lab = netfixture.New(t)
	program := os.Getenv(programVar)
	if program == "" {
		program = testenv.Program(t)
	}
	d := blackbox.New(t, blackbox.Options{
		Program: s.lab.Program(program), Env: []string{weakenVar + "=" + os.Getenv(weakenVar)},
		Images: s.w.daemon.Data + "/images", Config: s.w.config() + config,
	})
	s.lab.Publish(d.URL)
	d.Start()
	s.on(t, d)
	s.hostPort = s.lab.Listen(func(who string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, who)
	})
	s.lab.Name("good.test", "60 A 198.51.100.1")
	s.lab.Name("evil.test", "60 A 198.51.100.66")
	return s
}

// outside makes a session with a network, and puts what its programs need there.
func (s *labScene) outside(t *testing.T, network map[string]any) *target {
	t.Helper()
	return s.outsideOf(t, s.a, network)
}

// outsideOf is outside for a session of somebody's.
func (s *labScene) outsideOf(t *testing.T, who *caller, network map[string]any) *target {
	t.Helper()
	b := who.session(t, map[string]any{"network": network})
	ca, err := os.ReadFile(s.lab.CA)
	if err != nil {
		t.Fatal(err)
	}
	b.put(t, "/workspace/ca.pem", string(ca))
	b.put(t, "/workspace/client.py", client)
	return b
}

// client is what the attacks use: each prints what it achieved.
const client = `
import http.client, os, socket, ssl, urllib.request
socket.setdefaulttimeout(4)
def got(what): print("reached", what, flush=True)
def tls():
    c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
    return c
def ask(host, port, text, name=None):
    """Sends bytes, by TLS if there is a name, and returns the answer, without refusals."""
    try:
        s = socket.create_connection((host, port))
        if name is not None: s = tls().wrap_socket(s, server_hostname=name)
        s.sendall(text)
        out = b""
        while len(out) < 1 << 16:
            more = s.recv(4096)
            if not more: break
            out += more
    except OSError as e: out = locals().get("out", b"")
    return b"" if b"The network policy of this sandbox refuses this" in out else out
def page(host, name, port=80, secure=False):
    return ask(host, port, b"GET / HTTP/1.1\r\nHost: " + name.encode() + b"\r\nConnection: close\r\n\r\n", name if secure else None)
def hold(n):
    """Opens connections to the echo server, and returns those that there are and how many of them answer."""
    held, alive = [], 0
    for _ in range(n):
        try: held.append(socket.create_connection(("198.51.100.9", 7)))
        except OSError: pass
    for s in held:
        try: s.sendall(b"x"); alive += s.recv(1) == b"x"
        except OSError: pass
    return held, alive
def resolve(name):
    try: return {a[4][0] for a in socket.getaddrinfo(name, 80)}
    except (OSError, UnicodeError, ValueError): return set()
`

// nothing runs a program behind client, which prints what it should not have achieved,
// and looks for who came where nobody may.
func (s *labScene) nothing(t *testing.T, what string, b *target, program string) {
	t.Helper()
	b.put(t, "/workspace/attack.py", client+program+"\nprint('TRIED')\n")
	r := b.run(t, "python3 /workspace/attack.py 2>&1")
	achieved, tried := strings.CutSuffix(r.Output, "TRIED\n")
	if !tried {
		t.Fatalf("%s: the attack did not come to its end: %s", what, r.Output)
	}
	for line := range strings.Lines(achieved) {
		t.Errorf("%s: %s", what, strings.TrimSpace(line))
	}
	s.mu.Lock()
	seen := s.seen
	s.seen = nil
	s.mu.Unlock()
	for _, visit := range s.lab.Visits() {
		if address, host, _ := strings.Cut(visit, " "); host == "" || strings.HasPrefix(host, "evil.test") {
			seen = append(seen, address+" "+host)
		}
	}
	for _, who := range seen {
		t.Errorf("%s: %s", what, who)
	}
	s.unharmed(t, what)
}

// works checks that a session reaches what it may: else nothing of the case counts.
func (s *labScene) works(t *testing.T, b *target) {
	t.Helper()
	if out := b.sh(t, `cd /workspace && python3 -c 'from client import *; print(page("good.test", "good.test"))'`); !strings.Contains(out, "site good.test") {
		t.Fatalf("the session does not reach what it may: %s", out)
	}
	s.lab.Visits()
}

// list is a policy of mode allow.
func list(entries ...string) map[string]any {
	return map[string]any{"mode": "allow", "allow": append([]string{}, entries...)}
}

// mode is a policy that has only a mode.
func mode(name string) map[string]any { return map[string]any{"mode": name} }

// quoted is a list for Python.
func quoted(all []string) string { return "[\"" + strings.Join(all, `", "`) + "\"]" }
