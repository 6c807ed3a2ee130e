package images

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/internal/images/chroot"
)

// A step downloads as this host does: by its proxies, from its indexes and
// registries, with its credentials and its certificates. They are there while the
// step runs, and in no layer.
var passedOn = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT",
	"NPM_CONFIG_REGISTRY", "npm_config_registry",
}

// lentFile is a file of the host: the first that there is, and the variables that
// name it in the step.
type lentFile struct {
	name      string
	from      []string // a name of a variable begins with $
	variables []string
}

var lentFiles = []lentFile{
	{"pip.conf", []string{"$PIP_CONFIG_FILE", "~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf"}, []string{"PIP_CONFIG_FILE"}},
	{"npmrc", []string{"$NPM_CONFIG_USERCONFIG", "~/.npmrc", "/etc/npmrc"}, []string{"NPM_CONFIG_USERCONFIG"}},
	{
		"ca.crt",
		[]string{"$SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"},
		[]string{"SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE", "GIT_SSL_CAINFO"},
	},
}

// lendClients gives a step the configuration of this host's clients, and returns
// the variables that say so.
func lendClients(c chroot.Command) ([]string, error) {
	var env []string
	for _, name := range passedOn {
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, f := range lentFiles {
		data, err := f.read()
		if err != nil {
			return nil, err
		}
		if data == nil {
			continue
		}
		if err := c.RunFile(f.name, data); err != nil {
			return nil, err
		}
		for _, v := range f.variables {
			env = append(env, v+"=/run/"+f.name)
		}
	}
	return env, nil
}

// read returns nil if the host has no such file.
func (f lentFile) read() ([]byte, error) {
	home, _ := os.UserHomeDir() // a service may have none
	for _, from := range f.from {
		if name, ok := strings.CutPrefix(from, "$"); ok {
			from = os.Getenv(name)
		}
		if rest, ok := strings.CutPrefix(from, "~/"); ok {
			if home == "" {
				continue
			}
			from = filepath.Join(home, rest)
		}
		if from == "" {
			continue
		}
		data, err := os.ReadFile(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		return data, err
	}
	return nil, nil
}
