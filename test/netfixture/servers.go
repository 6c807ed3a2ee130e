package netfixture

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// The ports of the lab's other servers, at every address of IPv4.
const (
	EchoPort = 7    // repeats what it is sent, by TCP, and at Datagrams by UDP
	RawPort  = 5432 // the same, by TCP

	Datagrams = "198.51.100.9"
)

// serveConns has each connection served until the test ends.
func (l *Lab) serveConns(from net.Listener, serve func(net.Conn)) {
	var serving sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]struct{}{}
	serving.Go(func() {
		for {
			conn, err := from.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = struct{}{}
			mu.Unlock()
			serving.Go(func() {
				serve(conn)
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
			})
		}
	})
	l.stops = append(l.stops, func() {
		from.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
}

// names is the lab's name server.
type names struct {
	mu      sync.Mutex
	answers map[string]func(dns.Question) []dns.RR // guarded by mu; by name
	asked   map[string]int                         // guarded by mu
}

// Name gives a name records, in the form of zone files without the name itself, as "60
// A 198.51.100.1" or "0 CNAME other.test.".
func (l *Lab) Name(name string, records ...string) {
	l.t.Helper()
	var all []dns.RR
	for _, record := range records {
		rr, err := dns.NewRR(name + ". " + record)
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, rr)
	}
	l.Answer(name, func(dns.Question) []dns.RR { return all })
}

// Answer has a function answer for a name; of its records those of the type that was
// asked for are sent, and each CNAME. It may answer otherwise each time.
func (l *Lab) Answer(name string, answer func(dns.Question) []dns.RR) {
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	l.names.answers[name] = answer
}

// Asked is how often a name was asked for.
func (l *Lab) Asked(name string) int {
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	return l.names.asked[name]
}

// ServeDNS implements dns.Handler.
func (n *names) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(query)
	asked := query.Question[0]
	name := strings.ToLower(strings.TrimSuffix(asked.Name, "."))
	n.mu.Lock()
	answer := n.answers[name]
	n.asked[name]++
	if answer == nil {
		reply.Rcode = dns.RcodeNameError
	} else {
		n.add(reply, asked, answer)
	}
	n.mu.Unlock()
	_ = w.WriteMsg(reply)
}

// add adds the records of an answer and of the names that it leads to. The caller
// holds mu.
func (n *names) add(reply *dns.Msg, asked dns.Question, answer func(dns.Question) []dns.RR) {
	for _, rr := range answer(asked) {
		switch rr := rr.(type) {
		case *dns.CNAME:
			reply.Answer = append(reply.Answer, rr)
			if next := n.answers[strings.ToLower(strings.TrimSuffix(rr.Target, "."))]; next != nil && len(reply.Answer) < 8 {
				n.add(reply, asked, next)
			}
		default:
			if rr.Header().Rrtype == asked.Qtype {
				reply.Answer = append(reply.Answer, rr)
			}
		}
	}
}

// sites are the lab's web servers, of all names and at all addresses.
type sites struct {
	mu       sync.Mutex
	handlers map[string]http.Handler // guarded by mu; by the name of Host
	visits   []string                // guarded by mu
}

// Site has requests for a host answered, at the ports 80 and 443 of all addresses.
// Other hosts say who they are.
func (l *Lab) Site(host string, handler http.HandlerFunc) {
	l.sites.mu.Lock()
	defer l.sites.mu.Unlock()
	l.sites.handlers[host] = handler
}

// Visits are the requests and connections that came since the last call: "address
// host path", and "address" where nobody may come at all.
func (l *Lab) Visits() []string {
	l.sites.mu.Lock()
	defer l.sites.mu.Unlock()
	visits := l.sites.visits
	l.sites.visits = nil
	return visits
}

func (s *sites) note(visit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visits = append(s.visits, visit)
}

// ServeHTTP implements http.Handler.
func (s *sites) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	at := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	s.note(at.IP.String() + " " + r.Host + " " + r.URL.Path)
	s.mu.Lock()
	handler := s.handlers[host]
	s.mu.Unlock()
	if handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	_, _ = io.WriteString(w, "site "+host+"\n")
}

// noted is a listener that notes connections to addresses where nobody may come.
type noted struct {
	net.Listener

	sites *sites
}

func (n noted) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if at := conn.LocalAddr().(*net.TCPAddr).IP.String(); slices.Contains(Metadata, at) || strings.HasPrefix(at, "10.") {
		n.sites.note(at)
	}
	return conn, nil
}

// serve starts the servers of the internet.
func (l *Lab) serve() {
	l.t.Helper()
	l.names = &names{answers: map[string]func(dns.Question) []dns.RR{}, asked: map[string]int{}}
	l.sites = &sites{handlers: map[string]http.Handler{}}
	var queries, datagrams net.PacketConn
	streams := map[string]net.Listener{gateway + ":53": nil, ":80": nil, ":443": nil, ":7": nil, ":5432": nil}
	err := l.internet.inside(func() (err error) {
		for address := range maps.Keys(streams) {
			if streams[address], err = net.Listen("tcp", address); err != nil { //nolint:noctx // at once
				return err
			}
		}
		if queries, err = net.ListenPacket("udp", gateway+":53"); err != nil { //nolint:noctx // at once
			return err
		}
		datagrams, err = net.ListenPacket("udp", Datagrams+":7") //nolint:noctx // at once
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, server := range []*dns.Server{{PacketConn: queries, Handler: l.names}, {Listener: streams[gateway+":53"], Handler: l.names}} {
		l.background(server.ActivateAndServe, server.Shutdown)
	}
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	plain := &http.Server{Handler: l.sites, ErrorLog: silent, ReadHeaderTimeout: time.Minute}
	secure := &http.Server{Handler: l.sites, ErrorLog: silent, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{GetCertificate: l.authority.leaf, MinVersion: tls.VersionTLS12}}
	l.background(func() error { return plain.Serve(noted{streams[":80"], l.sites}) }, plain.Close)
	l.background(func() error { return secure.ServeTLS(noted{streams[":443"], l.sites}, "", "") }, secure.Close)
	for _, address := range []string{":7", ":5432"} {
		l.serveConns(noted{streams[address], l.sites}, func(conn net.Conn) {
			repeatTo(conn, conn)
			conn.Close()
		})
	}
	l.background(func() error { return repeat(datagrams) }, datagrams.Close)
}

// background serves until the test ends.
func (l *Lab) background(serve, stop func() error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = serve()
	}()
	l.stops = append(l.stops, func() {
		_ = stop()
		<-done
	})
}

func repeat(conn net.PacketConn) error {
	for buf := make([]byte, 2048); ; {
		n, from, err := conn.ReadFrom(buf)
		if err == nil {
			_, err = conn.WriteTo(buf[:n], from)
		}
		if err != nil {
			return err
		}
	}
}

// authority proves the sites.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	site *ecdsa.PrivateKey // of all sites
}

// newAuthority writes the certificate of a new one to a file.
func newAuthority(path string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	site, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the lab"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &authority{key, cert, site}, os.WriteFile(path, text, 0o644) //nolint:gosec // public
}

// leaf is the certificate of the site that a client asks for.
func (a *authority) leaf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: hello.ServerName}, DNSNames: []string{hello.ServerName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if hello.ServerName == "" {
		form.DNSNames = nil
	}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, a.site.Public(), a.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.site}, err
}
