package images

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/sandkasten/sandkasten/internal/images/extract"
)

const (
	bashPath = "/bin/bash"
	shPath   = "/bin/sh"
)

// Drivers mount onto these. A mount that follows a link, or finds a file where
// a directory should be, is how images have escaped other runtimes.
var (
	mountDirs  = []string{"dev", "etc", "proc", "run", "sys", "tmp", "workspace"}
	mountFiles = []string{"etc/hostname", "etc/hosts", "etc/resolv.conf"}
)

// findings is what a look into a root filesystem tells.
type findings struct {
	shell    string
	env      []string // from /etc/environment
	problems []string // any one refuses the image
	warnings []string
}

// examine checks that a root filesystem can be a sandbox.
func examine(v *extract.View) (findings, error) {
	var f findings
	for _, shell := range []string{bashPath, shPath} {
		ok, err := runnable(v, shell)
		if err != nil {
			return f, err
		}
		if ok && f.shell == "" {
			f.shell = shell
		}
		if !ok && shell == shPath {
			f.problems = append(f.problems, shell+" is missing or cannot be run")
		}
	}
	for _, dir := range mountDirs {
		e, err := v.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return f, err
		case !e.IsDir():
			f.problems = append(f.problems, fmt.Sprintf("/%s is not a directory", dir))
		}
	}
	for _, file := range mountFiles {
		e, err := v.Lstat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return f, err
		case e.IsDir():
			f.problems = append(f.problems, fmt.Sprintf("/%s is a directory", file))
		case !e.IsRegular():
			f.warnings = append(f.warnings, fmt.Sprintf("/%s is a link; sandboxes get a file of their own", file))
		}
	}
	env, err := v.ReadFile("etc/environment", maxEnvironmentFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		f.warnings = append(f.warnings, "/etc/environment cannot be read and is ignored")
	default:
		f.env = parseEnvironment(env)
	}
	return f, nil
}

// runnable reports whether p leads to a regular file that anybody may run.
func runnable(v *extract.View, p string) (bool, error) {
	e, err := v.Stat(strings.TrimPrefix(p, "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return e.IsRegular() && e.Size > 0 && e.Mode&0o111 == 0o111, nil
}

func sentence(list []string) string { return strings.Join(list, "; ") }
