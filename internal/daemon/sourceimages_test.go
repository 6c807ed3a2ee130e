package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// rootArchive is the tests' root file system as an archive.
func rootArchive(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := flatten.Write(t.Context(), &buf, []string{testenv.ShellRootfs(t)}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// importOwn has the engine make an image of an archive, with a variable.
func importOwn(t *testing.T, e *testenv.Engine, repo, variable string, archive []byte) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(e.Host, "unix://"))
		},
	}}
	query := url.Values{"fromSrc": {"-"}, "repo": {repo}, "tag": {"1"}, "changes": {"ENV OWN=" + variable, "WORKDIR /tmp"}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine/images/create?"+query.Encode(), bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("import into the engine: %d %s, %v", resp.StatusCode, text, err)
	}
}

// guarded is a registry that wants a password and has one image, which it returns
// the reference of.
func guardedRegistry(t *testing.T, archive []byte, user, password string) string {
	t.Helper()
	inner := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		if r.Header.Get("X-Test") == "" && (u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Config.Env = "linux", "amd64", []string{"OWN=pulled"}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(strings.TrimPrefix(srv.URL, "http://") + "/team/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithTransport(passing{})); err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

// passing gets by the password.
type passing struct{}

func (passing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Test", "1")
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}

// TestEngineImages: a session on a Docker engine may name an image of the engine's,
// or one that the engine can pull, as the owner and allowed_images allow.
func TestEngineImages(t *testing.T) {
	testenv.NeedsRoot(t)
	archive := rootArchive(t)
	ref := guardedRegistry(t, archive, "user", "secret")
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", filepath.Join(home, "docker"))
	e := testenv.StartEngine(t)
	importOwn(t, e, "mine", "first", archive)
	cfg := testConfig(t)
	cfg.Driver, cfg.Docker.Host = "docker", e.Host
	cfg.APIKeys = []config.APIKey{{Owner: "alice", Key: "sk_alice_is_long_enough"}}
	giveImage(t, cfg)
	d, stop := start(t, cfg)
	admin := call(t, d, cfg)
	alice := caller{t, admin.url, "sk_alice_is_long_enough"}

	refuse := func(c caller, image string, want int, text string) {
		t.Helper()
		body, err := json.Marshal(map[string]string{"image": image})
		if err != nil {
			t.Fatal(err)
		}
		if status, got := c.try(http.MethodPost, "", string(body)); status != want || !strings.Contains(string(got), text) {
			t.Errorf("%s: %d %s, want %d with %q", image, status, got, want, text)
		}
	}
	made := func(c caller, image, want string) {
		t.Helper()
		id, _ := c.do(http.MethodPost, "", `{"image": "`+image+`"}`)["id"].(string)
		c.exec(id, "echo $OWN", want+"\n")
		c.do(http.MethodDelete, "/"+id, "")
	}
	refuse(alice, "mine:1", http.StatusNotFound, "no image") // what a Docker host has is not for every client
	made(admin, "mine:1", "first")
	made(alice, "mine:1", "first") // now it is in the store
	importOwn(t, e, "mine", "second", archive)
	made(admin, "mine:1", "second") // which follows the engine's
	refuse(admin, ref, http.StatusNotFound, "cannot pull it")
	if err := os.MkdirAll(filepath.Join(home, "docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(ref, "/")
	login := `{"auths": {"` + host + `": {"username": "user", "password": "secret"}}}`
	if err := os.WriteFile(filepath.Join(home, "docker", "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	made(admin, ref, "pulled")
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	importOwn(t, e, "other", "third", archive)
	importOwn(t, e, "hidden", "fourth", archive)
	cfg.AllowedImages = []string{cfg.DefaultImage, "other:1"}
	d, _ = start(t, cfg)
	admin = call(t, d, cfg)
	alice.url = admin.url
	made(alice, "other:1", "third")
	refuse(alice, "hidden:1", http.StatusNotFound, "no image")
	refuse(admin, "hidden:1", http.StatusNotFound, "no image")
	refuse(alice, "mine:1", http.StatusForbidden, "may not be used")
}
