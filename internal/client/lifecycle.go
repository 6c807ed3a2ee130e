package client

import (
	"context"
	"net/http"
)

// Update changes a session.
func (c *Client) Update(ctx context.Context, id string, req UpdateRequest) (Session, error) {
	var s Session
	err := c.call(ctx, http.MethodPatch, sessionPath(id), req, &s)
	return s, err
}

// Pause stops a session's programs where they are. Pausing what is paused is
// not an error.
func (c *Client) Pause(ctx context.Context, id string) (Session, error) {
	return c.change(ctx, id, "/pause")
}

// Resume lets a paused session's programs go on.
func (c *Client) Resume(ctx context.Context, id string) (Session, error) {
	return c.change(ctx, id, "/resume")
}

// Stop ends a session's processes and keeps its files.
func (c *Client) Stop(ctx context.Context, id string) (Session, error) {
	return c.change(ctx, id, "/stop")
}

// Start boots a stopped session on its files.
func (c *Client) Start(ctx context.Context, id string) (Session, error) {
	return c.change(ctx, id, "/start")
}

// Heartbeat counts as activity and does nothing else.
func (c *Client) Heartbeat(ctx context.Context, id string) (Session, error) {
	return c.change(ctx, id, "/heartbeat")
}

func (c *Client) change(ctx context.Context, id, what string) (Session, error) {
	var s Session
	err := c.call(ctx, http.MethodPost, sessionPath(id, what), nil, &s)
	return s, err
}

// ForkRequest is what forks may have otherwise than their session. Zero values
// take what that has.
type ForkRequest struct {
	Count    int               `json:"count,omitempty"` // 1
	Env      map[string]string `json:"env,omitempty"`
	Hostname string            `json:"hostname,omitempty"`
	UpdateRequest
}

// Forked is what Fork has made.
type Forked struct {
	Sessions []Session `json:"sessions"`
	Copied   bool      `json:"copied"` // the host had to copy the files
}

// Fork makes sessions that begin with the files of another.
func (c *Client) Fork(ctx context.Context, id string, req ForkRequest) (Forked, error) {
	var made Forked
	err := c.call(ctx, http.MethodPost, sessionPath(id, "/fork"), req, &made)
	return made, err
}
