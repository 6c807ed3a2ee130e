package daemon

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// Sandboxes with a network trust the authorities of the configuration, by the variables
// that clients follow and in the trust store of their image, and others have none of it.
func TestSandboxesTrustTheAuthoritiesOfTheHost(t *testing.T) {
	testenv.NeedsRoot(t)
	authority, err := relay.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.Pool.Enabled = false
	file := filepath.Join(t.TempDir(), "company.pem")
	if err := os.WriteFile(file, authority.Certificate(), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.Network.TrustHostCAs, cfg.Network.CAFiles = false, []string{file}
	giveClients(t, cfg, "base", map[string]string{
		"debian": "#!/bin/sh\nmkdir -p /usr/local/share/ca-certificates /etc/ssl/certs\necho of the image >/etc/ssl/certs/ca-certificates.crt\n",
	})
	d, _ := start(t, cfg)
	c := call(t, d, cfg)
	const count = `printf 'image %d, bundle %d, file %d, store %d\n' "$(grep -c BEGIN /etc/ssl/certs/ca-certificates.crt)" ` +
		`"$(grep -c BEGIN "${SSL_CERT_FILE:-/dev/null}")" "$(grep -c BEGIN "${NODE_EXTRA_CA_CERTS:-/dev/null}")" ` +
		`"$(cat /usr/local/share/ca-certificates/sandkasten-host-1.crt /etc/ssl/certs/sandkasten-host-1.pem 2>/dev/null | grep -c BEGIN)"`
	id := c.do(http.MethodPost, "", `{"image":"base"}`)["id"].(string)
	c.exec(id, "debian; "+count, "image 0, bundle 0, file 0, store 0\n")
	c.do(http.MethodPut, "/"+id+"/network", `{"mode":"allow","allow":["example.org"]}`)
	c.exec(id, count, "image 1, bundle 0, file 0, store 2\n") // its variables are those of its beginning
	c.do(http.MethodDelete, "/"+id, "")
	id = c.do(http.MethodPost, "", `{"image":"base","network":{"mode":"allow","allow":["example.org"]}}`)["id"].(string)
	c.exec(id, "[ $(grep -c BEGIN $SSL_CERT_FILE) -ge 1 ] && cat $NODE_EXTRA_CA_CERTS", string(authority.Certificate()))
	c.do(http.MethodDelete, "/"+id, "")
}
