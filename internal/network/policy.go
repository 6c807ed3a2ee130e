// Package network decides what a sandbox may reach. It holds the policy as
// clients write it, the rules that a policy becomes, and the addresses that no
// rule opens. It decides only: package door leads connections out of a sandbox's
// network namespace, and package relay carries them.
package network

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
)

// Mode says what a sandbox can reach in general. The strings are part of the API.
type Mode string

// The modes. None is the default.
const (
	None     Mode = "none"     // loopback only
	Allow    Mode = "allow"    // what the list names, and nothing else
	Internet Mode = "internet" // all public addresses
	Full     Mode = "full"     // public and private addresses, never those of the host
)

// MaxEntries bounds the entries of one list.
const MaxEntries = 256

// Policy is what a client may say. Its zero value is mode none.
//
// An entry of Allow and Deny is a host name, one with a leading wildcard label
// ("*.example.org": one label, not none and not two), an address or a CIDR, each
// with an optional ":port" or ":port-port", or the name of a group with an '@' in
// front. Names in Allow mean the ports 80 and 443 where there is no port, all
// other entries mean every port. Deny beats allow.
type Policy struct {
	Mode    Mode
	Allow   []string
	Deny    []string
	MaxMbit int // of all connections together, in each direction; 0 is no limit

	MaxConnections       int // at once, flows of UDP among them; 0 is the relay's default
	ConnectionsPerSecond int // new ones; 0 is the relay's default
	MaxMB                int // in both directions together, while the way out stands; 0 is no limit
}

// The bounds of limits.
const (
	MostConnections          = 4096
	MostConnectionsPerSecond = 10000
	MostMB                   = 1 << 40 // so that bytes fit into 64 bits
)

// Operator is what the operator allows policies to ask for.
type Operator struct {
	AllowPrivate   bool                  // policies may open private addresses, by entries or by mode full
	MaxConnections int                   // that a policy may have at once; 0 is MostConnections
	Groups         map[string][]string   // entries of each group, by its name without the '@'
	Own            func(netip.Addr) bool // reports an address of the host, which nobody reaches; nil knows none
}

// Rules is a compiled policy. It does not change.
type Rules struct {
	mode        Mode
	allow, deny []Rule
	private     bool
	groups      map[string][]string // that more entries may name
	own         func(netip.Addr) bool
	limits      limits
	ceiling     *Rules // that decides too; nil is none
}

// limits are those of a policy, with 0 for none or a default.
type limits struct {
	mbit, connections, perSecond, megabytes int
}

// Compile checks a policy. An error names the field of the request at fault.
func Compile(p Policy, o Operator) (*Rules, error) {
	mode := p.Mode
	if mode == "" {
		mode = None
	}
	r := &Rules{mode: mode, private: o.AllowPrivate, groups: o.Groups, own: o.Own}
	switch mode {
	case None, Allow, Internet:
	case Full:
		if !o.AllowPrivate {
			return nil, errdefs.New(errdefs.PermissionDenied, "network.mode full reaches private addresses, which this daemon does not allow: set network.allow_private, or choose internet")
		}
	default:
		return nil, errdefs.Invalid("network.mode", "must be none, allow, internet or full")
	}
	if mode != Allow && len(p.Allow) > 0 {
		return nil, errdefs.Invalid("network.allow", "needs the mode allow: in mode %s it would change nothing", mode)
	}
	var err error
	if r.limits, err = checkLimits(p, o); err != nil {
		return nil, err
	}
	if r.allow, err = parseList("network.allow", p.Allow, o.Groups, true); err != nil {
		return nil, err
	}
	if r.deny, err = parseList("network.deny", p.Deny, o.Groups, false); err != nil {
		return nil, err
	}
	if err := r.checkPrivate(r.allow); err != nil {
		return nil, err
	}
	return r, nil
}

// checkPrivate refuses entries for addresses that the operator lets no policy open.
func (r *Rules) checkPrivate(rules []Rule) error {
	for _, rule := range rules {
		if !rule.prefix.IsValid() {
			continue
		}
		switch kind := r.kindOfAll(rule.prefix); {
		case kind == forbidden:
			return errdefs.Invalid("network.allow", "must not have %s: the addresses of the host, of links and of metadata services are never reached", rule.text)
		case kind == private && !r.private:
			return errdefs.Invalid("network.allow", "must not have %s: it is a private address, which this daemon opens only if its operator sets network.allow_private", rule.text)
		}
	}
	return nil
}

func checkLimits(p Policy, o Operator) (limits, error) {
	connections := MostConnections
	if o.MaxConnections > 0 {
		connections = min(connections, o.MaxConnections)
	}
	for _, limit := range []struct {
		field      string
		value, max int
	}{
		{"network.max_mbit", p.MaxMbit, math.MaxInt},
		{"network.max_connections", p.MaxConnections, connections},
		{"network.connections_per_second", p.ConnectionsPerSecond, MostConnectionsPerSecond},
		{"network.max_mb", p.MaxMB, MostMB},
	} {
		if limit.value < 0 {
			return limits{}, errdefs.Invalid(limit.field, "must not be negative")
		}
		if limit.value > limit.max {
			return limits{}, errdefs.Invalid(limit.field, "must be at most %d", limit.max)
		}
	}
	return limits{mbit: p.MaxMbit, connections: p.MaxConnections, perSecond: p.ConnectionsPerSecond, megabytes: p.MaxMB}, nil
}

// otherGroups are names under which people look for a group.
var otherGroups = map[string]string{
	"pypi": "pip", "python": "pip", "uv": "pip", "npmjs": "npm", "node": "npm", "yarn": "npm", "pnpm": "npm", "debian": "apt", "ubuntu": "apt", "golang": "go", "crates": "cargo", "rust": "cargo",
}

// errNoGroup says which groups there are, and which one may be meant.
func errNoGroup(field, name string, groups map[string][]string) error {
	hint := ""
	if other := otherGroups[name]; groups[other] != nil {
		hint = "; did you mean @" + other + "?"
	}
	if len(groups) == 0 {
		return errdefs.Invalid(field, "must not have @%s: this daemon has no groups", name)
	}
	return errdefs.Invalid(field, "must not have @%s: there is no group of that name, only @%s%s", name, strings.Join(slices.Sorted(maps.Keys(groups)), ", @"), hint)
}

func parseList(field string, entries []string, groups map[string][]string, opens bool) ([]Rule, error) {
	if len(entries) > MaxEntries {
		return nil, errdefs.Invalid(field, "must have at most %d entries", MaxEntries)
	}
	var rules []Rule
	for _, entry := range entries {
		texts := []string{entry}
		if name, isGroup := strings.CutPrefix(entry, "@"); isGroup {
			members, ok := groups[name]
			if !ok {
				return nil, errNoGroup(field, name, groups)
			}
			texts = members
		}
		for _, text := range texts {
			rule, err := ParseRule(text, opens)
			if err != nil {
				return nil, errdefs.Invalid(field, "must be names, addresses or groups: %s", err)
			}
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

// Mode is the policy's, never "".
func (r *Rules) Mode() Mode { return r.mode }

// MaxMbit is the policy's.
func (r *Rules) MaxMbit() int { return r.limits.mbit }

// MaxConnections is the policy's.
func (r *Rules) MaxConnections() int { return r.limits.connections }

// ConnectionsPerSecond is the policy's.
func (r *Rules) ConnectionsPerSecond() int { return r.limits.perSecond }

// MaxMB is the policy's.
func (r *Rules) MaxMB() int { return r.limits.megabytes }

// Verdict is a decision with its reason, for people.
type Verdict struct {
	Allowed bool
	Why     string // the entry that decided, or what is missing
	// Inspect says that what the connection carries has to name an allowed host.
	Inspect bool
	// Raw says that a connection that carries neither TLS nor HTTP may pass.
	Raw bool
}

func refused(why string) Verdict { return Verdict{Why: why} }

// Resolve decides whether a name may be resolved. The name is normalised.
func (r *Rules) Resolve(name string) Verdict {
	if r.ceiling != nil {
		return r.resolve(name).both(r.ceiling.resolve(name))
	}
	return r.resolve(name)
}

func (r *Rules) resolve(name string) Verdict {
	if rule, ok := findName(r.deny, name, anyPort); ok {
		return refused("denied by " + rule.text)
	}
	switch r.mode {
	case Internet, Full:
		return Verdict{Allowed: true, Why: "mode " + string(r.mode)}
	case Allow:
		if rule, ok := r.findAllowed(name, anyPort); ok {
			return Verdict{Allowed: true, Why: rule.text}
		}
		return refused("no entry of allow names it")
	}
	return refused("mode none")
}

// Connect decides on a connection to a port of addr, which names was resolved for
// this sandbox lately. Names are normalised.
func (r *Rules) Connect(addr netip.Addr, port uint16, names []string) Verdict {
	if r.ceiling != nil {
		return r.connect(addr, port, names).both(r.ceiling.connect(addr, port, names))
	}
	return r.connect(addr, port, names)
}

func (r *Rules) connect(addr netip.Addr, port uint16, names []string) Verdict {
	kind := r.kindOf(addr)
	switch {
	case port == anyPort:
		return refused("there is no port 0")
	case kind == forbidden:
		return refused("the address is the host's, a link's or a metadata service's")
	case kind == private && !r.private:
		return refused("the address is private, which only the daemon's operator can allow, by network.allow_private")
	}
	if rule, ok := findAddr(r.deny, addr, port); ok {
		return refused("denied by " + rule.text)
	}
	for _, name := range names {
		if rule, ok := findName(r.deny, name, port); ok {
			return refused("denied by " + rule.text)
		}
	}
	switch r.mode {
	case Allow:
		return r.connectListed(addr, port, names)
	case Internet, Full:
		if kind == private && r.mode != Full {
			return refused("the address is private, which mode internet does not reach")
		}
		return r.opened("mode "+string(r.mode), port)
	}
	return refused("mode none")
}

// findAllowed returns the first rule that opens a port of a name.
func (r *Rules) findAllowed(name string, port uint16) (Rule, bool) {
	if protection.Off(protection.ListedNames) {
		return Rule{text: "any", ports: ports{first: 1, last: 65535}}, true
	}
	return findName(r.allow, name, port)
}

// opened allows a connection whatever it carries, as long as that names no host that
// is denied. What uses the ports of the web has to name one then.
func (r *Rules) opened(why string, port uint16) Verdict {
	inspect := hasNames(r.deny)
	return Verdict{Allowed: true, Why: why, Inspect: inspect, Raw: !inspect || !isWeb(port)}
}

func (r *Rules) connectListed(addr netip.Addr, port uint16, names []string) Verdict {
	if rule, ok := findAddr(r.allow, addr, port); ok {
		return r.opened(rule.text, port)
	}
	if len(names) == 0 {
		return refused("no allowed name was resolved to this address")
	}
	if r.kindOf(addr) == private {
		return refused("the address is private, which no name opens")
	}
	why := "no entry of allow names " + names[0]
	var found Verdict
	for _, name := range names {
		rule, ok := r.findAllowed(name, port)
		if !ok {
			if other, ok := r.findAllowed(name, anyPort); ok {
				why = "the entry " + other.text + " is not for this port"
			}
			continue
		}
		if !found.Allowed {
			found = Verdict{Allowed: true, Why: rule.text, Inspect: true}
		}
		found.Raw = found.Raw || rule.ports.explicit && !isWeb(port)
	}
	if !found.Allowed {
		return refused(why)
	}
	return found
}

// Name decides on a host that a connection to a port of addr names itself, as SNI or
// Host. Pinned are the names that were resolved to the address.
func (r *Rules) Name(name string, addr netip.Addr, port uint16, pinned []string) Verdict {
	if r.ceiling != nil {
		return r.named(name, addr, port, pinned).both(r.ceiling.named(name, addr, port, pinned))
	}
	return r.named(name, addr, port, pinned)
}

func (r *Rules) named(name string, addr netip.Addr, port uint16, pinned []string) Verdict {
	if rule, ok := findName(r.deny, name, port); ok {
		return refused("denied by " + rule.text)
	}
	if r.mode != Allow {
		return Verdict{Allowed: true, Why: "mode " + string(r.mode)}
	}
	if rule, ok := findAddr(r.allow, addr, port); ok {
		return Verdict{Allowed: true, Why: rule.text}
	}
	rule, ok := r.findAllowed(name, port)
	if !ok {
		return refused("no entry of allow names " + name)
	}
	if !slices.Contains(pinned, name) {
		return refused(name + " was not resolved to this address")
	}
	return Verdict{Allowed: true, Why: rule.text}
}

// MayName reports whether a connection to a port of an address that no allowed name
// was resolved to may turn out to be for one: some entry names hosts for the port, and
// nothing forbids the address.
func (r *Rules) MayName(addr netip.Addr, port uint16) bool {
	if r.ceiling != nil && r.ceiling.mode == Allow && !r.ceiling.mayName(addr, port) {
		return false
	}
	return r.mayName(addr, port)
}

func (r *Rules) mayName(addr netip.Addr, port uint16) bool {
	if r.mode != Allow || port == anyPort || r.kindOf(addr) != public {
		return false
	}
	if _, denied := findAddr(r.deny, addr, port); denied {
		return false
	}
	return slices.ContainsFunc(r.allow, func(rule Rule) bool { return rule.name != "" && rule.ports.has(port) })
}

// Answer decides whether an address may stand in the answer for a name: none may
// point into a range that a name does not open.
func (r *Rules) Answer(addr netip.Addr) bool {
	return r.mayAnswer(addr) && (r.ceiling == nil || r.ceiling.mayAnswer(addr))
}

func (r *Rules) mayAnswer(addr netip.Addr) bool {
	if protection.Off(protection.PublicAnswers) {
		return true
	}
	switch r.kindOf(addr) {
	case forbidden:
		return false
	case private:
		_, listed := findAddr(r.allow, addr, anyPort)
		return r.private && (r.mode == Full || listed)
	}
	return true
}

// kindOfAll is the kind of a prefix, going by its first address. Each address is looked
// at by itself when it is used.
func (r *Rules) kindOfAll(prefix netip.Prefix) addressKind {
	if !prefix.IsSingleIP() && prefix.Overlaps(localNAT64) && prefix.Bits() >= localNAT64.Bits() {
		return private // the IPv4 address inside the first one is 0.0.0.0
	}
	return r.kindOf(prefix.Addr())
}

// kindOf is the kind of an address on this host, which may have one in a form that
// leads to another one.
func (r *Rules) kindOf(addr netip.Addr) addressKind {
	if r.own != nil && !protection.Off(protection.OwnAddresses) && (r.own(addr) || r.own(plain(addr)) || slices.ContainsFunc(translated(addr), r.own)) {
		return forbidden
	}
	return rangeOf(addr)
}
