package programs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var update = flag.Bool("update", false, "write docs/programs.md anew")

// TestAccounts tries what makes and changes users, in the image of all tests.
func TestAccounts(t *testing.T) {
	testenv.NeedsRoot(t)
	tryAll(t, blackbox.Options{}, accounts)
}

// TestServers tries the rest, in an image that has them. It is of the long tier.
func TestServers(t *testing.T) {
	testenv.NeedsRoot(t)
	data := testenv.DataDir(t)
	env := append(blackbox.Environ(), "SANDKASTEN_DATA_DIR="+data)
	if err := blackbox.ImportImage(t.Context(), testenv.Program(t), testenv.ProgramsRootfs(t), "base", env); err != nil {
		t.Fatal(err)
	}
	modes := map[string][]program{}
	for _, p := range servers {
		modes[p.mode] = append(modes[p.mode], p)
	}
	for mode, programs := range modes {
		o := blackbox.Options{Images: filepath.Join(data, "images")}
		if mode != "" {
			o.Config = fmt.Sprintf("security: {seccomp: %s}\n", mode)
		}
		tryAll(t, o, programs)
	}
}

// tryAll runs each program in a session of its own.
func tryAll(t *testing.T, o blackbox.Options, programs []program) {
	t.Helper()
	client := blackbox.Start(t, o).Client("")
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			s, err := client.CreateSession(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			result, err := s.Exec(t.Context(), p.script, &sandkasten.ExecOptions{Timeout: 2 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if result.ExitCode != 0 || !strings.HasSuffix(strings.TrimSpace(result.Output), "ok") {
				t.Errorf("exit code %d, cause %s\n%s", result.ExitCode, result.Cause, result.Output)
			}
		})
	}
}

const pagePath = "../../docs/programs.md"

// TestPage: the page says of each program what the tests found. Run with -update
// after a change.
func TestPage(t *testing.T) {
	want := page()
	if *update {
		if err := os.WriteFile(pagePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/programs.md is not what the tests try; run: go test ./test/programs -run TestPage -update")
	}
}

const pageHead = `# Programs

What programs that expect a whole Linux system do in a sandbox. This page is written from the tests
(` + "`go test ./test/programs -run TestPage -update`" + `): each row is a script that runs in a sandbox, those under "works" with the
default settings unless they name another mode of ` + "`security.seccomp`" + `. The driver is the native one.

%d programs work, %d do not.
`

func page() string {
	all := append(accounts[:len(accounts):len(accounts)], servers...)
	var works, not []string
	for _, p := range all {
		switch {
		case p.not != "":
			not = append(not, fmt.Sprintf("| %s | %s | %s |", p.name, p.does, p.not))
		case p.mode != "":
			works = append(works, fmt.Sprintf("| %s, with `%s` | %s |", p.name, p.mode, p.does))
		default:
			works = append(works, fmt.Sprintf("| %s | %s |", p.name, p.does))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, len(works), len(not))
	b.WriteString("\n## Works\n\n| program | what was tried |\n| --- | --- |\n" + strings.Join(works, "\n") + "\n")
	b.WriteString("\n## Does not work\n\n| program | what was tried | why |\n| --- | --- | --- |\n" + strings.Join(not, "\n") + "\n")
	return b.String()
}
