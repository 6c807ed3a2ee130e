package v1_test

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/accounts/inspections"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/sessionmetrics"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/headers"
	"github.com/sandkasten/sandkasten/internal/preview"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/internal/usage"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	aliceKey = "alice-key"
	bobKey   = "bob-key"
)

// keys is two owners with one key each.
type keys struct {
	operator string // who sees what is the whole daemon's; "" is both
}

func (k keys) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	for owner, theirs := range map[string]string{"alice": aliceKey, "bob": bobKey} {
		if subtle.ConstantTimeCompare([]byte(key), []byte(theirs)) == 1 {
			p := auth.Principal{Owner: owner, Quota: owner}
			if k.operator == "" || k.operator == owner {
				p.Scopes = auth.ScopeDaemon
			}
			return p, nil
		}
	}
	return auth.Principal{}, errdefs.New(errdefs.Unauthenticated, "no such key")
}

// HashOf implements auth.Credentials.
func (keys) HashOf(id string) (hash auth.Hash, ok bool) { return auth.HashKey(id), true }

// images knows every name but "missing".
type images struct{}

func (images) Resolve(_ context.Context, name string) (string, error) {
	if name == "missing" {
		return "", errdefs.New(errdefs.NotFound, "no image %q; sandkasten image ls shows those that there are", name)
	}
	return runtimetest.LocalImage, nil
}

// server is a real daemon but for its driver, which does not isolate.
type server struct {
	*httptest.Server
	manager  *session.Manager
	secrets  *secrets.Keeper // of the manager's store
	registry *prometheus.Registry
}

type setup struct {
	session session.Options
	v1      v1.Options
	api     api.Options
	preview preview.Options
	idle    bool // the manager does not take up sessions: it is never ready

	removeOwned func(ctx context.Context, owner string) error
}

func start(tb testing.TB, options ...func(*setup)) *server {
	tb.Helper()
	db, err := store.Open(context.Background(), storetest.NewDB(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	blobs, err := blob.NewDir(tb.TempDir(), "")
	if err != nil {
		tb.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	o := setup{
		session: session.Options{
			Store: db, Driver: runtimetest.NewLocal(tb), Images: images{},
			Defaults:   session.Defaults{Image: "base"},
			Workspaces: workspaces.WorkspaceOptions{Store: db},
			Secrets:    secrets.Options{Store: db, Key: newKey(tb)},
			Snapshots:  snapshots.Options{Store: db, Blobs: blobs, SpoolDir: tb.TempDir()},
		},
		removeOwned: func(context.Context, string) error { return nil },

		v1:  v1.Options{Version: "test", SpoolDir: tb.TempDir(), Registry: registry},
		api: api.Options{Log: slog.New(slog.NewTextHandler(tb.Output(), nil)), Authenticator: keys{}, Registry: registry},
	}
	for _, set := range options {
		set(&o)
	}
	looks := inspections.New(db)
	o.v1.Inspections = looks
	o.session.LookIn = func(ctx context.Context, p auth.Principal, owner, id string) error {
		api.LooksIn(ctx, owner)
		return looks.Note(ctx, inspections.Kind{Owner: owner, By: p.Owner, What: "a session", Session: id})
	}
	if o.v1.Accounts, err = accounts.New(context.Background(), accounts.Options{
		Opened: func(ctx context.Context, by, user, what string) error {
			api.LooksIn(ctx, user)
			return looks.Note(ctx, inspections.Kind{Owner: user, By: by, What: what})
		},
		Store: db, Reserved: func(name string) bool { return name == "bob" }, RemoveOwned: o.removeOwned,
	}); err != nil {
		tb.Fatal(err)
	}
	if o.v1.SignIns, err = browser.New(context.Background(), browser.Options{
		Store: db, Accounts: o.v1.Accounts, Keys: o.v1.Accounts.Authenticator(o.api.Authenticator), Idle: time.Hour, Most: time.Hour,
	}); err != nil {
		tb.Fatal(err)
	}
	o.v1.Accounts.SetSignIns(o.v1.SignIns)
	if o.api.Browsers = o.v1.SignIns; o.api.Authenticator != nil {
		known := o.v1.Accounts.Authenticator(o.api.Authenticator)
		o.api.Authenticator, o.preview.Credentials = known, known
	}
	if o.session.Quotas == nil {
		o.session.Quotas = o.v1.Accounts.Quotas(auth.FixedQuotas{})
	}
	meter := usage.New(usage.Options{Store: db, Sessions: o.session.Store, Quotas: o.session.Quotas})
	if err := meter.Resume(context.Background()); err != nil {
		tb.Fatal(err)
	}
	meter.Settled(context.Background())
	o.session.Store, o.v1.Usage = meter.Sessions(), meter
	if o.session.Admit == nil {
		o.session.Admit = func(_ context.Context, a session.Admission) error { return meter.Check(a.Owner) }
	}
	s := &server{manager: session.New(o.session), secrets: secrets.New(o.session.Secrets), registry: registry}
	if !o.idle {
		run(tb, s.manager)
	}
	o.v1.Manager, o.preview.Manager = s.manager, s.manager
	o.v1.Previews = preview.New(o.preview)
	o.v1.Metrics = sessionmetrics.New(o.v1.Registry, s.manager)
	o.api.Site = o.v1.Previews.Site
	s.Server = httptest.NewUnstartedServer(nil)
	s.Config = api.NewServer(api.Handler(o.api, v1.New(o.v1)), slog.New(slog.DiscardHandler))
	s.Config.ConnState = headers.Watch
	s.Listener = headers.Listener{Listener: s.Listener, Limits: headers.Limits{Fields: api.MaxFields, Bytes: 64 << 10}}
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// newKey is what stored secrets are sealed with.
func newKey(tb testing.TB) *seal.Key {
	tb.Helper()
	key, err := seal.NewKey(make([]byte, seal.KeySize))
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// run runs the manager until the test ends, and returns when it is ready.
func run(tb testing.TB, m *session.Manager) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("Run: %v", err)
		}
	})
	for !m.Ready() {
		time.Sleep(time.Millisecond)
	}
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// into decodes the body, which must be JSON with this status.
func (a answer) into(tb testing.TB, status int, v any) {
	tb.Helper()
	if a.status != status {
		tb.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		tb.Fatalf("%v in %s", err, a.body)
	}
}

// wantError checks an error's status, code and field, and that it says
// something to people.
func (a answer) wantError(tb testing.TB, status int, code, field string) {
	tb.Helper()
	var e api.ErrorBody
	a.into(tb, status, &e)
	if string(e.Code) != code || e.Field != field || e.Error == "" {
		tb.Errorf("error %+v, want code %q and field %q", e, code, field)
	}
	if id := a.header.Get("X-Request-Id"); e.RequestID != id && status != http.StatusUnauthorized {
		tb.Errorf("request_id %q in the body and %q in the header", e.RequestID, id)
	}
}

type edit func(*http.Request)

func header(name, value string) edit {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) edit { return func(r *http.Request) { r.Host = name } }

// open sends a request as alice and returns the response, its body unread.
// The caller closes it.
func (s *server) open(tb testing.TB, method, path string, body io.Reader, edits ...edit) *http.Response {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, s.URL+path, body)
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+aliceKey)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edits {
		e(r)
	}
	response, err := s.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	return response
}

func (s *server) do(tb testing.TB, method, path, body string, edits ...edit) answer {
	tb.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	response := s.open(tb, method, path, reader, edits...)
	data, err := io.ReadAll(response.Body)
	if err := firstOf(err, response.Body.Close()); err != nil {
		tb.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, data}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// create makes a session of alice's and returns its path.
func (s *server) create(tb testing.TB) string {
	tb.Helper()
	var created v1.Session
	s.do(tb, "POST", "/v1/sessions", "{}").into(tb, http.StatusCreated, &created)
	return "/v1/sessions/" + string(created.ID)
}

// exec runs a command that must be accepted.
func (s *server) exec(tb testing.TB, path, cmd string) v1.ExecResponse {
	tb.Helper()
	var r v1.ExecResponse
	s.do(tb, "POST", path+"/exec", js(tb, map[string]any{"cmd": cmd})).into(tb, http.StatusOK, &r)
	return r
}

func js(tb testing.TB, v any) string {
	tb.Helper()
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(v); err != nil {
		tb.Fatal(err)
	}
	return buf.String()
}

// length says how long a body is whose reader does not.
func length(n int64) edit { return func(r *http.Request) { r.ContentLength = n } }
