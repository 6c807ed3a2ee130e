// Package contexts compares what code in contexts answers with what Jupyter's own client
// answers for it, in real sandboxes.
package contexts

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var update = flag.Bool("update", false, "record anew what Jupyter answers")

// recorded is what record.py writes.
type recorded struct {
	Versions map[string]string `json:"versions"`
	Answers  []struct {
		Name string   `json:"name"`
		Runs []answer `json:"runs"`
	} `json:"answers"`
}

// answer is a run's as record.py has it.
type answer struct {
	Status         string                `json:"status"`
	ExecutionCount *int                  `json:"execution_count"` // nil is not compared
	Results        []result              `json:"results"`
	Error          *sandkasten.CodeError `json:"error"`
	Stdout         string                `json:"stdout"`
	Stderr         string                `json:"stderr"`
}

type result struct {
	Data map[string]any `json:"data"`
	Main bool           `json:"main"`
}

// code is a case of the corpus.
type code struct {
	name    string
	timeout time.Duration // of the first cell
	cells   []string
}

func readCorpus(t *testing.T) (cases []code) {
	t.Helper()
	text, err := os.ReadFile("testdata/cells.txt")
	if err != nil {
		t.Fatal(err)
	}
	head := regexp.MustCompile(`^(.*?)(?: \[timeout (\d+)\])?\n`)
	for part := range strings.SplitSeq(strings.TrimPrefix(string(text), "#### "), "\n#### ") {
		part += "\n"
		found := head.FindStringSubmatch(part)
		seconds, _ := strconv.Atoi(found[2]) // none is 0
		c := code{name: found[1], timeout: time.Duration(seconds) * time.Second}
		for cell := range strings.SplitSeq(part[len(found[0]):], "+++\n") {
			c.cells = append(c.cells, strings.TrimSuffix(cell, "\n"))
		}
		cases = append(cases, c)
	}
	return cases
}

// sandbox is a session in which both sides run the same code.
type sandbox struct {
	*sandkasten.Session

	t *testing.T
}

func newSandbox(t *testing.T) sandbox {
	t.Helper()
	d := blackbox.Start(t, blackbox.Options{Images: blackbox.KernelImages(t)})
	s, err := d.Client(d.Key).CreateSession(t.Context(), &sandkasten.CreateOptions{Image: "python", MemoryMB: 3072, Pids: 512, DiskMB: 2048})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox{s, t}
}

func (s sandbox) exec(command string) string {
	s.t.Helper()
	r, err := s.Exec(s.t.Context(), command, &sandkasten.ExecOptions{Timeout: 10 * time.Minute})
	if err != nil || r.ExitCode != 0 {
		s.t.Fatalf("%s: %+v, %v", command, r, err)
	}
	return r.Output
}

func (s sandbox) upload(from, to string) {
	s.t.Helper()
	f, err := os.Open(from)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if err := s.Write(s.t.Context(), to, f, nil); err != nil {
		s.t.Fatal(err)
	}
}

// record has Jupyter run a file, a corpus or a notebook, in the sandbox.
func (s sandbox) record(file string) []byte {
	s.t.Helper()
	packages, err := testenv.NotebookPackages()
	if err != nil {
		s.t.Fatal(err)
	}
	s.upload(pack(s.t, packages), "/workspace/packages.tar")
	s.upload("testdata/record.py", "/workspace/record.py")
	s.upload(file, "/workspace/"+filepath.Base(file))
	s.exec("mkdir -p /tmp/packages && tar -C /tmp/packages -xf packages.tar && rm packages.tar")
	s.exec("NOTEBOOK_PACKAGES=/tmp/packages python3 record.py " + filepath.Base(file) + " answers.json </dev/null >/tmp/record.log 2>&1 || { tail -c 4000 /tmp/record.log >&2; exit 1; }")
	text, err := s.ReadAll(s.t.Context(), "/workspace/answers.json", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

var (
	addresses = regexp.MustCompile(`\b0x[0-9a-f]{6,}`)
	kernels   = regexp.MustCompile(`ipykernel_\d+/\d+`)
	sockets   = regexp.MustCompile(`_handle_events\(\d+`)
)

// steady is what record.py makes of a text.
func steady(text string) string {
	text = kernels.ReplaceAllString(addresses.ReplaceAllString(text, "0xADDRESS"), "ipykernel_PID/CELL")
	text = sockets.ReplaceAllString(text, "_handle_events(FD")
	if len(text) <= 4096 {
		return text
	}
	return fmt.Sprintf("%d bytes %x", len(text), sha256.Sum256([]byte(text)))
}

// whole is a text that an answer has, or the file in which it lies.
func (s sandbox) whole(text, file string) string {
	s.t.Helper()
	if file == "" {
		return steady(text)
	}
	fields := strings.Fields(s.exec("wc -c <" + file + "; sha256sum " + file))
	return fields[0] + " bytes " + fields[1]
}

// answerOf is a run's answer in the form of the recorded ones.
func (s sandbox) answerOf(r sandkasten.CodeRun, cut bool) answer {
	s.t.Helper()
	a := answer{Status: map[string]string{"completed": "ok", "error": "error", "timeout": "error", "kernel_died": "died"}[r.Cause], Results: []result{}}
	a.ExecutionCount = &r.ExecutionCount
	if a.Stdout = r.Stdout; cut {
		a.Stdout = steady(r.Stdout[:min(len(r.Stdout), 1000)])
	} else {
		a.Stdout = s.whole(r.Stdout, r.StdoutFile)
	}
	a.Stderr = s.whole(r.Stderr, r.StderrFile)
	if r.Error != nil {
		a.Error = &sandkasten.CodeError{Name: r.Error.Name, Value: steady(r.Error.Value), Traceback: steady(r.Error.Traceback)}
	}
	for _, one := range r.Results {
		of := result{Data: map[string]any{}, Main: one.IsMainResult}
		for mime, content := range one.Data {
			if text, ok := content.(string); ok {
				content = steady(text)
			}
			of.Data[mime] = content
		}
		for mime, file := range one.FilePaths {
			of.Data[mime] = s.whole("", file)
		}
		a.Results = append(a.Results, of)
	}
	return a
}

// widget is a form that answers never have: they have a note in its place.
const widget = "application/vnd.jupyter.widget-view+json"

// differences compares the fields of two answers.
func differences(got, want answer) (found []string) {
	if want.ExecutionCount == nil {
		got.ExecutionCount = nil
	}
	if want.Error != nil && want.Error.Traceback == "" && got.Error != nil {
		got.Error.Traceback = "" // where it was interrupted
	}
	for _, r := range want.Results {
		delete(r.Data, widget)
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		field := g.Type().Field(i)
		if field.IsExported() && !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			gotten, _ := json.Marshal(g.Field(i).Interface())
			wanted, _ := json.Marshal(w.Field(i).Interface())
			found = append(found, fmt.Sprintf("%s\n got %.1500s\nwant %.1500s", field.Name, gotten, wanted))
		}
	}
	return found
}

// TestCorpus holds that code answers in a context what it answers for nbclient, field by
// field. With -update nbclient runs it again and the test records what it says.
func TestCorpus(t *testing.T) {
	testenv.NeedsRoot(t)
	const file = "testdata/answers.json"
	s := newSandbox(t)
	if *update {
		if err := os.WriteFile(file, s.record("testdata/cells.txt"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want recorded
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for name, version := range want.Versions {
		if is := strings.TrimSpace(s.exec("python3 -c 'import importlib.metadata as m; print(m.version(\"" + name + "\"))'")); is != version {
			t.Fatalf("the answers are those of %s %s, and the image has %s: run go test ./test/contexts -run TestCorpus -update", name, version, is)
		}
	}
	cases := readCorpus(t)
	if len(cases) < 100 || len(cases) != len(want.Answers) {
		t.Fatalf("%d cases, %d answers", len(cases), len(want.Answers))
	}
	context, err := s.CreateContext(t.Context(), "python", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := sandbox{s.Session, t}
			if want.Answers[i].Name != c.name {
				t.Fatalf("the answer is that of %s", want.Answers[i].Name)
			}
			for n, cell := range c.cells {
				o := &sandkasten.RunCodeOptions{Timeout: 2 * time.Minute}
				if n == 0 && c.timeout > 0 {
					o.Timeout = c.timeout
				}
				run, err := context.Run(t.Context(), cell, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, difference := range differences(s.answerOf(run, n == 0 && c.timeout > 0), want.Answers[i].Runs[n]) {
					t.Errorf("%s\n%s", cell, difference)
				}
			}
		})
	}
}

// pack makes a tar of a directory's contents.
func pack(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "packages.tar")
	if text, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-cf", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return file
}
