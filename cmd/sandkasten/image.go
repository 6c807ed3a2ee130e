package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/cli/show"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/maintenance"
	"github.com/sandkasten/sandkasten/sdk/go"
)

type imageCmd struct {
	Import       imageImportCmd       `cmd:"" help:"Store a root filesystem from an archive or an OCI layout."`
	Pull         imagePullCmd         `cmd:"" help:"Store an image of a registry."`
	Build        imageBuildCmd        `cmd:"" help:"Make an image from a recipe."`
	FromSession  imageFromSessionCmd  `cmd:"" name:"from-session" help:"Make an image from a session's image and the changes to its root."`
	FromSnapshot imageFromSnapshotCmd `cmd:"" name:"from-snapshot" help:"Make an image from a snapshot of scope sandbox."`
	Jobs         imageJobsCmd         `cmd:"" help:"List the running daemon's work on images."`
	Cancel       imageCancelCmd       `cmd:"" help:"Cancel the running daemon's work on images."`
	Load         imageLoadCmd         `cmd:"" help:"Load images into the Docker engine before their first session."`
	Ls           imageLsCmd           `cmd:"" help:"List images."`
	Inspect      imageInspectCmd      `cmd:"" help:"Show an image as JSON."`
	Validate     imageValidateCmd     `cmd:"" help:"Check that the files of images are as they were stored."`
	Rm           imageRmCmd           `cmd:"" help:"Remove images that no session uses."`
}

func (imageCmd) Help() string {
	return `With --url, or while the configured daemon runs, the daemon does the work and asks
for its own key. Otherwise these commands work on the store in data_dir, as root;
validate, load, import --oci and build --mirror always do. Any root filesystem
with /bin/sh is an image.

  sandkasten image build base
  sandkasten image pull debian:12-slim --name debian
  docker export $(docker create alpine) | sandkasten image import --name alpine --tar -`
}

func openImages(a *cli.App) (*images.Store, error) {
	cfg, err := a.Configuration()
	if err != nil {
		return nil, err
	}
	return datadir.OpenImages(cfg, nil)
}

type imageImportCmd struct {
	Name string `required:"" help:"Name of the image."`
	Tar  string `placeholder:"FILE" xor:"from" required:"" help:"Archive: plain, gzip or zstd. - is standard input."`
	OCI  string `name:"oci" placeholder:"DIR" xor:"from" required:"" help:"OCI image layout."`
	Tag  string `help:"Tag of the image, if an OCI layout has several."`
}

func (c imageImportCmd) Run(ctx context.Context, a *cli.App) error {
	if c.OCI != "" {
		store, err := openImages(a)
		if err != nil {
			return err
		}
		p := show.NewProgress(a.Err)
		img, err := store.ImportOCI(ctx, images.ImportOCIRequest{Name: c.Name, Dir: c.OCI, Tag: c.Tag, Progress: p.Show})
		return stored(ctx, a, p, img, err)
	}
	in, size, source := a.In, int64(0), "standard input"
	if c.Tar != "-" {
		f, err := os.Open(c.Tar)
		if err != nil {
			return err
		}
		defer f.Close()
		in, source = f, c.Tar
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	cl, err := imageDaemon(ctx, a)
	if err != nil {
		return err
	}
	if cl != nil {
		shown, done := show.Reading(a.Err, in, "upload", size)
		img, err := cl.ImportImage(ctx, c.Name, shown, &sandkasten.ImportImageOptions{Source: source, Size: cmp.Or(size, -1)})
		done()
		return printImage(a, img, err)
	}
	store, err := openImages(a)
	if err != nil {
		return err
	}
	p := show.NewProgress(a.Err)
	img, err := store.Import(ctx, images.ImportRequest{Name: c.Name, Tar: in, Size: size, Source: source, Progress: p.Show})
	return stored(ctx, a, p, img, err)
}

type imagePullCmd struct {
	Ref      string `arg:"" help:"Reference, as for docker pull: python:3.12-slim, ghcr.io/a/b@sha256:..."`
	Name     string `help:"Name of the image; by default the reference."`
	Insecure bool   `help:"Allow plain HTTP to a registry on another host."`
	Detach   bool   `short:"d" help:"Print the id of the running daemon's job and return at once."`
}

func (c imagePullCmd) Run(ctx context.Context, a *cli.App) error {
	cl, err := imageDaemon(ctx, a)
	if err != nil {
		return err
	}
	if cl != nil {
		return followImageJob(ctx, a, cl, c.Detach, func(ctx context.Context) (sandkasten.ImageJob, error) {
			return cl.PullImage(ctx, c.Ref, &sandkasten.PullImageOptions{Name: c.Name, Insecure: c.Insecure})
		})
	}
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
	return `The snapshot's session may have ended, or be on another host. The image leaves
/workspace out.

  sandkasten image from-snapshot $(sandkasten snapshot create $id) tools`
}

func (c imageFromSnapshotCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return followImageJob(ctx, a, cl, false, func(ctx context.Context) (sandkasten.ImageJob, error) {
		return cl.CommitImage(ctx, c.Name, &sandkasten.CommitImageOptions{SnapshotID: c.Snapshot})
	})
}

type imageFromSessionCmd struct {
	Session string `arg:"" help:"Session id."`
	Name    string `arg:"" help:"Name of the image."`
}

func (imageFromSessionCmd) Help() string {
	return `This is the quickest way to an image: install your programs in a session, and keep
the result. The image leaves /workspace out.

  id=$(sandkasten create base)
  sandkasten exec $id 'mkdir -p /opt/tools && ...'
  sandkasten image from-session $id tools`
}

func (c imageFromSessionCmd) Run(ctx context.Context, a *cli.App, cl *sandkasten.Client) error {
	return followImageJob(ctx, a, cl, false, func(ctx context.Context) (sandkasten.ImageJob, error) {
		return cl.CommitImage(ctx, c.Name, &sandkasten.CommitImageOptions{SessionID: c.Session})
	})
}

// stored tells about the image, which it first brings into the engine if that
// is where the daemon's sessions are.
func stored(ctx context.Context, a *cli.App, p *show.Progress, img images.Image, err error) error {
	if err == nil {
		err = loadStored(ctx, a, p, img)
	}
	p.End()
	return printImage(a, viewImage(jobs.Listed{Image: img}), err)
}

// printImage is the end of a command that has stored an image.
func printImage(a *cli.App, img sandkasten.Image, err error) error {
	if err != nil {
		return err
	}
	for _, w := range img.Warnings {
		a.Say("note: %s", show.Printable(w))
	}
	_, err = fmt.Fprintf(a.Out, "%s  %s  %s\n", strings.Join(img.Names, ", "), shortDigest(img.Digest), show.Size(img.SizeBytes))
	return err
}

// loadStored brings a stored image into the engine. One that is down gets it with
// its first session.
func loadStored(ctx context.Context, a *cli.App, p *show.Progress, img images.Image) error {
	cfg, err := a.Configuration()
	if err != nil || !drivers.LoadsImages(cfg.Driver) {
		return err
	}
	err = drivers.LoadImage(ctx, cfg, img, p.Show)
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
	return `The first session of an image loads it into the Docker engine and waits for that;
this command loads it before. With driver: docker, image import, pull and build
load it at once. Use this command for extra_drivers, and for an engine that was
down or has lost the image.`
}

func (c imageLoadCmd) Run(ctx context.Context, a *cli.App) error {
	cfg, err := a.Configuration()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(cfg.Drivers(), drivers.LoadsImages) {
		return errdefs.New(errdefs.InvalidArgument, "there is no Docker engine to load into: driver and extra_drivers of the configuration do not name docker")
	}
	store, err := datadir.OpenImages(cfg, nil)
	if err != nil {
		return err
	}
	for _, name := range c.Images {
		img, err := store.Inspect(ctx, name)
		if err != nil {
			return err
		}
		p := show.NewProgress(a.Err)
		err = drivers.LoadImage(ctx, cfg, img, p.Show)
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

type imageLsCmd struct{ cli.ListFlags }

func (c imageLsCmd) Run(ctx context.Context, a *cli.App) error {
	list, err := listImages(ctx, a)
	if err != nil {
		return err
	}
	return c.Print(a, list, imageRows(list, time.Now()), "No images. `sandkasten image build base` makes one.")
}

func listImages(ctx context.Context, a *cli.App) ([]sandkasten.Image, error) {
	cl, err := imageDaemon(ctx, a)
	if err != nil {
		return nil, err
	}
	if cl != nil {
		return cl.ListImages(ctx)
	}
	store, err := openImages(a)
	if err != nil {
		return nil, err
	}
	stored, err := (&jobs.Library{Store: store}).List(ctx, true)
	list := make([]sandkasten.Image, 0, len(stored))
	for _, img := range stored {
		list = append(list, viewImage(img))
	}
	return list, err
}

// viewImage shows a stored image as the daemon would.
func viewImage(l jobs.Listed) sandkasten.Image {
	v := sandkasten.Image{
		Digest: l.Digest, Names: l.Names, Allowed: l.Allowed, SizeBytes: l.Size, Files: l.Entries, Env: l.Env, WorkingDir: l.WorkingDir,
		User: l.User, Shell: l.Shell, Source: l.Source, Recipe: l.Recipe, Warnings: l.Warnings, CreatedAt: l.CreatedAt,
		NetworkGroups: l.NetworkGroups,
	}
	for _, layer := range l.Layers {
		v.Layers = append(v.Layers, layer.DiffID)
	}
	return v
}

func imageRows(list []sandkasten.Image, now time.Time) [][]string {
	rows := [][]string{{"NAME", "DIGEST", "SIZE", "LAYERS", "SHELL", "AGE", "FROM"}}
	for _, img := range list {
		names := strings.Join(img.Names, ", ")
		if names == "" {
			names = "-"
		}
		rows = append(rows, []string{
			names, shortDigest(img.Digest), show.Size(img.SizeBytes), fmt.Sprint(len(img.Layers)), img.Shell, show.Span(now.Sub(img.CreatedAt)),
			show.Printable(img.Source),
		})
	}
	return rows
}

type imageInspectCmd struct {
	Image string `arg:"" help:"Name or digest."`
}

func (c imageInspectCmd) Run(ctx context.Context, a *cli.App) error {
	cl, err := imageDaemon(ctx, a)
	if err != nil {
		return err
	}
	if cl != nil {
		img, err := cl.GetImage(ctx, c.Image)
		if err != nil {
			return err
		}
		return show.JSON(a.Out, img)
	}
	store, err := openImages(a)
	if err != nil {
		return err
	}
	img, err := (&jobs.Library{Store: store}).Inspect(ctx, c.Image, true)
	if err != nil {
		return err
	}
	return show.JSON(a.Out, viewImage(img))
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
	Images []string `arg:"" help:"Names or digests. A digest means the image with all its names."`
}

func (c imageRmCmd) Run(ctx context.Context, a *cli.App) error {
	remove, err := imageRemover(ctx, a)
	if err != nil {
		return err
	}
	var failed error
	for _, name := range c.Images {
		if err := remove(ctx, name); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if _, err := fmt.Fprintln(a.Out, name); err != nil {
			return err
		}
	}
	return failed
}

func imageRemover(ctx context.Context, a *cli.App) (func(context.Context, string) error, error) {
	cl, err := imageDaemon(ctx, a)
	if err != nil {
		return nil, err
	}
	if cl != nil {
		return cl.DeleteImage, nil
	}
	cfg, err := a.Configuration()
	if err != nil {
		return nil, err
	}
	store, err := datadir.OpenImages(cfg, nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, name string) error {
		return store.Remove(ctx, name, maintenance.ImagesInUse(ctx, cfg))
	}, nil
}
