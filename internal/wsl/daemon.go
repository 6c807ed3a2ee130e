package wsl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"
)

const (
	patience  = 2 * time.Minute // for a daemon to get ready or to end
	pollEvery = 200 * time.Millisecond
)

// startScript becomes the daemon, which so has the process id that is written
// down. The log begins anew.
const startScript = "echo $$ >" + pidFile + "\nexec " + program + " daemon </dev/null >" + logFile + " 2>&1\n"

// stopScript ends the daemon, if there is one, and waits until it has ended.
// The number in the file may be another program's since then.
const stopScript = `pid=$(cat ` + pidFile + ` 2>/dev/null) || exit 0
[ "$(cat /proc/$pid/comm 2>/dev/null)" = sandkasten ] && kill $pid || exit 0
while [ -e /proc/$pid ]; do sleep 0.1; done
rm -f ` + pidFile + "\n"

// ErrRunning is what Start says where a daemon answers already.
var ErrRunning = errors.New("it is running already")

// Start starts the daemon and returns when it is ready. A wsl.exe stays behind
// for as long as the daemon runs: WSL stops a distribution to which nobody is
// connected.
func (h Host) Start(ctx context.Context) error {
	if h.Ready(ctx) == nil {
		return ErrRunning
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ended, err := h.launch(ctx)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := h.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case why := <-ended:
			return errors.Join(fmt.Errorf("the daemon ended (%w); its last lines", why), h.Logs(ctx, 10, false))
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not get ready: %w", err)
		case <-ticker.C:
		}
	}
}

// launch starts a wsl.exe that outlives us. What it ends with is sent.
func (h Host) launch(ctx context.Context) (<-chan error, error) {
	script, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer script.Close()
	// It fits a pipe: nobody has to read yet.
	if _, err := write.WriteString(startScript); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	if err := write.Close(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), h.Exe, h.inside("sh", "-s")...)
	cmd.Stdin = script
	cmd.SysProcAttr = apart()
	if err := cmd.Start(); err != nil {
		return nil, explain(err, nil)
	}
	ended := make(chan error, 1)
	go func() { // ends with wsl.exe, or with us
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit code 0")
		}
		ended <- err
	}()
	return ended, nil
}

// Stop ends the daemon and returns when it has ended. Without a daemon it does
// nothing. WSL stops the distribution, with what runs in sandboxes, soon after
// the last program that is connected to it has ended.
func (h Host) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return h.script(ctx, stopScript)
}

// Ready asks the daemon whether it can work, and returns nil if it can.
func (h Host) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/readyz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/readyz answers %s", h.URL, resp.Status)
	}
	return nil
}

// Status prints what there is: the distribution, the daemon and its address.
func (h Host) Status(ctx context.Context) error {
	d, err := h.find(ctx)
	if d == nil {
		return errors.Join(h.say("distribution  %s: not installed\n", h.Distribution), err)
	}
	daemon := "ready at " + h.URL
	if err := h.Ready(ctx); err != nil {
		daemon = "not ready: " + err.Error()
	}
	return h.say("distribution  %s: %s, WSL %s\ndaemon        %s\n", d.Name, d.State, d.Version, daemon)
}
