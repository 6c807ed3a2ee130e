package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SystemFile is read when neither --config nor SANDKASTEN_CONFIG names a
// file and this one exists.
const SystemFile = "/etc/sandkasten/sandkasten.yaml"

// maxFile keeps a mistaken path (a disk image, say) from being read whole.
const maxFile = 1 << 20

// Problem is one mistake in a configuration.
type Problem struct {
	Where   string // "line 7" or the name of an environment variable
	Key     string // dotted; empty for a mistake of the whole file
	Message string // what is wrong and what to write instead
}

func (p Problem) String() string {
	if p.Key == "" {
		return p.Where + ": " + p.Message
	}
	return p.Where + ": " + p.Key + ": " + p.Message
}

// Error is every mistake of a configuration at once.
type Error struct {
	File     string // empty when no file was read
	Problems []Problem
}

func (e *Error) Error() string {
	lines := []string{"the configuration has mistakes"}
	if e.File != "" {
		lines[0] = e.File + " has mistakes"
	}
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// Load reads the file at path, if path is not empty, and then environ
// ("NAME=value", as os.Environ gives it), which overrides it. Mistakes are
// reported all together as *Error; any other error is the file's own. Drivers are those
// that it may name, the default first.
func Load(path string, environ, drivers []string) (Config, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = readFile(path); err != nil {
			return Config{}, err
		}
	}
	c, problems := parse(data, environ, drivers)
	if len(problems) > 0 {
		return Config{}, &Error{File: path, Problems: problems}
	}
	return c, nil
}

func readFile(path string) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read configuration: %s is larger than 1 MiB", path)
	}
	return data, nil
}

func parse(data []byte, environ, drivers []string) (Config, []Problem) {
	c := Default(drivers)
	l := loader{options: map[string]option{}, sections: map[string]bool{"": true}, set: map[string]string{}}
	for _, o := range c.options(drivers) {
		l.options[o.key] = o
		if section, _, nested := cutLast(o.key); nested {
			l.sections[section] = true
		}
	}
	l.file(data)
	l.environment(environ)
	if c.Orchestrator.Enabled {
		c.Remarks = l.astraforge(environ)
	}
	if c.DBPath == "" {
		c.DBPath = filepath.Join(c.DataDir, "sandkasten.db")
	}
	if c.Audit.Dir == "" {
		c.Audit.Dir = filepath.Join(c.DataDir, "audit")
	}
	if c.Snapshots.Dir == "" {
		c.Snapshots.Dir = filepath.Join(c.DataDir, "snapshots")
	}
	l.together(&c)
	return c, l.problems
}

type loader struct {
	options  map[string]option
	sections map[string]bool   // "" is the top of the file
	set      map[string]string // key to where it was set
	problems []Problem
}

func (l *loader) wrong(where, key, format string, args ...any) {
	l.problems = append(l.problems, Problem{where, key, fmt.Sprintf(format, args...)})
}

func (l *loader) file(data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF): // empty, or comments only
		return
	case err != nil:
		l.wrong("the file", "", "is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	root := doc.Content[0]
	if root.ShortTag() == "!!null" {
		return
	}
	if root.Kind != yaml.MappingNode {
		l.wrong(line(root), "", "write keys with values, as listen: 127.0.0.1:8787")
		return
	}
	l.mapping("", root)
	var second yaml.Node
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		l.wrong("the file", "", "has a second document or text after the end: write one document")
	}
}

// mapping takes the keys of one section. It descends only into sections that
// exist, so that no nesting of a file makes it deep.
func (l *loader) mapping(section string, n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		if child.Kind == yaml.AliasNode {
			child = child.Alias
		}
		key := join(section, name.Value)
		if l.sections[key] && key != "" {
			l.section(key, name, child)
			continue
		}
		o, ok := l.options[key]
		if !ok {
			l.wrong(line(name), key, "unknown key, %s", l.suggest(section, name.Value))
			continue
		}
		if first, twice := l.set[key]; twice {
			l.wrong(line(name), key, "is set twice, first on %s: remove one", first)
			continue
		}
		l.set[key] = line(name)
		l.assign(o, line(name), child)
	}
}

func (l *loader) section(key string, name, child *yaml.Node) {
	switch first, twice := l.set[key]; {
	case twice:
		l.wrong(line(name), key, "is written twice, first on %s: join the two", first)
	case child.Kind == yaml.MappingNode:
		l.set[key] = line(name)
		l.mapping(key, child)
	case child.ShortTag() == "!!null": // all of its keys are comments
	default:
		l.wrong(line(name), key, "is a section: write its keys below it, indented")
	}
}

func (l *loader) assign(o option, where string, n *yaml.Node) {
	tag := n.ShortTag()
	fits := tag == o.value.tag || o.value.tag == "!!float" && tag == "!!int"
	switch {
	case tag == "!!null":
		l.wrong(where, o.key, "has no value: write %s, or remove the key", o.value.want)
	case n.Kind == yaml.ScalarNode && n.Value == "" && !(fits && o.value.take(l, o, where, n)):
		l.wrong(where, o.key, "is empty: write %s, or remove the key", o.value.want)
	case n.Kind == yaml.ScalarNode && n.Value == "": // which it may be
	case !fits || !o.value.take(l, o, where, n):
		l.wrong(where, o.key, "%swrite %s", o.got(n), o.value.want)
	}
}

// take sets the value, or reports false when it is not what was wanted.
func (v value) take(l *loader, o option, where string, n *yaml.Node) bool {
	if v.read != nil {
		v.read(l, o, where, n)
		return true
	}
	return v.set(n)
}

// together checks what no key can check alone.
func (l *loader) together(c *Config) {
	if l.good("listen") && !Loopback(c.Listen) {
		l.reachable(c)
	}
	for i, k := range c.APIKeys {
		if k.Key != "" && k.Key == c.APIKey {
			l.wrong(l.set["api_keys"], "api_keys", "has the key of api_key in entry %d: give each owner a key of their own", i)
		}
	}
	for _, host := range c.AllowedHosts {
		if d := c.Preview.Domain; d != "" && strings.HasSuffix("."+strings.ToLower(host), "."+d) && l.good("preview.domain") {
			l.wrong(l.set["preview.domain"], "preview.domain", "has %s in it, a name of the API: take a domain that is used for nothing else", host)
		}
	}
	if slices.Contains(c.ExtraDrivers, c.Driver) {
		l.wrong(l.set["extra_drivers"], "extra_drivers", "has %s, which is the driver already: remove it there", c.Driver)
	}
	l.snapshots(&c.Snapshots)
	l.orchestrator(c)
	l.oidc(c)
	l.togetherNetwork(c)
	atMost(l, "session_ttl_seconds", &c.SessionTTL, "max_session_ttl_seconds", &c.MaxSessionTTL)
	atMost(l, "defaults.exec_timeout_ms", &c.Defaults.ExecTimeout, "defaults.max_exec_timeout_ms", &c.Defaults.MaxExecTimeout)
	atMost(l, "defaults.cpu_limit", &c.Defaults.CPU, "maximum.cpu_limit", &c.Maximum.CPU)
	atMost(l, "defaults.mem_limit_mb", &c.Defaults.MemoryMB, "maximum.mem_limit_mb", &c.Maximum.MemoryMB)
	atMost(l, "defaults.pids_limit", &c.Defaults.Pids, "maximum.pids_limit", &c.Maximum.Pids)
	atMost(l, "defaults.disk_limit_mb", &c.Defaults.DiskMB, "maximum.disk_limit_mb", &c.Maximum.DiskMB)
	atMost(l, "workspace.default_size_mb", &c.Workspace.DefaultSizeMB, "workspace.max_size_mb", &c.Workspace.MaxSizeMB)
}

// reachable asks for keys that nobody guesses.
func (l *loader) reachable(c *Config) {
	switch {
	case c.APIKey == "" && len(c.APIKeys) == 0:
		l.wrong(l.set["listen"], "listen", "other machines can reach %s, and there is no api_key: set api_key, or listen on 127.0.0.1", c.Listen)
	case c.APIKey != "":
		if err := CheckKey(c.APIKey, c.Listen); err != nil {
			l.wrong(l.set["api_key"], "api_key", "%v", err)
		}
	}
}

func (l *loader) snapshots(s *Snapshots) {
	if s.Key != "" && s.KeyFile != "" {
		l.wrong(l.set["snapshots.encryption_key_file"], "snapshots.encryption_key_file", "is set beside snapshots.encryption_key: remove one")
	}
	if s.Store != "s3" {
		return
	}
	for _, key := range []string{"snapshots.s3_endpoint", "snapshots.s3_bucket", "snapshots.s3_access_key", "snapshots.s3_secret_key"} {
		if _, written := l.set[key]; !written {
			l.wrong(l.set["snapshots.store"], "snapshots.store", "is s3, which needs %s: set it", key)
		}
	}
}

// atMost keeps a value within its maximum. Whichever of the two nobody wrote
// gives way; two written ones that disagree are a mistake.
func atMost[T cmp.Ordered](l *loader, key string, value *T, maxKey string, most *T) {
	_, written := l.set[key]
	maxAt, maxWritten := l.set[maxKey]
	switch {
	case *value <= *most:
	case !written:
		*value = *most
	case !maxWritten:
		*most = *value
	default:
		l.wrong(l.set[key], key, "is more than %s (%s): lower the one or raise the other", maxKey, maxAt)
	}
}

func (l *loader) good(key string) bool {
	for _, p := range l.problems {
		if p.Key == key {
			return false
		}
	}
	return true
}

func line(n *yaml.Node) string { return fmt.Sprintf("line %d", n.Line) }

// got quotes a wrong value, unless it may be a secret.
func (o option) got(n *yaml.Node) string {
	const most = 40
	switch text := n.Value; {
	case n.Kind != yaml.ScalarNode || o.value.secret:
		return ""
	case len(text) > most:
		return fmt.Sprintf("is %q...: ", text[:most])
	default:
		return fmt.Sprintf("is %q: ", text)
	}
}

func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}

// cutLast splits a dotted key at its last dot.
func cutLast(key string) (section, name string, nested bool) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", key, false
	}
	return key[:i], key[i+1:], true
}
