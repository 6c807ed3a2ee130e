package attack

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// hellos makes TLS with a hello that is as long and as much in pieces as it is told.
const hellos = `
import ssl, time
def cut(text, record):
    """The handshake message of some records, in records of another length."""
    body = b""
    while text:
        n = int.from_bytes(text[3:5], "big"); body += text[5:5 + n]; text = text[5 + n:]
    return b"".join(b"\x16\x03\x01" + len(p).to_bytes(2, "big") + p for p in (body[i:i + record] for i in range(0, len(body), record)))
def hello(host, name, padding, record, segment):
    c = tls(); c.set_alpn_protocols(["p" * 250] * (padding // 250) + ["http/1.1"])
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = c.wrap_bio(into, out, server_hostname=name)
    answer = b""
    try:
        s = socket.create_connection((host, 443)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = True
        while True:
            try: t.do_handshake(); break
            except ssl.SSLWantReadError: pass
            text = out.read()
            if first:
                text, first = cut(text, record), False
                for i in range(0, len(text), segment): s.sendall(text[i:i + segment]); time.sleep(0.002)
            else: s.sendall(text)
            more = s.recv(65536)
            if not more: return b""
            into.write(more)
        t.write(b"GET / HTTP/1.1\r\nHost: " + name.encode() + b"\r\nConnection: close\r\n\r\n"); s.sendall(out.read())
        while True:
            try:
                more = t.read(65536)
                if not more: return answer
                answer += more
            except ssl.SSLWantReadError:
                more = s.recv(65536)
                if not more: return answer
                into.write(more)
    except OSError: return answer
sizes = [(0, 1 << 14, 1 << 16), (0, 20, 7), (12000, 1 << 14, 500), (12000, 1000, 1400), (12000, 100, 1400), (40000, 1 << 14, 4000)]
`

// W19: a hello of TLS is read whole before anything is decided, however long it is and into
// whatever segments and records it is cut.
func TestW19_LongHellos(t *testing.T) {
	t.Parallel()
	s := stageLab(t, "")
	s.lab.Name("evil.test", "60 A 198.51.100.1") // both at one address
	b := s.outside(t, list("good.test"))
	s.works(t, b)
	s.nothing(t, "another host of the address", b, hellos+`
for size in sizes:
    out = hello("good.test", "evil.test", *size)
    if b"site evil" in out: got("evil.test with a hello of %r: %r" % (size, out[:200]))`)
	b.put(t, "/workspace/good.py", client+hellos+`
for size in sizes: print(size, b"site good.test" in hello("good.test", "good.test", *size))`)
	if out := b.sh(t, "python3 /workspace/good.py 2>&1"); strings.Count(out, "True") != 6 {
		t.Errorf("the host of the list is not reached: %s", out)
	}
}

// frames speaks HTTP/2 by hand.
const frames = `
def frame(kind, flags, stream, body=b""): return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body
asked = b"\x82\x87\x84\x01\x08api.test" # GET https / of api.test
def field(n): return b"\x10\x01x\x7f\x81\x06" + b"v" * 896 # that no table keeps
def speaking():
    c = tls(); c.set_alpn_protocols(["h2"])
    s = c.wrap_socket(socket.create_connection(("api.test", 443)), server_hostname="api.test")
    s.settimeout(1); s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
    return s
def flood(each, n):
    """Sends what each makes until the other side ends it or reads no more."""
    try:
        s = speaking()
        for i in range(n): s.sendall(each(i))
    except OSError: pass
    return locals().get("s")
def headers(i, end=4): return frame(1, 1 | end, 2 * i + 1, asked)
floods = {
    "streams that are reset at once": lambda i: headers(i) + frame(3, 0, 2 * i + 1, b"\0\0\0\x08"),
    "a header without end": lambda i: headers(0, 0) if i == 0 else frame(9, 0, 1, field(i)),
    "pings": lambda i: frame(6, 0, 0, b"12345678"),
    "settings": lambda i: frame(4, 0, 0),
    "windows": lambda i: frame(8, 0, 0, b"\0\0\0\x01"),
    "streams that stay": headers,
}
`

// W20: floods of frames of HTTP/2, in connections that the daemon reads for a secret, cost
// it bounded memory, reach the host as so many requests at most, and are nothing to other
// sessions.
func TestW20_FloodsOfFrames(t *testing.T) {
	s := stageLab(t, "")
	s.lab.Name("api.test", "60 A 198.51.100.4")
	var now, most, all atomic.Int64
	s.lab.Site("api.test", func(_ http.ResponseWriter, r *http.Request) {
		all.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		<-r.Context().Done()
	})
	policy := list("good.test", "api.test")
	policy["secrets"] = []map[string]any{{"name": "TOKEN", "hosts": []string{"api.test"}, "header": "Authorization", "value": "Bearer a-secret-of-the-case"}}
	b := s.outside(t, policy)
	s.works(t, b)
	other := s.outsideOf(t, s.b, list("good.test"))
	before := s.memory(t)
	s.nothing(t, "floods", b, frames+`
for what, each in floods.items():
    held = [flood(each, 3000) for _ in range(4)]
    if not any(held): got("no connection for " + what)`)
	if all.Load() == 0 {
		t.Error("no request of the floods came to the host")
	}
	if n := most.Load(); n > 128 {
		t.Errorf("%d requests were at the host at once", n)
	}
	if grown := s.memory(t) - before; grown > 64<<20 {
		t.Errorf("the daemon has grown by %d MiB", grown>>20)
	}
	s.works(t, other)
	s.works(t, b)
}
