package network

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Secret is a credential that stays outside of a sandbox. Programs in it send
// Placeholder, and the relay puts Value in its place, for Hosts and in the one
// place that is named here.
type Secret struct {
	Name  string   // of the environment variable that has the placeholder
	Hosts []string // as entries of allow, without ports
	// Header is where the placeholder may stand, alone, behind a scheme like Bearer,
	// or as a part of basic authentication. Query is the parameter where it may.
	Header, Query string
	Value         string // what the host gets: of a header, with its scheme or without

	Placeholder string // made by NewPlaceholder
}

// NewPlaceholder is worth nothing, and found nowhere by chance.
func NewPlaceholder() string {
	var random [16]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return "placeholder-" + hex.EncodeToString(random[:])
}

// MaxSecret bounds a value in bytes: as a header, it has to fit into what servers
// take.
const MaxSecret = 16 << 10

// minSecret is how short a value can be that is searched for in answers.
const minSecret = 8

// Check refuses a secret that cannot be sent.
func (s Secret) Check() error {
	if field, rule := s.Fault(); field != "" {
		return errdefs.Invalid("network.secrets", "has a secret %q whose %s %s", s.Name, field, rule)
	}
	return nil
}

// Fault names the field that keeps a secret from being sent, and a rule that reads
// on from its name. Both are empty if there is none.
func (s Secret) Fault() (field, rule string) {
	switch {
	case s.Name == "":
		return "name", "must be given"
	case len(s.Hosts) == 0:
		return "hosts", "must say who may get it"
	case (s.Header == "") == (s.Query == ""):
		return "header", "must say where it goes, or query, and not both"
	case s.Value == "" || len(s.Value) > MaxSecret:
		return "value", fmt.Sprintf("must have 1 to %d bytes", MaxSecret)
	case s.Header != "" && strings.Trim(s.Header, headerCharacters) != "":
		return "header", "must be the name of a header"
	case len(s.token()) < minSecret || strings.TrimSpace(s.Value) != s.Value:
		return "value", fmt.Sprintf("must have at least %d characters, without space around it", minSecret)
	case strings.ContainsFunc(s.Value, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "value", "must not have control characters"
	}
	switch http.CanonicalHeaderKey(s.Header) {
	case "Host", "Connection", "Upgrade", "Content-Length", "Transfer-Encoding", "Te", "Trailer":
		return "header", "must not be one of the connection's, as " + s.Header + " is"
	}
	for _, host := range s.Hosts {
		rule, err := ParseRule(host, false)
		if err != nil {
			return "hosts", "must be names: " + err.Error()
		}
		if rule.prefix.IsValid() || rule.ports.explicit {
			return "hosts", fmt.Sprintf("must be names without ports, and %q is none", host)
		}
	}
	return "", ""
}

const headerCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// IsFor reports whether a host may get the secret. The name is normalised.
func (s Secret) IsFor(name string) bool {
	return slices.ContainsFunc(s.Hosts, func(host string) bool {
		rule, err := ParseRule(host, false)
		return err == nil && rule.hasName(name)
	})
}

// Fill puts the value where the placeholder stands in a request, and reports
// whether it did.
func (s Secret) Fill(u *url.URL, header http.Header) bool {
	if s.Query != "" {
		return s.fillQuery(u)
	}
	filled := false
	values := header[http.CanonicalHeaderKey(s.Header)]
	for i, value := range values {
		if text, ok := s.fillHeader(value); ok {
			values[i], filled = text, true
			break // once, so that a request does not grow by what it repeats
		}
	}
	return filled
}

func (s Secret) fillHeader(value string) (string, bool) {
	scheme, rest, cut := strings.Cut(value, " ")
	if cut && strings.EqualFold(scheme, "Basic") {
		pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
		if err != nil || !strings.Contains(string(pair), s.Placeholder) {
			return "", false
		}
		return scheme + " " + base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(pair), s.Placeholder, s.Value, 1))), true
	}
	if !strings.Contains(value, s.Placeholder) {
		return "", false
	}
	// Both may have the scheme.
	if own, _, has := strings.Cut(s.Value, " "); cut && has && strings.EqualFold(own, scheme) && strings.TrimSpace(rest) == s.Placeholder {
		return s.Value, true
	}
	return strings.Replace(value, s.Placeholder, s.Value, 1), true
}

func (s Secret) fillQuery(u *url.URL) bool {
	filled := false
	parts := strings.Split(u.RawQuery, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		if plainName, err := url.QueryUnescape(name); err != nil || plainName != s.Query {
			continue
		}
		plainValue, err := url.QueryUnescape(value)
		if err != nil || !strings.Contains(plainValue, s.Placeholder) {
			continue
		}
		parts[i] = name + "=" + url.QueryEscape(strings.Replace(plainValue, s.Placeholder, s.Value, 1))
		filled = true
		break
	}
	u.RawQuery = strings.Join(parts, "&")
	return filled
}

// token is the value without its scheme.
func (s Secret) token() string {
	if _, rest, cut := strings.Cut(s.Value, " "); cut {
		return rest
	}
	return s.Value
}
