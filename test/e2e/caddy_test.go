package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestCaddyInFront is docs/tls.md with Caddy. Its certificate of the API's name is from an
// authority of its own, as nobody gives it one here.
func TestCaddyInFront(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Parallel()
	if _, err := exec.LookPath("caddy"); err != nil {
		testenv.Unsupported(t, "no caddy")
	}
	startCaddy(t).promises(t)
}

// startCaddy replaces in the configuration what depends on the host, and nothing else.
func startCaddy(t *testing.T) *front {
	t.Helper()
	d := startProxied(t)
	text, err := os.ReadFile("../../deploy/tls/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), unusedAddress(t)
	pool := writeCertificate(t, dir)
	site := string(text)
	for _, pair := range [][2]string{{"127.0.0.1:8787", strings.TrimPrefix(d.URL, "http://")}, {"/etc/ssl/sandkasten/", dir + "/"}} {
		if !strings.Contains(site, pair[0]) {
			t.Fatalf("the configuration has no %q", pair[0])
		}
		site = strings.ReplaceAll(site, pair[0], pair[1])
	}
	conf := fmt.Sprintf("{\n\tadmin off\n\tlocal_certs\n\tskip_install_trust\n\tdefault_bind 127.0.0.1\n\thttp_port %s\n\thttps_port %s\n\tstorage file_system %s\n}\n%s",
		portOf(t, unusedAddress(t)), portOf(t, address), dir, site)
	file := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "caddy", "run", "--config", file, "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	n := startFront(t, d, address, pool, cmd)
	testenv.Eventually(t, "caddy has an authority", func() bool {
		root, err := os.ReadFile(filepath.Join(dir, "pki", "authorities", "local", "root.crt"))
		return err == nil && pool.AppendCertsFromPEM(root)
	})
	return n
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
