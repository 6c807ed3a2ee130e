package networks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/network/relay"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/session/ids"
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

// The trust store of Debian and Alpine, from which update-ca-certificates makes the bundle
// and, with what Java's packages add to it, Java's store.
const (
	debianSources = "/usr/local/share/ca-certificates"
	debianStore   = "/etc/ssl/certs"
	javaStore     = "/etc/ssl/certs/java/cacerts"
)

// updateTime is for update-ca-certificates to put authorities into Java's store.
const updateTime = 30 * time.Second

// Environment is env with the placeholders of a policy's secrets, and with the places
// of the certificates that they, or the host's network, need. What the client set stays.
func (k *Keeper) Environment(env map[string]string, p Policy) map[string]string {
	if len(p.Secrets) == 0 && (len(k.opts.Authorities) == 0 || !p.Opens()) {
		return env
	}
	all := maps.Clone(trustVariables)
	maps.Copy(all, env)
	for _, s := range p.Secrets {
		all[s.Name] = s.Placeholder
	}
	return all
}

// trust has the programs of a sandbox trust the host's authorities, and that of its secrets
// if it has any, beside those of its image.
func (k *Keeper) trust(ctx context.Context, s Subject, authority *relay.Authority) error {
	var ours []byte // the sandbox's own first: some read only one
	if authority != nil && len(s.Policy.Secrets) > 0 {
		ours = authority.Certificate()
	}
	ours = append(ours, bytes.Join(k.opts.Authorities, nil)...)
	if s.Client == nil || len(ours) == 0 {
		return nil
	}
	bundle, all, err := imageBundle(ctx, s.Client)
	if err != nil {
		return err
	}
	if len(all) > 0 && all[len(all)-1] != '\n' {
		all = append(all, '\n')
	}
	for path, text := range map[string][]byte{trustAll: slices.Concat(all, ours), trustOurs: ours} {
		if err := put(ctx, s.Client, path, text); err != nil {
			return fmt.Errorf("write the certificates that a sandbox trusts: %w", err)
		}
	}
	if host := bytes.Join(k.opts.Authorities, nil); len(host) > 0 && !bytes.Contains(all, host) {
		if err := k.install(ctx, s.Client, bundle, slices.Concat(all, host)); err != nil {
			// A root that cannot be written is as good: programs follow the variables.
			k.opts.Log.DebugContext(ctx, "the host's authorities are not in the trust store of a sandbox's image", "session", s.ID, "err", err)
		}
	}
	return nil
}

// install puts the host's authorities into the image's own trust store, for programs that
// follow no variable, and so that they stay when the sandbox updates it.
func (k *Keeper) install(ctx context.Context, client *runnerclient.Client, bundle string, all []byte) error {
	if err := put(ctx, client, bundle, all); err != nil {
		return err
	}
	if _, err := client.Stat(ctx, protocol.Stat{Path: debianSources, AllowOutside: true}); err != nil {
		return err
	}
	for i, one := range k.opts.Authorities {
		name := fmt.Sprintf("sandkasten-host-%d", i+1)
		for _, path := range []string{debianSources + "/" + name + ".crt", debianStore + "/" + name + ".pem"} {
			if err := put(ctx, client, path, one); err != nil {
				return err
			}
		}
	}
	if _, err := client.Stat(ctx, protocol.Stat{Path: javaStore, Follow: true, AllowOutside: true}); err != nil {
		return nil //nolint:nilerr // there is no Java; its package takes what is in the store when it is installed
	}
	update := protocol.Start{ID: ids.New(), Cwd: "/", TimeoutMS: updateTime.Milliseconds(), GraceMS: time.Second.Milliseconds(), OutputLimit: 4 << 10}
	_, err := client.Run(ctx, update, runnerclient.Program{Args: []string{"update-ca-certificates"}}, io.Discard)
	return err
}

func put(ctx context.Context, client *runnerclient.Client, path string, text []byte) error {
	w := protocol.Write{Path: path, Mode: 0o644, AllowOutside: true}
	return client.Write(ctx, w, int64(len(text)), bytes.NewReader(text))
}

// imageBundle is the image's certificates and where they are, or the usual place and
// nothing if it has none.
func imageBundle(ctx context.Context, client *runnerclient.Client) (path string, bundle []byte, err error) {
	for _, path := range bundles {
		_, content, err := client.Read(ctx, protocol.Read{Path: path, AllowOutside: true})
		if errdefs.Is(err, errdefs.NotFound) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("read the image's certificates: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(content, maxBundle))
		if closing := content.Close(); err == nil {
			err = closing
		}
		return path, text, err
	}
	return bundles[0], nil, nil
}
