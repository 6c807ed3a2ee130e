package site

import (
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	extensionast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// languages are what pages show the same thing in. A page writes one as a paragraph,
// "Python:", with a code block below it; two or more that follow each other become
// tabs.
var languages = map[string]string{"curl": "curl", "Command line": "cli", "Python": "python", "TypeScript": "typescript", "Go": "go"}

var (
	groupKind    = ast.NewNodeKind("LanguageGroup")
	languageKind = ast.NewNodeKind("Language")
)

// languageGroup holds the same thing in several languages.
type languageGroup struct{ ast.BaseBlock }

func (*languageGroup) Kind() ast.NodeKind              { return groupKind }
func (g *languageGroup) Dump(source []byte, depth int) { ast.DumpHelper(g, source, depth, nil, nil) }

// language is one member of a group.
type language struct {
	ast.BaseBlock

	name  string
	level int // of its heading
}

func (*language) Kind() ast.NodeKind              { return languageKind }
func (l *language) Dump(source []byte, depth int) { ast.DumpHelper(l, source, depth, nil, nil) }

// groupLanguages makes groups of the members that follow each other.
func (p *page) groupLanguages() {
	level := 1
	for n := p.tree.FirstChild(); n != nil; {
		if h, ok := n.(*ast.Heading); ok {
			level = h.Level
		}
		members, next := p.membersFrom(n, level+1)
		if len(members) < 2 {
			n = n.NextSibling()
			continue
		}
		group := &languageGroup{}
		for _, member := range members {
			group.AppendChild(group, member.language)
			p.tree.RemoveChild(p.tree, member.label)
			member.AppendChild(member.language, member.code)
		}
		if next == nil {
			p.tree.AppendChild(p.tree, group)
		} else {
			p.tree.InsertBefore(p.tree, next, group)
		}
		n = next
	}
}

type member struct {
	*language

	label, code ast.Node
}

// membersFrom returns the members that begin at n, and what follows them.
func (p *page) membersFrom(n ast.Node, level int) (members []member, next ast.Node) {
	for n != nil {
		label, isLabel := n.(*ast.Paragraph)
		if !isLabel {
			break
		}
		name, hasColon := strings.CutSuffix(p.plain(label), ":")
		code, isCode := n.NextSibling().(*ast.FencedCodeBlock)
		if !hasColon || languages[name] == "" || !isCode {
			break
		}
		members = append(members, member{&language{name: name, level: level}, label, code})
		n = code.NextSibling()
	}
	return members, n
}

// pageRenderer writes what pages show otherwise than goldmark does.
type pageRenderer struct{}

func (pageRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, renderHeading)
	r.Register(extensionast.KindTable, around(`<div class="wide">`+"\n<table>\n", "</table>\n</div>\n"))
	r.Register(groupKind, around(`<div class="languages">`+"\n", "</div>\n"))
	r.Register(languageKind, renderLanguage)
}

func around(before, after string) renderer.NodeRendererFunc {
	return func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		text := after
		if entering {
			text = before
		}
		_, err := w.WriteString(text)
		return ast.WalkContinue, err
	}
}

// renderHeading has each heading below the title link to itself.
func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	h := n.(*ast.Heading) //nolint:forcetypeassert // it is registered for headings
	tag := "h" + strconv.Itoa(h.Level)
	id := string(util.EscapeHTML([]byte(anchor(h))))
	text := "<" + tag + ` id="` + id + `">`
	switch {
	case !entering && h.Level == 1:
		text = "</" + tag + ">\n"
	case !entering:
		text = ` <a class="anchor" href="#` + id + `" aria-label="Link to this section">#</a></` + tag + ">\n"
	}
	_, err := w.WriteString(text)
	return ast.WalkContinue, err
}

func renderLanguage(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	l := n.(*language) //nolint:forcetypeassert // it is registered for languages
	tag := "h" + strconv.Itoa(min(l.level, 6))
	text := `<section data-language="` + languages[l.name] + `">` + "\n<" + tag + ">" + l.name + "</" + tag + ">\n"
	if !entering {
		text = "</section>\n"
	}
	_, err := w.WriteString(text)
	return ast.WalkContinue, err
}
