package networks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/protocol"
)

// Where the certificates are that programs of a sandbox with secrets trust: in a file
// system that every sandbox can write, whatever its root is.
const (
	trustDir  = "/dev/shm/sandkasten"
	trustAll  = trustDir + "/ca-certificates.crt" // the image's and ours
	trustOurs = trustDir + "/sandkasten.crt"
)

// maxBundle bounds the image's certificates.
const maxBundle = 4 << 20

// bundles are where images keep theirs: Debian and Alpine, Fedora, openSUSE.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"}

// trustVariables say where the certificates are: to OpenSSL and Go, Python's requests,
// pip, curl, git, Node, Deno, cargo and Amazon's clients.
var trustVariables = map[string]string{
	"SSL_CERT_FILE": trustAll, "REQUESTS_CA_BUNDLE": trustAll, "PIP_CERT": trustAll, "CURL_CA_BUNDLE": trustAll, "GIT_SSL_CAINFO": trustAll,
	"CARGO_HTTP_CAINFO": trustAll, "AWS_CA_BUNDLE": trustAll, "NODE_EXTRA_CA_CERTS": trustOurs, "DENO_CERT": trustOurs,
}

// Environment is env with the placeholders of a policy's secrets, and with the places
// of the certificates that they need. What the client set stays.
func Environment(env map[string]string, p Policy) map[string]string {
	if len(p.Secrets) == 0 {
		return env
	}
	all := maps.Clone(trustVariables)
	maps.Copy(all, env)
	for _, s := range p.Secrets {
		all[s.Name] = s.Placeholder
	}
	return all
}

// trust has the programs of a sandbox trust an authority beside those of its image.
func trust(ctx context.Context, client *runnerclient.Client, authority *relay.Authority) error {
	if client == nil || authority == nil {
		return nil
	}
	ours := authority.Certificate()
	all, err := imageBundle(ctx, client)
	if err != nil {
		return err
	}
	if len(all) > 0 && all[len(all)-1] != '\n' {
		all = append(all, '\n')
	}
	for path, text := range map[string][]byte{trustAll: append(all, ours...), trustOurs: ours} {
		w := protocol.Write{Path: path, Mode: 0o644, AllowOutside: true}
		if err := client.Write(ctx, w, int64(len(text)), bytes.NewReader(text)); err != nil {
			return fmt.Errorf("write the certificates that a sandbox trusts: %w", err)
		}
	}
	return nil
}

// imageBundle is the image's certificates, or nothing if it has none.
func imageBundle(ctx context.Context, client *runnerclient.Client) ([]byte, error) {
	for _, path := range bundles {
		_, content, err := client.Read(ctx, protocol.Read{Path: path, AllowOutside: true})
		if errdefs.Is(err, errdefs.NotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the image's certificates: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(content, maxBundle))
		if closing := content.Close(); err == nil {
			err = closing
		}
		return text, err
	}
	return nil, nil
}
