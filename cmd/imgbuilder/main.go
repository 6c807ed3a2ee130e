// Command imgbuilder is another name for `sandkasten image`, for scripts that
// know it by this one. It starts the sandkasten beside it, or else the one in
// PATH; everything it can do is there.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

func main() {
	err := become(os.Args[1:])
	fmt.Fprintln(os.Stderr, "imgbuilder:", err)
	os.Exit(1)
}

// become replaces this process; it returns only if that is impossible.
func become(args []string) error {
	program, err := find()
	if err != nil {
		return err
	}
	argv := append([]string{program, "image"}, args...)
	return fmt.Errorf("start %s: %w", program, syscall.Exec(program, argv, os.Environ()))
}

func find() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find sandkasten: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), "sandkasten")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	program, err := exec.LookPath("sandkasten")
	if err != nil {
		return "", fmt.Errorf("imgbuilder is a name for `sandkasten image`, and there is no sandkasten beside it or in PATH: %w", err)
	}
	return program, nil
}
