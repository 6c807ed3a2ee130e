// Package images has the handlers of /v1 for images and for the jobs that make
// them. How an image is made and kept does not belong here.
package images

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/api/v1/files"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/images/jobs"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/snapshot"
)

// Handlers answer the calls. Without a Library all of them are Unimplemented.
type Handlers struct {
	Manager *session.Manager
	Library *jobs.Library
	// Granted is what an owner may make images of. Nil lets only operators.
	Granted func(owner string) Grant
	// Find returns the session of a path.
	Find func(context.Context, contract.SessionPath) (session.ID, error)

	making sync.Mutex // held while a job of a user is let and begins
}

// Image is the contract's view of an image.
type Image struct {
	Digest     string    `json:"digest" doc:"Of its layers, environment, user and working directory; no registry's." example:"sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"`
	Names      []string  `json:"names" nullable:"false" doc:"Sorted; empty if newer images took them." example:"[\"python\"]"`
	Allowed    bool      `json:"allowed" doc:"Whether sessions may use it (allowed_images). Only the daemon's own key sees others." example:"true"`
	SizeBytes  int64     `json:"size_bytes" doc:"Of its files, layers shared with other images included." example:"314572800"`
	Files      int64     `json:"files" doc:"Files, directories and links in it." example:"9800"`
	Layers     []string  `json:"layers" nullable:"false" doc:"The digest of each layer, top first." example:"[\"sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef\"]"`
	Env        []string  `json:"env" nullable:"false" doc:"NAME=value, sorted: what a session begins with." example:"[\"HOME=/root\"]"`
	WorkingDir string    `json:"working_dir,omitempty" example:"/workspace"`
	User       string    `json:"user,omitempty"`
	Shell      string    `json:"shell" example:"/bin/bash"`
	Source     string    `json:"source,omitempty" doc:"Where it came from, for people." example:"Debian bookworm"`
	Recipe     string    `json:"recipe,omitempty" doc:"The digest of the recipe that made it."`
	Warnings   []string  `json:"warnings,omitempty" nullable:"false" doc:"What of its archive was left out or changed."`
	CreatedAt  time.Time `json:"created_at" doc:"When it was stored."`

	NetworkGroups map[string][]string `json:"network_groups,omitzero" doc:"The hosts that its package clients download from, by group: what a group like pip means in a network policy. Absent until they were asked." example:"{\"pip\":[\"files.example\",\"pypi.example\"]}"`
}

func view(l jobs.Listed) Image {
	v := Image{
		Digest: l.Digest, Names: append([]string{}, l.Names...), Allowed: l.Allowed, SizeBytes: l.Size, Files: l.Entries,
		Layers: make([]string, 0, len(l.Layers)), Env: append([]string{}, l.Env...), WorkingDir: l.WorkingDir, User: l.User, Shell: l.Shell,
		Source: l.Source, Recipe: l.Recipe, Warnings: l.Warnings, CreatedAt: l.CreatedAt.UTC(),
		NetworkGroups: l.NetworkGroups,
	}
	for _, layer := range l.Layers {
		v.Layers = append(v.Layers, layer.DiffID)
	}
	return v
}

// Images is a list of them.
type Images struct {
	Images []Image `json:"images" nullable:"false"`
}

// ListOutput is a list as the kit wants it.
type ListOutput struct{ Body Images }

// Output is one image as the kit wants it.
type Output struct{ Body Image }

// Path is what every route of one image takes.
type Path struct {
	Image string `path:"image" doc:"A name, whose slashes are escaped as %2F, or a digest." example:"python"`
}

func (h *Handlers) library() (*jobs.Library, error) {
	if h.Library == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon has no image store")
	}
	return h.Library, nil
}

// seesAll reports whether the caller sees images that sessions may not use.
func (h *Handlers) seesAll(ctx context.Context) bool {
	return api.Caller(ctx).Has(auth.ScopeDaemon)
}

// List answers with the images.
func (h *Handlers) List(ctx context.Context, _ *struct{}) (*ListOutput, error) {
	l, err := h.library()
	if err != nil {
		return nil, err
	}
	all, err := l.List(ctx, h.seesAll(ctx))
	if err != nil {
		return nil, err
	}
	out := &ListOutput{Images{make([]Image, 0, len(all))}}
	for _, one := range all {
		out.Body.Images = append(out.Body.Images, view(one))
	}
	return out, nil
}

// Get answers with one.
func (h *Handlers) Get(ctx context.Context, in *Path) (*Output, error) {
	l, err := h.library()
	if err != nil {
		return nil, err
	}
	found, err := l.Inspect(ctx, in.Image, h.seesAll(ctx))
	if err != nil {
		return nil, err
	}
	return &Output{view(found)}, nil
}

// Delete removes one.
func (h *Handlers) Delete(ctx context.Context, in *Path) (*contract.OKOutput, error) {
	l, err := h.library()
	if err != nil {
		return nil, err
	}
	if _, all, err := h.grant(ctx); err != nil {
		return nil, err
	} else if !all {
		if in.Image, err = h.ownName(ctx, in.Image); err != nil {
			return nil, err
		}
	}
	if err := l.Remove(ctx, in.Image); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}

// ImportInput is what is said of an archive.
type ImportInput struct {
	Name   string `query:"name" required:"true" maxLength:"200" doc:"Of the image." example:"tool"`
	Source string `query:"source" maxLength:"256" doc:"Where it came from, for people." example:"rootfs.tar.gz"`
}

// Import makes an image of the request's body.
func (h *Handlers) Import(_ context.Context, in *ImportInput) (*kit.Stream, error) {
	l, err := h.library()
	if err != nil {
		return nil, err
	}
	if _, err := images.CheckName(in.Name); err != nil {
		return nil, err
	}
	return kit.Streaming(func(w http.ResponseWriter, r *http.Request) {
		var made images.Image
		err := files.TakeStream(w, r, func(size int64, body io.Reader) (err error) {
			made, err = l.Import(r.Context(), images.ImportRequest{
				Name: in.Name, Tar: body, Size: max(size, 0), Source: cmp.Or(in.Source, "upload"),
			})
			return err
		})
		var listed jobs.Listed
		if err == nil {
			listed, err = l.Inspect(r.Context(), made.Digest, true)
		}
		if err != nil {
			api.WriteError(w, r, err)
			return
		}
		api.Made(r.Context(), "image", made.Digest)
		api.WriteJSON(w, r, http.StatusCreated, view(listed))
	}), nil
}

// PullRequest is an image of a registry.
type PullRequest struct {
	Ref      string `json:"ref" minLength:"1" maxLength:"512" doc:"As for docker pull." example:"python:3.12-slim"`
	Name     string `json:"name,omitempty" maxLength:"200" doc:"Of the image; ref without it." example:"python-slim"`
	Insecure bool   `json:"insecure,omitempty" doc:"Allow plain HTTP to a registry on another host than the daemon's. Only for admins."`
}

// PullInput is a PullRequest as the kit wants it.
type PullInput struct{ Body PullRequest }

// Pull starts a job.
func (h *Handlers) Pull(ctx context.Context, in *PullInput) (*JobOutput, error) {
	l, err := h.granted(ctx)
	if err != nil {
		return nil, err
	}
	req := images.PullRequest{Ref: in.Body.Ref, Name: in.Body.Name, Insecure: in.Body.Insecure}
	if req.Insecure && !h.seesAll(ctx) {
		return nil, errdefs.Invalid("insecure", "must be left out: plain HTTP is for admins to allow")
	}
	return h.begin(ctx, jobs.Pull, req.Name, func() (jobs.Job, error) { return l.Pull(req) })
}

// BuildRequest is an image of a recipe.
type BuildRequest struct {
	Name     string `json:"name" minLength:"1" maxLength:"200" doc:"Of the image, and of its recipe if there is no other." example:"tools"`
	Recipe   string `json:"recipe,omitempty" maxLength:"65536" doc:"The text of a recipe, in YAML. Without it the recipe that comes with the daemon under the name." example:"from: python\npackages: [python3-numpy]\n"`
	IfAbsent bool   `json:"if_absent,omitempty" doc:"Do nothing if this recipe has made the image already."`
	NoCache  bool   `json:"no_cache,omitempty" doc:"Make each step anew, also one that was made a moment ago."`

	Files []RecipeFile `json:"files,omitempty" maxItems:"10000" nullable:"false" doc:"What the recipe's copy may take."`
}

// RecipeFile is a file beside a recipe.
type RecipeFile struct {
	Path    string `json:"path" minLength:"1" maxLength:"1024" doc:"Below the recipe's directory." example:"app/main.py"`
	Content []byte `json:"content_base64" example:"cHJpbnQoMSkK"`
}

// BuildInput is a BuildRequest as the kit wants it.
type BuildInput struct{ Body BuildRequest }

// Build starts a job.
func (h *Handlers) Build(ctx context.Context, in *BuildInput) (*JobOutput, error) {
	l, err := h.granted(ctx)
	if err != nil {
		return nil, err
	}
	req := images.BuildRequest{Name: in.Body.Name, IfAbsent: in.Body.IfAbsent, NoCache: in.Body.NoCache}
	for _, f := range in.Body.Files {
		req.Files = append(req.Files, images.File{
			Path: f.Path, Mode: 0o644, Size: int64(len(f.Content)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.Content)), nil },
		})
	}
	if in.Body.Recipe == "" {
		req.Recipe, err = images.DefaultRecipe(in.Body.Name)
	} else {
		req.Recipe, err = images.ParseRecipe(strings.NewReader(in.Body.Recipe))
	}
	if err != nil {
		return nil, err
	}
	return h.begin(ctx, jobs.Build, req.Name, func() (jobs.Job, error) { return l.Build(req) })
}

// CommitRequest is an image of what a session has changed of its own.
type CommitRequest struct {
	Name       string `json:"name" minLength:"1" maxLength:"200" doc:"Of the image." example:"tools"`
	SessionID  string `json:"session_id,omitempty" maxLength:"64" doc:"The session; or else snapshot_id." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	SnapshotID string `json:"snapshot_id,omitempty" maxLength:"64" doc:"A snapshot of scope sandbox."`
}

// CommitInput is a CommitRequest as the kit wants it.
type CommitInput struct{ Body CommitRequest }

// Commit starts a job.
func (h *Handlers) Commit(ctx context.Context, in *CommitInput) (*JobOutput, error) {
	l, err := h.granted(ctx)
	if err != nil {
		return nil, err
	}
	b := in.Body
	if (b.SessionID == "") == (b.SnapshotID == "") {
		return nil, errdefs.Invalid("session_id", "or snapshot_id is needed, one of them")
	}
	p := api.Caller(ctx)
	if b.SnapshotID != "" {
		if _, err := h.Manager.Snapshots.Get(ctx, p, b.SnapshotID); err != nil {
			return nil, err
		}
		return h.begin(ctx, jobs.Commit, b.Name, func() (jobs.Job, error) {
			return l.Commit(b.Name, "snapshot "+b.SnapshotID, h.openSnapshot(p, b.SnapshotID))
		})
	}
	id, err := h.Find(ctx, contract.SessionPath{ID: b.SessionID})
	if err == nil {
		_, err = h.Manager.Sessions.Enter(ctx, p, id)
	}
	if err != nil {
		return nil, err
	}
	return h.begin(ctx, jobs.Commit, b.Name, func() (jobs.Job, error) {
		return l.Commit(b.Name, "session "+string(id), h.saveSession(p, string(id)))
	})
}

func (h *Handlers) openSnapshot(p auth.Principal, id string) jobs.Archive {
	return func(ctx context.Context) (io.ReadCloser, error) {
		_, archive, err := h.Manager.Snapshots.Open(ctx, p, id)
		return archive, err
	}
}

// saveSession opens a snapshot that is made for this and removed when the archive
// is closed.
func (h *Handlers) saveSession(p auth.Principal, id string) jobs.Archive {
	return func(ctx context.Context) (io.ReadCloser, error) {
		made, err := h.Manager.Snapshots.Create(ctx, p, id, snapshots.Request{Label: "of an image under way", Scope: snapshot.ScopeSandbox})
		if err != nil {
			return nil, err
		}
		remove := func() error { return h.Manager.Snapshots.Delete(context.WithoutCancel(ctx), p, made.ID) }
		archive, err := h.openSnapshot(p, made.ID)(ctx)
		if err != nil {
			return nil, errors.Join(err, remove())
		}
		return &temporary{archive, remove}, nil
	}
}

// temporary is an archive of a snapshot that ends with it.
type temporary struct {
	io.ReadCloser

	remove func() error
}

// Close closes the archive and removes the snapshot.
func (t *temporary) Close() error { return errors.Join(t.ReadCloser.Close(), t.remove()) }
