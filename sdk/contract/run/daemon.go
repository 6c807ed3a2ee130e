package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patience is how long a daemon may take to start or end on a loaded machine.
const patience = time.Minute

// daemon is a running program with a data directory of its own.
type daemon struct {
	program string
	url     string
	key     string   // of the owner admin
	env     []string // of the daemon and of all that talks to it
	log     logTail  // of the daemon

	cmd       *exec.Cmd
	ended     chan struct{} // closed when cmd has ended
	endedWith error         // of cmd, once ended
}

// newDaemon configures a daemon; start gives it an address.
func newDaemon(program, dir, driver string) (*daemon, error) {
	config := filepath.Join(dir, "sandkasten.yaml")
	text := fmt.Sprintf(`data_dir: %s
driver: %s
log: {level: warn, format: text}
cors_origins: [http://sdk.test]
# The cases reach this limit, which is one of each owner. The agents keep fewer.
snapshots: {max_count: 16}
`, filepath.Join(dir, "data"), driver)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	d := &daemon{program: program, key: rand.Text()}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SANDKASTEN_") {
			d.env = append(d.env, variable)
		}
	}
	d.env = append(d.env, "SANDKASTEN_CONFIG="+config, "SANDKASTEN_API_KEY="+d.key)
	return d, nil
}

// starts is how often start tries: another program may take the port before the daemon does.
const starts = 5

// start returns when the daemon can work, at a free port of the loopback interface. The caller ends it.
func (d *daemon) start(ctx context.Context) error {
	env := d.env
	for try := 1; ; try++ {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		d.url = "http://" + address
		d.env = append(slices.Clone(env), "SANDKASTEN_LISTEN="+address, "SANDKASTEN_URL="+d.url)
		if err = d.startAt(ctx); err == nil || try == starts || !d.log.contains("address already in use") {
			return err
		}
	}
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

func (d *daemon) startAt(ctx context.Context) error {
	// Not with the caller's context: the daemon goes on until its sessions are removed.
	d.cmd = exec.CommandContext(context.WithoutCancel(ctx), d.program, "daemon")
	d.cmd.Env = d.env
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	d.ended = ended
	go func() {
		d.endedWith = d.cmd.Wait()
		close(ended)
	}()
	if err := d.waitReady(ctx); err != nil {
		return errors.Join(err, d.stop())
	}
	return nil
}

// waitReady returns once the daemon has taken up its sessions, and knows our key: whoever took the port before it
// does not.
func (d *daemon) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := d.probe(ctx, "/readyz")
		if err == nil {
			err = d.probe(ctx, "/v1/me")
		}
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return errors.New("the daemon has ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not get ready: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (d *daemon) probe(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return nil
}

// newKey makes an admin with a name, and returns a key with all the rights.
func (d *daemon) newKey(ctx context.Context, name string) (string, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, d.program, "user", "add", name, "--admin", "--key")
	cmd.Env, cmd.Stderr = d.env, &said
	key, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("make the user %s: %w\n%s", name, err, &said)
	}
	return strings.TrimSpace(string(key)), nil
}

// removeUser removes a user of newKey with all that it owns.
func (d *daemon) removeUser(name string) error { return d.remove("user", "rm", name) }

// end removes what the commands left, since sandboxes outlive their daemon, and
// stops the daemon.
func (d *daemon) end() error { return errors.Join(d.remove("rm", "--all"), d.stop()) }

// remove runs a command of the program that removes something.
func (d *daemon) remove(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Env = d.env
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

func (d *daemon) stop() error {
	err := d.cmd.Process.Signal(os.Interrupt)
	select {
	case <-d.ended:
	case <-time.After(patience):
		err = errors.Join(err, d.cmd.Process.Kill())
		<-d.ended
	}
	if errors.Is(err, os.ErrProcessDone) {
		err = nil // how it ended says more
	}
	if err = errors.Join(err, d.endedWith); err != nil {
		return fmt.Errorf("stop the daemon: %w", err)
	}
	return nil
}
