package sandkasten

import "context"

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
	Auto   bool    `json:"auto"` // how many are wanted is learned
	Wanted int     `json:"wanted"`
	Ready  int     `json:"ready"`
	Hits   int64   `json:"hits"`   // sessions that got a ready one
	Misses int64   `json:"misses"` // and that could have
	MakeMS float64 `json:"make_ms"`
	Error  string  `json:"error,omitempty"` // why there are fewer than wanted
}

// PoolStatus returns what the daemon keeps ready.
func (c *Client) PoolStatus(ctx context.Context) (PoolStatus, error) {
	var status PoolStatus
	err := c.call(ctx, get("/v1/pool/status"), &status)
	return status, err
}
