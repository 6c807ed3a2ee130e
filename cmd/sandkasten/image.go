package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/daemon"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/snapshot"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type imageCmd struct {
	Import       imageImportCmd       `cmd:"" help:"Store a root filesystem from an archive or an OCI layout."`
	Pull         imagePullCmd         `cmd:"" help:"Store an image of a registry."`
	Build        imageBuildCmd        `cmd:"" help:"Make an image of Debian packages from a recipe."`
	FromSnapshot imageFromSnapshotCmd `cmd:"" name:"from-snapshot" help:"Make an image of a session's image and what was changed of its root."`
	Load         imageLoadCmd         `cmd:"" help:"Bring images into the Docker engine before their first session."`
	Ls           imageLsCmd           `cmd:"" help:"List images."`
	Inspect      imageInspectCmd      `cmd:"" help:"Show all that is known of an image, as JSON."`
	Validate     imageValidateCmd     `cmd:"" help:"Compare images with what was stored."`
	Rm           imageRmCmd           `cmd:"" help:"Remove images that no session uses."`
}

func (imageCmd) Help() string {
	return `These commands work on the store in data_dir itself: as root, with or without a
running daemon. Any root filesystem with /bin/sh is an image. The daemon sees a
change at once.

  sandkasten image build base
  sandkasten image pull debian:12-slim --name debian
  docker export $(docker create alpine) | sandkasten image import --name alpine --tar -`
}

func openImages(a *cli.App) (*images.Store, error) {
	cfg, err := a.Configuration()
	if err != nil {
		return nil, err
	}
	return daemon.OpenImages(cfg)
}

type imageImportCmd struct {
	Name string `required:"" help:"Name of the image."`
	Tar  string `placeholder:"FILE" xor:"from" required:"" help:"Archive: plain, gzip or zstd. - is standard input."`
	OCI  string `name:"oci" placeholder:"DIR" xor:"from" required:"" help:"OCI image layout."`
	Tag  string `help:"Which image of an OCI layout with several."`
}

func (c imageImportCmd) Run(ctx context.Context, a *cli.App) error {
	store, err := openImages(a)
	if err != nil {
		return err
	}
	p := show.NewProgress(a.Err)
	if c.OCI != "" {
		img, err := store.ImportOCI(ctx, images.ImportOCIRequest{Name: c.Name, Dir: c.OCI, Tag: c.Tag, Progress: p.Show})
		return stored(ctx, a, p, img, err)
	}
	req := images.ImportRequest{Name: c.Name, Tar: a.In, Source: "standard input", Progress: p.Show}
	if c.Tar == "-" {
		img, err := store.Import(ctx, req)
		return stored(ctx, a, p, img, err)
	}
	f, err := os.Open(c.Tar)
	if err != nil {
		return err
	}
	req.Tar, req.Source = f, c.Tar
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		req.Size = info.Size()
	}
	img, err := store.Import(ctx, req)
	return errors.Join(stored(ctx, a, p, img, err), f.Close())
}

type imagePullCmd struct {
	Ref      string `arg:"" help:"As for docker pull: python:3.12-slim, ghcr.io/a/b@sha256:..."`
	Name     string `help:"Name of the image; by default the reference."`
	Insecure bool   `help:"Allow plain HTTP to a registry on another host."`
}

func (c imagePullCmd) Run(ctx context.Context, a *cli.App) error {
	store, err := openImages(a)
	if err != nil {
		return err
	}
	p := show.NewProgress(a.Err)
	img, err := store.Pull(ctx, images.PullRequest{Ref: c.Ref, Name: c.Name, Insecure: c.Insecure, Progress: p.Show})
	return stored(ctx, a, p, img, err)
}

type imageFromSnapshotCmd struct {
	Snapshot string `arg:"" help:"Snapshot id, of scope sandbox."`
	Name     string `arg:"" help:"Name of the image."`
}

func (imageFromSnapshotCmd) Help() string {
	return `This is how to make an image by hand: install what is wanted in a session, save it,
and keep it under a name. What was in /workspace is no part of it.

  id=$(sandkasten create base)
  sandkasten exec $id 'mkdir -p /opt/tools && ...'
  sandkasten image from-snapshot $(sandkasten snapshot create $id --scope sandbox) tools`
}

func (c imageFromSnapshotCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) (err error) {
	store, err := openImages(a)
	if err != nil {
		return err
	}
	archive, err := cl.DownloadSnapshot(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	in, err := snapshot.NewReader(archive)
	if err != nil {
		return err
	}
	for {
		part, r, err := in.Next()
		if errors.Is(err, io.EOF) {
			return errdefs.New(errdefs.Unprocessable, "the snapshot has no files of the root: make one with --scope sandbox")
		}
		if err != nil {
			return err
		}
		if part.Name != snapshot.Root {
			continue
		}
		p := show.NewProgress(a.Err)
		img, err := store.Extend(ctx, images.ExtendRequest{
			Name: c.Name, Base: in.Manifest.ImageDigest, Layer: r, Source: "snapshot " + in.Manifest.ID, Progress: p.Show,
		})
		return stored(ctx, a, p, img, err)
	}
}

type imageBuildCmd struct {
	Image    string `arg:"" help:"Name of the image, and of its recipe."`
	Recipe   string `placeholder:"FILE" help:"Recipe, when it is none of those that come with sandkasten."`
	IfAbsent bool   `help:"Do nothing if this recipe has made the image already."`
	Mirror   string `placeholder:"URL" help:"Where packages come from; by default the host's apt sources, or Debian's."`
}

func (imageBuildCmd) Help() string {
	return "Recipes that come with sandkasten: " + strings.Join(images.Recipes(), ", ") + `. docs/images.md tells
how to write one.

  sandkasten image build python
  sandkasten image build tools --recipe tools.yaml`
}

func (c imageBuildCmd) Run(ctx context.Context, a *cli.App) error {
	recipe, err := c.recipe()
	if err != nil {
		return err
	}
	store, err := openImages(a)
	if err != nil {
		return err
	}
	p := show.NewProgress(a.Err)
	img, err := store.Build(ctx, images.BuildRequest{Name: c.Image, Recipe: recipe, IfAbsent: c.IfAbsent, Mirror: c.Mirror, Progress: p.Show})
	return stored(ctx, a, p, img, err)
}

func (c imageBuildCmd) recipe() (r images.Recipe, err error) {
	if c.Recipe == "" {
		return images.DefaultRecipe(c.Image)
	}
	f, err := os.Open(c.Recipe)
	if err != nil {
		return images.Recipe{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return images.ParseRecipe(f)
}

// stored tells about the image, which it first brings into the engine if that
// is where the daemon's sessions are.
func stored(ctx context.Context, a *cli.App, p *show.Progress, img images.Image, err error) error {
	if err == nil {
		err = loadStored(ctx, a, p, img)
	}
	p.End()
	if err != nil {
		return err
	}
	for _, w := range img.Warnings {
		a.Say("note: %s", show.Printable(w))
	}
	_, err = fmt.Fprintf(a.Out, "%s  %s  %s\n", strings.Join(img.Names, ", "), shortDigest(img.Digest), show.Size(img.Size))
	return err
}

// loadStored brings a stored image into the engine. One that is down gets it with
// its first session.
func loadStored(ctx context.Context, a *cli.App, p *show.Progress, img images.Image) error {
	cfg, err := a.Configuration()
	if err != nil || cfg.Driver != "docker" {
		return err
	}
	err = daemon.LoadImage(ctx, cfg, img, p.Show)
	if errdefs.Is(err, errdefs.Unavailable) {
		p.End()
		a.Say("note: the image is stored and not loaded: %s. Its first session loads it, or `sandkasten image load`.", show.Printable(errdefs.MessageOf(err)))
		return nil
	}
	return err
}

type imageLoadCmd struct {
	Images []string `arg:"" help:"Names or digests."`
}

func (imageLoadCmd) Help() string {
	return `A Docker engine gets an image from the store with the first session of it, which
waits for that, or before by this command. With driver: docker, image import, pull
and build do it at once; this is for extra_drivers, and for an engine that was
down, or has lost the image.`
}

func (c imageLoadCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	if !slices.Contains(cfg.Drivers(), "docker") {
		return errdefs.New(errdefs.InvalidArgument, "there is no Docker engine to load into: driver and extra_drivers of the configuration do not name docker")
	}
	store, err := daemon.OpenImages(cfg)
	if err != nil {
		return err
	}
	for _, name := range c.Images {
		img, err := store.Inspect(ctx, name)
		if err != nil {
			return err
		}
		p := show.NewProgress(a.Err)
		err = daemon.LoadImage(ctx, cfg, img, p.Show)
		p.End()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.Out, name); err != nil {
			return err
		}
	}
	return nil
}

func shortDigest(digest string) string {
	const shown = len("sha256:") + 12
	return digest[:min(shown, len(digest))]
}

type imageLsCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c imageLsCmd) Run(ctx context.Context, a *cli.App) error {
	store, err := openImages(a)
	if err != nil {
		return err
	}
	list, err := store.List(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return show.JSON(a.Out, list)
	}
	if len(list) == 0 {
		a.Say("No images. `sandkasten image build base` makes one.")
		return nil
	}
	return show.Table(a.Out, imageRows(list, time.Now()))
}

func imageRows(list []images.Image, now time.Time) [][]string {
	rows := [][]string{{"NAME", "DIGEST", "SIZE", "LAYERS", "SHELL", "AGE", "FROM"}}
	for _, img := range list {
		names := strings.Join(img.Names, ", ")
		if names == "" {
			names = "-"
		}
		rows = append(rows, []string{
			names, shortDigest(img.Digest), show.Size(img.Size), fmt.Sprint(len(img.Layers)), img.Shell, show.Span(now.Sub(img.CreatedAt)), img.Source,
		})
	}
	return rows
}

type imageInspectCmd struct {
	Image string `arg:"" help:"Name or digest."`
}

func (c imageInspectCmd) Run(ctx context.Context, a *cli.App) error {
	store, err := openImages(a)
	if err != nil {
		return err
	}
	img, err := store.Inspect(ctx, c.Image)
	if err != nil {
		return err
	}
	return show.JSON(a.Out, img)
}

type imageValidateCmd struct {
	Images []string `arg:"" help:"Names or digests."`
}

func (c imageValidateCmd) Run(ctx context.Context, a *cli.App) error {
	store, err := openImages(a)
	if err != nil {
		return err
	}
	damaged := false
	for _, name := range c.Images {
		problems, err := store.Validate(ctx, name)
		if err != nil {
			return err
		}
		if len(problems) == 0 {
			problems = []string{"as it was stored"}
		} else {
			damaged = true
		}
		for _, p := range problems {
			if _, err := fmt.Fprintf(a.Out, "%s: %s\n", name, show.Printable(p)); err != nil {
				return err
			}
		}
	}
	if damaged {
		return cli.CodeError(cli.ExitFailed)
	}
	return nil
}

type imageRmCmd struct {
	Images []string `arg:"" help:"Names or digests. A digest stands for all of its names."`
}

func (c imageRmCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	store, err := daemon.OpenImages(cfg)
	if err != nil {
		return err
	}
	var failed error
	for _, name := range c.Images {
		if err := store.Remove(ctx, name, daemon.ImagesInUse(ctx, cfg)); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if _, err := fmt.Fprintln(a.Out, name); err != nil {
			return err
		}
	}
	return failed
}
