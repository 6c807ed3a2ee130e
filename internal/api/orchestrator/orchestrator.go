// Package orchestrator is the HTTP API of a service that platforms know as their
// sandbox orchestrator, below /api/sandbox: its paths, shapes and errors, over the
// sessions of the package with the same name. It decides nothing about sessions.
// What it does not have it answers in the same dialect.
package orchestrator

import (
	"cmp"
	"net/http"
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
	routes   []api.Route
	kit      *kit.Surface  // of the document only
	openapi  func() []byte // the document as it is served
}

const prefix = "/api/sandbox/"

// New returns the surface.
func New(o Options) api.Surface {
	o.OutputBytes = cmp.Or(o.OutputBytes, 1<<20)
	o.BodyBytes = cmp.Or(o.BodyBytes, 32<<20)
	o.UploadBytes = cmp.Or(o.UploadBytes, 1<<30)
	s := &surface{sessions: o.Service, manager: o.Manager, kept: o.Artifacts, opts: o}
	s.kit = kit.New(kit.Options{Name: "orchestrator", KeyErrors: keyErrors})
	s.table()
	s.openapi = kit.DocumentText(s.document())
	s.routes = append(s.routes, api.Route{Pattern: "GET " + documentPath, Scope: api.Public, Handler: http.HandlerFunc(s.serveDocument)})
	return api.Surface{Name: "orchestrator", Routes: s.routes, Prefix: "/api/", Dialect: dialect, Cookie: &api.OrchestratorCookie, EitherKey: true}
}

// handler answers a request, or says why it does not.
type handler func(w http.ResponseWriter, r *http.Request) error

// table is the whole API.
func (s *surface) table() {
	s.add("GET", "sessions", api.Short, s.list)
	s.add("POST", "sessions", api.Long, s.create)
	s.add("GET", "sessions/{id}", api.Short, s.get)
	s.add("DELETE", "sessions/{id}", api.Long, s.stop)
	s.add("POST", "sessions/{id}/stop", api.Long, s.stop)
	s.add("POST", "sessions/{id}/heartbeat", api.Short, s.heartbeat)

	s.add("POST", "sessions/{id}/exec", api.Long, s.exec)
	s.add("POST", "sessions/{id}/shell", api.Long, s.exec)

	s.add("POST", "sessions/{id}/upload", api.Transfer, s.write)
	s.add("POST", "sessions/{id}/files/upload", api.Transfer, s.upload)
	s.add("GET", "sessions/{id}/files/content", api.Transfer, s.content)
	s.add("POST", "sessions/{id}/files/export", api.Transfer, s.export)
	s.add("GET", "sessions/{id}/artifacts", api.Short, s.artifacts)

	s.addRoute("GET", api.Route{Pattern: prefix + "artifacts/{artifact}/download", Scope: api.Key, Class: api.Transfer, Ticket: s.linkTicket}, s.download)

	s.add("POST", "sessions/{id}/snapshot", api.Long, s.snapshot)
	s.add("POST", "sessions/{id}/snapshots", api.Long, s.snapshot)
	s.add("GET", "sessions/{id}/snapshots", api.Short, s.snapshots)
	s.add("GET", "sessions/{id}/snapshots/{snapshot}", api.Short, s.getSnapshot)

	s.add("POST", "sessions/{id}/input/mouse", api.Short, s.absent("Mouse input not yet implemented in the sandbox daemon"))
	s.add("POST", "sessions/{id}/input/keyboard", api.Short, s.absent("Keyboard input not yet implemented in the sandbox daemon"))
	s.add("GET", "sessions/{id}/screenshot", api.Short, s.absent("Screenshots require a desktop in the sandbox"))
	s.add("GET", "sessions/{id}/stream/view", api.Short, s.absent("Live view streaming requires sandbox daemon integration"))
	if s.opts.Accounts != nil {
		s.accountRoutes()
	}
}

// add adds a path below prefix that takes a key.
func (s *surface) add(method, path string, class api.Class, handle handler) {
	s.addRoute(method, api.Route{Pattern: prefix + path, Scope: api.Key, Class: class}, handle)
}

// addRoute adds a route whose pattern is a path, with and without a slash at its end.
func (s *surface) addRoute(method string, route api.Route, handle handler) {
	s.describe(method, route)
	path := route.Pattern
	route.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handle(w, r); err != nil {
			writeError(w, r, err)
		}
	})
	for _, pattern := range []string{method + " " + path, method + " " + path + "/{$}"} {
		route.Pattern = pattern
		s.routes = append(s.routes, route)
	}
}

// absent answers, for a session that there is, that this daemon cannot do a thing.
func (s *surface) absent(what string) handler {
	return func(_ http.ResponseWriter, r *http.Request) error {
		if _, err := s.find(r); err != nil {
			return err
		}
		return errdefs.New(errdefs.Unimplemented, "%s", what)
	}
}

// find returns the session that the path names.
func (s *surface) find(r *http.Request) (orchestrator.Session, error) {
	ref, err := refOf(r)
	if err != nil {
		return orchestrator.Session{}, err
	}
	return s.sessions.Get(r.Context(), api.Caller(r.Context()), ref)
}

// refOf is what the path names a session by: a UUID, or the id that it has in /v1.
func refOf(r *http.Request) (string, error) {
	text := r.PathValue("id")
	if id, ok := orchestrator.ParseUUID(text); ok {
		return id, nil
	}
	if len(text) == 26 {
		return text, nil
	}
	return "", errNotFound()
}
