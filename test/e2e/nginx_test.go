package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

const (
	proxiedName   = "sandkasten.example.org"
	proxiedDomain = "preview.example.org"
)

// front is a real proxy, with its configuration of deploy/tls, in front of a daemon.
type front struct {
	t       *testing.T
	daemon  *blackbox.Daemon
	address string
	client  *http.Client
}

// TestNginxInFront is docs/tls.md: what the page promises works through the
// configuration that it gives.
func TestNginxInFront(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	if _, err := exec.LookPath("nginx"); err != nil {
		testenv.Unsupported(t, "no nginx")
	}
	n := startNginx(t)
	n.promises(t)
	t.Run("a name that is not ours", func(t *testing.T) {
		if r := n.do(t, "GET", "other.example.org", "/v1/info", ""); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s", r.Status)
		}
	})
}

// promises is what docs/tls.md says of each proxy.
func (n *front) promises(t *testing.T) {
	var session struct{ ID string }
	n.json("POST", proxiedName, "/v1/sessions", `{"image":"base"}`, http.StatusCreated, &session)
	path := "/v1/sessions/" + session.ID
	t.Run("a stream comes as it is written", func(t *testing.T) { n.stream(t, path) })
	t.Run("a terminal", func(t *testing.T) { n.terminal(t, path) })
	t.Run("a large file", func(t *testing.T) { n.upload(t, path) })
	t.Run("a preview at its host", func(t *testing.T) { n.preview(t, path) })
}

// startProxied starts a daemon as docs/tls.md configures it.
func startProxied(t *testing.T) *blackbox.Daemon {
	t.Helper()
	return blackbox.Start(t, blackbox.Options{
		Config: fmt.Sprintf("allowed_hosts: [%s]\ntrusted_proxies: [127.0.0.1]\npreview: {domain: %s, https: true}", proxiedName, proxiedDomain),
	})
}

// startNginx replaces in the configuration what depends on the host, and nothing else.
func startNginx(t *testing.T) *front {
	t.Helper()
	d := startProxied(t)
	text, err := os.ReadFile("../../deploy/tls/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), unusedAddress(t)
	pool := writeCertificate(t, dir)
	site := string(text)
	for _, pair := range [][2]string{
		{"server 127.0.0.1:8787;", "server " + strings.TrimPrefix(d.URL, "http://") + ";"},
		{"listen 443 ssl;", "listen " + address + " ssl;"},
		{"listen 80;", "listen " + unusedAddress(t) + ";"},
		{"/etc/ssl/sandkasten/", dir + "/"},
		{"/etc/ssl/sandkasten/", dir + "/"},
	} {
		if !strings.Contains(site, pair[0]) {
			t.Fatalf("the configuration has no %q", pair[0])
		}
		site = strings.Replace(site, pair[0], pair[1], 1)
	}
	conf := fmt.Sprintf("daemon off;\nmaster_process off;\npid %[1]s/pid;\nerror_log %[1]s/error.log;\nevents {}\nhttp {\naccess_log off;\n"+
		"client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;\n%[2]s}\n", dir, site)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return startFront(t, d, address, pool, exec.CommandContext(t.Context(), "nginx", "-e", filepath.Join(dir, "error.log"), "-c", file, "-p", dir))
}

// startFront starts a proxy, and waits until it listens.
func startFront(t *testing.T, d *blackbox.Daemon, address string, pool *x509.CertPool, cmd *exec.Cmd) *front {
	t.Helper()
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	dialer := &net.Dialer{}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	n := &front{t, d, address, &http.Client{Transport: transport}}
	testenv.Eventually(t, "the proxy listens", func() bool {
		c, err := dialer.DialContext(t.Context(), "tcp", address)
		return err == nil && c.Close() == nil
	})
	return n
}

func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// writeCertificate writes one for both names, and returns who trusts it.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: proxiedName}, DNSNames: []string{proxiedName, "*." + proxiedDomain, "other.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"fullchain.pem": cert, "privkey.pem": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool
}

// do makes a request at a name; the test's end closes its answer.
func (n *front) do(t *testing.T, method, name, path, body string, headers ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+name+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.daemon.Key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := n.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r
}

func (n *front) json(method, name, path, body string, status int, into any) {
	n.t.Helper()
	r := n.do(n.t, method, name, path, body)
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != status {
		n.t.Fatalf("%s %s: %s %s, %v", method, path, r.Status, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		n.t.Fatal(err)
	}
}

// stream has a command wait for its first output to be read: a proxy that gathers it
// would wait for ever.
func (n *front) stream(t *testing.T, path string) {
	r := n.do(t, "POST", proxiedName, path+"/exec/stream", `{"cmd":"mkfifo gate; echo first; cat gate","timeout_ms":20000}`)
	lines := bufio.NewScanner(r.Body)
	seen := func(text string) bool {
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return true
			}
		}
		return false
	}
	if !seen(`"chunk":"first\n"`) {
		t.Fatalf("%s: no output, %v", r.Status, lines.Err())
	}
	n.do(t, "POST", proxiedName, path+"/exec", `{"cmd":"echo second >gate","shell":"other"}`)
	if !seen(`"chunk":"second\n"`) || !seen("event: done") {
		t.Errorf("the stream broke: %v", lines.Err())
	}
}

func (n *front) terminal(t *testing.T, path string) {
	ws, _, err := websocket.Dial(t.Context(), "wss://"+proxiedName+path+"/terminal?cmd=echo+up", &websocket.DialOptions{
		HTTPClient: n.client, HTTPHeader: http.Header{"Authorization": {"Bearer " + n.daemon.Key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	for screen := ""; !strings.Contains(screen, "up"); {
		_, text, err := ws.Read(t.Context())
		if err != nil {
			t.Fatalf("%q, %v", screen, err)
		}
		screen += string(text)
	}
}

// upload sends more than nginx takes by itself.
func (n *front) upload(t *testing.T, path string) {
	r := n.do(t, "PUT", proxiedName, path+"/fs/raw?path=large", strings.Repeat("x", 5<<20), "Content-Type", "application/octet-stream")
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("%s %s, %v", r.Status, text, err)
	}
}

func (n *front) preview(t *testing.T, path string) {
	n.do(t, "POST", proxiedName, path+"/processes", `{"cmd":["sh","-c","mkdir -p /tmp/web && cd /tmp/web && echo hello >page && exec python3 -m http.server 3000"],"background":true}`)
	var made struct{ URL, Token string }
	n.json("POST", proxiedName, path+"/previews", `{"port":3000}`, http.StatusCreated, &made)
	name, _, _ := strings.Cut(strings.TrimPrefix(made.URL, "https://"), "/")
	if !strings.HasSuffix(name, "."+proxiedDomain) {
		t.Fatalf("the preview is at %s", made.URL)
	}
	testenv.Eventually(t, "the server answers through the proxy", func() bool {
		r := n.do(t, "GET", name, "/page", "", "X-Preview-Token", made.Token, "Authorization", "")
		text, err := io.ReadAll(r.Body)
		return err == nil && r.StatusCode == http.StatusOK && string(text) == "hello\n"
	})
}
