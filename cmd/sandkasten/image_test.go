package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	registryv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// shellTar is the archive of a root file system with a shell and an empty
// directory.
func shellTar(t *testing.T, dir string) []byte {
	t.Helper()
	shell, err := os.ReadFile("/bin/busybox")
	if err != nil {
		testenv.Unsupported(t, "no /bin/busybox; install busybox-static")
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []*tar.Header{
		{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "bin/sh", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(shell))},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(shell); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// pushed is the reference of an image in a registry of the test's.
func pushed(t *testing.T, rootfs []byte) string {
	t.Helper()
	srv := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug))))
	t.Cleanup(srv.Close)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(rootfs)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		img, err = mutate.ConfigFile(img, platform(t, img))
	}
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(strings.TrimPrefix(srv.URL, "http://") + "/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if err := remote.Write(ref, img, remote.WithTransport(transport)); err != nil {
		t.Fatal(err)
	}
	return ref.String()
}

func platform(t *testing.T, img registryv1.Image) *registryv1.ConfigFile {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", "amd64"
	return c
}

// engineImages are the digests that an engine's images have for a daemon.
func engineImages(t *testing.T, e *testenv.Engine) map[string]bool {
	t.Helper()
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(e.Host, "unix://"))
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine/images/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all []struct{ Labels map[string]string }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, img := range all {
		found[img.Labels["sandkasten.image"]] = true
	}
	return found
}

// TestImageIntoEngine: with a Docker engine, an image that is pulled or imported is in
// the engine when the command ends. Where the engine is down it is stored all the
// same, and loaded by name later.
func TestImageIntoEngine(t *testing.T) {
	testenv.NeedsRoot(t)
	t.Setenv("HOME", t.TempDir()) // no credentials of whoever runs the tests
	e := testenv.StartEngine(t)
	configuration := filepath.Join(t.TempDir(), "sandkasten.yaml")
	say := func(driver string) {
		t.Helper()
		text := fmt.Sprintf("data_dir: %s\ndriver: %s\ndocker: {host: \"%s\"}\n", testenv.DataDir(t), driver, e.Host)
		if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tm := &console{t: t}
	image := func(args ...string) result {
		t.Helper()
		return tm.image(configuration, args...)
	}
	file := filepath.Join(t.TempDir(), "rootfs.tar")
	if err := os.WriteFile(file, shellTar(t, "other"), 0o600); err != nil {
		t.Fatal(err)
	}

	say("docker")
	const phase = "load into the engine\n"
	r := image("pull", pushed(t, shellTar(t, "tool")), "--name", "tool")
	if r.code != 0 || !strings.Contains(r.errOut, "layer 1 of 1\n") || !strings.HasSuffix(r.errOut, phase) || len(engineImages(t, e)) != 1 {
		t.Errorf("pull: %+v; in the engine %v", r, engineImages(t, e))
	}
	if r = image("load", "tool"); r.code != 0 || r.out != "tool\n" || r.errOut != "" {
		t.Errorf("load of what the engine has: %+v", r)
	}
	e.Stop(t, syscall.SIGTERM)
	r = image("import", "--name", "other", "--tar", file)
	if r.code != 0 || !strings.Contains(r.errOut, "note: the image is stored and not loaded: the Docker engine does not answer") {
		t.Errorf("import without an engine: %+v", r)
	}
	if r = image("load", "other"); r.code == 0 || !strings.Contains(r.errOut, "does not answer") {
		t.Errorf("load without an engine: %+v", r)
	}
	e.Start(t)
	if r = image("load", "other"); r.code != 0 || r.errOut != phase || len(engineImages(t, e)) != 2 {
		t.Errorf("load: %+v; in the engine %v", r, engineImages(t, e))
	}
	if r = image("load", "nothing"); r.code == 0 || !strings.Contains(r.errOut, "nothing") {
		t.Errorf("load of no image: %+v", r)
	}

	say("native")
	if r = image("import", "--name", "other", "--tar", file); r.code != 0 || strings.Contains(r.errOut, "engine") {
		t.Errorf("import without the driver: %+v", r)
	}
	if r = image("load", "other"); r.code == 0 || !strings.Contains(r.errOut, "extra_drivers") {
		t.Errorf("load without the driver: %+v", r)
	}
}

// image types an image command of a host that is configured so.
func (tm *console) image(configuration string, args ...string) result {
	tm.t.Helper()
	out, err := os.CreateTemp(tm.t.TempDir(), "out")
	if err != nil {
		tm.t.Fatal(err)
	}
	defer out.Close()
	var errOut bytes.Buffer
	a := &cli.App{In: os.Stdin, Out: out, Err: &errOut}
	code := run(tm.t.Context(), a, append([]string{"--config", configuration, "image"}, args...))
	text, err := os.ReadFile(out.Name())
	if err != nil {
		tm.t.Fatal(err)
	}
	return result{code, string(text), errOut.String()}
}
