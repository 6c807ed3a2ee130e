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

// Compiled is a secret with what answers are searched for.
type Compiled struct {
	Secret

	forms []string // see Secret.forms
}

func compiled(s Secret) Compiled { return Compiled{s, s.forms()} }

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

// Secrets are those of one sandbox, by the hosts that may get them. What is asked of them
// at each connection and request costs the same for one and for thousands of hosts.
type Secrets struct {
	all   []Compiled
	names map[string][]int // of all, by a host's name
	below map[string][]int // by the domain that hosts are one label below, of entries as *.example.org
}

// CompileSecrets returns those of a list, each of which Check takes.
func CompileSecrets(all []Secret) *Secrets {
	s := &Secrets{names: map[string][]int{}, below: map[string][]int{}}
	for i, one := range all {
		s.all = append(s.all, compiled(one))
		for _, host := range one.Hosts {
			rule, err := ParseRule(host, false)
			if err != nil || rule.name == "" {
				continue
			}
			by := s.names
			if rule.wildcard {
				by = s.below
			}
			if !slices.Contains(by[rule.name], i) {
				by[rule.name] = append(by[rule.name], i)
			}
		}
	}
	return s
}

// For are the secrets that a host may get, in the order of the list. The name is
// normalised.
func (s *Secrets) For(name string) []Compiled {
	found := s.names[name]
	if label, domain, cut := strings.Cut(name, "."); cut && label != "" && len(s.below[domain]) > 0 {
		found = slices.Concat(found, s.below[domain])
		slices.Sort(found)
	}
	var secrets []Compiled
	for n, i := range found {
		if n > 0 && i == found[n-1] {
			continue // by two entries
		}
		secrets = append(secrets, s.all[i])
	}
	return secrets
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
