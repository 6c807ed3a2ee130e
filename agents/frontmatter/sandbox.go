package frontmatter

import (
	"maps"
	"regexp"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
	"go.yaml.in/yaml/v3"
)

// Bounds of what a block may ask for. The daemon and the API key have their own,
// which are often narrower.
const (
	maxMillicores  = 1_024_000
	maxMemoryMB    = 16 << 20
	maxWorkspaceMB = 1 << 30
	maxIdle        = 365 * 86400
	maxCommand     = 3600
	maxOutput      = 1 << 20
	maxAnswer      = 1 << 20 // tokens
)

var (
	sessionName = regexp.MustCompile(`^[A-Za-z0-9._:@-]{1,64}$`)
	// Packages come from the index of the package manager. A URL, a path and an
	// option of the installer are none.
	pipPackage = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?([<>=!~]=?=?[A-Za-z0-9.*+!_,<>=~-]+)?$`)
	npmPackage = regexp.MustCompile(`^(@[a-z0-9_][a-z0-9._-]*/)?[a-z0-9_][a-z0-9._-]*(@[A-Za-z0-9.^~*<>=_+-]+)?$`)
)

func matches(pattern *regexp.Regexp, what string) func(string) string {
	return func(text string) string {
		if pattern.MatchString(text) {
			return ""
		}
		return what
	}
}

func notEmpty(text string) string {
	if text == "" {
		return "the name of an image"
	}
	return ""
}

// readSandbox reads the block, which is the name of a runtime or an object.
func readSandbox(r *Reader, node *yaml.Node) *Sandbox {
	s := &Sandbox{Mode: Compute, Session: SharedSession}
	node = dealias(node)
	runtime := r.Text("runtime", &s.Runtime, OneOf("python", "node", "bash"))
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			r.Wrong(node, "sandbox is empty: write a runtime such as python or an object with mode, or remove it")
			return s
		}
		runtime.Read("sandbox", node)
		return s
	case yaml.MappingNode:
	default:
		r.Wrong(node, "sandbox must be a runtime such as python, or an object with mode, runtime and so on")
		return s
	}
	var session, enabled, allowed, stdout *yaml.Node
	var allow bool
	var limited int
	r.Object("sandbox", node, []Field{
		r.Text("mode", &s.Mode, OneOf(Compute, Code)),
		runtime,
		r.Text("image", &s.Image, notEmpty),
		noted(&session, r.Text("session", &s.Session,
			matches(sessionName, "default, isolated or a name of 1 to 64 of a-z, A-Z, 0-9 and . _ - : @"))),
		{Name: "limits", Read: func(path string, value *yaml.Node) { readLimits(r, path, value, s, &limited) }},
		{Name: "network", Read: func(path string, value *yaml.Node) {
			r.Object(path, value, []Field{noted(&enabled, r.Flag("enabled", &s.Network))})
		}},
		r.Number("timeout_seconds", &s.CommandSeconds, 1, maxCommand),
		noted(&allowed, r.Flag("allow_network", &allow)),
		r.Texts("pip_packages", &s.PipPackages, matches(pipPackage, "a package of the index, such as requests==2.32.0")),
		r.Texts("npm_packages", &s.NpmPackages, matches(npmPackage, "a package of the registry, such as left-pad@1.3.0")),
		noted(&stdout, r.Number("max_stdout_bytes", &s.MaxStdoutBytes, 1, maxOutput)),
	})
	if stdout != nil && limited != 0 && limited != s.MaxStdoutBytes {
		r.Wrong(stdout, "sandbox.max_stdout_bytes and sandbox.limits.max_stdout_bytes say different things: keep one")
	}
	if limited != 0 {
		s.MaxStdoutBytes = limited
	}
	if own, found := sessionWords[s.Session]; found {
		s.Session = own
	}
	if session != nil && s.Mode != Code {
		r.Wrong(session, "sandbox.session is for mode code: add mode: code, or remove it")
	}
	if enabled != nil && allowed != nil && s.Network != allow {
		r.Wrong(allowed, "sandbox.allow_network and sandbox.network.enabled say different things: keep network.enabled")
	}
	s.Network = s.Network || allow
	return s
}

// noted keeps where a field is.
func noted(at **yaml.Node, f Field) Field {
	return Field{Name: f.Name, Read: func(path string, value *yaml.Node) {
		*at = value
		f.Read(path, value)
	}}
}

// sessionWords are other words for whose sandbox is meant, which Station's documentation has.
var sessionWords = map[string]string{"workflow": SharedSession, "agent": IsolatedSession}

func readLimits(r *Reader, path string, node *yaml.Node, s *Sandbox, stdout *int) {
	l := &s.Limits
	unsupported := func(name string) Field {
		return Field{Name: name, Refused: true, Read: func(path string, value *yaml.Node) {
			r.Wrong(value, "%s is not supported: workspace_mb bounds all files together; remove it", path)
		}}
	}
	r.Object(path, node, []Field{
		r.Number("max_stdout_bytes", stdout, 1, maxOutput),
		unsupported("max_file_size_bytes"),
		unsupported("max_files"),
		r.Number("cpu_millicores", &l.CPUMillicores, 10, maxMillicores),
		r.Number("memory_mb", &l.MemoryMB, 16, maxMemoryMB),
		r.Number("timeout_seconds", &l.IdleSeconds, 1, maxIdle),
		r.Number("workspace_mb", &l.WorkspaceMB, 16, maxWorkspaceMB),
	})
}

// Images says which images of the daemon are meant.
type Images struct {
	Runtimes map[string]string // of blocks that name no image
	Aliases  map[string]string // a name from elsewhere, and the daemon's; others are taken as they are
}

// DefaultImages are the images that come with Sandkasten. An alias stands for what
// an agent expects to find, not for an exact version.
func DefaultImages() Images {
	i := Images{
		Runtimes: map[string]string{"python": "python", "node": "node", "bash": "base"},
		Aliases:  map[string]string{},
	}
	for image, names := range map[string][]string{
		"python": {"python:3", "python:3-slim", "python:3.11", "python:3.11-slim", "python:3.12", "python:3.12-slim"},
		"node":   {"node:20", "node:20-slim", "node:22", "node:22-slim"},
		"base":   {"ubuntu:22.04", "ubuntu:24.04", "debian:12", "debian:12-slim", "debian:bookworm", "debian:bookworm-slim"},
	} {
		for _, name := range names {
			i.Aliases[name] = image
		}
	}
	return i
}

// With adds aliases, which win over those that there are. That of a runtime's name is
// also the image of blocks that name the runtime alone.
func (i Images) With(aliases map[string]string) Images {
	i.Aliases = maps.Clone(i.Aliases)
	if i.Aliases == nil {
		i.Aliases = map[string]string{}
	}
	maps.Copy(i.Aliases, aliases)
	i.Runtimes = maps.Clone(i.Runtimes)
	for runtime := range i.Runtimes {
		if image, found := aliases[runtime]; found {
			i.Runtimes[runtime] = image
		}
	}
	return i
}

// Image is the daemon's image of a block. It is empty, the daemon's default, where
// the block names none.
func (i Images) Image(s *Sandbox) string {
	if s.Image == "" {
		return i.Runtimes[s.Runtime]
	}
	if image, found := i.Aliases[s.Image]; found {
		return image
	}
	return s.Image
}

// SessionOptions is what a session of the block is made with.
func (s *Sandbox) SessionOptions(images Images) sandkasten.CreateOptions {
	o := sandkasten.CreateOptions{Image: images.Image(s), NetworkMode: "none"}
	if s.Network {
		o.NetworkMode = "internet"
	}
	o.CPU = float64(s.Limits.CPUMillicores) / 1000
	o.MemoryMB = int64(s.Limits.MemoryMB)
	o.DiskMB = int64(s.Limits.WorkspaceMB)
	o.TTL = time.Duration(s.Limits.IdleSeconds) * time.Second
	return o
}

// CommandTimeout is how long a command may run that says nothing else, or 0.
func (s *Sandbox) CommandTimeout() time.Duration {
	return time.Duration(s.CommandSeconds) * time.Second
}
