package frontmatter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sandkasten/sandkasten/agents/frontmatter"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func sandbox(change func(*frontmatter.Sandbox)) *frontmatter.Sandbox {
	s := &frontmatter.Sandbox{Mode: frontmatter.Compute, Session: frontmatter.SharedSession}
	if change != nil {
		change(s)
	}
	return s
}

func TestFormsOfTheBlock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head string
		want *frontmatter.Sandbox
	}{
		"none":              {"model: openai/gpt-4o\n", nil},
		"a runtime":         {"sandbox: python\n", sandbox(func(s *frontmatter.Sandbox) { s.Runtime = "python" })},
		"a quoted runtime":  {"sandbox: \"bash\"\n", sandbox(func(s *frontmatter.Sandbox) { s.Runtime = "bash" })},
		"an empty object":   {"sandbox: {}\n", sandbox(nil)},
		"dashes in a value": {"description: |\n  a\n  ---\nsandbox: node\n", sandbox(func(s *frontmatter.Sandbox) { s.Runtime = "node" })},
		"an anchor":         {"x: &r python\nsandbox: {runtime: *r}\n", sandbox(func(s *frontmatter.Sandbox) { s.Runtime = "python" })},
		"version 1": {
			"sandbox:\n  runtime: python\n  timeout_seconds: 300\n  allow_network: true\n  max_stdout_bytes: 5000\n" +
				"  pip_packages: [requests, 'pandas[excel]>=2,<3']\n  npm_packages: [\"@types/node@^20\", left-pad]\n",
			sandbox(func(s *frontmatter.Sandbox) {
				s.Runtime, s.CommandSeconds, s.Network, s.MaxStdoutBytes = "python", 300, true, 5000
				s.PipPackages, s.NpmPackages = []string{"requests", "pandas[excel]>=2,<3"}, []string{"@types/node@^20", "left-pad"}
			}),
		},
		"another word for a shared session": {"sandbox: {mode: code, session: workflow}\n", sandbox(func(s *frontmatter.Sandbox) { s.Mode = frontmatter.Code })},
		"another word for one's own session": {
			"sandbox: {mode: code, session: agent}\n", sandbox(func(s *frontmatter.Sandbox) { s.Mode, s.Session = frontmatter.Code, frontmatter.IsolatedSession }),
		},
		"output among the limits": {"sandbox: {limits: {max_stdout_bytes: 5000}}\n", sandbox(func(s *frontmatter.Sandbox) { s.MaxStdoutBytes = 5000 })},
		"code mode": {
			"sandbox:\n  mode: code\n  runtime: python\n  image: \"python:3.11-slim\"\n  session: isolated\n  limits:\n    cpu_millicores: 1500\n" +
				"    memory_mb: 2048\n    timeout_seconds: 900\n    workspace_mb: 500\n  network:\n    enabled: true\n",
			&frontmatter.Sandbox{
				Mode: frontmatter.Code, Runtime: "python", Image: "python:3.11-slim", Session: frontmatter.IsolatedSession, Network: true,
				Limits: frontmatter.Limits{CPUMillicores: 1500, MemoryMB: 2048, IdleSeconds: 900, WorkspaceMB: 500},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := frontmatter.Parse("a.prompt", "---\n"+c.head+"---\nbody\n---\nmore\n")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, p.Sandbox); diff != "" {
				t.Error(diff)
			}
			if p.Body != "body\n---\nmore\n" || p.Name != "a" {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// TestMistakesNameTheirLine counts lines from the file's first, which is the rule
// above the frontmatter.
func TestMistakesNameTheirLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head string
		line int
		want string
	}{
		"no YAML":                {"a: 1\nsandbox: [\n", 3, "no YAML"},
		"a list":                 {"- a\n", 2, "a mapping"},
		"empty":                  {"model: x\nsandbox:\n", 3, "a runtime such as python"},
		"a list of runtimes":     {"sandbox: [python]\n", 2, "must be a runtime"},
		"unknown runtime":        {"sandbox: ruby\n", 2, "one of python, node, bash"},
		"runtime as number":      {"sandbox: 3.11\n", 2, "quotes"},
		"unknown mode":           {"sandbox:\n  mode: codes\n", 3, "one of compute, code"},
		"unknown field":          {"sandbox:\n  mode: code\n  cpu: 2\n", 4, `no field "cpu"; the fields are mode`},
		"field in capitals":      {"sandbox:\n  Mode: code\n", 3, `no field "Mode"`},
		"twice":                  {"sandbox:\n  limits: {memory_mb: 64, memory_mb: 65}\n", 3, "memory_mb"},
		"empty image":            {"sandbox:\n  image: ''\n", 3, "the name of an image"},
		"session in compute":     {"sandbox:\n  session: a\n", 3, "mode: code"},
		"session with a space":   {"sandbox:\n  mode: code\n  session: a b\n", 4, "default, isolated or a name"},
		"limits as text":         {"sandbox:\n  limits: big\n", 3, "must be an object"},
		"memory with unit":       {"sandbox:\n  limits:\n    memory_mb: 2GB\n", 4, `"2GB"`},
		"memory in quotes":       {"sandbox:\n  limits:\n    memory_mb: '64'\n", 4, "without quotes"},
		"memory of a fraction":   {"sandbox:\n  limits:\n    memory_mb: 64.5\n", 4, "whole number"},
		"no CPU":                 {"sandbox:\n  limits:\n    cpu_millicores: 0\n", 4, "from 10"},
		"idle time below zero":   {"sandbox:\n  limits:\n    timeout_seconds: -1\n", 4, "from 1"},
		"too much workspace":     {"sandbox:\n  limits:\n    workspace_mb: 99999999999\n", 4, "to 1073741824"},
		"unknown limit":          {"sandbox:\n  limits:\n    memory_mb: 64\n    memory: 64\n", 5, `sandbox.limits has no field "memory"`},
		"unknown limit of files": {"sandbox:\n  limits:\n    files: 5\n", 4, `no field "files"; the fields are max_stdout_bytes, cpu_millicores, memory_mb, timeout_seconds, workspace_mb`},
		"size of a file":         {"sandbox:\n  limits:\n    max_file_size_bytes: 5\n", 4, "workspace_mb bounds all files"},
		"number of files":        {"sandbox:\n  limits:\n    max_files: 5\n", 4, "not supported"},
		"two bounds of output":   {"sandbox:\n  limits: {max_stdout_bytes: 5}\n  max_stdout_bytes: 6\n", 4, "different things"},
		"network as flag":        {"sandbox:\n  network: true\n", 3, "sandbox.network must be an object"},
		"enabled in quotes":      {"sandbox:\n  network:\n    enabled: \"true\"\n", 4, "true or false"},
		"two networks":           {"sandbox:\n  network: {enabled: false}\n  allow_network: true\n", 4, "different things"},
		"command of two hours":   {"sandbox:\n  timeout_seconds: 7200\n", 3, "to 3600"},
		"no output":              {"sandbox:\n  max_stdout_bytes: 0\n", 3, "from 1"},
		"packages as text":       {"sandbox:\n  pip_packages: requests\n", 3, "must be a list"},
		"an option of pip":       {"sandbox:\n  pip_packages:\n    - requests\n    - --index-url=http://example.net\n", 5, "pip_packages[1]"},
		"a package of a URL":     {"sandbox:\n  pip_packages: [\"git+https://example.net/a\"]\n", 3, "of the index"},
		"a package of a path":    {"sandbox:\n  npm_packages: [../a]\n", 3, "of the registry"},
		"a package with a shell": {"sandbox:\n  npm_packages: [\"a; reboot\"]\n", 3, "of the registry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := frontmatter.Parse("dir/a.prompt", "---\n"+c.head+"---\nbody\n")
			var mistake *frontmatter.Mistake
			if !errors.As(err, &mistake) {
				t.Fatalf("got %v", err)
			}
			if mistake.File != "dir/a.prompt" || mistake.Line != c.line || !strings.Contains(mistake.Message, c.want) {
				t.Errorf("want line %d and %q, got %v", c.line, c.want, err)
			}
		})
	}
}

func TestAllMistakesComeAtOnce(t *testing.T) {
	t.Parallel()
	_, err := frontmatter.Parse("a.prompt", "---\nsandbox:\n  mode: x\n  runtime: y\n  z: 1\n---\n")
	for _, want := range []string{"a.prompt:3: ", "a.prompt:4: ", "a.prompt:5: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	p, err := frontmatter.Parse("a.prompt", "---\nconfig:\n  maxOutputTokens: 32000\n  temperature: 0\n  topP: 0.5\n  stopSequences: [END]\n  thinking: {budget: 1}\n---\n")
	if err != nil {
		t.Fatal(err)
	}
	zero, half := 0.0, 0.5
	if diff := cmp.Diff(frontmatter.Config{MaxOutputTokens: 32000, Temperature: &zero, TopP: &half, StopSequences: []string{"END"}}, p.Config); diff != "" {
		t.Error(diff)
	}
	if p, err := frontmatter.Parse("a.prompt", "---\nconfig:\nmodel: openai/x\n---\n"); err != nil || p.Model != "openai/x" {
		t.Errorf("with nothing in it: %+v, %v", p, err)
	}
	for config, want := range map[string]string{
		"maxOutputTokens: 0": "a.prompt:3: config.maxOutputTokens",
		"temperature: 2.5":   "must be a number from 0 to 2",
		"temperature: .nan":  "must be a number from 0 to 2",
		"topP: '1'":          "without quotes",
		"stopSequences: END": "must be a list",
		"- 1":                "config must be an object",
	} {
		if _, err := frontmatter.Parse("a.prompt", "---\nconfig:\n  "+config+"\n---\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", config, err, want)
		}
	}
}

func TestFrontmatterWithoutEnd(t *testing.T) {
	t.Parallel()
	if _, err := frontmatter.Parse("a.prompt", "---\nmodel: x\n"); err == nil || !strings.Contains(err.Error(), "a.prompt:1: the frontmatter has no end") {
		t.Errorf("got %v", err)
	}
}

func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	p, err := frontmatter.Parse("a.prompt", "\ufeff---\r\nsandbox: python\r\n---\r\nbody\r\n")
	if err != nil || p.Sandbox == nil || p.Body != "body\n" {
		t.Errorf("got %+v, %v", p, err)
	}
}

// The frontmatter is found as dotprompt finds it, and a body that has none is left alone.
func TestBeginOfFrontmatter(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"--- \nmodel: x\n---\nbody": "x", "# Copyright\n\n---\nmodel: x\n---\nbody": "x",
		"# A title\nbody": "", "\n\nbody\n---\nmodel: x\n---\n": "", "#": "", "---": "",
	} {
		p, err := frontmatter.Parse("a.prompt", source)
		if err != nil || p.Model != want || p.Body != map[bool]string{true: "body", false: source}[want != ""] {
			t.Errorf("%q: %+v, %v", source, p, err)
		}
	}
	if _, err := frontmatter.Parse("a.prompt", "# Copyright\n\n---\nsandbox: ruby\n---\n"); err == nil || !strings.Contains(err.Error(), "a.prompt:4:") {
		t.Errorf("a mistake: %v", err)
	}
	if _, err := frontmatter.Parse("a.prompt", "#\n---\nmodel: x\n"); err == nil || !strings.Contains(err.Error(), "a.prompt:2: the frontmatter has no end") {
		t.Errorf("without an end: %v", err)
	}
}

func TestSessionOptions(t *testing.T) {
	t.Parallel()
	images := frontmatter.DefaultImages().With(map[string]string{"example.net/a:1": "mine", "bash": "shells"})
	withLimits := sandkasten.CreateOptions{NetworkMode: "internet", Image: "python"}
	withLimits.TTL = 15 * time.Minute
	withLimits.CPU, withLimits.MemoryMB, withLimits.DiskMB = 1.5, 2048, 500
	for name, c := range map[string]struct {
		block string
		want  sandkasten.CreateOptions
	}{
		"nothing":      {"{}", sandkasten.CreateOptions{NetworkMode: "none"}},
		"a runtime":    {"node", sandkasten.CreateOptions{NetworkMode: "none", Image: "node"}},
		"an own one":   {"bash", sandkasten.CreateOptions{NetworkMode: "none", Image: "shells"}},
		"an alias":     {"{image: 'ubuntu:24.04', runtime: python}", sandkasten.CreateOptions{NetworkMode: "none", Image: "base"}},
		"an own alias": {"{image: 'example.net/a:1'}", sandkasten.CreateOptions{NetworkMode: "none", Image: "mine"}},
		"another name": {"{image: other}", sandkasten.CreateOptions{NetworkMode: "none", Image: "other"}},
		"version 1":    {"{allow_network: true}", sandkasten.CreateOptions{NetworkMode: "internet"}},
		"all": {
			"{mode: code, image: 'python:3.11-slim', network: {enabled: true}, limits: {cpu_millicores: 1500, memory_mb: 2048, timeout_seconds: 900, workspace_mb: 500}}",
			withLimits,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := frontmatter.Parse("a.prompt", "---\nsandbox: "+c.block+"\n---\n")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, p.Sandbox.SessionOptions(images)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
