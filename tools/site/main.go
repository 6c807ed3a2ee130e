// Command site writes the documentation as static files, for a web server that
// is no daemon: DIR/docs as a daemon has it at /docs, and DIR/openapi.json
// beside it, which the reference draws.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/docs"
	"github.com/sandkasten/sandkasten/internal/api/site"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site OPENAPI.JSON DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// write makes dir if it is not there, and replaces the files of the site in it.
func write(openapi, dir string) error {
	files, err := site.Build(docs.FS)
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
