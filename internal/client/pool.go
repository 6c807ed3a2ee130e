package client

import (
	"context"
	"net/http"
)

// PoolStatus is what is ready for sessions that are about to come. Counts are
// since the daemon's start.
type PoolStatus struct {
	Enabled   bool        `json:"enabled"`
	Ready     int         `json:"ready"`
	MaxReady  int         `json:"max_ready"`
	Unmatched int64       `json:"unmatched"`       // sessions that no image of the pool is for
	Short     string      `json:"short,omitempty"` // what the host is short of
	Images    []PoolImage `json:"images"`
}

// PoolImage is one image of the pool.
type PoolImage struct {
	Image  string  `json:"image"`
	Digest string  `json:"digest,omitempty"`
	Auto   bool    `json:"auto"`
	Wanted int     `json:"wanted"`
	Ready  int     `json:"ready"`
	Hits   int64   `json:"hits"`
	Misses int64   `json:"misses"`
	MakeMS float64 `json:"make_ms"`
	Error  string  `json:"error,omitempty"`
}

// PoolStatus tells what the daemon keeps ready.
func (c *Client) PoolStatus(ctx context.Context) (PoolStatus, error) {
	var st PoolStatus
	err := c.call(ctx, http.MethodGet, "/v1/pool/status", nil, &st)
	return st, err
}
