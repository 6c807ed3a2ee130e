package main

import (
	"context"
	"crypto/rand"
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
)

// patience is how long a daemon may take to start or end on a loaded machine.
const patience = time.Minute

// daemon is a running program with a data directory of its own.
type daemon struct {
	program string
	url     string
	env     []string // of the daemon and of all that talks to it
	cmd     *exec.Cmd
	log     logTail // of the daemon
}

// newDaemon configures a daemon at a free port of the loopback interface.
func newDaemon(program, dir, driver string) (*daemon, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "sandkasten.yaml")
	text := fmt.Sprintf(`listen: %s
data_dir: %s
driver: %s
log: {level: warn, format: text}
cors_origins: [http://sdk.test]
# The cases reach this limit.
workspace: {max_count: 4}
`, address, filepath.Join(dir, "data"), driver)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	d := &daemon{program: program, url: "http://" + address}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SANDKASTEN_") {
			d.env = append(d.env, variable)
		}
	}
	d.env = append(d.env, "SANDKASTEN_CONFIG="+config, "SANDKASTEN_API_KEY="+rand.Text())
	return d, nil
}

// importImages stores the images that the cases and the READMEs name: all are
// the root file system that the tests of this repository share.
func (d *daemon) importImages(ctx context.Context) error {
	rootfs, err := testenv.Rootfs()
	if err != nil {
		return err
	}
	for _, name := range []string{"base", "python"} {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		pack := exec.CommandContext(ctx, "tar", "-C", rootfs, "-c", ".")
		load := exec.CommandContext(ctx, d.program, "image", "import", "--name", name, "--tar", "-")
		load.Env = d.env
		if load.Stdin, err = pack.StdoutPipe(); err != nil {
			return err
		}
		if err := pack.Start(); err != nil {
			return err
		}
		text, err := load.CombinedOutput()
		if err != nil {
			cancel() // nobody reads what it writes
		}
		if err := errors.Join(err, pack.Wait()); err != nil {
			return fmt.Errorf("import image %s: %w\n%s", name, err, text)
		}
	}
	return nil
}

// start returns when the daemon can work. The caller ends it.
func (d *daemon) start(ctx context.Context) error {
	// Not with the caller's context: the daemon goes on until its sessions are removed.
	d.cmd = exec.CommandContext(context.WithoutCancel(ctx), d.program, "daemon")
	d.cmd.Env = d.env
	d.cmd.Stderr = &d.log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	if err := d.waitReady(ctx); err != nil {
		return errors.Join(err, d.stop())
	}
	return nil
}

func (d *daemon) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := probe(ctx, d.url+"/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not get ready: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func probe(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// end removes what the command left, since sandboxes outlive their daemon, and
// stops the daemon.
func (d *daemon) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rm := exec.CommandContext(ctx, d.program, "rm", "--all")
	rm.Env = d.env
	text, err := rm.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("remove what is left: %w\n%s", err, text)
	}
	return errors.Join(err, d.stop())
}

func (d *daemon) stop() error {
	timer := time.AfterFunc(patience, func() { d.cmd.Process.Kill() }) //nolint:errcheck // it may have ended just now
	defer timer.Stop()
	err := errors.Join(d.cmd.Process.Signal(os.Interrupt), d.cmd.Wait())
	if err != nil {
		return fmt.Errorf("stop the daemon: %w", err)
	}
	return nil
}
