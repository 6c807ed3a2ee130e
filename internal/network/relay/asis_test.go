package relay_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/relay"
)

// TestPathsAndQueriesPassAsTheyCame has a host see the request line that a sandbox wrote,
// over plain HTTP and where the relay stands for the host.
func TestPathsAndQueriesPassAsTheyCame(t *testing.T) {
	authority, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	secret := network.Secret{Name: "TOKEN", Hosts: []string{"example.com"}, Query: "key", Value: "the-real-one", Placeholder: network.NewPlaceholder()}
	example := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(example.Close)
	roots := x509.NewCertPool()
	roots.AddCert(example.Certificate())
	w := newWorld(t, network.Policy{Mode: network.Allow, Allow: []string{"example.com"}}, network.Operator{}, func(o *relay.Options) {
		o.Authority, o.Secrets, o.Roots = authority, []network.Secret{secret}, roots
	})
	w.resolve("example.com", "198.51.100.5")
	w.at("198.51.100.5:443", lineServer(t, &tls.Config{Certificates: example.TLS.Certificates}))
	w.at("198.51.100.5:80", lineServer(t, nil))
	w.mustAsk("example.com", dns.TypeA)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority.Certificate())
	for _, target := range []string{
		"/x?flag&style=a;b&import", "/a%2Fb?", "/%zz", "/100%", "/a//b", "//a/b", "//a/{b}/%zz?x&key=" + secret.Placeholder, "/a/../../b/./c", "/%2e%2e/x", "/{a}|b?c={d}&%zz", "/ä",
	} {
		for _, port := range []string{"80", "443"} {
			conn, err := w.connect("198.51.100.5:" + port)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			want := "GET " + target + " HTTP/1.1"
			if port == "443" {
				conn = tls.Client(conn, &tls.Config{ServerName: "example.com", RootCAs: trusted})
				want = strings.ReplaceAll(want, secret.Placeholder, "the-real-one")
			}
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: example.com\r\n\r\n", target)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("port %s, %s: %v", port, target, err)
				continue
			}
			answer.Body.Close()
			conn.Close()
			// In an answer the relay puts the placeholder for the secret again.
			if got := strings.ReplaceAll(answer.Header.Get("X-Line"), secret.Placeholder, "the-real-one"); got != strings.ReplaceAll(want, secret.Placeholder, "the-real-one") {
				t.Errorf("port %s: %q arrives as %q, with status %d", port, want, got, answer.StatusCode)
			}
		}
	}
}

// lineServer answers with the line of each request, and returns its address.
func lineServer(t *testing.T, secure *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				from := bufio.NewReader(c)
				line, err := from.ReadString('\n')
				for field := "x"; err == nil && strings.TrimSpace(field) != ""; {
					field, err = from.ReadString('\n')
				}
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Line: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", strings.TrimSpace(line))
			}()
		}
	}()
	return l.Addr().String()
}
