package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md and sandkasten.yaml")

const (
	docsFile   = "../../docs/configuration.md"
	sampleFile = "../../sandkasten.yaml"
	tableBegin = "<!-- keys: written by go test ./internal/config -update -->\n"
	tableEnd   = "<!-- end of keys -->\n"
)

func TestDocsTableMatchesTheCode(t *testing.T) {
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lost the comments around its table", docsFile)
	}
	want := table()
	if *update && got != want {
		if err := os.WriteFile(docsFile, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is behind the code; run go test ./internal/config -update (-code +docs):\n%s", docsFile, diff)
	}
}

func table() string {
	c := Default(drivers)
	var b strings.Builder
	b.WriteString("| key | value | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, o := range c.options(drivers) {
		shown := o.value.show()
		if shown != "" {
			shown = "`" + shown + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.key, o.value.want, shown, o.doc)
	}
	return b.String()
}

// What a page shows as a configuration can be read as one. Recipes of images
// are other files, and so is what blocks of yml show.
func TestDocsExamplesLoad(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range block.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(example[1], "packages:") {
				continue
			}
			// What an example leaves to the environment.
			_, problems := parse([]byte(example[1]), []string{"SANDKASTEN_SNAPSHOTS__S3_SECRET_KEY=secret"}, drivers)
			if len(problems) > 0 {
				t.Errorf("%s shows a configuration with mistakes: %v\n%s", page, problems, example[1])
			}
			found++
		}
	}
	if found < 5 {
		t.Errorf("%d examples", found)
	}
}

// The sample holds every key with its default, so that it can be copied and
// edited: read as it is, it changes nothing.
func TestSampleFileMatchesTheCode(t *testing.T) {
	want := Sample(drivers)
	if *update {
		if err := os.WriteFile(sampleFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("%s is behind the code; run go test ./internal/config -update (-code +file):\n%s", sampleFile, diff)
	}
	got, err := Load(sampleFile, nil, drivers)
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := Load("", nil, drivers)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range got.options(drivers) {
		if d := defaults.options(drivers)[i]; o.value.show() != d.value.show() {
			t.Errorf("%s is %s in the sample and %s by default", o.key, o.value.show(), d.value.show())
		}
	}
}
