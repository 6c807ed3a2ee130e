package openapitest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/accounts"
	"github.com/sandkasten/sandkasten/internal/accounts/browser"
	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/openapitest"
	orchestratorapi "github.com/sandkasten/sandkasten/internal/api/orchestrator"
	v1 "github.com/sandkasten/sandkasten/internal/api/v1"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/orchestrator"
	"github.com/sandkasten/sandkasten/internal/orchestrator/artifacts"
	"github.com/sandkasten/sandkasten/internal/runtime/runtimetest"
	"github.com/sandkasten/sandkasten/internal/scope"
	"github.com/sandkasten/sandkasten/internal/seal"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/secrets"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
	"github.com/sandkasten/sandkasten/internal/store"
	"github.com/sandkasten/sandkasten/internal/store/storetest"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The environment variables of a longer run, and of one that is repeated.
const (
	fuzzFor  = "SANDKASTEN_TEST_FUZZ_FOR"  // a duration for each surface; 8 s
	fuzzSeed = "SANDKASTEN_TEST_FUZZ_SEED" // a number; 1
)

const key = "the-only-key"

// images knows one image.
type images struct{}

func (images) Resolve(context.Context, string) (string, error) { return runtimetest.LocalImage, nil }

// journal is the daemon's log, which has the causes of what is its fault.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(line))
	return len(line), nil
}

// about returns the lines that have a text.
func (j *journal) about(text string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(slices.DeleteFunc(slices.Clone(j.lines), func(line string) bool { return text == "" || !strings.Contains(line, text) }), "")
}

// serve runs both surfaces over one manager, whose driver does not isolate.
func serve(t *testing.T, log io.Writer) *httptest.Server {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	db, err := store.Open(ctx, storetest.NewDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	blobs, err := blob.NewDir(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := seal.NewKey(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	manager := session.New(session.Options{
		Store: db, Driver: runtimetest.NewLocal(t), Images: images{}, Defaults: session.Defaults{Image: "base"},
		Maxima:     session.Maxima{ExecTimeout: time.Second},
		Quotas:     auth.FixedQuotas{General: auth.Quota{Sessions: 10}},
		Workspaces: workspaces.WorkspaceOptions{Store: db}, Secrets: secrets.Options{Store: db, Key: sealed},
		Snapshots: snapshots.Options{Store: db, Blobs: blobs, SpoolDir: t.TempDir()},
	})
	service := orchestrator.New(orchestrator.Options{
		Store: db, Sessions: manager.Sessions, Snapshots: manager.Snapshots, Ready: manager.Ready, Drivers: manager.Drivers(),
		Modes: map[string]string{"docker": "native"}, DefaultImage: "base",
		Planned: func(mode string) bool { return mode == "k8s" },
	})
	users, err := accounts.New(ctx, accounts.Options{
		Store: db, Reserved: func(string) bool { return false }, RemoveOwned: func(context.Context, string) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, manager.Run)
	run(t, service.Run)
	for !manager.Ready() {
		time.Sleep(time.Millisecond)
	}
	keys, err := auth.NewKeys(auth.Key{ID: "a", Owner: auth.Admin, Hash: auth.HashKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	kept := artifacts.New(artifacts.Options{Store: db, Blobs: blobs, SpoolDir: t.TempDir(), Secret: []byte("of the test"), Credentials: users.Authenticator(keys), MaxBytes: 1 << 20, Quota: 2 << 20})
	authenticator := users.Authenticator(keys)
	signIns, err := browser.New(ctx, browser.Options{Store: db, Accounts: users, Keys: authenticator, Idle: time.Hour, Most: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	users.SetSignIns(signIns)
	server := httptest.NewUnstartedServer(nil)
	handler := api.Handler(api.Options{Authenticator: authenticator, Browsers: signIns, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))},
		v1.New(v1.Options{
			Manager: manager, Accounts: users, SignIns: signIns, Scopes: scope.New(scope.Options{Store: db, Sessions: manager.Sessions}),
			SpoolDir: t.TempDir(), UploadBytes: 1 << 20,
		}),
		orchestratorapi.New(orchestratorapi.Options{
			Service: service, Manager: manager, Artifacts: kept, Accounts: users, SignIns: signIns, SignInLife: time.Hour,
			SpoolDir: t.TempDir(), UploadBytes: 1 << 20,
		}),
	)
	server.Config = api.NewServer(handler, slog.New(slog.DiscardHandler))
	server.Start()
	t.Cleanup(server.Close)
	return server
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

// fuzzer sends what it draws of one document.
type fuzzer struct {
	t        *testing.T
	server   *httptest.Server
	log      *journal
	drawer   *openapitest.Drawer
	document *openapitest.Document
	counts   map[int]int     // of answers by status
	reached  map[string]bool // operations with an answer below 400
	found    map[string]bool // what was reported
}

// commands do no harm on a host: nothing isolates them here.
var commands = []any{"true", "echo hi", "exit 3", "printf x", "sleep 0.02", "cat"}

func newFuzzer(t *testing.T, documentPath string, seed uint64) *fuzzer {
	t.Helper()
	log := &journal{}
	f := &fuzzer{
		t: t, server: serve(t, log), log: log, counts: map[int]int{}, reached: map[string]bool{}, found: map[string]bool{},
	}
	_, _, text, err := f.send(openapitest.Request{Method: http.MethodGet, Target: documentPath})
	if err != nil {
		t.Fatal(err)
	}
	if f.document, err = openapitest.Parse(text); err != nil {
		t.Fatal(err)
	}
	f.drawer = &openapitest.Drawer{
		Random: rand.New(rand.NewPCG(seed, 0)), Document: f.document,
		Only: []string{"cmd", "command", "count", "wait_ms", "timeout_ms", "timeout_sec", "driver", "network_mode"},
		Pools: map[string][]any{
			"cmd": commands, "command": commands, "count": {1, 2}, "wait_ms": {0, 30}, "timeout_ms": {0, 200}, "timeout_sec": {1},
			"driver": {"native"}, "network_mode": {"none"},
		},
	}
	return f
}

// send sends a request and reads its answer.
func (f *fuzzer) send(drawn openapitest.Request) (status int, header http.Header, body []byte, err error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, drawn.Method, f.server.URL, bytes.NewReader(drawn.Body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.URL.Opaque = drawn.Target
	r.Header.Set("X-Api-Key", key)
	if drawn.Type != "" {
		r.Header.Set("Content-Type", drawn.Type)
	}
	for name, value := range drawn.Headers {
		r.Header.Set(name, value)
	}
	response, err := f.server.Client().Transport.RoundTrip(r)
	if err != nil {
		return 0, nil, nil, err
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") { // which may go on for ever
		stop := time.AfterFunc(500*time.Millisecond, cancel)
		body, err = io.ReadAll(response.Body)
		if !stop.Stop() {
			err = nil
		}
	} else {
		body, err = io.ReadAll(response.Body)
	}
	return response.StatusCode, response.Header, body, errors.Join(err, response.Body.Close())
}

// try sends one request, and reports an answer that may not be.
func (f *fuzzer) try(op *openapitest.Operation, drawn openapitest.Request) {
	if _, err := url.ParseRequestURI(drawn.Target); err != nil {
		return // which is no request of HTTP
	}
	status, header, body, err := f.send(drawn)
	if err != nil && strings.Contains(err.Error(), "invalid header field value") {
		return // nor is this
	}
	path, _, _ := strings.Cut(drawn.Target, "?")
	found := f.document.Find(drawn.Method, path)
	switch {
	case err != nil:
	case status == http.StatusRequestHeaderFieldsTooLarge && strings.HasPrefix(header.Get("Content-Type"), "text/plain"):
		// The library's, before there is a request.
	case status >= 500 && status != 501 && status != 503 && status != 507:
		err = fmt.Errorf("status %d: %s%s", status, body, f.log.about(header.Get("X-Request-Id")))
	case found == nil: // which leads nowhere
		err = f.nowhere(drawn.Method, status, body)
	default:
		err = found.Check(status, header, body)
	}
	if err != nil {
		f.report(op, drawn, status, err)
		return
	}
	f.counts[status]++
	if found == nil || status >= 400 {
		return
	}
	f.reached[found.Method+" "+found.Path] = true
	f.harvest(found, drawn.Target, status, body)
}

// nowhere is what is wrong with the answer to a path or method that is not there.
func (f *fuzzer) nowhere(method string, status int, body []byte) error {
	if status < 400 && status != http.StatusMovedPermanently && status != http.StatusTemporaryRedirect && method != http.MethodHead && method != http.MethodOptions {
		return fmt.Errorf("status %d of what is not in the document", status)
	}
	var e struct{ Error, Detail string }
	if status >= 400 && method != http.MethodHead && (json.Unmarshal(body, &e) != nil || e.Error == "" && e.Detail == "") {
		return fmt.Errorf("status %d in no dialect: %q", status, body)
	}
	return nil
}

// report reports each kind of mistake once.
func (f *fuzzer) report(op *openapitest.Operation, drawn openapitest.Request, status int, err error) {
	f.t.Helper()
	kind := fmt.Sprintf("%s %s %d %.80s", op.Method, op.Path, status, err)
	if f.found[kind] || len(f.found) > 30 {
		return
	}
	f.found[kind] = true
	f.t.Errorf("%s %s: %v\n\t%s", op.Method, op.Path, err, drawn)
}

// most is how many things of a kind there are at once.
const most = 4

// harvest learns what there is now, so that later requests are about it.
func (f *fuzzer) harvest(op *openapitest.Operation, target string, status int, body []byte) {
	path, _, _ := strings.Cut(target, "?")
	path = strings.TrimSuffix(path, "/")
	if op.Method == http.MethodDelete {
		collection, name := path[:strings.LastIndex(path, "/")+1], path[strings.LastIndex(path, "/")+1:]
		f.drawer.Pools[collection] = slices.DeleteFunc(f.drawer.Pools[collection], func(known any) bool { return known == name })
		return
	}
	var made map[string]any
	if op.Method != http.MethodPost || status > 201 || json.Unmarshal(body, &made) != nil {
		return
	}
	if branches, ok := made["sessions"].([]any); ok { // of a fork
		for _, branch := range branches {
			if x, ok := branch.(map[string]any); ok {
				f.remove(fmt.Sprint("/v1/sessions/", x["id"]))
			}
		}
		return
	}
	f.learn("exec_id", made["exec_id"])
	name := made["id"]
	if name == nil {
		name = made["name"]
	}
	switch {
	case strings.HasSuffix(path, "/snapshot"), strings.HasSuffix(path, "/snapshots"):
		for _, pool := range []string{"/v1/snapshots/", "restore_snapshot_id", "snapshot", "snapshot_id"} {
			f.learn(pool, name)
		}
	case status == http.StatusCreated:
		f.learn(path+"/", name)
	}
}

// learn adds something that there is to a pool. Of sessions that are too many the
// oldest ends.
func (f *fuzzer) learn(pool string, value any) {
	known := f.drawer.Pools[pool]
	if text, ok := value.(string); !ok || text == "" || slices.Contains(known, value) {
		return
	}
	if known = append(known, value); len(known) > most {
		if strings.HasSuffix(pool, "/sessions/") {
			f.remove(pool + fmt.Sprint(known[0]))
		}
		known = known[1:]
	}
	f.drawer.Pools[pool] = known
}

// next draws an operation. Those that end things are rarer, and there is always a
// session.
func (f *fuzzer) next() *openapitest.Operation {
	for _, op := range f.document.Operations {
		collection := strings.TrimSuffix(op.Path, "/")
		if op.Method != http.MethodPost || !strings.HasSuffix(collection, "/sessions") || len(f.drawer.Pools[collection+"/"]) > 0 {
			continue
		}
		f.try(op, openapitest.Request{Method: http.MethodPost, Target: collection, Type: "application/json", Body: []byte("{}")})
	}
	op := f.document.Operations[f.drawer.Random.IntN(len(f.document.Operations))]
	ends := op.Method == http.MethodDelete || strings.HasSuffix(op.Path, "/stop") || strings.HasSuffix(op.Path, "/pause")
	if ends && f.drawer.Random.IntN(4) > 0 {
		return f.next()
	}
	return op
}

func (f *fuzzer) remove(path string) {
	if _, _, _, err := f.send(openapitest.Request{Method: http.MethodDelete, Target: path}); err != nil {
		f.t.Error(err)
	}
}

// TestSurfacesAnswerWhateverIsAsked sends requests that the documents allow, and
// such that were broken on purpose. Every answer is one of the document, in the
// surface's form, and none is the daemon's fault.
func TestSurfacesAnswerWhateverIsAsked(t *testing.T) {
	seed := uint64(number(t, fuzzSeed, 1))
	length := 8 * time.Second
	if text := os.Getenv(fuzzFor); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{"v1": "/openapi.json", "orchestrator": "/api/sandbox/openapi.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFuzzer(t, path, seed)
			t.Logf("seed %d; %s=%d repeats it", seed, fuzzSeed, seed)
			// A busy machine gets a minute more.
			sent, least, end := 0, len(f.document.Operations)/3, time.Now().Add(length)
			for ; time.Now().Before(end) || len(f.reached) < least && time.Now().Before(end.Add(time.Minute)); sent++ {
				op := f.next()
				drawn := f.drawer.Valid(op)
				if f.drawer.Random.IntN(2) == 0 {
					drawn = f.drawer.Broken(op)
				}
				f.try(op, drawn)
			}
			t.Logf("%d requests, answers %v, %d of %d operations answered well", sent, f.counts, len(f.reached), len(f.document.Operations))
			if len(f.reached) < least {
				t.Errorf("%d operations answered well, want %d: the requests are too wrong to find anything", len(f.reached), least)
			}
		})
	}
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
