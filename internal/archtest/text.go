package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// minPackageComment is the shortest comment that can say both what belongs in
// a package and what does not.
const minPackageComment = 80

// PackageComments returns the packages that do not have exactly one comment of
// some substance.
func (r *Repo) PackageComments() []string {
	var found []string
	for _, p := range r.Packages {
		var docs []string
		var name string
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			name = f.AST.Name.Name
			if f.AST.Doc != nil {
				docs = append(docs, f.AST.Doc.Text())
			}
		}
		if name == "" {
			continue // only tests
		}
		start := "Package " + name + " "
		if name == "main" {
			start = "Command " + path.Base(p.Dir)
		}
		switch {
		case len(docs) != 1:
			found = append(found, fmt.Sprintf("%s: %d package comments, want one", p.Dir, len(docs)))
		case !strings.HasPrefix(docs[0], start):
			found = append(found, fmt.Sprintf("%s: its comment does not start with %q", p.Dir, start))
		case len(docs[0]) < minPackageComment:
			found = append(found, p.Dir+": its comment does not say what belongs there and what does not")
		}
	}
	return found
}

// badPackages are names that say nothing about what is inside.
var badPackages = []string{"util", "utils", "common", "helpers", "types", "handlers", "interfaces", "misc", "shared"}

// Names returns packages called after nothing, and functions that run on
// import.
func (r *Repo) Names() []string {
	var found []string
	for _, p := range r.Packages {
		if slices.Contains(badPackages, path.Base(p.Dir)) {
			found = append(found, p.Dir+": the name does not say what is inside")
		}
		for _, f := range p.Files {
			if _, ok := r.funcs(f)["init"]; ok {
				found = append(found, f.Path+": has an init function; imports have no effects here")
			}
		}
	}
	return found
}

var (
	testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	mdFile   = regexp.MustCompile(`\b[\w./-]*[A-Za-z]+\.md\b`)
	taskCall = regexp.MustCompile(`\bgo tool task(?: -[-\w]+)*( [a-z][a-z0-9:-]*)?`)
	taskName = regexp.MustCompile(`(?m)^  ([a-z][a-z0-9:-]*):`)
	skipLine = regexp.MustCompile(`(?m)^(?:\[[^\]]*\] *)*skip\b`)
	// Paths of machines where this was written. The pieces keep the rule from
	// finding itself.
	foreign = regexp.MustCompile(`(?:^|[\s"'(=` + "`" + `])/(?:wo` + `rk/(?:main|shared)|tmp/w/|home/[a-z]+/)`)
)

// TestNames returns the tests that a Markdown file names and nobody wrote. The
// beginning of names, up to an underscore, stands for all of them.
func (r *Repo) TestNames(file string) ([]string, error) {
	text, err := r.read(file)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, p := range r.Packages {
		for _, f := range p.Files {
			for name := range r.funcs(f) {
				have[name] = true
				family, _, _ := strings.Cut(name, "_")
				have[family] = true
			}
		}
	}
	var found []string
	for _, name := range testName.FindAllString(text, -1) {
		if !have[name] {
			found = append(found, file+": names "+name+", which does not exist")
		}
	}
	return found, nil
}

// Links returns the links and file names in Markdown and Go comments that lead
// nowhere in the repository.
func (r *Repo) Links() ([]string, error) {
	var found []string
	err := r.textFiles(func(name, text string) {
		if name == "internal/archtest/archtest_test.go" {
			return // it is about files that are not there
		}
		switch path.Ext(name) {
		case ".md":
			for _, m := range mdLink.FindAllStringSubmatch(text, -1) {
				if problem := r.follow(name, m[1]); problem != "" {
					found = append(found, fmt.Sprintf("%s: link to %s: %s", name, m[1], problem))
				}
			}
		case ".go", ".yml", ".yaml":
			for _, m := range mdFile.FindAllString(text, -1) {
				if !r.exists(path.Join(path.Dir(name), m)) && !r.exists(m) && !r.exists(path.Join("docs", m)) {
					found = append(found, fmt.Sprintf("%s: mentions %s, which does not exist", name, m))
				}
			}
		}
	})
	return found, err
}

func (r *Repo) exists(name string) bool {
	_, err := fs.Stat(r.fsys, path.Clean(name))
	return err == nil
}

// follow returns what is wrong with a link in file from, if anything is.
func (r *Repo) follow(from, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	target, anchor, _ := strings.Cut(link, "#")
	name := from
	if target != "" {
		name = path.Join(path.Dir(from), target)
	}
	if !r.exists(name) {
		return "no such file"
	}
	if anchor == "" || path.Ext(name) != ".md" {
		return ""
	}
	text, err := r.read(name)
	if err != nil {
		return err.Error()
	}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		if slug(h[1]) == anchor {
			return ""
		}
	}
	return "no such heading"
}

// slug is the anchor that renderers give a heading.
func slug(heading string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(heading) {
		switch {
		case c == ' ':
			b.WriteByte('-')
		case c == '-' || c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		}
	}
	return b.String()
}

// Tasks returns the tasks that a document or script calls and Taskfile.yml
// does not have.
func (r *Repo) Tasks() ([]string, error) {
	taskfile, err := r.read("Taskfile.yml")
	if err != nil {
		return nil, err
	}
	_, tasks, _ := strings.Cut(taskfile, "\ntasks:\n")
	have := map[string]bool{"": true}
	for _, m := range taskName.FindAllStringSubmatch(tasks, -1) {
		have[m[1]] = true
	}
	var found []string
	err = r.textFiles(func(name, text string) {
		if strings.HasPrefix(name, "internal/archtest/") {
			return
		}
		for _, m := range taskCall.FindAllStringSubmatch(text, -1) {
			if task := strings.TrimSpace(m[1]); !have[task] {
				found = append(found, fmt.Sprintf("%s: calls the task %q, which does not exist", name, task))
			}
		}
	})
	return found, err
}

// ForeignPaths returns the files that name directories of the machine they
// were written on.
func (r *Repo) ForeignPaths() ([]string, error) {
	var found []string
	err := r.textFiles(func(name, text string) {
		if m := foreign.FindString(text); m != "" {
			found = append(found, fmt.Sprintf("%s: names %q, a path of one machine", name, strings.TrimSpace(m)))
		}
	})
	return found, err
}

// ScriptSkips returns the test scripts that skip: nobody would see it in CI.
func (r *Repo) ScriptSkips() ([]string, error) {
	var found []string
	err := fs.WalkDir(r.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".txtar" {
			return err
		}
		text, err := r.read(name)
		if skipLine.MatchString(text) {
			found = append(found, name+": skips; the test that runs it decides with testenv")
		}
		return err
	})
	return found, err
}
