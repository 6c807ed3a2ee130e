package sandkasten

import (
	"context"
	"strings"
	"time"
)

// CompleteOptions says what becomes of a scope's sessions.
type CompleteOptions struct {
	Retention time.Duration // until they end; whole seconds
}

// Completed is what is left of a scope that is complete.
type Completed struct {
	Scope    string    `json:"scope"`
	Sessions int       `json:"sessions"` // that have not ended yet
	EndsAt   time.Time `json:"ends_at"`  // when they begin to end
}

// CompleteScope ends the sessions that a scope has, as workflow:run-1, now or after
// a retention. What cannot be ended at once the daemon ends by itself. Again is no
// error, and another retention takes the place of the first.
func (c *Client) CompleteScope(ctx context.Context, scope string, o *CompleteOptions) (Completed, error) {
	namespace, id, _ := strings.Cut(scope, ":")
	body := struct {
		RetentionSeconds int64 `json:"retention_seconds,omitempty"`
	}{seconds(value(o).Retention)}
	var done Completed
	err := c.call(ctx, postSame("/v1/scopes/"+segment(namespace)+"/"+segment(id)+"/complete", body), &done)
	return done, err
}
