package groups_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/network"
	"github.com/sandkasten/sandkasten/internal/network/groups"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line string // what a client says
		want string // the entry, or "" for none
	}{
		"URL":                  {"https://pypi.example/simple", "pypi.example"},
		"plain HTTP":           {"http://deb.example/debian", "deb.example"},
		"upper case and a dot": {"https://PyPI.Example./simple", "pypi.example"},
		"port":                 {"https://mirror.example:8443/x", "mirror.example:8443"},
		"port of the scheme":   {"https://mirror.example:443/x", "mirror.example"},
		"password":             {"https://user:p@ss@mirror.example/simple", "mirror.example"},
		"query":                {"https://mirror.example?x=@other.example", "mirror.example"},
		"fragment":             {"https://mirror.example#@other.example", "mirror.example"},
		"backslash":            {`https://mirror.example\@other.example`, "mirror.example"},
		"sparse index":         {"sparse+https://index.example/", "index.example"},
		"apt's mirror":         {"mirror+http://deb.example/list", "deb.example"},
		"ssh":                  {"ssh://git@code.example/team", "code.example:22"},
		"git's short way":      {"git@code.example:team/", "code.example:22"},
		"git":                  {"git://code.example/", "code.example:9418"},
		"host":                 {"files.example", "files.example"},
		"host and port":        {"files.example:8080", "files.example:8080"},
		"carriage return":      {"https://files.example/\r", "files.example"},
		"IPv4":                 {"http://192.0.2.7/debian", "192.0.2.7:80"},
		"IPv4 and port":        {"http://192.0.2.7:3142/debian", "192.0.2.7:3142"},
		"IPv6":                 {"https://[2001:db8::1]/x", "[2001:db8::1]:443"},
		"IPv6 and port":        {"https://[2001:db8::1]:8443/x", "[2001:db8::1]:8443"},
		"nothing":              {"", ""},
		"file":                 {"file:///opt/wheels", ""},
		"path":                 {"/opt/wheels", ""},
		"other scheme":         {"ftp://ftp.example/", ""},
		"wildcard":             {"https://*.example/", ""},
		"all of a domain":      {"*.com", ""},
		"range":                {"0.0.0.0/0", "0.0.0.0:443"},
		"ports":                {"mirror.example:1-65535", ""},
		"port 0":               {"mirror.example:0", ""},
		"port too high":        {"mirror.example:65536", ""},
		"port no number":       {"mirror.example:+80", ""},
		"a number":             {"https://2130706433/", ""},
		"open bracket":         {"https://[2001:db8::1/x", ""},
		"after the bracket":    {"https://[2001:db8::1]x/", ""},
		"space":                {"https://mirror .example/", ""},
		"not ASCII":            {"https://m\u00fcrror.example/", ""},
		"group":                {"@npm", ""},
		"NUL":                  {"https://mirror\x00.example/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := groups.Parse([]byte("pip\t" + tt.line + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{}
			if tt.want != "" {
				want = append(want, tt.want)
			}
			if entries, ok := got["pip"]; !ok || !slices.Equal(entries, want) || len(got) != 1 {
				t.Errorf("got %q, want %q", got, want)
			}
			if tt.want == "" {
				return
			}
			if _, err := network.ParseRule(tt.want, true); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParseKeepsGroupsApart(t *testing.T) {
	t.Parallel()
	said := "warning: something\npip\t\nnpm\thttps://b.example/\ngit\t\nnpm\thttps://a.example/\nnpm\thttps://b.example/x\ncorp\thttps://c.example/\n@pip\thttps://d.example/\nno tab"
	got, err := groups.Parse([]byte(said))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"pip": {}, "git": {}, "npm": {"a.example", "b.example"}}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q", got)
	}
}

func TestParseIsBounded(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	for i := range 200 {
		fmt.Fprintf(&said, "npm\thttps://host-%d.example/\n", i)
		fmt.Fprintf(&said, "group-%d\thttps://host.example/\n", i)
	}
	got, err := groups.Parse([]byte(said.String()))
	if err != nil || len(got) != 1 || len(got["npm"]) != 64 {
		t.Errorf("%d groups, %d entries, %v", len(got), len(got["npm"]), err)
	}
	if _, err := groups.Parse(make([]byte, groups.MaxOutput+1)); err == nil {
		t.Error("too much was taken")
	}
}

// ask runs the script with programs of a directory in front, in an empty home.
func ask(t *testing.T, programs map[string]string, files map[string]string) map[string][]string {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"sh", "cat", "sed", "grep", "tr", "sort", "env", "mkdir"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", groups.Script())
	cmd.Dir, cmd.Env = home, []string{"PATH=" + bin, "HOME=" + home}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := groups.Parse(out)
	if err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return got
}

// The clients are stand-ins that say what real ones do: see the daemon's tests for
// those.
func TestScriptAsksClients(t *testing.T) {
	t.Parallel()
	const (
		builtin = "case \"$*\" in *PyPI*) echo https://index.example/simple index.example files.example ;;\n"
		sparse  = "echo 'error: failed to download from `https://crates.example/config.json`' >&2; exit 1"
	)
	for name, tt := range map[string]struct {
		programs, files map[string]string
		want            map[string][]string
	}{
		"no client": {want: map[string][]string{}},
		"pip's own index": {
			programs: map[string]string{"python3": builtin + "*) echo \"global.cert='/x'\" ;; esac"},
			want:     map[string][]string{"pip": {"files.example", "index.example"}},
		},
		"a mirror instead": {
			programs: map[string]string{"python3": builtin + "*) echo \"global.index-url='https://u:p@mirror.example/simple'\" ;; esac"},
			want:     map[string][]string{"pip": {"mirror.example"}},
		},
		"more indexes": {
			programs: map[string]string{"python": builtin + `*) printf '%s\n' "global.extra-index-url='\nhttps://one.example/x\nhttps://two.example/y'" ":env:.find-links='/opt/wheels https://three.example'" ;; esac`},
			want:     map[string][]string{"pip": {"files.example", "index.example", "one.example", "three.example", "two.example"}},
		},
		"Python without pip": {programs: map[string]string{"python3": "exit 1"}, want: map[string][]string{}},
		"uv's own index": {
			programs: map[string]string{"uv": "echo '          The default package index (by\n   default: <https://index.example/simple>) [env: X]'"},
			want:     map[string][]string{"pip": {"index.example"}},
		},
		"uv's file": {
			programs: map[string]string{"uv": "echo '(by default: <https://index.example/simple>)'"},
			files: map[string]string{".config/uv/uv.toml": `# url = "https://comment.example"
publish-url = "https://publish.example"
extra-index-url = [
  "https://one.example/simple",
  'https://two.example/simple',
]
[[index]]
name = "corp"
url = "https://corp.example:8443/simple"
default = true
`},
			want: map[string][]string{"pip": {"corp.example:8443", "one.example", "two.example"}},
		},
		"npm with a scope": {
			programs: map[string]string{"npm": `printf '{\n  "registry": "https://npm.example/",\n  "@a/b:registry": "https://scope.example/x",\n  "replace-registry-host": "npmjs"\n}\n'`},
			want:     map[string][]string{"npm": {"npm.example", "scope.example"}},
		},
		"apt": {
			programs: map[string]string{"apt-get": `echo "'http://deb.example:3142/debian/dists/x/InRelease' deb.example_debian 0 "; echo "'file:/srv/x' y 0"`},
			want:     map[string][]string{"apt": {"deb.example:3142"}},
		},
		"Go": {
			programs: map[string]string{"go": `case $2 in GOPROXY) echo 'https://proxy.example,https://other.example|direct' ;; *) echo sum.example+1234+key ;; esac`},
			want:     map[string][]string{"go": {"other.example", "proxy.example", "sum.example"}},
		},
		"Go without a database of sums": {
			programs: map[string]string{"go": `case $2 in GOPROXY) echo direct ;; *) echo off ;; esac`},
			want:     map[string][]string{"go": {}},
		},
		"Cargo": {
			programs: map[string]string{"cargo": sparse},
			files: map[string]string{
				".cargo/config.toml":                          "[registries]\ncorp = { index = \"sparse+https://corp.example/index/\" }\n[net]\nretry = 1\n",
				".cargo/registry/index/crates-1/config.json":  `{"dl": "https://static.example/crates", "api": "https://api.example"}`,
				".cargo/registry/index/crates-2/.cache/other": "https://other.example",
			},
			want: map[string][]string{"cargo": {"corp.example", "crates.example", "static.example"}},
		},
		"git without a rewrite": {programs: map[string]string{"git": "exit 1"}, want: map[string][]string{"git": {}}},
		"git": {
			programs: map[string]string{"git": "echo 'url.https://Code.example/team/.insteadof https://other.example/'; echo 'url.git@ssh.example:.insteadof gh:'"},
			want:     map[string][]string{"git": {"code.example", "ssh.example:22"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ask(t, tt.programs, tt.files); !maps.EqualFunc(got, tt.want, slices.Equal) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A host in the script would be a list of hosts of ours.
func TestScriptHasNoHosts(t *testing.T) {
	t.Parallel()
	if host := regexp.MustCompile(`\w\.(org|com|io|net|dev)\b`).FindString(groups.Script()); host != "" {
		t.Errorf("the script has %q", host)
	}
}
