package tools

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

type openAnswer struct {
	SandboxID string `json:"sandbox_id"`
	Image     string `json:"image"`
	Workdir   string `json:"workdir"`
	Created   bool   `json:"created"`
	Network   string `json:"network"`
	Hint      string `json:"hint,omitempty"`
}

// key is the name of the call's session in its scope.
func (c *call) key() (string, error) {
	key := orElse(c.text("session_key"), DefaultKey)
	if !isScopeName(key, maxScopeKey) {
		return "", wrongInput("session_key must be 1 to %d of a-z, A-Z, 0-9 and . _ - : @; leave it out for the shared sandbox", maxScopeKey)
	}
	return key, nil
}

// options are what a new session is made with.
func (c *call) options() sandkasten.CreateOptions {
	o := c.set.opts.Session
	if image := c.text("image"); image != "" {
		o.Image = image
	}
	if mode := c.text("network"); mode != "" {
		o.NetworkMode, o.Network = mode, nil
	}
	if id := c.text("workspace"); id != "" {
		o.WorkspaceID = id
	}
	limits, _ := c.args["limits"].(map[string]any)
	of := &call{args: limits}
	if n := of.number("cpu_millicores", 0); n > 0 {
		o.CPU = float64(n) / 1000
	}
	if n := of.number("memory_mb", 0); n > 0 {
		o.MemoryMB = n
	}
	if n := of.number("workspace_mb", 0); n > 0 {
		o.DiskMB = n
	}
	if d := of.seconds("timeout_seconds", 0); d > 0 {
		o.TTL = d
	}
	return o
}

func openTool(ctx context.Context, c *call) (any, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	options := c.options()
	info, created, err := c.open(ctx, key, options)
	if err != nil {
		return nil, err
	}
	answer := newOpenAnswer(info, created)
	if other := c.notAsAsked(info, options); !created && len(other) > 0 {
		answer.Hint = "This sandbox was there already, with " + strings.Join(other, ", ") + " of its own: send another session_key for a new one as you asked."
	}
	return answer, nil
}

// notAsAsked names what the call asks of a new sandbox and the one that is there does not have.
func (c *call) notAsAsked(info sandkasten.SessionInfo, asked sandkasten.CreateOptions) []string {
	var other []string
	add := func(name string, differs bool) {
		if differs {
			other = append(other, name)
		}
	}
	add("an image", c.text("image") != "" && info.Image != asked.Image)
	add("a network", c.text("network") != "" && info.NetworkMode != asked.NetworkMode)
	add("a workspace", c.text("workspace") != "" && info.WorkspaceID != asked.WorkspaceID)
	limits, _ := c.args["limits"].(map[string]any)
	_, cpu := limits["cpu_millicores"]
	_, memory := limits["memory_mb"]
	_, disk := limits["workspace_mb"]
	_, ttl := limits["timeout_seconds"]
	add("limits", cpu && info.Limits.CPU != asked.CPU || memory && info.Limits.MemoryMB != asked.MemoryMB ||
		disk && info.Limits.DiskMB != asked.DiskMB || ttl && info.TTLSeconds != int64(asked.TTL/time.Second))
	return other
}

func newOpenAnswer(info sandkasten.SessionInfo, created bool) openAnswer {
	return openAnswer{SandboxID: info.ID, Image: info.Image, Workdir: workspace, Created: created, Network: info.NetworkMode}
}

func closeTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if errors.Is(err, sandkasten.ErrNotFound) {
		return nil, wrongInput("there is no sandbox %s to close", c.text("sandbox_id"))
	}
	if err != nil {
		return nil, err
	}
	remove, told := c.args["delete_workspace"].(bool)
	if told && !remove {
		_, err = session.Stop(ctx)
		return closeAnswer{OK: true, WorkspaceKept: true, Hint: "its files are kept for a while; sandbox_open with the same session_key goes on with them"}, err
	}
	info, err := session.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	if err := session.Destroy(ctx); err != nil {
		return nil, err
	}
	// One with a name of its own outlives sandboxes, unless its end is asked for.
	if told && info.WorkspaceID != "" {
		err = c.set.opts.Client.DeleteWorkspace(ctx, info.WorkspaceID, nil)
		if errors.Is(err, sandkasten.ErrConflict) {
			return closeAnswer{OK: true, WorkspaceKept: true, Hint: "its workspace stays: another sandbox uses it"}, nil
		}
	}
	return closeAnswer{OK: true, WorkspaceKept: !told && info.WorkspaceID != ""}, err
}

type closeAnswer struct {
	OK            bool   `json:"ok"`
	WorkspaceKept bool   `json:"workspace_kept,omitempty"`
	Hint          string `json:"hint,omitempty"`
}

type portAnswer struct {
	Port      int       `json:"port"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
	Listening bool      `json:"listening"`
	Hint      string    `json:"hint,omitempty"`
}

func exposeTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	port := int(c.number("port", 0))
	preview, err := session.CreatePreview(ctx, port, &sandkasten.PreviewOptions{TTL: c.seconds("ttl_seconds", 0)})
	if err != nil {
		return nil, err
	}
	answer := portAnswer{Port: port, URL: preview.URL, ExpiresAt: preview.ExpiresAt}
	ports, err := session.ListPorts(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		answer.Listening = answer.Listening || p.Port == port
	}
	if !answer.Listening {
		answer.Hint = "nothing listens at this port yet; start the server with sandbox_exec and stream true"
	}
	return answer, nil
}

func snapshotTool(ctx context.Context, c *call) (any, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	saved, err := session.Snapshot(ctx, &sandkasten.SnapshotOptions{Label: c.scope.String()})
	if err != nil {
		return nil, err
	}
	return snapshotAnswer{saved.ID, saved.Scope, saved.SizeBytes}, nil
}

type snapshotAnswer struct {
	SnapshotID string `json:"snapshot_id"`
	Scope      string `json:"scope"`
	SizeBytes  int64  `json:"size_bytes"`
}

// asOf has a session be made with what another one was opened with: its files may need its
// disk, and programs its memory. The network is that of the options, whose secrets the daemon
// does not tell; where they say nothing the model may have chosen a mode.
func asOf(o *sandkasten.CreateOptions, before sandkasten.SessionInfo) {
	o.CPU, o.MemoryMB, o.Pids, o.DiskMB = before.Limits.CPU, before.Limits.MemoryMB, before.Limits.Pids, before.Limits.DiskMB
	o.TTL = time.Duration(before.TTLSeconds) * time.Second
	if o.NetworkMode == "" && o.Network == nil && before.NetworkMode != "allow" {
		o.NetworkMode = before.NetworkMode
	}
}

func restoreTool(ctx context.Context, c *call) (any, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	saved, err := c.set.opts.Client.GetSnapshot(ctx, c.text("snapshot_id"))
	if err != nil {
		return nil, err
	}
	if saved.Label != c.scope.String() {
		return nil, wrongInput("there is no snapshot %s here; use a snapshot_id that sandbox_snapshot has returned", c.text("snapshot_id"))
	}
	options := c.set.opts.Session
	options.Image, options.RestoreSnapshotID = "", saved.ID
	before, err := c.lookUp(ctx, key)
	if err == nil && before != nil {
		asOf(&options, before.Info)
		err = before.Destroy(ctx)
	}
	if err != nil {
		return nil, err
	}
	info, created, err := c.open(ctx, key, options)
	if err != nil {
		return nil, err
	}
	return newOpenAnswer(info, created), nil
}
