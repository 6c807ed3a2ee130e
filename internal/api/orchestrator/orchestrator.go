// Package orchestrator is the HTTP API of a service that platforms know as their
// sandbox orchestrator, below /api/sandbox: its paths, shapes and errors, over the
// sessions of the package with the same name. It decides nothing about sessions.
// What it does not have it answers in the same dialect.
package orchestrator

import (
	"cmp"
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/session"
)

// Options configures the surface. Service, Manager and Artifacts are required.
type Options struct {
	Service   *orchestrator.Service
	Manager   *session.Manager   // of the service's sessions
	Artifacts *artifacts.Service // of the files of these

	Title func(mode string) string // what people call a mode; nil, or "" of one, is its name

	Bucket       bool   // snapshots are in one
	BucketPrefix string // of their keys there

	Accounts     *accounts.Accounts // with SignIns; nil has no paths of users and keys
	SignIns      *browser.SignIns
	SignInLife   time.Duration // at most
	Registration bool          // everybody may make a user for themselves

	OutputBytes int64  // of each output of one command in an answer: 1 MiB
	BodyBytes   int64  // of one JSON body: 32 MiB
	UploadBytes int64  // of one uploaded file: 1 GiB
	SpoolDir    string // for files until their size is known; "" is the system's temporary directory
}

type surface struct {
	sessions *orchestrator.Service
	manager  *session.Manager
	kept     *artifacts.Service
	opts     Options
	kit      *kit.Surface
}

const prefix = "/api/sandbox/"

// New returns the surface.
func New(o Options) api.Surface {
	o.OutputBytes = cmp.Or(o.OutputBytes, 1<<20)
	o.BodyBytes = cmp.Or(o.BodyBytes, 32<<20)
	o.UploadBytes = cmp.Or(o.UploadBytes, 1<<30)
	s := &surface{sessions: o.Service, manager: o.Manager, kept: o.Artifacts, opts: o}
	s.kit = kit.New(kit.Options{
		Name: "orchestrator", Prefix: "/api/", Dialect: dialect, Cookie: &api.OrchestratorCookie, Codec: requests, EitherSlash: true, EitherKey: true, KeyErrors: keyErrors,
	})
	s.addRoutes()
	document := kit.DocumentText(s.document())
	all := s.kit.Surface()
	all.Routes = append(all.Routes, api.Route{Pattern: "GET " + documentPath, Scope: api.Public, Handler: serving(document)})
	return all
}

// title is what people call a mode that a request names, or does not.
func (s *surface) title(mode string) string {
	if mode == "" {
		return "the"
	}
	if s.opts.Title == nil {
		return mode
	}
	return cmp.Or(s.opts.Title(mode), mode)
}

// absent answers, for a session that there is, that this daemon cannot do a thing.
func absent(what string) func(context.Context, *ofSession) (*kit.Nothing, error) {
	return func(context.Context, *ofSession) (*kit.Nothing, error) {
		return nil, errdefs.New(errdefs.Unimplemented, "%s", what)
	}
}

// findSession finds the session that the path of an input names.
func (s *surface) findSession(ctx context.Context, input any) error {
	at := input.(interface{ path() *SessionPath }).path()
	ref, err := at.ref()
	if err != nil {
		return err
	}
	at.session, err = s.sessions.Get(ctx, api.Caller(ctx), ref)
	return err
}

// ref is what the path names a session by: a UUID, or the id that it has in /v1.
func (p *SessionPath) ref() (string, error) {
	if id, ok := orchestrator.ParseUUID(p.ID); ok {
		return id, nil
	}
	if len(p.ID) == 26 {
		return p.ID, nil
	}
	return "", errNotFound()
}
