// Package hostcas reads the authorities that this host trusts beside those that everybody
// does, as behind a network that signs TLS anew: what its administrator has put where the
// host's own tools look. Whom sandboxes trust is decided elsewhere.
package hostcas

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dirs are where administrators put authorities: on Debian and Alpine, Fedora, Arch and
// openSUSE.
var Dirs = []string{
	"/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors", "/etc/ca-certificates/trust-source/anchors", "/etc/pki/trust/anchors",
}

// Bounds of what is taken.
const (
	maxFile         = 1 << 20
	MaxCertificates = 64
)

// Of returns the authorities that a configuration names: those of this host, and of files.
func Of(host bool, files []string) ([][]byte, error) {
	if !host {
		return Read(nil, files)
	}
	return Read(Dirs, files)
}

// Read returns the certificates of all files in dirs and below them, where a directory may
// be missing, and of files, which must be there and have one. Each is PEM, and there once.
// Files of dirs that are no certificates are left out.
func Read(dirs, files []string) ([][]byte, error) {
	var all collector
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir() || !isCertificateName(path):
				return nil
			}
			if _, err = all.add(path); errors.Is(err, fs.ErrNotExist) {
				return nil // a link to what is gone
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the authorities of this host: %w", err)
		}
	}
	for _, file := range files {
		n, err := all.add(file)
		if err != nil {
			return nil, fmt.Errorf("read a file of authorities: %w", err)
		}
		if n == 0 {
			return nil, fmt.Errorf("%s has no certificate: it must be PEM, with BEGIN CERTIFICATE", file)
		}
	}
	if len(all.found) > MaxCertificates {
		return nil, fmt.Errorf("there are %d authorities, and at most %d can be passed on; list those that sandboxes need in network.ca_files, and set network.trust_host_cas to false", len(all.found), MaxCertificates)
	}
	return all.found, nil
}

func isCertificateName(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".crt", ".pem", ".cer":
		return true
	}
	return false
}

// collector takes each certificate once.
type collector struct {
	found [][]byte
	seen  map[string]bool
}

// add takes the certificates of a file, and returns how many it has.
func (c *collector) add(path string) (n int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return 0, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return n, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			continue
		}
		n++
		if c.seen[string(block.Bytes)] {
			continue
		}
		if c.seen == nil {
			c.seen = map[string]bool{}
		}
		c.seen[string(block.Bytes)] = true
		c.found = append(c.found, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
	}
}
