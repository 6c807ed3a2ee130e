package site

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// repository is where a link leads that leaves docs.
const repository = "https://github.com/sandkasten/sandkasten/blob/main/"

// page is one page of the site.
type page struct {
	source   string // "pool.md"
	Path     string // "pool.html"
	Title    string
	Contents []link // its headings of the second and third level
	Body     template.HTML

	text []byte
	tree ast.Node
}

// Markdown as GitHub shows it. HTML in it is left out, so that a page can
// only be what Markdown can say.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(pageRenderer{}, 100))), // before goldmark's own
)

func (b *builder) page(source string, src []byte) (*page, error) {
	p := &page{source: source, Path: address(source), text: src}
	p.tree = markdown.Parser().Parse(text.NewReader(src), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	err := ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			destination, err := b.follow(source, string(n.Destination))
			if err != nil {
				return ast.WalkStop, err
			}
			n.Destination = []byte(destination)
		case *ast.Image:
			picture := path.Join(path.Dir(source), string(n.Destination))
			if _, err := fs.Stat(b.source, picture); err != nil || path.Ext(picture) != pictures {
				return ast.WalkStop, fmt.Errorf("shows %s, which is no picture", n.Destination)
			}
		case *ast.Heading:
			p.heading(n)
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	if p.Title == "" {
		return nil, errors.New("does not begin with a title")
	}
	p.groupLanguages()
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, src, p.tree); err != nil {
		return nil, err
	}
	p.Body = template.HTML(out.String()) //nolint:gosec // goldmark escapes, and leaves out the HTML of the source
	return p, nil
}

func (p *page) heading(n *ast.Heading) {
	switch title := p.plain(n); n.Level {
	case 1:
		p.Title = title
	case 2, 3:
		p.Contents = append(p.Contents, link{Title: title, Path: "#" + anchor(n), Inner: n.Level == 3})
	}
}

// follow returns where a link of source leads in the site.
func (b *builder) follow(source, destination string) (string, error) {
	u, err := url.Parse(destination)
	if err != nil || u.Scheme != "" || u.Path == "" {
		return destination, err
	}
	target := path.Join(path.Dir(source), u.Path)
	up := strings.Repeat("../", strings.Count(source, "/"))
	switch {
	case strings.HasPrefix(target, "../"):
		return repository + strings.TrimPrefix(target, "../"), nil
	case b.has(target):
	case b.has(target + "/README.md"):
		target += "/README.md"
	default:
		return "", fmt.Errorf("links to %s, which is no page", destination)
	}
	u.Path = up + address(target)
	return u.String(), nil
}

// lists returns the links of each list, under the heading above it.
func (p *page) lists() []section {
	var found []section
	title := ""
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			title = p.plain(n)
		case *ast.List:
			s := section{Title: title}
			for item := n.FirstChild(); item != nil; item = item.NextSibling() {
				if l := first[*ast.Link](item); l != nil {
					s.Links = append(s.Links, link{Title: p.plain(l), Path: string(l.Destination)})
				}
			}
			found = append(found, s)
		}
	}
	return found
}

// first returns the first node of a kind below n, or nil.
func first[T ast.Node](n ast.Node) (found T) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(T); ok {
			return t
		}
		if t := first[T](c); any(t) != any(found) {
			return t
		}
	}
	return found
}

// entries cuts the page at its headings.
func (p *page) entries() []entry {
	var found []entry
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			found = append(found, entry{Path: p.Path + "#" + anchor(h), Page: p.Title, Heading: p.plain(h), Record: path.Dir(p.Path) != "."})
			continue
		}
		if len(found) > 0 {
			last := &found[len(found)-1]
			last.Text = strings.TrimSpace(last.Text + " " + p.plain(n))
		}
	}
	return found
}

// plain is the text of a node, with single spaces.
func (p *page) plain(n ast.Node) string {
	var b strings.Builder
	// The function never fails.
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(p.text))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(n.Lines().Value(p.text))
			}
		default:
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ') // between the cells of a table, too
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

func anchor(h *ast.Heading) string {
	id, _ := h.AttributeString("id")
	text, _ := id.([]byte)
	return string(text)
}

// anchors gives headings the names that GitHub gives them, so that a link to
// one works in both places.
type anchors map[string]bool

// Generate is called for each heading in order.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, c := range strings.ToLower(string(value)) {
		switch {
		case c == ' ':
			b.WriteByte('-')
		case c == '-' || c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		}
	}
	name := b.String()
	for i := 1; a[name]; i++ {
		name = fmt.Sprintf("%s-%d", b.String(), i)
	}
	a[name] = true
	return []byte(name)
}

// Put takes a name that the source gave.
func (a anchors) Put(value []byte) { a[string(value)] = true }
