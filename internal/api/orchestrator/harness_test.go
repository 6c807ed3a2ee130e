package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/openapitest"
	surface "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	someID = "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a11"
	base   = "/api/sandbox/sessions"
	one    = base + "/" + someID
)

// images knows every name but "missing".
type images struct{}

func (images) Resolve(_ context.Context, name string) (string, error) {
	if name == "missing" {
		return "", errdefs.New(errdefs.NotFound, "no image %q", name).Because(errdefs.NoSuchImage)
	}
	return runtimetest.LocalImage, nil
}

// server is a daemon with this API only, whose driver does not isolate.
type server struct {
	*httptest.Server
	t       *testing.T
	users   *accounts.Accounts
	service *orchestrator.Service
	manager *session.Manager
	blobs   *blob.Dir // of archives and artifacts
	kept    *artifacts.Service

	document *openapitest.Document // that every answer is held against
}

func start(t *testing.T, options ...func(*surface.Options)) *server {
	t.Helper()
	blobs, err := blob.NewDir(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	var o surface.Options
	for _, set := range options {
		set(&o)
	}
	s := startWith(t, blobs, o)
	s.blobs = blobs
	return s
}

// startWith is start with archives and artifacts in a store of the test's.
func startWith(t *testing.T, blobs blob.Store, o surface.Options) *server {
	t.Helper()
	return startSuffixed(t, blobs, "", o)
}

// startSuffixed is startWith a suffix of the names of archives.
func startSuffixed(t *testing.T, blobs blob.Store, suffix string, o surface.Options, changes ...func(*orchestrator.Options)) *server {
	t.Helper()
	db, err := store.Open(context.WithoutCancel(t.Context()), storetest.NewDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	manager := session.New(session.Options{
		Store: db, Driver: runtimetest.NewLocal(t), Images: images{}, Defaults: session.Defaults{Image: "base"},
		Snapshots: snapshots.Options{Store: db, Blobs: blobs, SpoolDir: t.TempDir()},
	})
	options := orchestrator.Options{
		Store: db, Sessions: manager.Sessions, Snapshots: manager.Snapshots, Ready: manager.Ready, Drivers: manager.Drivers(),
		Modes: map[string]string{"docker": "native"}, DefaultImage: "base", ArchiveSuffix: suffix,
		Planned: func(mode string) bool { return mode == "k8s" },
	}
	for _, change := range changes {
		change(&options)
	}
	service := orchestrator.New(options)
	run(t, manager.Run)
	run(t, service.Run)
	for !manager.Ready() {
		time.Sleep(time.Millisecond)
	}
	users, err := accounts.New(t.Context(), accounts.Options{Store: db, RemoveOwned: func(context.Context, string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.NewKeys(auth.Key{ID: "a", Owner: "alice", Hash: auth.HashKey("alice-key")}, auth.Key{ID: "b", Owner: "bob", Hash: auth.HashKey("bob-key")})
	if err != nil {
		t.Fatal(err)
	}
	kept := artifacts.New(artifacts.Options{Store: db, Blobs: blobs, SpoolDir: t.TempDir(), Secret: []byte("of the test"), Credentials: users.Authenticator(keys), MaxBytes: 1 << 20, Quota: 2 << 20})
	signIns, err := browser.New(t.Context(), browser.Options{Store: db, Accounts: users, Keys: users.Authenticator(keys), Idle: time.Hour, Most: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	users.SetSignIns(signIns)
	o.Service, o.Manager, o.Artifacts, o.SpoolDir, o.BodyBytes, o.UploadBytes = service, manager, kept, t.TempDir(), 1<<20, 1<<20
	o.Title = func(mode string) string { return map[string]string{"docker": "Docker"}[mode] }
	o.Accounts, o.SignIns, o.SignInLife = users, signIns, time.Hour
	s := &server{t: t, users: users, service: service, manager: manager, kept: kept, document: readDocument(t), Server: httptest.NewUnstartedServer(nil)}
	s.Config = api.NewServer(api.Handler(api.Options{Authenticator: users.Authenticator(keys), Browsers: signIns}, surface.New(o)), slog.New(slog.DiscardHandler))
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// run runs a part until the test ends.
func run(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

type edit func(*http.Request)

func header(name, value string) edit {
	return func(r *http.Request) {
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
}

// do sends a request as alice, of JSON if there is a body.
func (s *server) do(method, target, body string, edits ...edit) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "alice-key")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, change := range edits {
		change(r)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		s.t.Fatal(err)
	}
	if op := s.document.Find(method, r.URL.Path); op != nil {
		if err := op.Check(resp.StatusCode, resp.Header, text); err != nil {
			s.t.Errorf("%s %s: the answer is not as the document says: %v", method, target, err)
		}
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// want is do with what comes back, but for a newline at its end.
func (s *server) want(status int, says string, method, target, body string, edits ...edit) answer {
	s.t.Helper()
	a := s.do(method, target, body, edits...)
	if a.status != status || strings.TrimSuffix(a.body, "\n") != says {
		s.t.Errorf("%s %s %.200s: %d %s; want %d %s", method, target, body, a.status, a.body, status, says)
	}
	return a
}

// object is a JSON object.
type object map[string]any

// object is do with the object that comes back.
func (s *server) object(status int, method, target, body string, edits ...edit) object {
	s.t.Helper()
	a := s.do(method, target, body, edits...)
	var o object
	if err := json.Unmarshal([]byte(a.body), &o); err != nil || a.status != status {
		s.t.Fatalf("%s %s %s: %d %s, %v; want %d", method, target, body, a.status, a.body, err, status)
	}
	return o
}
