package sandkasten

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestReferenceCalls holds that the documentation's reference shows for each operation a
// call that makes it: all calls are one program, which is built and run.
func TestReferenceCalls(t *testing.T) {
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("building the calls needs Go: %v", err)
	}
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	readJSON(t, "../../internal/api/v1/openapi.json", &document)
	var shown struct {
		Before     struct{ Go map[string]string }
		Operations map[string]struct{ Go string }
	}
	readJSON(t, "../../internal/api/site/assets/calls.json", &shown)

	asked := followReference(t, compiler, referenceProgram(shown.Before.Go, shown.Operations))
	left := leftOut(t)
	variable := regexp.MustCompile(`\{\w+\}`)
	for path, methods := range document.Paths {
		for method, operation := range methods {
			id := operation.OperationID
			call := shown.Operations[id].Go
			if (call == "") != (left[id] != "") {
				t.Errorf("%s: the reference shows %q, and sdk/contract/operations.json says %q", id, call, left[id])
			}
			wanted := regexp.MustCompile("^" + strings.ToUpper(method) + " " + variable.ReplaceAllString(path, "[^/]+") + "$")
			if call != "" && !slices.ContainsFunc(asked[id], wanted.MatchString) {
				t.Errorf("%s: %s asks %q", id, call, asked[id])
			}
		}
	}
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// referenceProgram calls all, each behind a request that says which one comes.
func referenceProgram(before map[string]string, operations map[string]struct{ Go string }) string {
	var b strings.Builder
	b.WriteString(`package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

var _, _, _ = fmt.Sprint, strings.NewReader, time.Second

func main() {
	ctx := context.Background()
	archive := strings.NewReader("x")
`)
	for _, name := range []string{"client", "session", "process", "workspace"} {
		b.WriteString("\t" + before[name] + "\n")
	}
	b.WriteString("\t_, _ = os.Stdout, err\n")
	for id, operation := range operations {
		if operation.Go != "" {
			fmt.Fprintf(&b, "\thttp.Get(os.Getenv(\"SANDKASTEN_URL\") + \"/next/%s\")\n\tfunc() {\n%s\n\t}()\n", id, operation.Go)
		}
	}
	return b.String() + "}\n"
}

// followReference runs the program against a daemon that refuses everything. It returns
// what was asked for each operation.
func followReference(t *testing.T, compiler, program string) map[string][]string {
	t.Helper()
	var mu sync.Mutex
	asked, current := map[string][]string{}, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if id, ok := strings.CutPrefix(r.URL.Path, "/next/"); ok {
			current = id
			return
		}
		asked[current] = append(asked[current], r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"no","code":"invalid_argument"}`)
	}))
	defer server.Close()
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	source, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "examples", "reference", "main.go"): source}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{source: []byte(program), overlay: replace} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), compiler, "run", "-overlay="+overlay, "./examples/reference")
	cmd.Env = append(os.Environ(), "SANDKASTEN_URL="+server.URL, "SANDKASTEN_API_KEY=key", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return asked
}
