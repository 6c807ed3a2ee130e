package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/bench/direct"
	"github.com/sandkasten/sandkasten/test/bench/machine"
	"github.com/sandkasten/sandkasten/test/bench/report"
	"github.com/sandkasten/sandkasten/test/bench/service"
)

// daemon is a Sandkasten daemon of our own, with its own directory and port,
// spoken to over HTTP as any client would.
type daemon struct {
	bin, listen, config string

	dir  string // its data directory
	base string // its URL
	key  string
	http *http.Client
	cmd  *exec.Cmd
}

// imageName is the name of the image in our daemon and in docker.
const imageName = "sandkasten-bench"

// startDaemon imports the root filesystem in tar with the program at bin and
// starts a daemon whose files are below dir, with more settings than it needs.
// The caller stops it.
func startDaemon(ctx context.Context, bin, dir, tar, settings string) (*daemon, error) {
	listen, err := direct.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	d := &daemon{
		bin: bin, listen: listen, config: filepath.Join(dir, "sandkasten.yaml"),
		dir:  filepath.Join(dir, "data"),
		base: "http://" + listen,
		key:  fmt.Sprintf("bench-%d-%d", os.Getpid(), time.Now().UnixNano()),
	}
	if err := d.configure(settings); err != nil {
		return nil, err
	}
	imported := exec.CommandContext(ctx, bin, "image", "import", "--config", d.config, "--name", imageName, "--tar", tar)
	if out, err := imported.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("sandkasten image import: %w: %s", err, out)
	}
	return d, d.start(ctx)
}

// configure writes the configuration that the next start reads.
func (d *daemon) configure(settings string) error {
	text := fmt.Sprintf("listen: %s\napi_key: %q\ndata_dir: %s\ndefault_image: %s\nmax_sessions: 5000\nlog: {level: warn}\n%s\n",
		d.listen, d.key, d.dir, imageName, settings)
	return os.WriteFile(d.config, []byte(text), 0o600)
}

// start returns when the daemon answers.
func (d *daemon) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(d.config), "daemon.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.http = direct.NewClient(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", d.listen)
	})
	d.cmd = exec.CommandContext(context.WithoutCancel(ctx), d.bin, "daemon", "--config", d.config)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	if err := service.WaitFor(ctx, 30*time.Second, d.ready); err != nil {
		return fmt.Errorf("start the daemon: %w (%w)\n%s", err, service.Terminate(d.cmd), machine.Text(log.Name()))
	}
	return nil
}

// crash kills the daemon, whose sandboxes live on.
func (d *daemon) crash() error {
	err := d.cmd.Process.Kill()
	if _, waitErr := d.cmd.Process.Wait(); waitErr != nil {
		err = errors.Join(err, waitErr)
	}
	return err
}

func (d *daemon) call(ctx context.Context, method, path string, body, result any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Content-Type", "application/json")
	_, err = direct.Answer(d.http, req, result)
	return err
}

func (d *daemon) ready(ctx context.Context) error {
	return d.call(ctx, http.MethodGet, "/readyz", nil, nil)
}

// sessions lists the ids of the sessions that are there.
func (d *daemon) sessions(ctx context.Context) ([]string, error) {
	var list []struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	if err := d.call(ctx, http.MethodGet, "/v1/sessions", nil, &list); err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids, nil
}

// stop destroys what sessions are left, ends the daemon and waits for it.
func (d *daemon) stop(ctx context.Context) error {
	ids, err := d.sessions(ctx)
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, (&session{d, id}).destroy(ctx))
	}
	errs = append(errs, service.Terminate(d.cmd))
	return errors.Join(errs...)
}

// leftovers looks for what sessions may have left on the host while the daemon
// runs without any: what it finds is empty on a good day.
func (d *daemon) leftovers() ([]string, error) {
	var found []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, d.dir) {
			found = append(found, "mount: "+strings.TrimSpace(line))
		}
	}
	children, err := testenv.Descendants(d.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	ready := 0 // runners that wait for the next sandboxes, with nothing in them
	for _, pid := range children {
		below, err := testenv.Descendants(pid)
		if err != nil {
			return nil, err
		}
		if len(below) == 0 && machine.CommandName(pid) == runnerName && ready < readyRunners {
			ready++
			continue
		}
		found = append(found, fmt.Sprintf("process %d: %s", pid, machine.CommandName(pid)))
	}
	groups, err := machine.Groups(d.dir)
	if err != nil {
		return nil, err
	}
	for _, dir := range groups {
		found = append(found, "cgroup: "+dir)
	}
	dirs, err := filepath.Glob(filepath.Join(d.dir, "sandboxes", "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		found = append(found, "directory: "+dir)
	}
	return found, nil
}

// runnerName is what the kernel calls a runner: fifteen bytes of its file's name.
const runnerName = "memfd:sandkaste"

// readyRunners is how many runners the daemon keeps: docs/decisions/0009.
const readyRunners = 4

// sandkastenSubject makes sessions over HTTP.
type sandkastenSubject struct{ daemon *daemon }

func (s *sandkastenSubject) name() string { return report.Ours }

func (s *sandkastenSubject) create(ctx context.Context) (sandbox, error) {
	return s.daemon.createAnswering(ctx, object{})
}

// createAnswering makes a session, with more in the request, and waits for its first
// answer.
func (d *daemon) createAnswering(ctx context.Context, body object) (sandbox, error) {
	box, err := d.createWith(ctx, body)
	if err != nil {
		return nil, err
	}
	if err := box.run(ctx, "echo ok", "ok\n"); err != nil {
		return nil, errors.Join(err, box.destroy(ctx))
	}
	return box, nil
}

// create makes a session.
func (d *daemon) create(ctx context.Context) (*session, error) { return d.createWith(ctx, object{}) }

// createWith is create with more in the request.
func (d *daemon) createWith(ctx context.Context, body object) (*session, error) {
	var made struct {
		ID string `json:"id"`
	}
	body["image"] = imageName
	err := d.call(ctx, http.MethodPost, "/v1/sessions", body, &made)
	return &session{d, made.ID}, err
}

// session is a Sandkasten session.
type session struct {
	daemon *daemon
	id     string
}

func (s *session) exec(ctx context.Context) error { return s.run(ctx, "true", "") }

func (s *session) run(ctx context.Context, command, want string) error {
	var result struct {
		ExitCode *int   `json:"exit_code"`
		Output   string `json:"output"`
	}
	if err := s.daemon.call(ctx, http.MethodPost, "/v1/sessions/"+s.id+"/exec", object{"cmd": command}, &result); err != nil {
		return err
	}
	if result.ExitCode == nil || *result.ExitCode != 0 || result.Output != want {
		return fmt.Errorf("%q: exit code %v, output %q, want 0 and %q", command, result.ExitCode, result.Output, want)
	}
	return nil
}

func (s *session) destroy(ctx context.Context) error {
	return s.daemon.call(ctx, http.MethodDelete, "/v1/sessions/"+s.id, nil, nil)
}

// health is the daemon without a session: what HTTP alone costs.
type health struct{ daemon *daemon }

func (h health) exec(ctx context.Context) error {
	return h.daemon.call(ctx, http.MethodGet, "/healthz", nil, nil)
}

func (health) destroy(context.Context) error { return nil }
