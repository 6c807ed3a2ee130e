// Command task is `go tool task`: it runs the task runner that
// tools/gotask/go.mod chooses, with our arguments, and builds it the first
// time. The runner has a module of its own, so that none of what it needs is
// needed to build Sandkasten.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	module = "tools/gotask/go.mod"
	runner = "github.com/go-task/task/v3/cmd/task"
)

func main() {
	program, err := build(context.Background())
	if err == nil {
		err = syscall.Exec(program, append([]string{"task"}, os.Args[1:]...), os.Environ()) //nolint:gosec // it is our own build
	}
	fmt.Fprintln(os.Stderr, "go tool task:", err)
	os.Exit(1)
}

// build returns the path of the runner, which is kept in the user's cache.
func build(ctx context.Context) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, module))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(text, runtime.Version()...))
	program := filepath.Join(cache, "sandkasten", "task-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(program); !errors.Is(err, fs.ErrNotExist) {
		return program, err
	}
	fmt.Fprintln(os.Stderr, "Building the task runner, once; it takes half a minute ...")
	start := time.Now()
	partial := fmt.Sprintf("%s.%d", program, os.Getpid()) // renamed when whole
	cmd := exec.CommandContext(ctx, "go", "build", "-modfile="+module, "-o", partial, runner)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the task runner: %w", err)
	}
	fmt.Fprintf(os.Stderr, "Built it in %.0f s.\n", time.Since(start).Seconds())
	return program, os.Rename(partial, program)
}

// moduleRoot is the directory with the runner's module, at or above the working
// directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, module)); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("the working directory is not in a checkout of Sandkasten")
}
