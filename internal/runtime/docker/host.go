package docker

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/connhelper"
	"github.com/moby/moby/client"
)

// connect prepares a client of the engine, without talking to it.
func connect(o Options) (*client.Client, error) {
	host := cmp.Or(o.Host, os.Getenv(client.EnvOverrideHost))
	var how []client.Opt
	switch {
	case strings.HasPrefix(host, "ssh://"):
		// A process of ssh per connection. It cannot ask anybody anything.
		ssh, err := connhelper.GetConnectionHelperWithSSHOpts(host, []string{"-oBatchMode=yes", "-oConnectTimeout=10"})
		if err != nil {
			return nil, fmt.Errorf("docker.host %s: %w", host, err)
		}
		how = []client.Opt{client.WithAPIVersionFromEnv(), client.WithHost(ssh.Host), client.WithDialContext(ssh.Dialer)}
	case o.CertPath != "":
		in := func(name string) string { return filepath.Join(o.CertPath, name) }
		how = []client.Opt{
			client.WithAPIVersionFromEnv(), client.WithTLSClientConfig(in("ca.pem"), in("cert.pem"), in("key.pem")), client.WithHost(host),
		}
	default:
		how = []client.Opt{client.FromEnv}
		if o.Host != "" {
			how = append(how, client.WithHost(o.Host))
		}
	}
	engine, err := client.New(how...)
	if err != nil {
		return nil, fmt.Errorf("prepare a client of the engine %s: %w", host, err)
	}
	return engine, nil
}
