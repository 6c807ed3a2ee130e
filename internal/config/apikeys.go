package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandkasten/sandkasten/internal/auth"
)

// APIKey is one entry of api_keys: a key and whose it is, with what this owner
// may use. A zero limit is the general one.
type APIKey struct {
	Owner   string
	Key     string // empty: KeyFile's
	KeyFile string

	MaxSessions       int
	RequestsPerSecond float64
	Burst             int
	MaxConcurrent     int
	StoppedFor        time.Duration  // 0: the configuration's
	FileScope         string         // workspace, sandbox, or "" for files.outside_workspace
	Network           *NetworkPolicy // what the owner's sessions may reach at most; nil: maximum.network_mode
}

// limited reports whether the entry says what its owner may use.
func (k APIKey) limited() bool {
	return k.MaxSessions != 0 || k.RequestsPerSecond != 0 || k.Burst != 0 || k.MaxConcurrent != 0 || k.StoppedFor != 0 || k.FileScope != "" || k.Network != nil
}

// maxAPIKeys bounds the keys that every request is compared with.
const maxAPIKeys = 10000

// minKey is how many characters a key has that nobody guesses.
const minKey = 16

// CheckKey refuses a key that strangers could guess at listen. The error reads
// on from the name of the key and does not tell it.
func CheckKey(key, listen string) error {
	if Loopback(listen) || len(key) >= minKey {
		return nil
	}
	return fmt.Errorf("is too short for an address that other machines can reach: write at least %d characters", minKey)
}

// CheckOwnerKey is CheckKey of one of several keys, whose owners could guess each
// other's from anywhere.
func CheckOwnerKey(key string) error {
	if len(key) >= minKey {
		return nil
	}
	return fmt.Errorf("is too short to keep other owners out: write at least %d characters", minKey)
}

// fields are the keys of one entry.
func (k *APIKey) fields() []option {
	return []option{
		{key: "owner", value: unquoted(scalar(auth.OwnerRule, "!!str", func(s string) bool {
			k.Owner = s
			return auth.IsOwner(s)
		}, nil))},
		{key: "key", value: secret(&k.Key)},
		{key: "key_file", value: unquoted(path(&k.KeyFile))},
		{key: "max_sessions", value: integer(&k.MaxSessions, 0, 30000)},
		{key: "requests_per_second", value: decimal(&k.RequestsPerSecond, 0, 1e6)},
		{key: "burst", value: integer(&k.Burst, 0, 1e6)},
		{key: "max_concurrent", value: integer(&k.MaxConcurrent, 0, 1e6)},
		{key: "stopped_retention_seconds", value: seconds(&k.StoppedFor, 0, 10*year)},
		{key: "file_scope", value: oneOf(&k.FileScope, "workspace", "sandbox")},
		{key: "network", value: ceiling(&k.Network)},
	}
}

// unquoted keeps what a key may have been written into by mistake out of
// messages.
func unquoted(v value) value {
	v.secret = true
	return v
}

// apiKeys reads the entries of api_keys. Their mistakes are told each with its
// line; nothing of a key is ever in them.
func apiKeys(p *[]APIKey) value {
	return value{
		want: "a list of entries, as [{owner: alice, key_file: /etc/sandkasten/alice.key}]", tag: "!!seq", secret: true,
		show: func() string { return "[]" },
		read: func(l *loader, o option, where string, n *yaml.Node) {
			if len(n.Content) > maxAPIKeys {
				l.wrong(where, o.key, "has %d entries: write at most %d", len(n.Content), maxAPIKeys)
				return
			}
			*p = make([]APIKey, len(n.Content))
			for i, item := range n.Content {
				l.apiKey(where, fmt.Sprintf("%s[%d]", o.key, i), item, &(*p)[i])
			}
			l.togetherKeys(o, where, n, *p)
		},
	}
}

// apiKey reads one entry. where is the variable that holds it, or the line of
// the list.
func (l *loader) apiKey(where, name string, n *yaml.Node, k *APIKey) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		l.wrong(place(where, n), name, "write an entry with owner and key or key_file, as {owner: alice, key_file: /etc/sandkasten/alice.key}")
		return
	}
	fields := k.fields()
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		field, child := n.Content[i], n.Content[i+1]
		found := slices.IndexFunc(fields, func(f option) bool { return f.key == field.Value })
		switch {
		case found < 0:
			l.wrong(place(where, field), name, "has an unknown key, the keys here are %s", fieldNames(fields))
		case seen[field.Value]:
			l.wrong(place(where, field), name+"."+field.Value, "is set twice: remove one")
		default:
			seen[field.Value] = true
			l.assign(option{key: name + "." + field.Value, value: fields[found].value}, place(where, field), child)
		}
	}
	switch {
	case !seen["owner"]:
		l.wrong(place(where, n), name, "has no owner: write one, as owner: alice")
	case seen["key"] == seen["key_file"]:
		l.wrong(place(where, n), name, "needs either key or key_file: write one of the two")
	}
}

// togetherKeys checks what no entry can check alone.
func (l *loader) togetherKeys(o option, where string, n *yaml.Node, keys []APIKey) {
	limits := map[string]int{} // owner to the entry that has limits
	first := map[string]int{}  // key or file to its entry
	for i, k := range keys {
		at, name := place(where, n.Content[i]), fmt.Sprintf("%s[%d]", o.key, i)
		if k.Key != "" {
			if err := CheckOwnerKey(k.Key); err != nil {
				l.wrong(at, name+".key", "%v", err)
			}
		}
		for _, source := range []string{k.Key, k.KeyFile} {
			if source == "" {
				continue
			}
			if earlier, twice := first[source]; twice {
				l.wrong(at, name, "has the key of %s[%d]: give each entry a key of its own", o.key, earlier)
			} else {
				first[source] = i
			}
		}
		if !k.limited() {
			continue
		}
		if earlier, twice := limits[k.Owner]; twice {
			l.wrong(at, name, "has limits beside those of %s[%d], of the same owner: write them in one of the two", o.key, earlier)
		} else {
			limits[k.Owner] = i
		}
	}
}

func fieldNames(fields []option) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.key)
	}
	return strings.Join(names, ", ")
}

// place is where a node within a value stands: its line, or the variable that
// has the value.
func place(where string, n *yaml.Node) string {
	if strings.HasPrefix(where, envPrefix) {
		return where
	}
	return line(n)
}
