package relay_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/door"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// world is a network namespace with a relay, and the servers beyond it.
type world struct {
	t     testing.TB
	netns *os.File
	relay *relay.Relay

	mu      sync.Mutex
	names   map[string][]string // addresses by name
	servers map[string]string   // where an address and port really is
	dialed  []string
}

func newWorld(t testing.TB, policy network.Policy, operator network.Operator, options ...func(*relay.Options)) *world {
	t.Helper()
	testenv.NeedsRoot(t)
	w := &world{t: t, netns: makeNamespace(t), names: map[string][]string{}, servers: map[string]string{}}
	opened, err := door.Open(t.Context(), again(t, w.netns))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := network.Compile(policy, operator)
	if err != nil {
		t.Fatal(err)
	}
	o := relay.Options{Names: w, Dial: w.dial, NewPerSecond: 1000, NewBurst: 1000}
	for _, option := range options {
		option(&o)
	}
	w.relay = relay.New(relay.Entrance{
		Streams: opened.Streams, Queries: opened.Queries,
		Datagrams: relay.Datagrams{Sockets: opened.Datagrams, Destination: door.Destination, Flow: opened.Flow, Carry: opened.CarryDatagrams},
	}, rules, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.relay.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, ignoreClosed(opened.Close())); err != nil {
			t.Error(err)
		}
	})
	return w
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// again is another descriptor of a namespace.
func again(t testing.TB, ns *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(ns.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), ns.Name())
}

// makeNamespace returns a network namespace with loopback up.
func makeNamespace(t testing.TB) *os.File {
	t.Helper()
	made := make(chan *os.File, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			made <- nil
			return
		}
		ns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			t.Error(err)
		}
		made <- ns
	}()
	ns := <-made
	if ns == nil {
		t.FailNow()
	}
	t.Cleanup(func() { ns.Close() })
	inside(t, ns, func() {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(s)
		ifr, err := unix.NewIfreq("lo")
		if err == nil {
			ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
			err = unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return ns
}

// inside calls do on a thread in the namespace.
func inside(t testing.TB, ns *os.File, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}

// Exchange implements relay.Upstream.
func (w *world) Exchange(_ context.Context, query *dns.Msg) (*dns.Msg, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reply := new(dns.Msg)
	reply.SetReply(query)
	asked := query.Question[0]
	addrs, ok := w.names[strings.TrimSuffix(asked.Name, ".")]
	if !ok {
		reply.Rcode = dns.RcodeNameError
	}
	for _, text := range addrs {
		addr := netip.MustParseAddr(text)
		header := dns.RR_Header{Name: asked.Name, Rrtype: asked.Qtype, Class: dns.ClassINET, Ttl: 60}
		switch {
		case addr.Is4() && asked.Qtype == dns.TypeA:
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: addr.AsSlice()})
		case addr.Is6() && asked.Qtype == dns.TypeAAAA:
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: addr.AsSlice()})
		}
	}
	if asked.Qtype == dns.TypeTXT {
		reply.Answer = append(reply.Answer, &dns.TXT{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{"tunnel"}})
	}
	return reply, nil
}

// dial reaches the servers of the test, and nothing else.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	real, ok := w.servers[address]
	w.mu.Unlock()
	if !ok {
		return nil, syscall.ECONNREFUSED
	}
	return (&net.Dialer{}).DialContext(ctx, network, real)
}

func (w *world) reached(address string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.dialed {
		if a == address {
			return true
		}
	}
	return false
}

// at has what listens on a real address stand at one beyond the relay.
func (w *world) at(address, real string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[address] = real
}

func (w *world) resolve(name string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[name] = addrs
}

// run runs a command in the namespace and returns what it printed.
func (w *world) run(args ...string) (string, error) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "nsenter", append([]string{"--net=/proc/self/fd/3", "--"}, args...)...)
	cmd.ExtraFiles = []*os.File{w.netns}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// connect connects from the namespace.
func (w *world) connect(address string) (net.Conn, error) {
	w.t.Helper()
	var conn net.Conn
	var err error
	inside(w.t, w.netns, func() {
		conn, err = (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", address)
	})
	if err == nil {
		w.t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// ask queries a name server from the namespace.
func (w *world) ask(network, server, name string, kind uint16) (*dns.Msg, error) {
	w.t.Helper()
	query := new(dns.Msg)
	query.SetQuestion(dns.Fqdn(name), kind)
	var conn net.Conn
	var err error
	inside(w.t, w.netns, func() { conn, err = net.Dial(network, net.JoinHostPort(server, "53")) })
	if err != nil {
		return nil, err
	}
	c := &dns.Conn{Conn: conn}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if err := c.WriteMsg(query); err != nil {
		return nil, err
	}
	return c.ReadMsg()
}

func (w *world) mustAsk(name string, kind uint16) *dns.Msg {
	w.t.Helper()
	reply, err := w.ask("udp", netns.Resolvers[0].String(), name, kind)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply
}

// events waits until one satisfies want.
func (w *world) await(about string, want func(relay.Event) bool) relay.Event {
	w.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		events, changed, _ := w.relay.Journal().Since(0)
		for _, e := range events {
			if want(e) {
				return e
			}
		}
		select {
		case <-changed:
		case <-deadline:
			w.t.Fatalf("no event of %s among %+v", about, events)
		}
	}
}

func echo(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); io.Copy(conn, conn) }()
		}
	}()
	return l.Addr().String()
}

// requests are what sites were asked, for the tests of secrets.
var requests sync.Map

// certificates are those of sites, by their names.
var certificates sync.Map

func seenBy(name string, r *http.Request) {
	requests.Store(name+r.URL.Path, fmt.Sprintf("%q %q %s", r.Header["Authorization"], r.Header["X-Other"], r.URL.RawQuery))
}

// site is a server of TLS that names itself, and its plain twin.
func site(t *testing.T, name string) (secure, clear string) {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(w, "%s %s %s\n%s\ncoded as %s\n", name, r.Host, r.URL, r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding"))
		seenBy(name, r)
	})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificates.Store(name, der)
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	return s.Listener.Addr().String(), plain.Listener.Addr().String()
}

// allowing is a world in which good.test is allowed and evil.test is not; both are
// at one address, as behind a content network.
func allowing(t *testing.T, more ...string) *world {
	w := newWorld(t, network.Policy{Mode: network.Allow, Allow: append([]string{"good.test"}, more...)}, network.Operator{})
	secure, clear := site(t, "good.test")
	w.resolve("good.test", "198.51.100.1", "2001:db8::1")
	w.resolve("evil.test", "198.51.100.1")
	for _, host := range []string{"198.51.100.1", "2001:db8::1"} {
		w.at(net.JoinHostPort(host, "443"), secure)
		w.at(net.JoinHostPort(host, "80"), clear)
	}
	return w
}

func TestQueries(t *testing.T) {
	w := allowing(t)
	w.resolve("rebound.good.test", "127.0.0.1")
	for _, server := range []string{netns.Resolvers[0].String(), "8.8.8.8", "2001:4860:4860::8888"} {
		for _, network := range []string{"udp", "tcp"} {
			reply, err := w.ask(network, server, "Good.Test", dns.TypeA)
			if err != nil || len(reply.Answer) != 1 || reply.Answer[0].(*dns.A).A.String() != "198.51.100.1" {
				t.Errorf("%s %s: %v, %v", network, server, reply, err)
			}
			reply, err = w.ask(network, server, "evil.test", dns.TypeA)
			if err != nil || reply.Rcode != dns.RcodeNameError || len(reply.Answer) > 0 {
				t.Errorf("%s %s: %v, %v", network, server, reply, err)
			}
		}
	}
	for _, kind := range []uint16{dns.TypeTXT, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeANY, dns.TypeNULL} {
		if reply := w.mustAsk("good.test", kind); len(reply.Answer) > 0 {
			t.Errorf("%s: %v", dns.TypeToString[kind], reply)
		}
	}
	if e := w.await("the refused query", func(e relay.Event) bool { return e.Op == relay.OpResolve && e.Name == "evil.test" }); e.Allowed || e.Why == "" {
		t.Errorf("%+v", e)
	}
}

// Answers that lead to private addresses, as those of a rebinding server, are dropped.
func TestRebindingIsNoAnswer(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet}, network.Operator{Own: func(a netip.Addr) bool { return a.String() == "203.0.113.9" }})
	for _, addr := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "203.0.113.9", "0.0.0.0"} {
		w.resolve("rebinding.test", addr, "198.51.100.1")
		w.relay.SetRules(w.relay.Rules()) // forgets what it knows
		reply := w.mustAsk("rebinding.test", dns.TypeA)
		if len(reply.Answer) != 1 || reply.Answer[0].(*dns.A).A.String() != "198.51.100.1" {
			t.Errorf("%s: %v", addr, reply.Answer)
		}
	}
	w.resolve("six.test", "::ffff:169.254.169.254", "fd00:ec2::254", "::1", "64:ff9b::7f00:1")
	if reply := w.mustAsk("six.test", dns.TypeAAAA); len(reply.Answer) > 0 {
		t.Errorf("%v", reply.Answer)
	}
}

func curl(w *world, args ...string) (string, error) {
	return w.run(append([]string{"curl", "-sS", "-k", "--max-time", "10"}, args...)...)
}

// resolved has curl know an address without asking, and the relay know it too.
func resolved(name string) []string {
	return []string{"--resolve", name + ":443:198.51.100.1", "--resolve", name + ":80:198.51.100.1"}
}

func TestWebByName(t *testing.T) {
	w := allowing(t)
	w.mustAsk("good.test", dns.TypeA)
	w.mustAsk("good.test", dns.TypeAAAA)
	for _, args := range [][]string{
		{"https://good.test/a?b=c;d"}, {"--http1.1", "https://good.test/a?b=c;d"}, {"http://good.test/a?b=c;d"}, {"https://GOOD.test./a?b=c;d"},
	} {
		out, err := curl(w, append(resolved("good.test"), append(resolved("GOOD.test."), args...)...)...)
		if err != nil || !strings.Contains(out, "/a?b=c;d") {
			t.Errorf("%s: %q, %v", args, out, err)
		}
	}
	out, err := curl(w, "-g", "--resolve", "good.test:443:[2001:db8::1]", "https://good.test/six")
	if err != nil || !strings.Contains(out, "/six") {
		t.Errorf("IPv6: %q, %v", out, err)
	}
}

// Whoever shares an address with an allowed host is not reached through it.
func TestOthersAtTheSameAddress(t *testing.T) {
	w := allowing(t)
	w.mustAsk("good.test", dns.TypeA)
	for about, c := range map[string]struct {
		args []string
		want string // in what the client sees
	}{
		"another SNI":       {append(resolved("evil.test"), "https://evil.test/"), "alert"},
		"no SNI":            {[]string{"https://198.51.100.1/"}, "alert"},
		"another Host":      {[]string{"--resolve", "good.test:80:198.51.100.1", "-H", "Host: evil.test", "http://good.test/"}, "no entry of allow names evil.test"},
		"an address":        {[]string{"http://198.51.100.1/"}, "its Host is no name"},
		"a proxy":           {[]string{"-x", "http://198.51.100.1:80", "-p", "https://good.test/"}, "CONNECT"},
		"absolute requests": {[]string{"-x", "http://198.51.100.1:80", "http://evil.test/"}, "no entry of allow names evil.test"},
		"another port":      {[]string{"http://198.51.100.1:8080/"}, "the entry good.test is not for this port"},
		"h2c":               {append(resolved("good.test"), "--http2-prior-knowledge", "http://good.test/"), ""},
		"an upgrade to h2c": {append(resolved("good.test"), "--http2", "http://good.test/"), "h2c"},
	} {
		out, err := curl(w, c.args...)
		if !strings.Contains(out, c.want) || strings.Contains(out, "good.test evil.test") || strings.Contains(out, "good.test good.test") {
			t.Errorf("%s: %q, %v", about, out, err)
		}
	}
}

// early is what comes before an answer.
const early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"

// answering is a server that answers each request itself, byte by byte.
func answering(t *testing.T, answer func(io.Writer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					answer(conn)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// What comes before an answer is not passed on: there could be any number of it.
func TestEarlyAnswersAreLeftOut(t *testing.T) {
	w := allowing(t)
	w.at("198.51.100.1:80", answering(t, func(to io.Writer) {
		io.WriteString(to, strings.Repeat(early, 3)+"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
	}))
	out, err := curl(w, append(resolved("good.test"), "-i", "http://good.test/")...)
	if err != nil || strings.Contains(out, "103") || !strings.HasPrefix(out, "HTTP/1.1 200") || !strings.HasSuffix(out, "hello\n") {
		t.Errorf("%q, %v", out, err)
	}
}

// A server that never comes to its answer is given up.
func TestEndlessEarlyAnswers(t *testing.T) {
	w := allowing(t)
	w.at("198.51.100.1:80", answering(t, func(to io.Writer) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(to, early)
		}
	}))
	out, err := curl(w, append(resolved("good.test"), "-i", "http://good.test/")...)
	if err != nil || !strings.HasPrefix(out, "HTTP/1.1 502") {
		t.Errorf("%q, %v", out, err)
	}
}

// A kept connection may not go on to another host, nor hide a request in one.
func TestEveryRequestIsLookedAt(t *testing.T) {
	w := allowing(t)
	w.mustAsk("good.test", dns.TypeA)
	for about, requests := range map[string]string{
		"kept":      "GET /1 HTTP/1.1\r\nHost: good.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"two hosts": "GET /1 HTTP/1.1\r\nHost: good.test\r\nHost: evil.test\r\n\r\n",
		"smuggled":  "POST /1 HTTP/1.1\r\nHost: good.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"folded":    "GET /1 HTTP/1.1\r\nHost: good.test\r\n X: 1\r\nHost: evil.test\r\n\r\n",
		"absolute":  "GET http://evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"rootless":  "GET a:http://evil.test/x HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"upgrade":   "GET / HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: h2c, x\r\n\r\n",
		"late":      "\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"lower":     "get / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
	} {
		conn, err := w.connect("198.51.100.1:80")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, requests); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		out, _ := io.ReadAll(conn)
		if strings.Contains(string(out), "good.test evil.test") || strings.Contains(string(out), "http://evil.test") || strings.Contains(string(out), "101") {
			t.Errorf("%s: the server saw the other host: %q", about, out)
		}
	}
}

// A request to a host as a whole is one to that host too, and the daemon does not answer for it.
func TestRequestsToAHostAsAWhole(t *testing.T) {
	w := allowing(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Allow", "GET, OPTIONS")
		fmt.Fprintf(rw, "good.test got %s %s", r.Method, r.RequestURI)
	}))
	server.Config.DisableGeneralOptionsHandler = true
	server.Start()
	t.Cleanup(server.Close)
	w.at("198.51.100.1:80", server.Listener.Addr().String())
	w.mustAsk("good.test", dns.TypeA)
	for request, want := range map[string]string{
		"OPTIONS * HTTP/1.1\r\nHost: good.test\r\n":    "good.test got OPTIONS *",
		"OPTIONS /a HTTP/1.1\r\nHost: good.test\r\n":   "good.test got OPTIONS /a",
		"OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n":    "HTTP/1.1 403 ",
		"OPTIONS * HTTP/1.1\r\nHost: good.test:81\r\n": "HTTP/1.1 403 ",
		"GET * HTTP/1.1\r\nHost: good.test\r\n":        "HTTP/1.1 403 ",
	} {
		conn, err := w.connect("198.51.100.1:80")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request+"Connection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if out, err := io.ReadAll(conn); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %q, %v; want %q", request, out, err, want)
		}
	}
}

func TestAddressesThatNobodyResolved(t *testing.T) {
	w := allowing(t)
	w.at("198.51.100.1:8080", echo(t))
	for _, address := range []string{"198.51.100.1:443", "198.51.100.1:8080", "93.184.216.34:443", "[2001:db8::1]:443", "10.0.0.1:22", "169.254.169.254:80"} {
		conn, err := w.connect(address)
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil || w.reached(address) {
			t.Errorf("%s: %v, reached %t", address, err, w.reached(address))
		}
	}
	// What the namespace itself serves is its own business.
	conn, err := w.connect("127.0.0.1:1")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("loopback: %v, %v", conn, err)
	}
	if _, err := w.connect("[::1]:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("loopback: %v", err)
	}
}

// A client that kept the address of an allowed name from before the relay began is
// carried, and whatever else goes to such an address is not.
func TestKeptAddressesOfAllowedNames(t *testing.T) {
	w := allowing(t, "moved.test")
	secure, plain := site(t, "moved.test")
	w.resolve("moved.test", "198.51.100.8")
	w.at("198.51.100.9:443", secure)
	w.at("198.51.100.9:80", plain)
	for about, args := range map[string][]string{
		"TLS":  append(resolved("good.test"), "https://good.test/kept"),
		"IPv6": {"-g", "--resolve", "good.test:443:[2001:db8::1]", "https://good.test/kept"},
		"HTTP": {"-g", "--resolve", "good.test:80:[2001:db8::1]", "http://good.test/kept"},
	} {
		if out, err := curl(w, args...); err != nil || !strings.Contains(out, "good.test /kept") {
			t.Errorf("%s: %q, %v", about, out, err)
		}
		w.relay.Forget()
	}
	for about, c := range map[string]struct{ url, address, want string }{
		"a name that is not allowed":    {"https://evil.test/", "198.51.100.1:443", "alert"},
		"another Host":                  {"http://evil.test/", "198.51.100.1:80", "no allowed name was resolved to this address"},
		"a name that is elsewhere":      {"https://moved.test/", "198.51.100.9:443", "alert"},
		"a Host that is elsewhere":      {"http://moved.test/", "198.51.100.9:80", "no allowed name was resolved to this address"},
		"an allowed one at its address": {"http://good.test/", "198.51.100.9:80", "no allowed name was resolved to this address"},
	} {
		host, port, _ := net.SplitHostPort(c.address)
		name := strings.Split(c.url, "/")[2]
		out, err := curl(w, "--resolve", name+":"+port+":"+host, c.url)
		if !strings.Contains(out, c.want) || w.reached(c.address) && host != "198.51.100.1" {
			t.Errorf("%s: %q, %v", about, out, err)
		}
		w.relay.Forget()
	}
	// What names nothing is refused as fast as ever, and so is what no name can open.
	for address, text := range map[string]string{"198.51.100.9:443": "\x00raw", "198.51.100.9:80": "", "198.51.100.9:22": "\x00raw"} {
		limit := 4 * time.Second
		if text != "" {
			limit = 900 * time.Millisecond
		}
		took := time.Hour
		var err error
		for try := 0; try < 5 && err == nil || try < 5 && took > limit; try++ { // a busy machine is slow, but not each time
			start := time.Now()
			var conn net.Conn
			if conn, err = w.connect(address); err == nil {
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				_, _ = io.WriteString(conn, text)
				_, err = conn.Read(make([]byte, 1))
			}
			took = time.Since(start)
			if err == nil {
				break
			}
		}
		if err == nil || w.reached(address) || took > limit {
			t.Errorf("%s: %v after %s", address, err, took)
		}
	}
	e := w.await("the refusal", func(e relay.Event) bool { return e.Op == relay.OpConnect && e.Port == 22 })
	if e.Allowed || e.Why != "no allowed name was resolved to this address" {
		t.Errorf("%+v", e)
	}
}

// A host that shares its address with one that was resolved is found too.
func TestKeptAddressesThatAreShared(t *testing.T) {
	w := allowing(t, "twin.test")
	w.resolve("twin.test", "198.51.100.1")
	w.mustAsk("good.test", dns.TypeA)
	for _, scheme := range []string{"https", "http"} {
		out, err := curl(w, append(resolved("twin.test"), scheme+"://twin.test/shared")...)
		if err != nil || !strings.Contains(out, "twin.test /shared") {
			t.Errorf("%s: %q, %v", scheme, out, err)
		}
	}
}

func TestRawConnections(t *testing.T) {
	w := allowing(t, "db.test:5432", "198.51.100.7")
	w.resolve("db.test", "198.51.100.2")
	w.at("198.51.100.2:5432", echo(t))
	w.at("198.51.100.7:9000", echo(t))
	w.mustAsk("db.test", dns.TypeA)
	for _, address := range []string{"198.51.100.2:5432", "198.51.100.7:9000"} {
		conn, err := w.connect(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, "\x00hello\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if line != "\x00hello\n" {
			t.Errorf("%s: %q, %v", address, line, err)
		}
	}
	if e := w.await("the connection", func(e relay.Event) bool { return e.Op == relay.OpConnect && e.Port == 5432 }); !e.Allowed || e.Why != "db.test:5432" || e.Name != "db.test" {
		t.Errorf("%+v", e)
	}
}

// Who pauses within the first bytes has not said what it speaks: a request is looked at or
// cut all the same. What can be no HTTP any more is raw at once, and letters go on.
func TestPausesAreNotRaw(t *testing.T) {
	w := allowing(t, "198.51.100.7", "good.test:8080")
	w.resolve("good.test", "198.51.100.1")
	_, plain := site(t, "good.test")
	w.at("198.51.100.1:8080", plain)
	w.at("198.51.100.7:9000", echo(t))
	w.mustAsk("good.test", dns.TypeA)
	for _, pieces := range [][]string{{"GE", "T /x HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n"}, {"G", "ET", " /x HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n"}, {"\r\n", "GET /x HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n"}} {
		conn, err := w.connect("198.51.100.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		for i, piece := range pieces {
			if i > 0 {
				w.silence(conn)
			}
			fmt.Fprint(conn, piece)
		}
		if text, _ := io.ReadAll(conn); strings.Contains(string(text), "200 OK") {
			t.Errorf("%q reached another host: %s", pieces, text)
		}
	}
	for _, text := range []string{"SSH-2.0-x\r\n", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "PING\r\n", "*1\r\n$4\r\nPING\r\n", "AMQP\x00\x00\x09\x01"} {
		conn, err := w.connect("198.51.100.7:9000")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // less than a pause is waited for
		fmt.Fprint(conn, text)
		if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	conn, ok := w.opens("198.51.100.7:9000") // with one letter
	if !ok {
		t.Fatal("a letter is not carried")
	}
	for _, text := range []string{"more", "\x00", "GET / HTTP/1.1\r\n"} {
		fmt.Fprint(conn, text)
		if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil {
			t.Errorf("%q after letters: %v", text, err)
		}
	}
}

// silence waits for longer than a client may be silent before its server is asked.
func (w *world) silence(conn net.Conn) {
	w.t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(2 * relay.SilentTimeout)); err != nil {
		w.t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n == 0 && !isTimeout(err) { // a server may answer an empty line
		w.t.Errorf("within a pause: %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// A server that speaks first is heard although the client has said nothing.
func TestServerSpeaksFirst(t *testing.T) {
	w := allowing(t, "ssh.test:22")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "SSH-2.0-test\r\n")
			conn.Close()
		}
	}()
	w.resolve("ssh.test", "198.51.100.3")
	w.at("198.51.100.3:22", l.Addr().String())
	w.mustAsk("ssh.test", dns.TypeA)
	conn, err := w.connect("198.51.100.3:22")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if out, err := io.ReadAll(conn); string(out) != "SSH-2.0-test\r\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Other rules hold at once, also for connections that there are.
func TestOtherRulesCutConnections(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet}, network.Operator{})
	w.at("198.51.100.1:9000", echo(t))
	w.at("198.51.100.2:9000", echo(t))
	open := func(address string) net.Conn {
		conn, err := w.connect(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintln(conn, "hello")
		if _, err := conn.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	one, two := open("198.51.100.1:9000"), open("198.51.100.2:9000")
	rules, err := network.Compile(network.Policy{Mode: network.Allow, Allow: []string{"198.51.100.1"}}, network.Operator{})
	if err != nil {
		t.Fatal(err)
	}
	w.relay.SetRules(rules)
	if _, err := two.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the other connection: %v", err)
	}
	fmt.Fprintln(one, "still")
	if _, err := one.Read(make([]byte, 6)); err != nil {
		t.Errorf("the allowed connection was cut: %v", err)
	}
	w.await("the cut", func(e relay.Event) bool { return e.Op == relay.OpCut && e.Addr.String() == "198.51.100.2" })
}

func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet}, network.Operator{})
	w.at("198.51.100.1:9000", echo(t))
	var open int
	for range 300 {
		conn, err := w.connect("198.51.100.1:9000")
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprint(conn, "x")
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			open++
		}
	}
	if open != 256 || w.relay.Connections() != 256 {
		t.Errorf("%d connections are open, the relay has %d", open, w.relay.Connections())
	}
}

// opens reports whether a connection is carried.
func (w *world) opens(address string) (net.Conn, bool) {
	w.t.Helper()
	conn, err := w.connect(address)
	if err != nil {
		return nil, false
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, "x")
	_, err = conn.Read(make([]byte, 1))
	return conn, err == nil
}

func (w *world) setRules(policy network.Policy) {
	w.t.Helper()
	rules, err := network.Compile(policy, network.Operator{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.relay.SetRules(rules)
}

func refusedBy(limit string) func(relay.Event) bool {
	return func(e relay.Event) bool {
		return e.Op == relay.OpConnect && !e.Allowed && strings.Contains(e.Why, limit)
	}
}

// Sandboxes share the daemon's connections by their owners: one that asks for the first of
// its own gets it from who has the most, and nothing else ends.
func TestOwnersShareConnections(t *testing.T) {
	budget := relay.NewBudget(6, 4)
	of := func(owner string) *world {
		w := newWorld(t, network.Policy{Mode: network.Internet}, network.Operator{}, func(o *relay.Options) { o.Budget, o.Owner = budget, owner })
		w.at("198.51.100.1:9000", echo(t))
		w.at("198.51.100.1:123", datagramEcho(t))
		return w
	}
	greedy, more, modest, late := of("greedy"), of("greedy"), of("modest"), of("late")
	var held []net.Conn
	for range 4 {
		conn, ok := greedy.opens("198.51.100.1:9000")
		if !ok {
			t.Fatal("refused below every limit")
		}
		held = append(held, conn)
	}
	if _, ok := more.opens("198.51.100.1:9000"); ok {
		t.Error("another sandbox of an owner has what the owner may not")
	}
	more.await("the limit", refusedBy("max_connections_per_owner"))
	if got, _ := more.exchange("198.51.100.1:123", true); got != "" {
		t.Errorf("a flow is open: %q", got)
	}
	kept, ok := modest.opens("198.51.100.1:9000")
	if !ok {
		t.Fatal("refused while there is room")
	}
	if _, ok := modest.opens("198.51.100.1:9000"); !ok {
		t.Fatal("refused while there is room")
	}
	for _, conn := range held[1:] { // the first is idle the longest
		fmt.Fprint(conn, "x")
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := late.opens("198.51.100.1:9000"); !ok {
		t.Error("who has nothing gets nothing")
	}
	cut := greedy.await("room for another", func(e relay.Event) bool { return e.Op == relay.OpCut })
	if !strings.Contains(cut.Why, "equal share") {
		t.Errorf("%+v", cut)
	}
	for i, conn := range append(held, kept) {
		fmt.Fprint(conn, "x")
		if _, err := conn.Read(make([]byte, 1)); (err == nil) != (i > 0) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if n := budget.Open(); n != 6 {
		t.Errorf("%d are open, want 6", n)
	}
}

// Other limits hold at once.
func TestPolicyLimitsConnections(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet, MaxConnections: 2}, network.Operator{})
	w.at("198.51.100.1:9000", echo(t))
	w.at("198.51.100.2:123", echo(t))
	count := func(tries int) (open int) {
		for range tries {
			if _, ok := w.opens("198.51.100.1:9000"); ok {
				open++
			}
		}
		return open
	}
	if open := count(4); open != 2 {
		t.Errorf("%d connections are open", open)
	}
	w.await("max_connections", refusedBy("the limit of connections at once (max_connections)"))
	if got, _ := w.exchange("198.51.100.2:123", true); got != "" || w.reached("198.51.100.2:123") {
		t.Errorf("a flow is open: %q", got)
	}
	w.setRules(network.Policy{Mode: network.Internet, MaxConnections: 5})
	if open := count(4); open != 3 {
		t.Errorf("%d more connections are open", open)
	}
	w.setRules(network.Policy{Mode: network.Internet, ConnectionsPerSecond: 1})
	if open := count(5); open == 5 {
		t.Errorf("%d more connections are open", open)
	}
	w.await("connections_per_second", refusedBy("(connections_per_second)"))
}

// Once all bytes have passed nothing does, until the limit is raised.
func TestPolicyLimitsAllBytes(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet, MaxMB: 1}, network.Operator{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write(make([]byte, 4<<20))
			conn.Close()
		}
	}()
	w.at("198.51.100.1:9000", l.Addr().String())
	w.at("198.51.100.2:9000", echo(t))
	idle, ok := w.opens("198.51.100.2:9000")
	if !ok {
		t.Fatal("it is refused before the limit")
	}
	conn, err := w.connect("198.51.100.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, conn); n > 1<<20 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the idle connection: %v", err)
	}
	if _, ok := w.opens("198.51.100.2:9000"); ok {
		t.Error("a new connection is carried")
	}
	w.await("max_mb", refusedBy("(max_mb)"))
	if reply := w.mustAsk("good.test", dns.TypeA); reply.Rcode != dns.RcodeNameError {
		t.Errorf("a query: %v", reply)
	}
	w.setRules(network.Policy{Mode: network.Internet, MaxMB: 100})
	if _, ok := w.opens("198.51.100.2:9000"); !ok {
		t.Error("the raised limit does not hold")
	}
}

// While the owner is over a quota nothing passes, and what was open is cut.
func TestNothingPassesOverQuota(t *testing.T) {
	var over atomic.Bool
	w := newWorld(t, network.Policy{Mode: network.Internet}, network.Operator{}, func(o *relay.Options) { o.OverQuota = over.Load })
	w.at("198.51.100.2:9000", echo(t))
	idle, ok := w.opens("198.51.100.2:9000")
	if !ok {
		t.Fatal("it is refused within the quota")
	}
	over.Store(true)
	if _, ok := w.opens("198.51.100.2:9000"); ok {
		t.Error("a new connection is carried")
	}
	w.await("network_mb_per_month", refusedBy("(network_mb_per_month)"))
	if reply := w.mustAsk("good.test", dns.TypeA); reply.Rcode != dns.RcodeNameError {
		t.Errorf("a query: %v", reply)
	}
	if _, err := idle.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the idle connection: %v", err)
	}
	over.Store(false)
	if _, ok := w.opens("198.51.100.2:9000"); !ok {
		t.Error("nothing passes within the quota")
	}
}

// settle waits until that many connections are open.
func (w *world) settle(connections int) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); w.relay.Connections() != connections; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d connections are open, want %d", w.relay.Connections(), connections)
		}
	}
}

// Totals move while connections live, not at their ends only.
func TestTotals(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet, Deny: []string{"198.51.100.2", "evil.test"}, MaxConnections: 3}, network.Operator{})
	w.resolve("good.test", "198.51.100.1")
	w.at("198.51.100.1:9000", echo(t))
	w.at("198.51.100.1:123", datagramEcho(t))
	_, plain := site(t, "good.test")
	w.at("198.51.100.1:80", plain)
	if out, err := curl(w, append(resolved("good.test"), "http://good.test/")...); err != nil {
		t.Errorf("%q, %v", out, err)
	}
	w.settle(0)
	before := w.relay.Totals()
	conn, ok := w.opens("198.51.100.1:9000")
	if !ok {
		t.Fatal("refused")
	}
	fmt.Fprint(conn, "hello")
	if _, err := io.ReadFull(conn, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if now := w.relay.Totals(); now.Sent-before.Sent != 6 || now.Received-before.Received != 6 || now.Connections != 1 || now.Opened != 2 {
		t.Errorf("%+v, before %+v", now, before)
	}
	w.mustAsk("good.test", dns.TypeA)
	w.mustAsk("evil.test", dns.TypeA)
	if got, err := w.exchange("198.51.100.1:123", true); err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, address := range []string{"198.51.100.2:9000", "198.51.100.1:9000", "198.51.100.1:9000"} {
		w.opens(address)
		if address == "198.51.100.2:9000" {
			w.settle(2)
		}
	}
	w.await("the limit", refusedBy("max_connections"))
	now := w.relay.Totals()
	if now.Opened != 4 || now.Refused != 2 || now.Queries != 2 || now.QueriesRefused != 1 || now.LimitHits[relay.LimitConnections] != 1 || len(now.LimitHits) != 1 || now.Connections != 3 {
		t.Errorf("%+v", now)
	}
}

func TestBytesAreLimited(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet, MaxMbit: 8}, network.Operator{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write(make([]byte, 1<<20))
			conn.Close()
		}
	}()
	w.at("198.51.100.1:9000", l.Addr().String())
	start := time.Now() // before anything can be sent
	conn, err := w.connect("198.51.100.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, conn)
	if took := time.Since(start); n != 1<<20 || took < 800*time.Millisecond {
		t.Errorf("%d bytes in %s, %v", n, took, err)
	}
	_ = conn.Close()
	if e := w.await("the end", func(e relay.Event) bool { return e.Op == relay.OpClose }); e.Received != 1<<20 {
		t.Errorf("%+v", e)
	}
}

// A door that is closed leaves nothing open, and another one can be opened.
func TestTheDoorClosesAndOpens(t *testing.T) {
	testenv.NeedsRoot(t)
	ns := makeNamespace(t)
	for range 3 {
		d, err := door.Open(t.Context(), again(t, ns))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		inside(t, ns, func() {
			for _, address := range []string{"198.51.100.1:443", "[2001:db8::1]:443"} {
				if _, err := net.DialTimeout("tcp", address, 5*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s: %v", address, err)
				}
			}
		})
	}
}

// A host gets the secret where the program sent its placeholder, and nobody else does.
func TestSecrets(t *testing.T) {
	authority, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := authority.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if authority, err = relay.ParseAuthority(kept); err != nil {
		t.Fatal(err)
	}
	const value = "the-real-one"
	header := network.Secret{Name: "TOKEN", Hosts: []string{"api.test"}, Header: "authorization", Value: "Bearer " + value, Placeholder: network.NewPlaceholder()}
	query := network.Secret{Name: "KEY", Hosts: []string{"api.test"}, Query: "key", Value: value, Placeholder: network.NewPlaceholder()}
	basic := network.Secret{Name: "PASS", Hosts: []string{"api.test"}, Header: "Authorization", Value: value, Placeholder: network.NewPlaceholder()}
	for _, s := range []network.Secret{header, query, basic} {
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	apiSite, apiPlain := site(t, "api.test")
	otherSite, _ := site(t, "other.test")
	roots := x509.NewCertPool()
	for _, name := range []string{"api.test", "other.test"} {
		der, _ := certificates.Load(name)
		cert, err := x509.ParseCertificate(der.([]byte))
		if err != nil {
			t.Fatal(err)
		}
		roots.AddCert(cert)
	}
	w := newWorld(t, network.Policy{Mode: network.Allow, Allow: []string{"api.test", "other.test"}}, network.Operator{}, func(o *relay.Options) {
		o.Authority, o.Secrets, o.Roots = authority, []network.Secret{header, query, basic}, roots
	})
	w.resolve("api.test", "198.51.100.5")
	w.resolve("other.test", "198.51.100.6")
	w.at("198.51.100.5:443", apiSite)
	w.at("198.51.100.5:80", apiPlain)
	w.at("198.51.100.6:443", otherSite)
	w.mustAsk("api.test", dns.TypeA)
	w.mustAsk("other.test", dns.TypeA)
	trusted := t.TempDir() + "/ca.pem"
	if err := os.WriteFile(trusted, authority.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	get := func(path string, args ...string) string {
		t.Helper()
		out, err := w.run(append([]string{"curl", "-sS", "-i", "--max-time", "10", "--cacert", trusted, "--resolve", "api.test:443:198.51.100.5", "--resolve", "api.test:80:198.51.100.5", "--resolve", "other.test:443:198.51.100.6"}, args...)...)
		if err != nil {
			t.Errorf("%s: %q, %v", path, out, err)
		}
		if strings.Contains(out, value) || strings.Contains(out, "dGhlLXJlYWwtb25l") {
			t.Errorf("%s: the client sees the secret: %s", path, out)
		}
		return out
	}
	saw := func(site, path string) string {
		text, _ := requests.Load(site + path)
		return fmt.Sprint(text)
	}
	for about, c := range map[string]struct {
		args []string
		want string
	}{
		"bearer":      {[]string{"--compressed", "-H", "Authorization: Bearer " + header.Placeholder}, `["Bearer the-real-one"] [] `},
		"http1":       {[]string{"--http1.1", "-H", "Authorization: Bearer " + header.Placeholder}, `["Bearer the-real-one"] [] `},
		"alone":       {[]string{"-H", "Authorization: " + header.Placeholder}, `["Bearer the-real-one"] [] `},
		"query":       {nil, `[] [] a=1&key=the-real-one&b=2`},
		"basic":       {[]string{"-u", "me:" + basic.Placeholder}, `["Basic bWU6dGhlLXJlYWwtb25l"] [] `},
		"elsewhere":   {[]string{"-H", "X-Other: " + header.Placeholder}, `[] ["` + header.Placeholder + `"] `},
		"placeholder": {[]string{"-H", "Authorization: Bearer other"}, `["Bearer other"] [] `},
	} {
		url := "https://api.test/" + about
		if about == "query" {
			url += "?a=1&key=" + query.Placeholder + "&b=2"
		}
		out := get(about, append(c.args, url)...)
		if got := saw("api.test", "/"+about); got != c.want {
			t.Errorf("%s: the host saw %s, want %s (%s)", about, got, c.want, out)
		}
		if _, body, _ := strings.Cut(out, "\r\n\r\n"); strings.Contains(c.want, "real") && !strings.Contains(body, "placeholder-") || !strings.Contains(body, "coded as identity") {
			t.Errorf("%s: the body is %s", about, body)
		}
		if proto := map[bool]string{true: "HTTP/1.1", false: "HTTP/2"}[about == "http1"]; !strings.HasPrefix(out, proto) {
			t.Errorf("%s: %s", about, out)
		}
	}
	// Neither by plain HTTP nor to another host.
	get("plain", "-H", "Authorization: Bearer "+header.Placeholder, "http://api.test/plain")
	if got := saw("api.test", "/plain"); strings.Contains(got, value) {
		t.Errorf("by plain HTTP: %s", got)
	}
	get("other", "-k", "-H", "Authorization: Bearer "+header.Placeholder, "https://other.test/other")
	if got := saw("other.test", "/other"); strings.Contains(got, value) || !strings.Contains(got, header.Placeholder) {
		t.Errorf("another host: %s", got)
	}
	events, _, _ := w.relay.Journal().Since(0)
	if text := fmt.Sprintf("%+v", events); strings.Contains(text, value) || !strings.Contains(text, "api.test") {
		t.Errorf("the journal: %s", text)
	}
}

// withSecret is a world in which example.com, which is at 198.51.100.5, gets
// "the-real-one" for the placeholder.
func withSecret(t *testing.T, handler http.HandlerFunc) (w *world, placeholder string) {
	t.Helper()
	authority, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	secret := network.Secret{Name: "TOKEN", Hosts: []string{"example.com"}, Header: "Authorization", Value: "the-real-one", Placeholder: network.NewPlaceholder()}
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate()) // for example.com
	w = newWorld(t, network.Policy{Mode: network.Allow, Allow: []string{"example.com"}}, network.Operator{}, func(o *relay.Options) {
		o.Authority, o.Secrets, o.Roots = authority, []network.Secret{secret}, roots
	})
	w.resolve("example.com", "198.51.100.5")
	w.at("198.51.100.5:443", server.Listener.Addr().String())
	return w, secret.Placeholder
}

// What was sent is hidden although the secrets have been replaced since then.
func TestReplacedSecretsAreHidden(t *testing.T) {
	var made atomic.Pointer[world]
	w, placeholder := withSecret(t, func(rw http.ResponseWriter, r *http.Request) {
		made.Load().relay.SetSecrets(nil, nil)
		fmt.Fprintf(rw, "sent %s", r.Header.Get("Authorization"))
	})
	made.Store(w)
	out, err := curl(w, "--resolve", "example.com:443:198.51.100.5", "-H", "Authorization: "+placeholder, "https://example.com/")
	if out != "sent "+placeholder || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// No part of an answer, no word of it and no label on it tells the secret that it repeats.
func TestSecretsAreHiddenFromPartsAndLies(t *testing.T) {
	w, placeholder := withSecret(t, func(rw http.ResponseWriter, r *http.Request) {
		sent := r.Header.Get("Authorization")
		switch kind, value, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); kind {
		case "range":
			http.ServeContent(rw, r, "", time.Time{}, strings.NewReader(sent))
		case "part":
			rw.Header().Set("Content-Range", "bytes 0-3/12")
			rw.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(rw, sent[:4])
		case "coded":
			rw.Header()["Content-Encoding"] = strings.Split(value, "/")
			fmt.Fprint(rw, sent)
		case "name":
			rw.Header().Set("X-"+sent, "1")
		case "words":
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HTTP/1.1 %s %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", value, sent)
		}
	})
	get := func(path string, args ...string) string {
		t.Helper()
		args = append([]string{"curl", "-sSik", "--max-time", "10", "--resolve", "example.com:443:198.51.100.5", "-H", "Authorization: " + placeholder}, args...)
		out, err := w.run(append(args, "https://example.com/"+path)...)
		if err != nil && !strings.HasPrefix(path, "words") {
			t.Errorf("%s: %v", path, err)
		}
		if strings.Contains(strings.ToLower(out), "the-") || strings.Contains(strings.ToLower(out), "real") {
			t.Errorf("%s: the client sees of the secret: %s", path, out)
		}
		return out
	}
	for _, asked := range [][]string{{"-H", "Range: bytes=0-3"}, {"--http1.1", "-H", "Range: bytes=4-8"}, {"-H", "Range: bytes=-4", "-H", `If-Range: "x"`}} {
		if out := get("range", asked...); !strings.Contains(out, " 200") || !strings.HasSuffix(out, placeholder) {
			t.Errorf("%q: %s", asked, out)
		}
	}
	if out := get("part"); !strings.Contains(out, " 502") || !strings.Contains(out, "a part of an answer") {
		t.Errorf("a part that nobody asked for: %s", out)
	}
	for _, coding := range []string{"identity, identity", "", "unknown", "br", "gzip", "identity/br"} {
		if out := get("coded/" + strings.ReplaceAll(coding, " ", "%20")); !strings.HasSuffix(out, placeholder) {
			t.Errorf("coded as %q: %s", coding, out)
		}
	}
	get("name")
	for _, status := range []string{"200", "101", "404"} {
		get("words/"+status, "--http1.1", "-H", "Upgrade: websocket", "-H", "Connection: Upgrade")
	}
}

// filled is a world in which example.com gets a secret, and is at two addresses with
// these servers.
func filled(t *testing.T, one, two http.HandlerFunc) *world {
	t.Helper()
	authority, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	secret := network.Secret{Name: "TOKEN", Hosts: []string{"example.com"}, Header: "Authorization", Value: "the-real-one", Placeholder: network.NewPlaceholder()}
	roots := x509.NewCertPool()
	w := newWorld(t, network.Policy{Mode: network.Allow, Allow: []string{"example.com"}}, network.Operator{}, func(o *relay.Options) {
		o.Authority, o.Secrets, o.Roots = authority, []network.Secret{secret}, roots
	})
	w.resolve("example.com", "198.51.100.5", "198.51.100.6")
	for address, handler := range map[string]http.HandlerFunc{"198.51.100.5:443": one, "198.51.100.6:443": two} {
		s := httptest.NewUnstartedServer(handler)
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		roots.AddCert(s.Certificate()) // for example.com
		w.at(address, s.Listener.Addr().String())
	}
	w.mustAsk("example.com", dns.TypeA)
	return w
}

// get asks example.com at an address, and returns the answer with its body unread.
func (w *world) get(address, path string) *http.Response {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return w.connect(address) },
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
	}}
	w.t.Cleanup(client.CloseIdleConnections)
	answer, err := client.Get("https://example.com" + path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// What a sandbox asks for and does not read does not fill the daemon's memory.
func TestUnreadAnswersAreBounded(t *testing.T) {
	var written atomic.Int64
	w := filled(t, func(rw http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 32<<10)
		for err := error(nil); err == nil && written.Load() < 16<<20; {
			var n int
			n, err = rw.Write(piece)
			written.Add(int64(n))
		}
	}, nil)
	w.get("198.51.100.5:443", "/")
	for before := int64(-1); before != written.Load(); time.Sleep(300 * time.Millisecond) {
		before = written.Load()
	}
	if n := written.Load(); n > 1<<20 {
		t.Errorf("%d KiB wait for the sandbox", n>>10)
	}
}

// A connection outside whose address is not allowed any more carries no further request,
// though its name is.
func TestOtherRulesLeaveNoConnectionOutside(t *testing.T) {
	release := make(chan struct{})
	named := func(name string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			io.WriteString(rw, name)
			if r.URL.Path == "/slow" {
				rw.(http.Flusher).Flush()
				<-release
			}
		}
	}
	w := filled(t, named("one"), named("two"))
	slow := w.get("198.51.100.5:443", "/slow")
	w.setRules(network.Policy{Mode: network.Allow, Allow: []string{"example.com"}, Deny: []string{"198.51.100.5"}})
	if _, err := io.ReadAll(slow.Body); err == nil {
		t.Error("the connection goes on")
	}
	w.mustAsk("example.com", dns.TypeA)
	body, err := io.ReadAll(w.get("198.51.100.6:443", "/").Body)
	close(release)
	if string(body) != "two" || err != nil {
		t.Errorf("the request went to %q, %v", body, err)
	}
}

// A WebSocket passes as it is, after its request was looked at.
func TestWebSockets(t *testing.T) {
	authority, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	secret := network.Secret{Name: "TOKEN", Hosts: []string{"example.com"}, Header: "Authorization", Value: "the-real-one", Placeholder: network.NewPlaceholder()}
	var got atomic.Value
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, rw)
	})
	secure, plain := httptest.NewTLSServer(handler), httptest.NewServer(handler)
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate()) // for example.com
	w := newWorld(t, network.Policy{Mode: network.Allow, Allow: []string{"example.com"}}, network.Operator{}, func(o *relay.Options) {
		o.Authority, o.Secrets, o.Roots = authority, []network.Secret{secret}, roots
	})
	w.resolve("example.com", "198.51.100.5")
	w.at("198.51.100.5:443", secure.Listener.Addr().String())
	w.at("198.51.100.5:80", plain.Listener.Addr().String())
	w.mustAsk("example.com", dns.TypeA)
	for port, want := range map[string]string{"80": secret.Placeholder, "443": "the-real-one"} {
		conn, err := w.connect("198.51.100.5:" + port)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if port == "443" {
			trusted := x509.NewCertPool()
			trusted.AppendCertsFromPEM(authority.Certificate())
			conn = tls.Client(conn, &tls.Config{ServerName: "example.com", RootCAs: trusted})
		}
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: %s\r\n\r\n", secret.Placeholder)
		from := bufio.NewReader(conn)
		answer, err := http.ReadResponse(from, nil)
		if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("port %s: %v, %v", port, answer, err)
			continue
		}
		fmt.Fprint(conn, "the-real-one\n")
		if line, err := from.ReadString('\n'); line != "the-real-one\n" || got.Load() != want {
			t.Errorf("port %s: %q, %v; the server saw %v", port, line, err, got.Load())
		}
	}
}

// A server that is not the host that it stands for gets no secret.
func TestSecretsNeedTheRealHost(t *testing.T) {
	authority, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	secret := network.Secret{Name: "TOKEN", Hosts: []string{"api.test"}, Header: "Authorization", Value: "the-real-one", Placeholder: network.NewPlaceholder()}
	w := newWorld(t, network.Policy{Mode: network.Allow, Allow: []string{"api.test"}}, network.Operator{}, func(o *relay.Options) {
		o.Authority, o.Secrets, o.Roots = authority, []network.Secret{secret}, x509.NewCertPool()
	})
	fake, _ := site(t, "api.test")
	w.resolve("api.test", "198.51.100.5")
	w.at("198.51.100.5:443", fake)
	w.mustAsk("api.test", dns.TypeA)
	out, err := curl(w, "-i", "--resolve", "api.test:443:198.51.100.5", "-H", "Authorization: "+secret.Placeholder, "https://api.test/fake")
	if saw, asked := requests.Load("api.test/fake"); asked || !strings.Contains(out, "502") {
		t.Errorf("%q, %v; the server saw %v", out, err, saw)
	}
}

func TestDatagrams(t *testing.T) {
	for _, mode := range []network.Mode{network.Internet, network.Allow} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, network.Policy{Mode: mode}, network.Operator{})
			server := datagramEcho(t)
			for _, address := range []string{"198.51.100.1:123", "[2001:db8::1]:443"} {
				w.at(address, server)
				for _, connected := range []bool{true, false} {
					got, err := w.exchange(address, connected)
					if mode == network.Internet && (got != "ping 1 ping 2 " || err != nil) {
						t.Errorf("%s, connected %t: %q, %v", address, connected, got, err)
					}
					if mode == network.Allow && got != "" {
						t.Errorf("%s: %q", address, got)
					}
					if mode == network.Allow && connected && !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("%s is not refused at once: %v", address, err)
					}
				}
			}
			for _, address := range []string{"10.0.0.1:123", "169.254.169.254:123"} {
				w.at(address, server)
				if got, _ := w.exchange(address, true); got != "" || w.reached(address) {
					t.Errorf("%s: %q", address, got)
				}
			}
		})
	}
}

func datagramEcho(t *testing.T) string {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			server.WriteTo(buf[:n], from)
		}
	}()
	return server.LocalAddr().String()
}

// exchange sends two datagrams from the namespace and returns what came back from
// the same address.
func (w *world) exchange(address string, connected bool) (got string, err error) {
	w.t.Helper()
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return "", err
	}
	var conn *net.UDPConn
	inside(w.t, w.netns, func() {
		if connected {
			conn, err = net.DialUDP("udp", nil, to)
		} else {
			conn, err = net.ListenUDP("udp", nil)
		}
	})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	buf := make([]byte, 2048)
	for i := range 2 {
		text := fmt.Sprintf("ping %d ", i+1)
		if connected {
			_, err = conn.Write([]byte(text))
		} else {
			_, err = conn.WriteTo([]byte(text), to)
		}
		if err != nil {
			return got, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
		n, from, err := conn.ReadFromUDP(buf)
		if err != nil {
			return got, err
		}
		if from.String() != to.String() {
			return got, fmt.Errorf("the answer came from %s", from)
		}
		got += string(buf[:n])
	}
	return got, nil
}

// Silence opens nothing: a client that speaks late is looked at like any other, unless
// its server spoke first.
func TestLateSpeakersAreLookedAt(t *testing.T) {
	w := newWorld(t, network.Policy{Mode: network.Internet, Deny: []string{"evil.test"}}, network.Operator{})
	_, plain := site(t, "good.test")
	w.at("198.51.100.1:8080", plain)
	for host, want := range map[string]string{"evil.test": "denied by evil.test", "good.test": "good.test good.test"} {
		conn, err := w.connect("198.51.100.1:8080")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		time.Sleep(500 * time.Millisecond) // longer than the relay waits for clients that speak first
		for _, piece := range []string{"G", "ET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"} {
			if _, err := io.WriteString(conn, piece); err != nil {
				t.Fatal(err)
			}
		}
		if out, _ := io.ReadAll(conn); !strings.Contains(string(out), want) {
			t.Errorf("%s: %q", host, out)
		}
	}
}
