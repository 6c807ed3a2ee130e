package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// helperName names a container that is removed by the call that makes it, or
// else by Sweep, for its label labelProgram.
func (d *Driver) helperName() string {
	return "sandkasten-" + d.opts.Node + "-helper-" + strings.ToLower(rand.Text())
}

// runHelper runs a container of ours until it ends, and removes it. It is an
// error that says why if it fails.
func (d *Driver) runHelper(ctx context.Context, options client.ContainerCreateOptions) (err error) {
	creating, cancel := callContext(ctx)
	defer cancel()
	options.HostConfig.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "64k", "max-file": "1"}} // for lastWords
	if _, err := d.engine.ContainerCreate(creating, options); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := callContext(ctx)
		defer cancel()
		_, removeErr := d.engine.ContainerRemove(ctx, options.Name, client.ContainerRemoveOptions{Force: true})
		err = errors.Join(err, removeErr)
	}()
	waiting := d.engine.ContainerWait(ctx, options.Name, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := d.engine.ContainerStart(ctx, options.Name, client.ContainerStartOptions{}); err != nil {
		return err
	}
	select {
	case err := <-waiting.Error:
		return err
	case ended := <-waiting.Result:
		if ended.StatusCode == 0 {
			return nil
		}
		return errors.Join(fmt.Errorf("it ended with status %d", ended.StatusCode), d.lastWords(ctx, options.Name))
	}
}

// lastWords is what a runner that has ended said, as an error.
func (d *Driver) lastWords(ctx context.Context, name string) error {
	ctx, cancel := callContext(ctx)
	defer cancel()
	logs, err := d.engine.ContainerLogs(ctx, name, client.ContainerLogsOptions{ShowStderr: true, Tail: "10"})
	if err != nil {
		return err
	}
	defer logs.Close()
	text, err := io.ReadAll(io.LimitReader(&frames{from: logs, only: stderrStream}, 4<<10))
	if err == nil && len(text) > 0 {
		err = fmt.Errorf("in the sandbox: %q", text)
	}
	return err
}

// sweepHelpers removes the helpers that were left by a daemon that was killed.
func (d *Driver) sweepHelpers(ctx context.Context) error {
	left, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: d.own(labelProgram)})
	if err != nil {
		return d.unavailable(err)
	}
	var errs []error
	for _, c := range left.Items {
		_, err := d.engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true})
		if err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
