package attack

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// reach is a program that tries to connect to addresses, and prints those that
// it reached, which interfaces there are and could be made, and that it came to its end.
const reach = `
import errno, fcntl, os, socket, struct, sys
TARGETS = %s
DEVICE = %s
def got(what): print("reached", what, flush=True)
for host, port in TARGETS:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try: s = socket.socket(family, kind)
        except OSError: continue
        s.settimeout(2)
        try:
            s.connect((host, port))
            if kind == socket.SOCK_DGRAM:
                s.send(b"x"); s.recv(1)
            got("%%s %%d %%s" %% (host, port, kind))
        except OSError as e:
            if e.errno is None and "timed out" in str(e) and kind == socket.SOCK_STREAM: got("a route to %%s" %% host)
for name in %s:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try: socket.socket(socket.AF_UNIX, kind).connect(name); got(repr(name))
        except OSError: pass
for name in ("metadata.google.internal", "localhost.localdomain.test", "example.com"):
    try: got(name + " is " + socket.gethostbyname(name))
    except OSError: pass
for family, kind, proto in ((40, 1, 0), (socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET, socket.SOCK_RAW, 255), (17, socket.SOCK_RAW, 768), (17, socket.SOCK_DGRAM, 768), (socket.AF_INET, socket.SOCK_DGRAM, 1)):
    try: socket.socket(family, kind, proto); got("a socket of family %%d, type %%d, protocol %%d" %% (family, kind, proto))
    except OSError: pass
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for to in ("255.255.255.255", "224.0.0.251"):
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(b"x", (to, 5353)); got("sent to " + to)
    except OSError: pass
def attribute(kind, value):
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) %% 4)
def new_link(kind): # RTM_NEWLINK, created and acknowledged
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    body = bytes(16) + attribute(3, DEVICE + b"\0") + attribute(18, attribute(1, kind))
    s.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
    error, = struct.unpack_from("i", s.recv(4096), 16)
    if error == 0: got("made a device: " + kind.decode())
for kind in (b"dummy", b"bridge", b"veth", b"ifb"):
    try: new_link(kind)
    except OSError: pass
try: fcntl.ioctl(s, 0x89a0, DEVICE + b"\0"); got("made a bridge")
except OSError: pass
for line in open("/proc/net/dev").readlines()[2:]:
    if not line.split(":")[0].strip() == "lo": got("an interface: " + line)
for table in ("route", "arp", "ipv6_route"):
    try:
        for line in open("/proc/net/" + table).readlines():
            if "lo" not in line.split() and not line.startswith(("Iface", "IP ")): got(table + ": " + line)
    except OSError: pass
print("TRIED")
`

// metadata are where clouds answer with credentials.
var metadata = []string{"169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fe80::a9fe:a9fe", "168.63.129.16"}

// outward are the addresses of the host, in each of which the canary listens,
// and the ports of the daemon and of services.
func (s *scene) outward(t testing.TB) (targets string) {
	t.Helper()
	var all []string
	port := s.port
	for _, host := range []string{"127.0.0.1", "::1", "0.0.0.0", "127.0.0.2", "10.0.2.2", "172.17.0.1", "192.168.0.1"} {
		all = append(all, fmt.Sprintf("(%q, %d)", host, port))
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok {
			all = append(all, fmt.Sprintf("(%q, %d)", ip.IP, port))
		}
	}
	_, own, _ := strings.Cut(strings.TrimPrefix(s.d.URL, "http://"), ":")
	for _, p := range []string{own, "22", "53", "80", "111", "443", "2375", "5432", "6379"} {
		all = append(all, fmt.Sprintf("(%q, %s)", "127.0.0.1", p))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// reaches runs reach in a session, of which nothing may come.
func (s *scene) reaches(t testing.TB, b *target, targets string) {
	t.Helper()
	names := fmt.Sprintf("[%q, %q, b%q, '/run/docker.sock', '/var/run/docker.sock', '/run/systemd/private', '/run/dbus/system_bus_socket']", s.socket, "\\0"+strings.TrimPrefix(s.abstract, "@"), "\\0"+strings.TrimPrefix(s.abstract, "@"))
	names = strings.ReplaceAll(names, `\\0`, `\0`)
	out := b.python(t, fmt.Sprintf(reach, targets, fmt.Sprintf("b%q", deviceName), names))
	reached, tried := strings.CutSuffix(out, "TRIED\n")
	if !tried {
		t.Fatalf("the attack did not come to its end: %s", out)
	}
	for line := range strings.Lines(reached) {
		t.Errorf("%s", strings.TrimSpace(line))
	}
	for _, seen := range s.touched() {
		t.Errorf("%s", seen)
	}
}

// W01: in network mode none no server of the host is reached, by TCP, UDP, IPv6,
// a path, an abstract name, vsock or a name's address.
func TestW01_NoneReachesNoHost(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	s.reaches(t, s.a.session(t, map[string]any{"network_mode": "none"}), s.outward(t))
	for _, mode := range []string{"host", "full", "bridge", "proxy", "container:x", "NONE", "none ", "", "ns:/proc/1/ns/net"} {
		s.a.do(t, "POST", "/v1/sessions", map[string]any{"network_mode": mode}).refused(t, "network_mode "+mode, 400, 403, 501)
	}
}

// W02: no metadata service is reached in the one mode that there is.
func TestW02_Metadata(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	var all []string
	for _, host := range metadata {
		all = append(all, fmt.Sprintf("(%q, 80)", host))
	}
	s.reaches(t, s.a.session(t, nil), "["+strings.Join(all, ", ")+"]")
}

// W10: what one session listens on, by whatever address or name, the session of
// another owner does not reach, nor the other way round.
func TestW10_Neighbours(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	a, b := s.a.session(t, nil), s.b.session(t, nil)
	families := `(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")`
	if s.w.contained() {
		families = `(socket.AF_INET, "0.0.0.0"),` // an engine gives networks of mode none no IPv6
	}
	listens := `
import os, socket, threading, time
open("/workspace/ready", "w").close()
socks = []
for family, host in (` + families + `):
    s = socket.socket(family); s.bind((host, 7777)); s.listen(); socks.append(s)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("0.0.0.0", 7778)); socks.append(u)
x = socket.socket(socket.AF_UNIX); x.bind("\0neighbour"); x.listen(); socks.append(x)
time.sleep(1000)`
	b.serve(t, 7777, listens)
	s.reaches(t, a, `[("127.0.0.1", 7777), ("127.0.0.1", 7778), ("::1", 7777), ("0.0.0.0", 7777), ("224.0.0.1", 7778)]`)
	if got := a.run(t, `python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("\0neighbour")' 2>&1; ls /proc/sys/net/ipv4/neigh 2>/dev/null | grep -v -e all -e default -e lo`); !strings.Contains(got.Output, "refused") {
		t.Errorf("by its abstract name: %s", got.Output)
	}
	a.do(t, "GET", a.at("/ports/7777/"), nil).refused(t, "the port by the other session's preview", 502)
	a.serve(t, 7777, strings.ReplaceAll(mirror, "8000", "7777"))
	a.do(t, "GET", a.at("/ports/7777/"), nil).refused(t, "a port of its own, of the same number", 200)
}

// W12: the network is the same for a session that was ready before it came, was
// stopped and started, forked, restored or outlived its daemon.
func TestW12_NoneStaysNone(t *testing.T) {
	t.Parallel()
	s := stageWith(t, blackbox.Options{}, "pool: {enabled: true, images: {base: 2}}")
	targets := fmt.Sprintf(`[("127.0.0.1", %d), ("169.254.169.254", 80), ("::1", %d)]`, s.port, s.port)
	b := s.a.session(t, nil)
	s.reaches(t, b, targets)
	saved := s.a.session(t, map[string]any{"restore_snapshot_id": b.snapshot(t, nil)})
	s.reaches(t, saved, targets)
	b.do(t, "POST", b.at("/stop"), nil).refused(t, "stop", 200)
	b.do(t, "POST", b.at("/start"), nil).refused(t, "start", 200)
	s.reaches(t, b, targets)
	var forked struct{ Sessions []struct{ ID string } }
	b.do(t, "POST", b.at("/fork"), `{"count":1}`).into(t, &forked)
	fork := &target{s.a, forked.Sessions[0].ID}
	t.Cleanup(func() { fork.end(t) })
	s.reaches(t, fork, targets)
	s.d.Kill()
	s.d.Start()
	for _, b := range []*target{b, saved, fork} {
		s.reaches(t, b, targets)
	}
	for _, change := range []string{`{"network_mode":"full"}`, `{"network":"host"}`} {
		b.do(t, "PATCH", b.at(""), change).refused(t, change, 400)
	}
}
