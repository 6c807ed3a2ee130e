package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type imageBuildCmd struct {
	Image    string `arg:"" help:"Name of the image, and of its recipe."`
	Recipe   string `placeholder:"FILE" help:"Recipe file; by default the recipe of that name that comes with sandkasten."`
	IfAbsent bool   `help:"Do nothing if this recipe has made the image already."`
	NoCache  bool   `help:"Run every step again, even if its layer is kept."`
	Mirror   string `placeholder:"URL" help:"Where packages come from; by default the host's apt sources, or Debian's."`
	Detach   bool   `short:"d" help:"Print the id of the running daemon's job and return at once."`
}

func (imageBuildCmd) Help() string {
	return "Recipes that come with sandkasten: " + strings.Join(images.Recipes(), ", ") + `. docs/images.md
describes the format.

  sandkasten image build python
  sandkasten image build tools --recipe tools.yaml`
}

func (c imageBuildCmd) Run(ctx context.Context, a *cli.App) error {
	text, recipe, err := c.recipe()
	if err != nil {
		return err
	}
	files, err := c.files(recipe)
	if err != nil {
		return err
	}
	cl, err := imageDaemon(ctx, a)
	if err != nil {
		return err
	}
	if cl != nil && c.Mirror == "" {
		o := &sandkasten.BuildImageOptions{Recipe: text, IfAbsent: c.IfAbsent, NoCache: c.NoCache}
		for _, f := range files {
			content, err := os.ReadFile(filepath.Join(filepath.Dir(c.Recipe), filepath.FromSlash(f.Path)))
			if err != nil {
				return err
			}
			o.Files = append(o.Files, sandkasten.RecipeFile{Path: f.Path, Content: content})
		}
		return followImageJob(ctx, a, cl, c.Detach, func(ctx context.Context) (sandkasten.ImageJob, error) {
			return cl.BuildImage(ctx, c.Image, o)
		})
	}
	store, err := openImages(a)
	if err != nil {
		return err
	}
	p := show.NewProgress(a.Err)
	img, err := store.Build(ctx, images.BuildRequest{
		Name: c.Image, Recipe: recipe, Files: files, IfAbsent: c.IfAbsent, NoCache: c.NoCache, Mirror: c.Mirror, Progress: p.Show,
	})
	return stored(ctx, a, p, img, err)
}

// recipe returns the text of the file, or "" for a recipe that comes with
// sandkasten, and what it means. A daemon reads the text anew.
func (c imageBuildCmd) recipe() (text string, r images.Recipe, err error) {
	if c.Recipe == "" {
		if r, err = images.DefaultRecipe(c.Image); errdefs.Is(err, errdefs.NotFound) {
			err = cli.Wrong("%w", err)
		}
		return "", r, err
	}
	data, err := os.ReadFile(c.Recipe)
	if err != nil {
		return "", r, err
	}
	r, err = images.ParseRecipe(bytes.NewReader(data))
	return string(data), r, err
}

// files are those beside the recipe that it copies. Their modes are what the
// copy says, or 0644, whether a daemon builds or this command.
func (c imageBuildCmd) files(r images.Recipe) ([]images.File, error) {
	dir := os.DirFS(filepath.Dir(c.Recipe))
	var files []images.File
	for _, step := range r.Steps {
		if step.Copy == nil {
			continue
		}
		err := fs.WalkDir(dir, step.Copy.From, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if !d.Type().IsRegular() {
				return errdefs.Invalid("copy", "has %s, which is no regular file", name)
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			files = append(files, images.File{
				Path: name, Mode: 0o644, Size: info.Size(), Open: func() (io.ReadCloser, error) { return dir.Open(name) },
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}
