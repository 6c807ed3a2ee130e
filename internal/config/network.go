package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// NetworkPolicy is what sandboxes may reach, as docs/network.md describes it.
type NetworkPolicy struct {
	Mode        string // none, allow, internet, full
	Allow, Deny []string
	MaxMbit     int // 0: no limit
}

// Network is about what the sandboxes of all owners may reach.
type Network struct {
	AllowPrivate bool

	MaxConnectionsPerOwner int // 0: half of what all may have

	Groups map[string][]string      // entries by name, without the '@'
	Images map[string]NetworkPolicy // instead of defaults.network, by the name of an image

	SecretsKeyFile string // empty: see Config.SecretsKeyFile

	TrustHostCAs bool     // sandboxes trust what the host's administrator has added
	CAFiles      []string // further authorities, as PEM
}

var networkModes = []string{"none", "allow", "internet", "full"}

const (
	policyWant = "a policy, as {mode: allow, allow: [\"@pip\", api.example.org], deny: [], max_mbit: 100}, of mode none, allow, internet or full"
	groupsWant = "up to 100 names with lists of entries, as {company: [git.example.org, \"*.pkg.example.org:443\"]}"
	imagesWant = "up to 1000 names of images, each with a policy, as {python: {mode: allow, allow: [\"@pip\"]}}"
)

// policy binds a key to a NetworkPolicy. What its entries may be is checked where they
// are understood, at the start of the daemon.
func policy(p *NetworkPolicy) value {
	return value{want: policyWant, tag: "!!map", set: func(n *yaml.Node) bool { return readPolicy(n, p) }, show: p.show}
}

// ceiling is policy for one that may be absent.
func ceiling(p **NetworkPolicy) value {
	return value{want: policyWant, tag: "!!map", set: func(n *yaml.Node) bool {
		*p = &NetworkPolicy{}
		return readPolicy(n, *p)
	}, show: func() string { return "" }}
}

func readPolicy(n *yaml.Node, p *NetworkPolicy) bool {
	*p = NetworkPolicy{Mode: "none"}
	fields := map[string]value{
		"mode": oneOf(&p.Mode, networkModes...), "allow": texts(&p.Allow), "deny": texts(&p.Deny), "max_mbit": integer(&p.MaxMbit, 0, 1e6),
	}
	return eachPair(n, len(fields), func(name string, child *yaml.Node) bool {
		field, known := fields[name]
		return known && child.ShortTag() == field.tag && field.set(child)
	})
}

// eachPair calls do with what a mapping has, until that returns false. There may be
// no more than most, and no name twice.
func eachPair(n *yaml.Node, most int, do func(name string, child *yaml.Node) bool) bool {
	if n.Kind != yaml.MappingNode || len(n.Content) > 2*most {
		return false
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if name == "" || seen[name] || !do(name, n.Content[i+1]) {
			return false
		}
		seen[name] = true
	}
	return true
}

func (p *NetworkPolicy) show() string {
	parts := []string{"mode: " + p.Mode}
	for _, list := range []struct {
		name    string
		entries []string
	}{{"allow", p.Allow}, {"deny", p.Deny}} {
		if len(list.entries) > 0 {
			parts = append(parts, list.name+": "+showEntries(list.entries))
		}
	}
	if p.MaxMbit > 0 {
		parts = append(parts, "max_mbit: "+strconv.Itoa(p.MaxMbit))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// showEntries is a list of entries, each in quotes: '@' and '*' mean something in YAML.
func showEntries(entries []string) string {
	quoted := make([]string, len(entries))
	for i, entry := range entries {
		quoted[i] = strconv.Quote(entry)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func groups(p *map[string][]string) value {
	return value{want: groupsWant, tag: "!!map", set: func(n *yaml.Node) bool {
		*p = map[string][]string{}
		return eachPair(n, 100, func(name string, child *yaml.Node) bool {
			var entries []string
			ok := child.Kind == yaml.SequenceNode && texts(&entries).set(child)
			(*p)[name] = entries
			return ok
		})
	}, show: func() string {
		pairs := []string{}
		for _, name := range slices.Sorted(maps.Keys(*p)) {
			pairs = append(pairs, name+": "+showEntries((*p)[name]))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	}}
}

func imagePolicies(p *map[string]NetworkPolicy) value {
	return value{want: imagesWant, tag: "!!map", set: func(n *yaml.Node) bool {
		*p = map[string]NetworkPolicy{}
		return eachPair(n, 1000, func(name string, child *yaml.Node) bool {
			var one NetworkPolicy
			ok := readPolicy(child, &one)
			(*p)[name] = one
			return ok
		})
	}, show: func() string {
		pairs := []string{}
		for _, name := range slices.Sorted(maps.Keys(*p)) {
			one := (*p)[name]
			pairs = append(pairs, name+": "+one.show())
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	}}
}

// togetherNetwork joins defaults.network_mode and defaults.network, of which one is
// enough.
func (l *loader) togetherNetwork(c *Config) {
	at, short := l.set["defaults.network_mode"]
	key := "defaults.network_mode"
	if long := c.Defaults.Network; long.Mode != "none" {
		if short && c.Defaults.NetworkMode != "none" && c.Defaults.NetworkMode != long.Mode {
			l.wrong(at, key, "is another mode than that of defaults.network, %s: remove one of the two", long.Mode)
		}
		key, at = "defaults.network", l.set["defaults.network"]
	} else {
		c.Defaults.Network.Mode = c.Defaults.NetworkMode
	}
	c.Defaults.NetworkMode = c.Defaults.Network.Mode
	if mode := c.Defaults.NetworkMode; slices.Index(networkModes, mode) > slices.Index(networkModes, c.MaxNetworkMode) {
		l.wrong(at, key, "is wider than maximum.network_mode, which is %s: lower the one or raise the other", c.MaxNetworkMode)
	}
	if at, written := l.set["maximum.network_mode"]; written && c.MaxNetworkMode == "full" && !c.Network.AllowPrivate {
		l.wrong(at, "maximum.network_mode", "is full, which reaches private addresses: set network.allow_private, or write internet")
	}
}
