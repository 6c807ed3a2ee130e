// Package site turns the Markdown of docs into a site of static pages and
// serves it at /docs. The pages load nothing from elsewhere and link to each
// other by relative addresses, so that the same files can be put on any web
// server. What the pages say is not decided here.
package site

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed assets/*
var assets embed.FS

// reference is the page that assets/reference.js completes from openapi.json.
const reference = "reference.md"

// copied are the assets that are files of the site.
var copied = []string{"icon.svg", "theme.css", "site.css", "theme.js", "page.js", "search.js", "reference.js", "try.js", "calls.json"}

// Options say who serves the pages.
type Options struct {
	Daemon  bool // the reference can send requests to it
	Console bool // it has the console, where people sign in
}

// Build returns the files of the site by their path below its root. A link
// that leads to no page, or a page to which the lists of index.md do not lead,
// is an error: it is a mistake in the source.
func Build(source fs.FS, o Options) (map[string][]byte, error) {
	b := builder{options: o, source: source, files: map[string][]byte{}}
	if err := b.parse(); err != nil {
		return nil, err
	}
	if err := b.navigate(); err != nil {
		return nil, err
	}
	if err := b.write(); err != nil {
		return nil, err
	}
	return b.files, nil
}

type builder struct {
	options  Options
	source   fs.FS
	pages    []*page
	sections []section
	files    map[string][]byte
}

// section is one list of links in index.md, under its heading.
type section struct {
	Title string
	Links []link
}

type link struct {
	Title, Path string
	Inner       bool // below another
}

// pictures is what the names of pictures end in, which are files of the site.
const pictures = ".webp"

// parse reads all pages, and takes the pictures.
func (b *builder) parse() error {
	return fs.WalkDir(b.source, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" && path.Ext(name) != pictures {
			return err
		}
		text, err := fs.ReadFile(b.source, name)
		if err != nil {
			return err
		}
		if path.Ext(name) == pictures {
			b.files[name] = text
			return nil
		}
		p, err := b.page(name, text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.pages = append(b.pages, p)
		return nil
	})
}

// navigate takes the navigation from index.md. Pages in directories are
// reached from the index of their directory.
func (b *builder) navigate() error {
	linked := map[string]bool{"index.html": true}
	for _, p := range b.pages {
		if p.source != "index.md" {
			continue
		}
		b.sections = p.lists()
		for _, s := range b.sections {
			for _, l := range s.Links {
				linked[l.Path] = true
			}
		}
	}
	for _, p := range b.pages {
		if path.Dir(p.Path) == "." && !linked[p.Path] {
			return fmt.Errorf("%s: no list of index.md has it", p.source)
		}
	}
	return nil
}

// entry is what the search looks through: one section of a page.
type entry struct {
	Path    string `json:"path"` // with its anchor
	Page    string `json:"page"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
	Record  bool   `json:"record,omitempty"` // of a page that says how something came about: guides are found before it
}

func (b *builder) write() error {
	layout, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return err
	}
	var index []entry
	for _, p := range b.pages {
		index = append(index, p.entries()...)
		var out bytes.Buffer
		err := layout.Execute(&out, map[string]any{
			"Page": p, "Sections": b.sections,
			"Root":      strings.Repeat("../", strings.Count(p.Path, "/")),
			"Reference": p.source == reference,
			"Options":   b.options,
		})
		if err != nil {
			return err
		}
		b.files[p.Path] = out.Bytes()
	}
	if b.files["search.json"], err = json.Marshal(index); err != nil {
		return err
	}
	for _, name := range copied {
		if b.files[name], err = assets.ReadFile("assets/" + name); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether there is a page of that source.
func (b *builder) has(name string) bool {
	info, err := fs.Stat(b.source, name)
	return err == nil && !info.IsDir() && path.Ext(name) == ".md"
}

// address is where the page of a source is in the site.
func address(source string) string {
	dir, base := path.Split(source)
	base = strings.TrimSuffix(base, ".md")
	if slices.Contains([]string{"README", "index"}, base) {
		base = "index"
	}
	return dir + base + ".html"
}
