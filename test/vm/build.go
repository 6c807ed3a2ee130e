package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goBuild builds the package's command as a static binary at file.
func goBuild(ctx context.Context, file, pkg string) error {
	return goStatic(ctx, "build", "-o", file, pkg)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// goStatic runs the go command without cgo, so that what it builds needs
// nothing of the machine it runs on, and as releases are built, so that most of
// it is in the cache.
func goStatic(ctx context.Context, command string, args ...string) error {
	args = append([]string{command, "-trimpath"}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// TestPackage is a Go package whose tests run in a machine.
type TestPackage struct {
	ImportPath string
	Dir        string
	Run        string // tests that run, as -test.run takes it; "" for all
	Skip       string // tests of those that do not, as -test.skip takes it; "" for none
}

// ListTestPackages lists the packages matching patterns that have tests.
func ListTestPackages(ctx context.Context, patterns ...string) ([]TestPackage, error) {
	const format = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}"
	list, err := output(ctx, "", "go", append([]string{"list", "-f", format}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []TestPackage
	for line := range strings.Lines(list) {
		if importPath, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			packages = append(packages, TestPackage{ImportPath: importPath, Dir: dir})
		}
	}
	return packages, nil
}

// compileTests builds the package's test binary at file.
func (p TestPackage) compileTests(ctx context.Context, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return goStatic(ctx, "test", "-c", "-o", file, p.ImportPath)
}
