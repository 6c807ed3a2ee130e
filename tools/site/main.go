// Command site writes the documentation as static files, for a web server that
// is no daemon: DIR/docs as a daemon has it at /docs, and DIR/openapi.json
// beside it, which the reference draws.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/docs"
	"github.com/sandkasten/sandkasten/internal/api/site"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: site OPENAPI.JSON DIR")
	}
	return write(args[0], args[1])
}

// write makes dir if it is not there, and replaces the files of the site in it.
func write(openapi, dir string) error {
	files, err := site.Build(docs.FS, site.Options{})
	if err != nil {
		return err
	}
	document, err := os.ReadFile(openapi)
	if err != nil {
		return err
	}
	files["../openapi.json"] = document
	for name, content := range files {
		file := filepath.Join(dir, "docs", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
