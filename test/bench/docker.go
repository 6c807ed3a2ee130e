package main

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
	"strings"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/test/bench/direct"
)

// engine is a docker daemon, spoken to over its unix socket with connections
// that are kept.
type engine struct {
	socket string
	http   *http.Client
}

func newEngine(socket string) *engine {
	return &engine{socket, direct.NewClient(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	})}
}

func (e *engine) host() string { return "unix://" + e.socket }

// call sends body as JSON and decodes the answer into result unless that is
// nil. It returns the raw answer.
func (e *engine) call(ctx context.Context, method, path string, body, result any) ([]byte, error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return answer(e.http, req, result)
}

// answer does req and reads the whole answer, which has to be a success.
func answer(client *http.Client, req *http.Request, result any) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, data)
	}
	if result == nil {
		return data, nil
	}
	return data, json.Unmarshal(data, result)
}

// ping reports whether a daemon answers at the socket.
func (e *engine) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := e.call(ctx, http.MethodGet, "/_ping", nil, nil)
	return err
}

// importImage makes an image of a tar file.
func (e *engine) importImage(ctx context.Context, tar, name string) error {
	out, err := exec.CommandContext(ctx, "docker", "--host", e.host(), "import", tar, name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker import: %w: %s", err, out)
	}
	return nil
}

// engineSubject makes containers through the Engine API: create, start, and
// an exec for each command.
type engineSubject struct {
	engine *engine
	image  string
}

func (s *engineSubject) name() string { return "docker, Engine API" }

func (s *engineSubject) create(ctx context.Context) (sandbox, error) {
	spec := object{
		"Image": s.image, "Cmd": []string{"/bin/sleep", "infinity"}, "NetworkDisabled": true,
		"HostConfig": object{
			"NetworkMode": "none", "Memory": memoryLimit, "PidsLimit": pidsLimit,
			"CpuQuota": cpuQuota, "CpuPeriod": cpuPeriod, "CapDrop": []string{"ALL"},
			"SecurityOpt": []string{"no-new-privileges"}, "ReadonlyRootfs": true, "Tmpfs": object{"/tmp": ""},
		},
	}
	var made struct{ Id string }
	if _, err := s.engine.call(ctx, http.MethodPost, "/containers/create", spec, &made); err != nil {
		return nil, err
	}
	box := &engineSandbox{s.engine, made.Id}
	_, err := s.engine.call(ctx, http.MethodPost, "/containers/"+made.Id+"/start", nil, nil)
	if err == nil {
		err = box.run(ctx, "ok", "/bin/echo", "ok")
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, box.destroy(ctx))
	}
	return box, nil
}

type engineSandbox struct {
	engine *engine
	id     string
}

func (s *engineSandbox) exec(ctx context.Context) error { return s.run(ctx, "", "true") }

// run runs a command and wants its output to contain want. The stream ends
// with the command, and the exit code is asked for after it, as clients do.
func (s *engineSandbox) run(ctx context.Context, want string, args ...string) error {
	var made struct{ Id string }
	spec := object{"AttachStdout": true, "AttachStderr": true, "Cmd": args}
	if _, err := s.engine.call(ctx, http.MethodPost, "/containers/"+s.id+"/exec", spec, &made); err != nil {
		return err
	}
	stream, err := s.engine.call(ctx, http.MethodPost, "/exec/"+made.Id+"/start", object{"Detach": false, "Tty": false}, nil)
	if err != nil {
		return err
	}
	var state struct{ ExitCode *int }
	if _, err := s.engine.call(ctx, http.MethodGet, "/exec/"+made.Id+"/json", nil, &state); err != nil {
		return err
	}
	if state.ExitCode == nil || *state.ExitCode != 0 || !strings.Contains(string(stream), want) {
		return fmt.Errorf("docker exec %q: exit code %v, output %q", args, state.ExitCode, stream)
	}
	return nil
}

// stream runs a shell command and takes its output out of the frames that the
// engine puts around it: eight bytes, the last four of which are a length.
func (s *engineSandbox) stream(ctx context.Context, command string) (io.ReadCloser, error) {
	var made struct{ Id string }
	spec := object{"AttachStdout": true, "AttachStderr": true, "Cmd": []string{"bash", "-c", command}}
	if _, err := s.engine.call(ctx, http.MethodPost, "/containers/"+s.id+"/exec", spec, &made); err != nil {
		return nil, err
	}
	body := strings.NewReader(`{"Detach": false, "Tty": false}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/exec/"+made.Id+"/start", body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.engine.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("docker exec: %s", resp.Status), resp.Body.Close())
	}
	return &engineStream{body: resp.Body}, nil
}

type engineStream struct {
	body io.ReadCloser
	left uint32 // of the present frame
}

func (s *engineStream) Read(p []byte) (int, error) {
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

func (s *engineStream) Close() error { return s.body.Close() }

func (s *engineSandbox) destroy(ctx context.Context) error {
	_, err := s.engine.call(ctx, http.MethodDelete, "/containers/"+s.id+"?force=1", nil, nil)
	return err
}

// dockerCgroup is the parent of our own docker daemon's containers. The
// daemon leaves it behind.
const dockerCgroup = "sandkasten-bench-docker"

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

// startDockerd starts a docker daemon of our own, apart from any other on the
// host: its files are below dir, and it makes no bridge and no firewall rules.
// stop ends it and waits.
func startDockerd(ctx context.Context, dir string) (e *engine, stop func() error, err error) {
	socket := filepath.Join(dir, "docker.sock")
	log, err := os.OpenFile(filepath.Join(dir, "dockerd.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "dockerd",
		"--host", "unix://"+socket, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "dockerd.pid"), "--bridge=none", "--iptables=false", "--ip6tables=false",
		"--cgroup-parent", "/"+dockerCgroup)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() error { return errors.Join(terminate(cmd), removeCgroups(dockerCgroup)) }
	e = newEngine(socket)
	if err := waitFor(ctx, 30*time.Second, e.ping); err != nil {
		return nil, nil, fmt.Errorf("start dockerd (see %s): %w (%w)", log.Name(), err, stop())
	}
	return e, stop, nil
}

// terminate asks a daemon to end and waits until it has.
func terminate(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		return errors.Join(fmt.Errorf("%s did not end and was killed", cmd.Args[0]), cmd.Process.Kill(), <-ended)
	}
}

// waitFor calls probe until it succeeds or the time is over.
func waitFor(ctx context.Context, limit time.Duration, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
