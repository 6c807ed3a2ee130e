//go:build !windows

// The stand-in for a distribution needs the shell of one.
package wsl_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/wsl"
)

// daemonScript stands in for the daemon's program. It is ready while the file
// `ready` is there.
const daemonScript = `#!/bin/sh
case "$1 $BROKEN" in
doctor*) echo "kernel is too old"; exit 1 ;;
"daemon 1") echo "the port is taken"; exit 1 ;;
esac
cd "$WSL_STANDIN"
sleep 100 &
trap 'kill $!; rm ready; echo "ended"; exit 0' TERM
echo "begun"
: > ready
wait
`

// installed is a host with the program in its distribution.
func installed(t *testing.T) (h wsl.Host, root string, out *bytes.Buffer) {
	t.Helper()
	h, root, out = windows(t, heading+debian)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(filepath.Join(root, "ready")); r.URL.Path != "/readyz" || err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	h.URL = server.URL
	if err := h.Install(t.Context(), strings.NewReader(daemonScript)); err != nil {
		t.Fatal(err)
	}
	return h, root, out
}

func TestInstallPutsTheProgramInPlaceAndAsksItsDoctor(t *testing.T) {
	_, root, out := installed(t)
	path := filepath.Join(root, "usr/local/bin/sandkasten")
	text, err := os.ReadFile(path)
	if err != nil || string(text) != daemonScript {
		t.Errorf("the program is %q, %v", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode is %v, %v", info, err)
	}
	if said := out.String(); said != "kernel is too old\n" {
		t.Errorf("it said %q", said)
	}
}

func TestInstallSaysWhatWentWrongInside(t *testing.T) {
	h, root, _ := installed(t)
	if err := os.RemoveAll(filepath.Join(root, "usr")); err != nil {
		t.Fatal(err)
	}
	err := h.Install(t.Context(), strings.NewReader(daemonScript))
	if err == nil || !strings.Contains(err.Error(), "No such file or directory") {
		t.Errorf("got %v, want the words of dd", err)
	}
}

func TestStartAndStop(t *testing.T) {
	h, root, out := installed(t)
	out.Reset()
	if err := h.Stop(t.Context()); err != nil {
		t.Errorf("stop without a daemon: %v", err)
	}
	if err := h.Status(t.Context()); err != nil || !strings.Contains(out.String(), "Debian: Stopped, WSL 2\n") || !strings.Contains(out.String(), "not ready: ") {
		t.Errorf("status without a daemon: %v, %q", err, out)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); !errors.Is(err, wsl.ErrRunning) {
		t.Errorf("the second start: %v", err)
	}
	out.Reset()
	if err := h.Status(t.Context()); err != nil || !strings.Contains(out.String(), "ready at "+h.URL) {
		t.Errorf("status: %v, %q", err, out)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "run/sandkasten-wsl.pid")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the process id is still there: %v", err)
	}
	out.Reset()
	if err := h.Logs(t.Context(), 1, false); err != nil || out.String() != "ended\n" {
		t.Errorf("the last line: %q, %v", out, err)
	}
}

func TestStopLeavesAnotherProgramAlone(t *testing.T) {
	h, root, _ := installed(t)
	// Ours: to be killed would end the test.
	pid := []byte(strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(filepath.Join(root, "run/sandkasten-wsl.pid"), pid, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStartSaysWhyTheDaemonEnded(t *testing.T) {
	h, _, out := installed(t)
	t.Setenv("BROKEN", "1")
	out.Reset()
	err := h.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || out.String() != "the port is taken\n" {
		t.Errorf("got %v, and the log %q", err, out)
	}
}

// firstWrite is told of the first write.
type firstWrite struct {
	text    bytes.Buffer
	written chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.text.Len() == 0 {
		close(w.written)
	}
	return w.text.Write(p)
}

func TestLogsFollowUntilNobodyWantsMore(t *testing.T) {
	h, root, _ := installed(t)
	if err := os.WriteFile(filepath.Join(root, "var/log/sandkasten-wsl.log"), []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := &firstWrite{written: make(chan struct{})}
	h.Out = out
	ended := make(chan error, 1)
	go func() { ended <- h.Logs(ctx, 1, true) }()
	select {
	case <-out.written:
	case <-ctx.Done():
	}
	cancel()
	if err := <-ended; err != nil || out.text.String() != "b\n" {
		t.Errorf("got %q, %v", &out.text, err)
	}
}
