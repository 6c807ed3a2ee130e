package archtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// MinToolchain is the oldest Go release without a known hole in what we build
// on: before it os.Root could be left through a link with a trailing slash.
const MinToolchain = "1.26.5"

var (
	toolchainLine = regexp.MustCompile(`(?m)^toolchain go(\S+)$`)
	requireLine   = regexp.MustCompile(`(?m)^\s*(?:require )?([a-z][\w./~-]*\.[\w./~-]+) v\S+( // indirect)?$`)
	libcLine      = regexp.MustCompile(`(?m)^\s*(?:require )?modernc\.org/libc (\S+)`)
)

// Toolchain returns what is wrong with the toolchain line of go.mod.
func Toolchain(gomod string) string {
	m := toolchainLine.FindStringSubmatch(gomod)
	if m == nil {
		return "go.mod: no toolchain line"
	}
	if before(m[1], MinToolchain) {
		return fmt.Sprintf("go.mod: toolchain go%s is older than go%s", m[1], MinToolchain)
	}
	return ""
}

// before compares dotted numbers.
func before(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, errX := strconv.Atoi(as[i])
		y, errY := strconv.Atoi(bs[i])
		if errX != nil || errY != nil {
			return a < b
		}
		if x != y {
			return x < y
		}
	}
	return len(as) < len(bs)
}

// SQLiteLibc returns what is wrong with the version of modernc.org/libc: the
// SQLite that is built on it works with the very version it names.
func SQLiteLibc(ctx context.Context, gomod string) (string, error) {
	ours := libcLine.FindStringSubmatch(gomod)
	if ours == nil {
		return "", nil // no SQLite
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.GoMod}}", "modernc.org/sqlite").Output()
	if err != nil {
		return "", fmt.Errorf("find SQLite's go.mod: %w", err)
	}
	theirs, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		return "", err
	}
	m := libcLine.FindStringSubmatch(string(theirs))
	if m == nil || m[1] != ours[1] {
		return fmt.Sprintf("go.mod: modernc.org/libc is %s, SQLite wants %s", ours[1], m), nil
	}
	return "", nil
}

// Requirements returns the modules that go.mod calls indirect although the
// code imports them, or direct although nothing does. A tool's is indirect.
func (r *Repo) Requirements(gomod string) []string {
	needed := map[string]bool{} // by package
	for _, p := range r.Packages {
		for _, f := range p.Files {
			for _, spec := range f.AST.Imports {
				needed[strings.Trim(spec.Path.Value, `"`)] = true
			}
		}
	}
	modules := requireLine.FindAllStringSubmatch(gomod, -1)
	direct := map[string]bool{} // by module
	for pkg := range needed {
		longest := ""
		for _, m := range modules {
			if (pkg == m[1] || strings.HasPrefix(pkg, m[1]+"/")) && len(m[1]) > len(longest) {
				longest = m[1]
			}
		}
		direct[longest] = true
	}
	var found []string
	for _, m := range modules {
		switch indirect := m[2] != ""; {
		case indirect && direct[m[1]]:
			found = append(found, "go.mod: "+m[1]+" is imported, and called indirect: run go mod tidy")
		case !indirect && !direct[m[1]]:
			found = append(found, "go.mod: nothing imports "+m[1]+": run go mod tidy")
		}
	}
	return found
}
