package man_test

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/internal/cli/man"
)

type program struct {
	Verbose bool `short:"v" help:"Say more."`

	Box struct {
		Add    addCmd   `cmd:"" help:"Add one."`
		Secret struct{} `cmd:"" hidden:""`
	} `cmd:"" help:"Work on boxes."`
}

type addCmd struct {
	Name string `arg:"" help:"Its name."`
}

func (addCmd) Help() string {
	return "First line,\n.second line with a \\ in it.\n\n  tool box add 'x'\n  'y'\n\nLast."
}

func TestPages(t *testing.T) {
	parser, err := kong.New(&program{}, kong.Name("tool"), kong.Description("Does things.\n\nAnd others."))
	if err != nil {
		t.Fatal(err)
	}
	pages := man.Pages(parser.Model)
	if len(pages) != 3 {
		t.Errorf("%d pages", len(pages))
	}
	for name, wants := range map[string][]string{
		"tool.1":     {"tool \\- Does things\n", "And others.\n", ".B tool\\-box(1)\nWork on boxes.\n", ".B \\-v, \\-\\-verbose\nSay more.\n"},
		"tool-box.1": {".B tool\\-box\\-add(1)\nAdd one.\n", ".BR tool (1)\n"},
		"tool-box-add.1": {
			`.TH TOOL\-BOX\-ADD 1 "" "" "tool"`, ".B tool\nbox add <name>", ".B <name>\nIts name.\n", ".BR tool\\-box (1)\n",
			"First line,\n\\&.second line with a \\e in it.\n.PP\n.nf\n  tool box add 'x'\n  'y'\n\n.fi\n.PP\nLast.\n",
		},
	} {
		for _, want := range wants {
			if !strings.Contains(string(pages[name]), want) {
				t.Errorf("%s does not have %q:\n%s", name, want, pages[name])
			}
		}
	}
	for name, page := range pages {
		if strings.Contains(string(page), "secret") {
			t.Errorf("%s has a hidden command", name)
		}
	}
}
