package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// envPrefix begins every variable that overrides a key: SANDKASTEN_LISTEN,
// SANDKASTEN_DEFAULTS__CPU_LIMIT. An empty one counts as not set.
const envPrefix = "SANDKASTEN_"

// otherVariables are ours but not keys of the file. SANDKASTEN_API_KEY is
// not among them: it overrides api_key, and clients send it.
func otherVariable(name string) bool {
	return slices.Contains([]string{"SANDKASTEN_CONFIG", "SANDKASTEN_URL", "SANDKASTEN_FAILPOINT"}, name) ||
		strings.HasPrefix(name, "SANDKASTEN_TEST")
}

func (l *loader) environment(environ []string) {
	// Sorted, so that the same mistakes are told in the same order.
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, raw, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || raw == "" || otherVariable(name) {
			continue
		}
		key := strings.ReplaceAll(strings.ToLower(rest), "__", ".")
		o, ok := l.options[key]
		if !ok {
			section, last, _ := cutLast(key)
			l.wrong(name, key, "unknown key, %s", l.suggest(section, last))
			continue
		}
		l.set[key] = name
		n, ok := envNode(o.value, raw)
		if !ok || !o.value.take(l, o, name, n) {
			l.wrong(name, key, "%swrite %s", o.got(n), o.value.want)
		}
	}
}

// envNode reads a variable. A variable has no YAML type, so a text needs no
// quotes; lists may also be written with commas, as python,node.
func envNode(v value, raw string) (*yaml.Node, bool) {
	plain := &yaml.Node{Kind: yaml.ScalarNode, Value: raw}
	switch {
	case v.tag != "!!seq" && v.tag != "!!map":
		return plain, true
	case v.tag == "!!seq" && v.read == nil && !strings.HasPrefix(strings.TrimSpace(raw), "["):
		return commas(raw), true
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(raw), &doc); err != nil || len(doc.Content) == 0 || doc.Content[0].ShortTag() != v.tag {
		return plain, false
	}
	return doc.Content[0], true
}

func commas(raw string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if strings.TrimSpace(raw) == "" {
		return list
	}
	for item := range strings.SplitSeq(raw, ",") {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(item)})
	}
	return list
}
