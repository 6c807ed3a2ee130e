package images_test

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

const stepsRecipe = `
suite: bookworm
packages: [less]
env: {GREETING: hello}
exclude: [/usr/share/doc/*, /usr/share/man/*]
copy:
  - {from: app, to: /opt/app, mode: "0755"}
run:
  - cat /proc/sys/kernel/random/uuid > /opt/first; echo gone > /tmp/gone; rm /usr/bin/less; echo "$GREETING" > /opt/greeting
  - grep -E '^(CapEff|NoNewPrivs|NSpid)' /proc/self/status > /opt/status; ls /dev > /opt/dev; touch /proc/sys/kernel/hostname 2> /opt/proc || true
`

// asFiles are the files of a recipe's directory.
func asFiles(files map[string]string) []images.File {
	var list []images.File
	for name, text := range files {
		list = append(list, images.File{Path: name, Mode: 0o644, Size: int64(len(text)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}})
	}
	return list
}

func parsed(t *testing.T, text string) images.Recipe {
	t.Helper()
	r, err := images.ParseRecipe(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBuildSteps(t *testing.T) {
	testenv.NeedsRoot(t)
	s := open(t)
	var phases []string
	build := func(recipe string, files map[string]string, noCache bool) (images.Image, error) {
		t.Helper()
		phases = nil
		return s.Build(t.Context(), images.BuildRequest{
			Name: "steps", Recipe: parsed(t, recipe), Files: asFiles(files), NoCache: noCache,
			Progress: func(p images.Progress) { phases = append(phases, p.Phase) },
		})
	}
	read := func(img images.Image, name string) string {
		t.Helper()
		text, err := view(t, s, img.Digest).ReadFile(name, 1<<12)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return string(text)
	}
	app := map[string]string{"app/main": "echo main", "app/lib/x": "x", "other": "no"}
	img, err := build(stepsRecipe, app, false)
	if errdefs.Is(err, errdefs.Unimplemented) {
		testenv.Unsupported(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(img.Layers) != 4 || read(img, "opt/app/main") != "echo main" || read(img, "opt/app/lib/x") != "x" || read(img, "opt/greeting") != "hello\n" {
		t.Errorf("image %+v", img)
	}
	v := view(t, s, img.Digest)
	for _, absent := range []string{"usr/bin/less", "tmp/gone", "opt/other", "run/ca.crt", "dev/null"} {
		if _, err := v.Stat(absent); err == nil {
			t.Errorf("%s is there", absent)
		}
	}
	if info, err := v.Stat("opt/app/main"); err != nil || info.Mode&0o777 != 0o755 {
		t.Errorf("the copied file: %v, %v", info, err)
	}
	// A step is root with little of what root may do, alone, and before a /proc
	// that it cannot write to.
	status := read(img, "opt/status")
	for _, want := range []string{"NoNewPrivs:\t1", "CapEff:\t00000000000005fb"} {
		if !strings.Contains(status, want) {
			t.Errorf("a step has %q, which lacks %q", status, want)
		}
	}
	if !regexp.MustCompile(`NSpid:\t\d{1,2}\n`).MatchString(status) {
		t.Errorf("a step sees the host's processes: %q", status)
	}
	if text := read(img, "opt/proc"); !strings.Contains(text, "Read-only") {
		t.Errorf("touch below /proc/sys: %q", text)
	}
	if text := read(img, "opt/dev"); strings.Contains(text, "sda") || !strings.Contains(text, "urandom") {
		t.Errorf("/dev has %q", text)
	}

	first := read(img, "opt/first")
	changed := stepsRecipe + "  - echo third > /opt/third\n"
	again, err := build(changed, app, false)
	if err != nil {
		t.Fatal(err)
	}
	if read(again, "opt/first") != first || read(again, "opt/third") != "third\n" || len(again.Layers) != 5 {
		t.Errorf("steps that did not change were made anew")
	}
	if slices.Contains(phases, "running apt-get update") || !slices.ContainsFunc(phases, func(p string) bool { return strings.HasPrefix(p, "step 4 of 4: run echo third") }) {
		t.Errorf("phases %q", phases)
	}
	app["app/main"] = "echo changed"
	other, err := build(stepsRecipe, app, false)
	if err != nil {
		t.Fatal(err)
	}
	if read(other, "opt/first") == first || other.Recipe == img.Recipe {
		t.Error("a changed file changes nothing")
	}

	if _, err := build(stepsRecipe+"  - echo why >&2; exit 7\n", app, false); !errdefs.Is(err, errdefs.Unprocessable) ||
		!strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), "why") {
		t.Errorf("a step that fails: %v", err)
	}
	if _, err := build(stepsRecipe, nil, false); !errdefs.Is(err, errdefs.InvalidArgument) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a copy of nothing: %v", err)
	}
}

func TestRecipeStepsAreChecked(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an option for pip":     "pip: [--index-url=http://x]",
		"two words for npm":     "npm: ['a b']",
		"copy from outside":     "copy: [{from: ../x, to: /x}]",
		"copy from the root":    "copy: [{from: /etc/shadow, to: /x}]",
		"copy to nowhere":       "copy: [{from: x, to: x}]",
		"copy over everything":  "copy: [{from: x, to: /}]",
		"copy with a bad mode":  "copy: [{from: x, to: /x, mode: rwx}]",
		"copy with other field": "copy: [{from: x, to: /x, owner: me}]",
	} {
		if _, err := images.ParseRecipe(strings.NewReader("suite: bookworm\n" + text + "\n")); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := parsed(t, "from: python\npip: [a]\nnpm: [b]\nrun: [c, d]\ncopy: [{from: e, to: /e}]\n")
	under := len(parsed(t, "from: python\n").Steps)
	if len(r.Steps) != under+5 || r.Steps[under].Pip == nil || r.Steps[under+1].NPM == nil || r.Steps[under+2].Copy == nil || r.Steps[under+3].Run != "c" {
		t.Errorf("steps %+v", r.Steps)
	}
}
