package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// TestImagesOfADaemon: with --url the image commands need no store of their own.
func TestImagesOfADaemon(t *testing.T) {
	tm := startDaemon(t)
	t.Setenv("HOME", t.TempDir()) // no credentials of whoever runs the tests
	file := filepath.Join(t.TempDir(), "rootfs.tar")
	if err := os.WriteFile(file, shellTar(t, "tool"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := tm.want("image", "import", "--name", "team/tool", "--tar", file); !strings.HasPrefix(out, "team/tool  sha256:") {
		t.Errorf("import: %q", out)
	}
	if r := tm.runCtx(t.Context(), string(shellTar(t, "piped")), "image", "import", "--name", "piped", "--tar", "-"); r.code != 0 {
		t.Errorf("import of standard input: %+v", r)
	}
	if r := tm.run("image", "pull", pushed(t, shellTar(t, "other")), "--name", "other"); r.code != 0 || !strings.HasPrefix(r.out, "other  sha256:") {
		t.Errorf("pull: %+v", r)
	}
	if out := tm.want("image", "ls"); !strings.Contains(out, "team/tool") || !strings.Contains(out, "other") || !strings.Contains(out, "rootfs.tar") {
		t.Errorf("ls: %s", out)
	}
	var img sandkasten.Image
	if err := json.Unmarshal([]byte(tm.want("image", "inspect", "team/tool")), &img); err != nil || img.Shell != "/bin/sh" || !img.Allowed || img.SizeBytes == 0 {
		t.Errorf("inspect: %+v, %v", img, err)
	}
	if r := tm.run("image", "pull", "127.0.0.1:1/no/image"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "127.0.0.1:1") {
		t.Errorf("pull that fails: %+v", r)
	}
	if out := tm.want("image", "jobs"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "done") || !strings.Contains(out, "failed") {
		t.Errorf("jobs: %s", out)
	}
	if out := tm.want("image", "jobs", "--format", "{{.Kind}} {{.Status}}"); strings.Count(out, "pull ") != 2 || !strings.Contains(out, "pull done\n") {
		t.Errorf("image jobs --format = %s", out)
	}
	if r := tm.run("image", "rm", "team/tool", "absent"); r.code == 0 || r.out != "team/tool\n" || !strings.Contains(r.errOut, "absent") {
		t.Errorf("rm: %+v", r)
	}
	if r := tm.run("image", "from-session", strings.Repeat("a", 26), "made"); r.code == 0 || !strings.Contains(r.errOut, "no such session") {
		t.Errorf("from-session of none: %+v", r)
	}
}

// TestImagesOfADaemonThatStarts: it has its lock before it listens, and makes its key before
// it answers.
func TestImagesOfADaemonThatStarts(t *testing.T) {
	data := t.TempDir()
	lock, err := dirlock.Acquire(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	})
	// An address that is bound refuses connections until somebody listens.
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(socket), "socket")
	defer f.Close()
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	address, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	file, key := filepath.Join(data, "config.yaml"), filepath.Join(data, "api_key")
	text := fmt.Sprintf("data_dir: %s\nlisten: 127.0.0.1:%d\n", data, address.(*syscall.SockaddrInet4).Port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer a-key" {
			fmt.Fprint(w, `{"images":[{"source":"base"}]}`)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		if err := os.WriteFile(key, []byte("a-key"), 0o600); err != nil {
			t.Error(err)
		}
	}))
	listens := make(chan error, 1)
	time.AfterFunc(200*time.Millisecond, func() {
		err := syscall.Listen(socket, 8)
		if err == nil {
			daemon.Listener, err = net.FileListener(f)
		}
		if err == nil {
			daemon.Start()
		}
		listens <- err
	})
	r := (&console{t: t}).image(file, "ls", "--format", "{{.Source}}")
	if err := <-listens; err != nil {
		t.Fatal(err)
	}
	daemon.Close()
	if r.code != 0 || r.out != "base\n" {
		t.Errorf("image ls = %+v", r)
	}
}

// A recipe is checked, and its files are found, before the daemon is asked.
func TestRecipeFiles(t *testing.T) {
	tm := startDaemon(t)
	dir := t.TempDir()
	recipe := filepath.Join(dir, "r.yaml")
	for name, text := range map[string]string{
		recipe: "from: base\ncopy: [{from: app, to: /opt/app}]\n", filepath.Join(dir, "app", "main"): "main", filepath.Join(dir, "app", "lib", "x"): "x",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := imageBuildCmd{Recipe: recipe}
	_, r, err := c.recipe()
	if err != nil {
		t.Fatal(err)
	}
	files, err := c.files(r)
	if err != nil || len(files) != 2 || files[0].Path != "app/lib/x" || files[1].Path != "app/main" || files[1].Size != 4 {
		t.Errorf("files %+v, %v", files, err)
	}
	if err := os.Symlink("/etc/shadow", filepath.Join(dir, "app", "link")); err != nil {
		t.Fatal(err)
	}
	if r := tm.run("image", "build", "a", "--recipe", recipe); r.code == 0 || !strings.Contains(r.errOut, "no regular file") {
		t.Errorf("a link: %+v", r)
	}
	if err := os.WriteFile(recipe, []byte("from: base\nrun: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := tm.run("image", "build", "a", "--recipe", recipe); r.code == 0 || !strings.Contains(r.errOut, "recipe") {
		t.Errorf("a recipe that is none: %+v", r)
	}
}

// TestInterruptedPullIsCanceled: Ctrl-C ends the daemon's job, too, and --detach
// leaves it alone.
func TestInterruptedPullIsCanceled(t *testing.T) {
	tm := startDaemon(t)
	asked := make(chan struct{}, 8)
	registry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(registry.Close)
	ref := strings.TrimPrefix(registry.URL, "http://") + "/tool:1"
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(cli.SignalError(syscall.SIGINT))
	}()
	if r := tm.runCtx(ctx, "", "image", "pull", ref); r.code != 130 {
		t.Errorf("interrupted: %+v", r)
	}
	if out := tm.want("image", "jobs"); !strings.Contains(out, "canceled") {
		t.Fatalf("jobs: %s", out) // the next pull would be the same job
	}
	id := strings.TrimSpace(tm.want("image", "pull", "-d", ref))
	<-asked
	if out := tm.want("image", "jobs"); !strings.Contains(out, id) || !strings.Contains(out, "running") {
		t.Errorf("jobs: %s", out)
	}
	if out := tm.want("image", "cancel", id); out != id+"\n" {
		t.Errorf("cancel: %q", out)
	}
}

// TestInterruptedStartIsCanceled: a job may run before the answer that has its id
// arrives, and an interrupt between both cancels it, too.
func TestInterruptedStartIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	canceled := make(chan string, 1)
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		job := sandkasten.ImageJob{ID: "job", Kind: "pull", Name: "tool", Status: "running"}
		switch {
		case strings.HasSuffix(r.URL.Path, "/images/pull"):
			cancel(cli.SignalError(syscall.SIGINT))
			time.Sleep(100 * time.Millisecond) // a client that gives up does so now
		case strings.HasSuffix(r.URL.Path, "/job/cancel") || r.Method == http.MethodDelete:
			job.Status = "canceled"
			canceled <- r.URL.Path
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(job); err != nil {
			t.Log(err) // who is gone needs no answer
		}
	}))
	t.Cleanup(daemon.Close)
	tm := &console{t: t, url: daemon.URL, key: "key"}
	if r := tm.runCtx(ctx, "", "image", "pull", "tool"); r.code != 130 {
		t.Errorf("interrupted: %+v", r)
	}
	select {
	case <-canceled:
	default:
		t.Error("the job goes on")
	}
}
