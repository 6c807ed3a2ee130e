package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"

	"github.com/sandkasten/sandkasten/test/bench/docker"
	"github.com/sandkasten/sandkasten/test/bench/machine"
)

func TestHostBashLivesAndRuns(t *testing.T) {
	box, err := hostBash{}.create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := box.exec(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := box.destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestProcessSubject(t *testing.T) {
	s := &processSubject{
		title: "plain run", start: startHere, newID: newIDs(),
		command: func(string) []string { return []string{"bash", "-c", readyCommand} },
	}
	box, err := s.create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := box.exec(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("exec without a command for it: %v", err)
	}
	if err := box.destroy(t.Context()); err != nil {
		t.Error(err)
	}
	s.command = func(string) []string { return []string{"sh", "-c", "echo no room >&2; exit 3"} }
	if _, err := s.create(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a sandbox that does not start: %v", err)
	}
}

func TestBundleIsSharedByNoTwoIDs(t *testing.T) {
	s := ociSubject("crun", startHere, "/bundle")
	first, second := s.newID(), s.newID()
	if first == second {
		t.Errorf("two sandboxes are called %s", first)
	}
	if got := strings.Join(s.command("x"), " "); got != "crun run --bundle /bundle x" {
		t.Errorf("command %q", got)
	}
}

func TestBundleHasNamespacesAndLimits(t *testing.T) {
	dir := t.TempDir()
	if err := writeBundle(dir, "/rootfs"); err != nil {
		t.Fatal(err)
	}
	var config struct {
		Root  struct{ Path string }
		Linux struct {
			Namespaces []struct{ Type string }
			Resources  struct {
				Memory struct{ Limit int64 }
				Pids   struct{ Limit int64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(machine.Text(filepath.Join(dir, "config.json"))), &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Linux.Namespaces) != 7 || config.Linux.Resources.Memory.Limit != memoryLimit ||
		config.Linux.Resources.Pids.Limit != pidsLimit || config.Root.Path != "/rootfs" {
		t.Errorf("config.json: %+v", config)
	}
}

func TestDockerCommandsCarryTheLimits(t *testing.T) {
	s := dockerRunSubject("unix:///s", "image")
	got := strings.Join(s.command("name"), " ")
	for _, want := range []string{"docker --host unix:///s run", "--name name", "--memory 536870912", "--pids-limit 512", "--network none", "image /bin/bash"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// serveEngine is as much of a docker engine as a container's life needs.
func serveEngine(t *testing.T, exitCode int) *docker.Engine {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write([]byte(body)); err != nil {
				t.Error(err)
			}
		})
	}
	code, err := json.Marshal(exitCode)
	if err != nil {
		t.Fatal(err)
	}
	reply("POST /containers/create", `{"Id":"c1"}`)
	reply("POST /containers/c1/start", "")
	reply("POST /containers/c1/exec", `{"Id":"e1"}`)
	reply("POST /exec/e1/start", "\x01\x00\x00\x00\x00\x00\x00\x03ok\n")
	reply("GET /exec/e1/json", `{"ExitCode":`+string(code)+`}`)
	reply("DELETE /containers/c1", "")
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return docker.NewEngine(socket)
}

func TestEngineSubject(t *testing.T) {
	box, err := (&engineSubject{serveEngine(t, 0), "image"}).create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(box.exec(t.Context()), box.destroy(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := (&engineSubject{serveEngine(t, 1), "image"}).create(t.Context()); err == nil {
		t.Error("a command that failed made a sandbox")
	}
	if err := docker.NewEngine("/no/such/socket").Ping(t.Context()); err == nil {
		t.Error("nobody answered a ping")
	}
}

func TestSandkastenSubject(t *testing.T) {
	mux := http.NewServeMux()
	output := "ok\n"
	destroyed := 0
	mux.HandleFunc("POST /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
		writeJSON(t, w, object{"id": "s1"})
	})
	mux.HandleFunc("POST /v1/sessions/s1/exec", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(t, w, object{"exit_code": 0, "output": output})
	})
	mux.HandleFunc("DELETE /v1/sessions/s1", func(w http.ResponseWriter, _ *http.Request) {
		destroyed++
		writeJSON(t, w, object{"ok": true})
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	d := &daemon{base: server.URL, key: "key", http: server.Client()}
	box, err := (&sandkastenSubject{d}).create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	output = ""
	if err := errors.Join(box.exec(t.Context()), box.destroy(t.Context())); err != nil {
		t.Error(err)
	}
	if destroyed != 1 {
		t.Errorf("destroyed %d times", destroyed)
	}
	if _, err := (&sandkastenSubject{d}).create(t.Context()); err == nil || destroyed != 2 {
		t.Errorf("a session that does not answer: %v, destroyed %d times", err, destroyed)
	}
	d.key = "other"
	if _, err := (&sandkastenSubject{d}).create(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong key: %v", err)
	}
}

func writeJSON(t *testing.T, w http.ResponseWriter, value any) {
	t.Helper()
	if err := json.NewEncoder(w).Encode(value); err != nil {
		t.Error(err)
	}
}

func TestStarterWithoutV2RunsCommands(t *testing.T) {
	testenv.NeedsRoot(t)
	start, stop, err := startWithoutV2()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// Its commands live in a namespace where the v2 tree is not; ours has it.
	p, err := startProcess(t.Context(), start, []string{"sh", "-c", "grep -q ' " + hybridTree + " ' /proc/mounts || echo ok; read -r _; exit 0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

func TestMeasureMemoryDestroysWhatItMade(t *testing.T) {
	s := &countingSubject{}
	m, err := measureMemory(t.Context(), s, 3, 2)
	if err != nil || m.N != 3 {
		t.Errorf("%+v, %v", m, err)
	}
	if s.made != 3 || s.gone != 3 {
		t.Errorf("made %d, destroyed %d", s.made, s.gone)
	}
	s.failAt = 5
	if _, err := measureMemory(t.Context(), s, 3, 1); err == nil || s.gone != s.made {
		t.Errorf("after a failure: %v, made %d, destroyed %d", err, s.made, s.gone)
	}
}

// countingSubject counts what is made of it.
type countingSubject struct {
	mu                 sync.Mutex
	made, gone, failAt int // guarded by mu
}

func (s *countingSubject) name() string { return "counting" }

func (s *countingSubject) create(context.Context) (sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failAt > 0 && s.made+1 == s.failAt {
		s.failAt = 0
		return nil, errors.New("no more")
	}
	s.made++
	return s, nil
}

func (s *countingSubject) exec(context.Context) error { return nil }

func (s *countingSubject) destroy(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone++
	return nil
}
