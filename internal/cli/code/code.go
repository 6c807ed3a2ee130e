// Package code has what commands do with the answer of code that ran in a kernel.
package code

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// Rest is what of a run was not printed while it ran.
func Rest(run sandkasten.CodeRun) (stdout, stderr string) {
	for _, result := range run.Results {
		if text := result.Text(); text != "" {
			stdout += text + "\n"
		}
		for mime, file := range result.FilePaths {
			stderr += fmt.Sprintf("%s is in the session's file %s\n", mime, file)
		}
	}
	if run.Error != nil {
		stderr += run.Error.Traceback + "\n"
	}
	switch {
	case run.StateLost:
		stderr += fmt.Sprintf("sandkasten: the kernel ended (%s), and variables are gone\n", run.Cause)
	case run.Cause == "timeout":
		stderr += "sandkasten: the time was up; variables are kept\n"
	}
	return stdout, stderr
}

// SavePictures writes the pictures of a run to files of a directory, which it makes, and
// says their names.
func SavePictures(a *cli.App, dir string, run sandkasten.CodeRun) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	number := 0
	for i := range run.Results {
		png, err := run.Results[i].PNG()
		if err != nil {
			return err
		}
		if png == nil {
			continue
		}
		number++
		name := filepath.Join(dir, fmt.Sprintf("%d.png", number))
		if err := os.WriteFile(name, png, 0o644); err != nil {
			return err
		}
		a.Say("%s", name)
	}
	return nil
}

// Exit is the exit code that says how a run ended.
func Exit(run sandkasten.CodeRun) int {
	switch run.Cause {
	case "completed":
		return 0
	case "timeout":
		return cli.ExitTimeout
	case "interrupted", "canceled":
		return 130
	case "error":
		return cli.ExitFailed
	}
	return 137
}
