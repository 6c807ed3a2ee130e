package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/config"
	"github.com/sandkasten/sandkasten/internal/datadir"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/flatten"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

const (
	npmStandIn = "#!/bin/sh\nprintf '{\\n  \"registry\": \"https://user:secret@npm.example:8443/x\"\\n}\\n'\n"
	gitStandIn = "#!/bin/sh\necho 'url.https://code.example/.insteadof https://other.example/'\n"
)

// withPrograms is the tests' root file system with programs of its own, as an archive.
// It asks apt alone of the real clients.
func withPrograms(t *testing.T, programs map[string]string) io.Reader {
	t.Helper()
	top := t.TempDir()
	bin := filepath.Join(top, "usr/local/bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var archive bytes.Buffer
	if err := flatten.Write(t.Context(), &archive, []string{top, testenv.ShellRootfs(t)}); err != nil {
		t.Fatal(err)
	}
	return &archive
}

// giveClients imports an image with programs, before a daemon has the store.
func giveClients(t *testing.T, cfg config.Config, name string, programs map[string]string) images.Image {
	t.Helper()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := datadir.OpenImages(cfg, silent)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Import(t.Context(), images.ImportRequest{Name: name, Tar: withPrograms(t, programs)})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// wantNoSandboxes checks that what was asked in is gone.
func wantNoSandboxes(t *testing.T, d *Daemon) {
	t.Helper()
	seen, err := runtime.Survey(t.Context(), d.drivers.Driver)
	if err != nil || len(seen.Sandboxes) > 0 {
		t.Errorf("sandboxes are left: %v, %v", seen.Sandboxes, err)
	}
}

// TestImportedImageTellsItsGroups: who imports an image sees soon after what its
// clients say, of no password and without asking.
func TestImportedImageTellsItsGroups(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Pool.Enabled = false
	d, _ := start(t, cfg)
	c := call(t, d, cfg)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL()+"/v1/images/import?name=tools", withPrograms(t, map[string]string{"npm": npmStandIn}))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("import: %s, %v", resp.Status, err)
	}
	var got struct {
		Groups map[string][]string `json:"network_groups"`
	}
	for end := time.Now().Add(time.Minute); got.Groups == nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		status, body := get(t, d.URL()+"/v1/images/tools", c.key)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got.Groups["npm"], []string{"npm.example:8443"}) || len(got.Groups["apt"]) == 0 {
		t.Errorf("groups %v", got.Groups)
	}
	if _, ok := got.Groups["cargo"]; ok {
		t.Errorf("there is no cargo: %v", got.Groups)
	}
	wantNoSandboxes(t, d)
}

// counted is a driver that counts what it makes.
type counted struct {
	runtime.Driver

	made atomic.Int64
}

func (c *counted) Create(ctx context.Context, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	c.made.Add(1)
	return c.Driver.Create(ctx, id, spec)
}

// TestGroupsAreAskedOnce: many who want to know at once, and all later ones, are told
// what one sandbox said, also after a restart. A sandbox that a crash leaves meanwhile
// is removed by that, although the database names no sandbox at all.
func TestGroupsAreAskedOnce(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Pool.Enabled = false
	img := giveClients(t, cfg, cfg.DefaultImage, map[string]string{"git": gitStandIn})
	d, stop := start(t, cfg)
	counter := &counted{Driver: d.drivers.Driver}
	d.groups.driver = counter
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			got, err := d.groups.Groups(t.Context(), img.Digest)
			if err != nil || !slices.Equal(got["git"], []string{"code.example"}) {
				t.Errorf("Groups = %v, %v", got, err)
			}
		})
	}
	all.Wait()
	first, err := d.groups.Groups(t.Context(), img.Digest)
	if n := counter.made.Load(); n != 1 || err != nil {
		t.Errorf("%d sandboxes were made, %v", n, err)
	}
	wantNoSandboxes(t, d)
	spec := d.groups.spec
	spec.Image = img.Digest
	if _, err := d.drivers.Driver.Create(t.Context(), runtime.NewPassingID().In(cfg.Driver), spec); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	d, _ = start(t, cfg)
	call(t, d, cfg)
	wantNoSandboxes(t, d)
	again, err := d.groups.Groups(t.Context(), img.Digest)
	if err != nil || !maps.EqualFunc(again, first, slices.Equal) {
		t.Errorf("after a restart: %v, %v", again, err)
	}
}

// TestSlowClientsAreAskedOnce: a host that is too busy for the first question answers the
// second, and whoever gives up meanwhile is told why it takes so long.
func TestSlowClientsAreAskedOnce(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Pool.Enabled = false
	img := giveClients(t, cfg, cfg.DefaultImage, map[string]string{"npm": "#!/bin/sh\nsleep 3\nprintf '{\\n  \"registry\": \"https://npm.example/\"\\n}\\n'\n"})
	d, _ := start(t, cfg)
	counter := &counted{Driver: d.drivers.Driver}
	d.groups.driver, d.groups.patience = counter, 2*time.Second
	hasty, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := d.groups.Groups(hasty, img.Digest); !errdefs.Is(err, errdefs.Unavailable) || !strings.Contains(errdefs.MessageOf(err), "once for each image") {
		t.Errorf("who gives up is told %v", err)
	}
	if got, err := d.groups.Groups(t.Context(), img.Digest); err != nil || !slices.Equal(got["npm"], []string{"npm.example"}) || counter.made.Load() != 2 {
		t.Errorf("Groups = %v, %v, in %d sandboxes", got, err, counter.made.Load())
	}
}

// TestClientThatHangs keeps its image's groups unknown, and nothing else busy.
func TestClientThatHangs(t *testing.T) {
	testenv.NeedsRoot(t)
	cfg := testConfig(t)
	cfg.Pool.Enabled = false
	img := giveClients(t, cfg, cfg.DefaultImage, map[string]string{"npm": "#!/bin/sh\nsleep 600\n"})
	d, _ := start(t, cfg)
	d.groups.patience = time.Second
	if got, err := d.groups.Groups(t.Context(), img.Digest); !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("Groups = %v, %v", got, err)
	}
	if stored, err := d.images.Groups(img.Digest); stored != nil || err != nil {
		t.Errorf("stored are %v, %v", stored, err)
	}
	wantNoSandboxes(t, d)
	if _, err := d.groups.Groups(t.Context(), "sha256:"+string(bytes.Repeat([]byte("0"), 64))); !errdefs.Is(err, errdefs.NotFound) {
		t.Errorf("of an image that is not there: %v", err)
	}
}

// TestGroupsAfterClose are those that are stored.
func TestGroupsAfterClose(t *testing.T) {
	t.Parallel()
	store, err := images.Open(images.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	a := &groupAsker{store: store, settled: make(chan struct{}), log: silent, ctx: ctx, stop: cancel, live: map[runtime.ID]bool{}}
	digest := "sha256:" + string(bytes.Repeat([]byte("1"), 64))
	a.askLater(digest) // waits for the start
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a.askLater(digest)
	if got, err := a.Groups(t.Context(), digest); !errdefs.Is(err, errdefs.Unavailable) {
		t.Errorf("Groups = %v, %v", got, err)
	}
}
