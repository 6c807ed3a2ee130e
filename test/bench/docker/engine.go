// Package docker is as much of a client of docker's Engine API as measuring
// takes, and a docker daemon of our own to measure.
package docker

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/direct"
	"github.com/sandkasten/sandkasten/test/bench/service"
)

// Engine is a docker daemon, spoken to over its unix socket with connections
// that are kept.
type Engine struct {
	socket string
	http   *http.Client
}

// NewEngine is the one that listens at a socket.
func NewEngine(socket string) *Engine {
	return &Engine{socket, direct.NewClient(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	})}
}

// Host is how docker's command line names the engine.
func (e *Engine) Host() string { return "unix://" + e.socket }

// Call sends body as JSON and decodes the answer into result unless that is
// nil. It returns the raw answer.
func (e *Engine) Call(ctx context.Context, method, path string, body, result any) ([]byte, error) {
	req, err := request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	return direct.Answer(e.http, req, result)
}

func request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, payload)
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// Attach posts body and returns what a command prints, which the caller closes.
func (e *Engine) Attach(ctx context.Context, path string, body any) (io.ReadCloser, error) {
	req, err := request(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("POST %s: %s", path, resp.Status), resp.Body.Close())
	}
	return &output{body: resp.Body}, nil
}

// Ping reports whether a daemon answers at the socket.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := e.Call(ctx, http.MethodGet, "/_ping", nil, nil)
	return err
}

// Import makes an image of a tar file.
func (e *Engine) Import(ctx context.Context, tar, name string) error {
	out, err := exec.CommandContext(ctx, "docker", "--host", e.Host(), "import", tar, name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker import: %w: %s", err, out)
	}
	return nil
}

// output takes what is printed out of the frames that the engine puts around
// it: eight bytes, the last four of which are a length.
type output struct {
	body io.ReadCloser
	left uint32 // of the present frame
}

func (s *output) Read(p []byte) (int, error) {
	if s.left == 0 {
		var header [8]byte
		if _, err := io.ReadFull(s.body, header[:]); err != nil {
			return 0, err
		}
		s.left = binary.BigEndian.Uint32(header[4:])
	}
	n, err := s.body.Read(p[:min(len(p), int(s.left))])
	s.left -= uint32(n) //nolint:gosec // at most left
	return n, err
}

func (s *output) Close() error { return s.body.Close() }

// parentCgroup is the parent of our own docker daemon's containers. The
// daemon leaves it behind.
const parentCgroup = "sandkasten-bench-docker"

// removeCgroups removes the empty top-level group name from every hierarchy.
func removeCgroups(name string) error {
	var errs []error
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		dirs, err := filepath.Glob(filepath.Join(pattern, name))
		errs = append(errs, err)
		for _, dir := range dirs {
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}

// Start starts a docker daemon of our own, apart from any other on the
// host: its files are below dir, and it makes no bridge and no firewall rules.
// stop ends it and waits.
func Start(ctx context.Context, dir string) (e *Engine, stop func() error, err error) {
	socket := filepath.Join(dir, "docker.sock")
	log, err := os.OpenFile(filepath.Join(dir, "dockerd.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "dockerd",
		"--host", "unix://"+socket, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "dockerd.pid"), "--bridge=none", "--iptables=false", "--ip6tables=false",
		"--cgroup-parent", "/"+parentCgroup)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() error { return errors.Join(service.Terminate(cmd), removeCgroups(parentCgroup)) }
	e = NewEngine(socket)
	if err := service.WaitFor(ctx, 30*time.Second, e.Ping); err != nil {
		return nil, nil, fmt.Errorf("start dockerd (see %s): %w (%w)", log.Name(), err, stop())
	}
	return e, stop, nil
}
