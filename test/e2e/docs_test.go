package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// notRun is how many command blocks of each page are not run. Each of them
// says why in the line above it, <!-- not run: needs a terminal -->, but for
// those of PowerShell.
var notRun = map[string]int{
	"CONTRIBUTING.md":                   1,
	"README.md":                         2,
	"docs/api.md":                       11,
	"docs/agents.md":                    2,
	"docs/events.md":                    1,
	"docs/custom-image.md":              2,
	"docs/docker.md":                    1,
	"docs/hardening.md":                 1,
	"docs/images.md":                    2,
	"docs/mcp-clients.md":               4,
	"docs/migrating-from-astraforge.md": 4,
	"docs/network.md":                   4,
	"docs/quickstart.md":                2,
	"docs/recovery.md":                  2,
	"docs/systemd.md":                   4,
	"docs/tls.md":                       3,
	"docs/usage.md":                     1,
	"docs/users.md":                     4,
	"docs/workflows.md":                 4,
	"docs/wsl.md":                       4,
	"sdk/contract/README.md":            1,
	"sdk/go/README.md":                  1,
	"sdk/python/README.md":              1,
	"sdk/typescript/README.md":          1,
}

// block is one block of commands of a page.
type block struct {
	line   int
	text   string
	notRun string // why
	prints string // what it has to print, if the page says so in a text block below it
}

var (
	fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```\n")
	mark  = regexp.MustCompile(`<!-- not run: ([^>]+) -->\n\z`)
	// A line of a block without a language that looks like a command.
	prompt = regexp.MustCompile(`(?m)^(\$|#|sudo|sandkasten|bin/sandkasten|curl|go|docker) `)
)

// documents are the pages with commands for users, by their path.
func documents(t *testing.T) map[string][]block {
	t.Helper()
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]block{}
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "quickstart/*.md", "sdk/*/README.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("no pages are %s: %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			page, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
			if blocks := blocksOf(t, page, string(text)); len(blocks) > 0 {
				found[page] = blocks
			}
		}
	}
	return found
}

func blocksOf(t *testing.T, page, text string) []block {
	t.Helper()
	var found []block
	after := -1 // where the block before ends, if it was one of commands
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		before, lang, content := text[:at[0]], text[at[2]:at[3]], text[at[4]:at[5]]
		line := strings.Count(before, "\n") + 1
		follows := after >= 0 && strings.TrimSpace(text[after:at[0]]) == ""
		after = -1
		switch {
		case lang == "sh":
			b := block{line: line, text: content}
			if m := mark.FindStringSubmatch(before); m != nil {
				b.notRun = m[1]
			}
			found = append(found, b)
			after = at[1]
		case lang == "powershell":
			found = append(found, block{line: line, notRun: "needs Windows"})
		case lang == "text" && follows:
			found[len(found)-1].prints = content
		case lang == "console" || lang == "bash" || lang == "shell" || lang == "" && prompt.MatchString(content):
			t.Errorf("%s:%d: commands that no test runs: make it a block of sh", page, line)
		}
	}
	return found
}

// TestDocsBlocks counts what TestDocs leaves out.
func TestDocsBlocks(t *testing.T) {
	got := map[string]int{}
	all, left := 0, 0
	for page, blocks := range documents(t) {
		for _, b := range blocks {
			all++
			if b.notRun != "" {
				got[page]++
				left++
			}
		}
	}
	t.Logf("%d blocks of commands, %d of them not run", all, left)
	if diff := cmp.Diff(notRun, got); diff != "" {
		t.Errorf("blocks that are not run (-here +pages):\n%s", diff)
	}
}

var (
	taskCommand = regexp.MustCompile("go tool task ([^`\n#;&|]+)")
	taskName    = regexp.MustCompile(`(?m)^  ([a-z0-9:]+):$`)
)

// TestDocsTasks finds tasks that are not there in what pages tell readers to run,
// blocks that no test runs included: a word behind a task is another task, unless
// it stands behind --.
func TestDocsTasks(t *testing.T) {
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	taskfile, err := os.ReadFile(filepath.Join(root, "Taskfile.yml"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	_, tasks, _ := strings.Cut(string(taskfile), "\ntasks:\n")
	for _, name := range taskName.FindAllStringSubmatch(tasks, -1) {
		known[name[1]] = true
	}
	for page := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range taskCommand.FindAllStringSubmatch(string(text), -1) {
			for word := range strings.FieldsSeq(command[1]) {
				if strings.HasPrefix(word, "-") {
					break
				}
				if !known[word] {
					t.Errorf("%s: go tool task %s: there is no task %q; what a task is given stands behind --", page, command[1], word)
				}
			}
		}
	}
}

// TestDocs runs the commands of the documentation as a reader would: those of
// a page in order, in one shell, in a directory of their own. A command that
// fails, and an HTTP error, fails the page. What is not as written are the
// daemon's address and directories.
func TestDocs(t *testing.T) {
	testenv.NeedsRoot(t)
	for _, program := range []string{"bash", "busybox", "curl", "python3", "tar", "zstd"} {
		if _, err := exec.LookPath(program); err != nil {
			testenv.Unsupported(t, "the pages need %v", err)
		}
	}
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for page, blocks := range documents(t) {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			// python is another name of the same image: it has what the pages use.
			d := blackbox.Start(t, blackbox.Options{Images: blackbox.Images(t, "python")})
			t.Cleanup(func() { clearAll(d) })
			runPage(t, d, root, blocks)
		})
	}
}

// clearAll ends all sessions, also those that serve the files of a workspace and
// are in no list.
func clearAll(d *blackbox.Daemon) {
	d.Output("rm", "--all")
	if left := strings.Fields(d.Output("workspace", "ls", "--quiet")); len(left) > 0 {
		d.Output(append([]string{"workspace", "rm", "--force"}, left...)...)
	}
}

// pagePatience is how long a page may take: all take seconds.
const pagePatience = 3 * time.Minute

func runPage(t *testing.T, d *blackbox.Daemon, root string, blocks []block) {
	dir := t.TempDir()
	tools := readersTools(t, d.Program, dir, root)
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()

	ctx, cancel := context.WithTimeout(t.Context(), pagePatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", places(d, dir).Replace(pageScript(blocks)))
	cmd.Dir = filepath.Join(dir, "work")
	cmd.Env = append(d.Env, "PATH="+tools+":"+os.Getenv("PATH"), "HOME="+dir)
	cmd.Stdout, cmd.Stderr = out, out // files: what a page leaves in the background does not hold us
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	end := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = end
	err = cmd.Run()
	if cmd.Process != nil {
		_ = end() // what it left in the background, if anything
	}
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	printed := strings.Split(string(text), separator)
	if err != nil {
		failed := max(0, len(printed)-2) // the first piece is what comes before all blocks
		t.Fatalf("the block at line %d: %v\n%s", blocks[failed].line, err, printed[len(printed)-1])
	}
	original := pages(d, dir)
	for i, b := range blocks {
		if got := printed[i+1]; b.notRun == "" && b.prints != "" && original.Replace(got) != b.prints {
			t.Errorf("the block at line %d prints\n%s, not\n%s", b.line, got, b.prints)
		}
	}
}

// separator is what a script prints in front of each block.
const separator = "\x1e"

// pageScript is the page for bash.
func pageScript(blocks []block) string {
	var b strings.Builder
	b.WriteString("set -eo pipefail\n")
	for _, block := range blocks {
		b.WriteString("printf '\\x1e'\n")
		if block.notRun == "" {
			b.WriteString(block.text)
		}
	}
	return b.String()
}

// readersTools makes what a reader has: a copy of the repository's pages to
// stand in, and programs, which it returns the directory of. The curl there
// fails at an HTTP error, and sudo is for those who are not root.
func readersTools(t *testing.T, bin, dir, root string) string {
	t.Helper()
	const readme = "README.md"
	tools := filepath.Join(dir, "tools")
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{tools, filepath.Join(dir, "etc"), filepath.Join(dir, "work", "bin")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"curl": "#!/bin/sh\nexec " + curl + " --fail-with-body \"$@\"\n",
		"sudo": "#!/bin/sh\nexec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"tools/sandkasten": bin, "work/bin/sandkasten": bin,
		"work/" + readme: filepath.Join(root, readme), "work/deploy": filepath.Join(root, "deploy"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "work", "docs"), os.DirFS(filepath.Join(root, "docs"))); err != nil {
		t.Fatal(err)
	}
	return tools
}

// places puts the daemon's places for those that the pages name, and pages the
// other way.
func places(d *blackbox.Daemon, dir string) *strings.Replacer {
	return strings.NewReplacer(
		"127.0.0.1:8787", strings.TrimPrefix(d.URL, "http://"),
		"/var/lib/sandkasten", d.Data,
		"/etc/sandkasten", filepath.Join(dir, "etc"),
	)
}

func pages(d *blackbox.Daemon, dir string) *strings.Replacer {
	return strings.NewReplacer(
		strings.TrimPrefix(d.URL, "http://"), "127.0.0.1:8787",
		d.Data, "/var/lib/sandkasten",
		filepath.Join(dir, "etc"), "/etc/sandkasten",
	)
}
