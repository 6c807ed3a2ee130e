package network

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Rule is one entry of a list.
type Rule struct {
	text     string       // as it was written
	name     string       // normalised, without the wildcard label; "" for addresses
	wildcard bool         // any one label stands in front of name
	prefix   netip.Prefix // of addresses; invalid for names
	ports    ports
}

// String is the rule as it was written.
func (r Rule) String() string { return r.text }

// ports are those that a rule is for.
type ports struct {
	first, last uint16
	web         bool // 80 and 443, since the entry has none
	explicit    bool // the entry has some
}

// anyPort asks for a rule whatever its ports are.
const anyPort = 0

func (p ports) has(port uint16) bool {
	switch {
	case port == anyPort:
		return true
	case p.web:
		return isWeb(port)
	}
	return p.first <= port && port <= p.last
}

// isWeb reports whether a port is one where clients speak TLS or HTTP.
func isWeb(port uint16) bool { return port == 80 || port == 443 }

// ParseRule parses an entry. One that opens a name without a port is for the ports
// 80 and 443; one that closes it is for all.
func ParseRule(text string, opens bool) (Rule, error) {
	if err := checkForm(text); err != nil {
		return Rule{}, err
	}
	host, portText, err := splitPort(text)
	if err != nil {
		return Rule{}, err
	}
	rule := Rule{text: text, ports: ports{first: 1, last: 65535}}
	if portText != "" {
		if rule.ports, err = parsePorts(portText); err != nil {
			return Rule{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	if prefix, ok := parsePrefix(host); ok {
		rule.prefix = prefix
		return rule, nil
	}
	rule.ports.web = opens && portText == ""
	name, wildcard := strings.CutPrefix(host, "*.")
	if rule.name, err = NormalName(name); err != nil {
		return Rule{}, fmt.Errorf("%q: %w", text, err)
	}
	if wildcard && !strings.Contains(rule.name, ".") {
		return Rule{}, fmt.Errorf("%q is for all of a top-level domain: name a domain below it", text)
	}
	rule.wildcard = wildcard
	return rule, nil
}

// checkForm refuses what people write who think of addresses of pages, and says what
// belongs there instead.
func checkForm(text string) error {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		return fmt.Errorf("%q: leave out %s:// and the path, as %s", text, scheme, host)
	}
	if text == "*" {
		return fmt.Errorf(`"*" is every host: use mode internet instead of a list`)
	}
	if host, _, ok := strings.Cut(text, "/"); ok {
		if _, err := netip.ParseAddr(host); err != nil {
			return fmt.Errorf("%q: leave out the path, as %s", text, host)
		}
	}
	return nil
}

// splitPort cuts an entry into host and port. An IPv6 address with a port stands
// in brackets.
func splitPort(text string) (host, port string, err error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		host, rest, closed := strings.Cut(inner, "]")
		switch {
		case !closed, rest != "" && rest[0] != ':', rest == ":":
			return "", "", fmt.Errorf("%q must be [address], [address]:port or [address]:port-port", text)
		case rest == "":
			return host, "", nil
		}
		return host, rest[1:], nil
	}
	if strings.Count(text, ":") > 1 {
		return text, "", nil // an IPv6 address
	}
	host, port, cut := strings.Cut(text, ":")
	if cut && port == "" {
		return "", "", fmt.Errorf("%q must not end in ':'", text)
	}
	return host, port, nil
}

func parsePorts(text string) (ports, error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, err1 := parsePort(from)
	last, err2 := parsePort(to)
	if err1 != nil || err2 != nil || first > last {
		return ports{}, fmt.Errorf("a port is 1 to 65535, and a range is like 8000-8010")
	}
	return ports{first: first, last: last, explicit: true}, nil
}

// parsePort takes decimal digits only: no sign and no leading zero.
func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, fmt.Errorf("not a port")
	}
	return uint16(n), nil
}

// parsePrefix takes an address or a CIDR.
func parsePrefix(text string) (netip.Prefix, bool) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = plain(addr)
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return prefix.Masked(), true
}

const (
	maxName  = 253
	maxLabel = 63
)

// NormalName is a host name in lower case, without the dot at its end. It refuses
// what is no name of letters, digits, '-' and '_', and what a program may take for
// an address.
func NormalName(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("a name has 1 to %d characters", maxName)
	}
	// Lowering first would make k of a Kelvin sign.
	if strings.ContainsFunc(name, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return "", fmt.Errorf("a name has letters, digits, '-', '_' and '.' only; write others as xn--")
	}
	name = strings.ToLower(name)
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > maxLabel {
			return "", fmt.Errorf("a label of a name has 1 to %d characters", maxLabel)
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", fmt.Errorf("a name has letters, digits, '-', '_' and '.' only; write others as xn--")
			}
		}
	}
	if last := labels[len(labels)-1]; isNumber(last) {
		return "", fmt.Errorf("a name does not end in a number, and an address is like 192.0.2.1 or 2001:db8::1")
	}
	return name, nil
}

// isNumber reports whether programs may take a last label for part of an address:
// 127.1 and 0x7f.1 are addresses to some.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func (r Rule) hasName(name string) bool {
	switch {
	case r.prefix.IsValid():
		return false
	case !r.wildcard:
		return r.name == name
	}
	label, rest, cut := strings.Cut(name, ".")
	return cut && label != "" && rest == r.name
}

// findName returns the first rule for a port of a name.
func findName(rules []Rule, name string, port uint16) (Rule, bool) {
	for _, r := range rules {
		if r.hasName(name) && r.ports.has(port) {
			return r, true
		}
	}
	return Rule{}, false
}

// findAddr returns the first rule for a port of an address, as it is written or as
// the one that it leads to.
func findAddr(rules []Rule, addr netip.Addr, port uint16) (Rule, bool) {
	addr = addr.WithZone("").Unmap()
	for _, r := range rules {
		if r.prefix.IsValid() && (r.prefix.Contains(addr) || r.prefix.Contains(plain(addr))) && r.ports.has(port) {
			return r, true
		}
	}
	return Rule{}, false
}

func hasNames(rules []Rule) bool {
	for _, r := range rules {
		if r.name != "" {
			return true
		}
	}
	return false
}
