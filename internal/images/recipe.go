package images

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	recipes "github.com/sandkasten/sandkasten/images"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// Recipe says what to build an image from: packages of a Debian suite, and steps
// above them.
type Recipe struct {
	Description string            `yaml:"description" json:"-"`
	From        string            `yaml:"from" json:"-"` // a default recipe that this one adds to
	Suite       string            `yaml:"suite" json:"suite"`
	Packages    []string          `yaml:"packages" json:"packages"`
	Env         map[string]string `yaml:"env" json:"env"`
	WorkingDir  string            `yaml:"working_dir" json:"working_dir"`
	Exclude     []string          `yaml:"exclude" json:"exclude"` // globs of files that packages may not install
	Include     []string          `yaml:"include" json:"include"` // exceptions from Exclude

	// A recipe's own steps in this order, behind those of From.
	Pip  []string `yaml:"pip" json:"-"`
	NPM  []string `yaml:"npm" json:"-"`
	Copy []Copy   `yaml:"copy" json:"-"`
	Run  []string `yaml:"run" json:"-"` // of /bin/sh

	Steps []Step `yaml:"-" json:"steps,omitempty"` // all of them
}

// builder goes into a recipe's digest: a change of how recipes are built makes
// images stale, as a change of the recipe does.
const builder = "mmdebstrap/1"

const maxRecipe = 64 << 10

var (
	suitePat   = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,63}$`)
	packagePat = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]{0,127}$`)
	globPat    = regexp.MustCompile(`^/[A-Za-z0-9._/*?+-]{1,255}$`)
)

// Recipes returns the names of the default recipes, sorted.
func Recipes() []string {
	entries, err := fs.ReadDir(recipes.FS, ".")
	if err != nil {
		return nil // the embedded root always exists
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// DefaultRecipe returns one of Recipes. The error is NotFound for any other
// name.
func DefaultRecipe(name string) (Recipe, error) {
	if !slices.Contains(Recipes(), name) {
		return Recipe{}, errdefs.New(errdefs.NotFound, "no recipe %.100q; there are %s, or give a file with --recipe",
			name, strings.Join(Recipes(), ", "))
	}
	f, err := recipes.FS.Open(path.Join(name, "recipe.yaml"))
	if err != nil {
		return Recipe{}, fmt.Errorf("read recipe %s: %w", name, err)
	}
	r, err := ParseRecipe(f)
	return r, errors.Join(err, f.Close())
}

// ParseRecipe reads a recipe and what it adds to. The error is InvalidArgument
// and says what is wrong with it.
func ParseRecipe(in io.Reader) (Recipe, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxRecipe+1))
	if err != nil {
		return Recipe{}, fmt.Errorf("read recipe: %w", err)
	}
	if len(data) > maxRecipe {
		return Recipe{}, errdefs.Invalid("recipe", "is over %d bytes", maxRecipe)
	}
	var r Recipe
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&r); err != nil {
		return Recipe{}, errdefs.Invalid("recipe", "is not valid: %s", err)
	}
	r.Steps = r.ownSteps()
	if r.From != "" {
		under, err := DefaultRecipe(r.From)
		if err != nil {
			return Recipe{}, err
		}
		r = under.add(r)
	}
	return r, r.check()
}

// add returns r with what over says more, or otherwise.
func (r Recipe) add(over Recipe) Recipe {
	sum := Recipe{
		Description: over.Description,
		Suite:       r.Suite,
		Packages:    slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Packages, over.Packages)))),
		Env:         map[string]string{},
		WorkingDir:  r.WorkingDir,
		Exclude:     slices.Concat(r.Exclude, over.Exclude),
		Include:     slices.Concat(r.Include, over.Include),
		Steps:       slices.Concat(r.Steps, over.Steps),
	}
	for _, env := range []map[string]string{r.Env, over.Env} {
		for name, value := range env {
			sum.Env[name] = value
		}
	}
	if over.Suite != "" {
		sum.Suite = over.Suite
	}
	if over.WorkingDir != "" {
		sum.WorkingDir = over.WorkingDir
	}
	return sum
}

// check refuses what could be taken for an option, or for more than one word,
// by the programs that it is given to.
func (r Recipe) check() error {
	if !suitePat.MatchString(r.Suite) {
		return errdefs.Invalid("suite", "%.100q is not the name of a Debian suite, such as bookworm", r.Suite)
	}
	for _, p := range r.Packages {
		if !packagePat.MatchString(p) {
			return errdefs.Invalid("packages", "has %.100q, which is not a package name", p)
		}
	}
	for _, g := range slices.Concat(r.Exclude, r.Include) {
		if !globPat.MatchString(g) {
			return errdefs.Invalid("exclude", "or include has %.100q, which is not an absolute path pattern", g)
		}
	}
	for name := range r.Env {
		if !envName.MatchString(name) {
			return errdefs.Invalid("env", "has %.100q, which is not a variable name", name)
		}
	}
	for _, step := range r.Steps {
		if err := step.check(); err != nil {
			return err
		}
	}
	if r.WorkingDir != "" && !path.IsAbs(r.WorkingDir) {
		return errdefs.Invalid("working_dir", "%.100q is not absolute", r.WorkingDir)
	}
	return nil
}

// Digest is equal for recipes that build equal images, give or take newer
// versions of the packages.
func (r Recipe) Digest() (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("sum up recipe: %w", err)
	}
	sum := sha256.Sum256(append([]byte(builder+"\n"), data...))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func (r Recipe) env() []string {
	var env []string
	for name, value := range r.Env {
		env = append(env, name+"="+value)
	}
	return env
}
