// Package man writes manual pages from what --help is made of: the model of
// the command line. It knows roff and no command but the one that writes them;
// the texts are the commands'.
package man

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Pages returns a page for the program and one for each of its commands that
// is not hidden, by file name: sandkasten.1, sandkasten-workspace-cp.1.
func Pages(app *kong.Application) map[string][]byte {
	pages := map[string][]byte{}
	var add func(n *kong.Node)
	add = func(n *kong.Node) {
		pages[name(app, n)+".1"] = page(app, n)
		for _, child := range visibleCommands(n) {
			add(child)
		}
	}
	add(app.Node)
	return pages
}

// name is what `man` finds a page by.
func name(app *kong.Application, n *kong.Node) string {
	if n == app.Node {
		return app.Name
	}
	return name(app, n.Parent) + "-" + n.Name
}

func visibleCommands(n *kong.Node) []*kong.Node {
	var found []*kong.Node
	for _, child := range n.Children {
		if !child.Hidden {
			found = append(found, child)
		}
	}
	return found
}

func page(app *kong.Application, n *kong.Node) []byte {
	var b bytes.Buffer
	title := name(app, n)
	summary, detail, _ := strings.Cut(n.Help, "\n")
	if n.Detail != "" {
		detail = n.Detail
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"\" \"%s\"\n", strings.ToUpper(escape(title)), escape(app.Name))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(title), escape(strings.TrimSuffix(summary, ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n%s\n", escape(app.Name), escape(usage(app, n)))
	if detail = strings.Trim(detail, "\n"); detail != "" {
		b.WriteString(".SH DESCRIPTION\n")
		prose(&b, detail)
	}
	commands(&b, app, n)
	if len(n.Positional) > 0 {
		b.WriteString(".SH ARGUMENTS\n")
		for _, arg := range n.Positional {
			item(&b, arg.Summary(), kong.DefaultHelpValueFormatter(arg))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, group := range n.AllFlags(true) {
		for _, flag := range group {
			item(&b, flag.String(), kong.DefaultHelpValueFormatter(flag.Value))
		}
	}
	if n != app.Node {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", escape(name(app, n.Parent)))
	}
	return b.Bytes()
}

// usage is what stands behind the program's name.
func usage(app *kong.Application, n *kong.Node) string {
	if n == app.Node {
		return strings.TrimSpace(app.Summary())
	}
	return strings.TrimPrefix(n.Summary(), app.Name+" ")
}

func commands(b *bytes.Buffer, app *kong.Application, n *kong.Node) {
	children := visibleCommands(n)
	if len(children) == 0 {
		return
	}
	b.WriteString(".SH COMMANDS\n")
	for _, child := range children {
		item(b, name(app, child)+"(1)", child.Help)
	}
}

// item is one entry of a list: a term, and indented what it means.
func item(b *bytes.Buffer, term, meaning string) {
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escape(term), escape(meaning))
}

// prose writes paragraphs, and lines that are indented as they are.
func prose(b *bytes.Buffer, text string) {
	verbatim := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case indented && !verbatim:
			b.WriteString(".nf\n")
			verbatim = true
		case !indented && line != "" && verbatim:
			b.WriteString(".fi\n.PP\n")
			verbatim = false
		case line == "" && !verbatim:
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(escape(line) + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

// escape makes text that roff prints as it is: no line of it is a request,
// and hyphens can be copied.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
