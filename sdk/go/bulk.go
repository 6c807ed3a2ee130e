package sandkasten

import "context"

// MaxBulk is how many sessions one ChangeSessions takes.
const MaxBulk = 1000

// BulkAction is what ChangeSessions does with each session.
type BulkAction string

// What there is to do.
const (
	BulkStop    BulkAction = "stop"
	BulkStart   BulkAction = "start"
	BulkPause   BulkAction = "pause"
	BulkResume  BulkAction = "resume"
	BulkDestroy BulkAction = "destroy"
)

// BulkResult is what came of one session.
type BulkResult struct {
	ID      string       `json:"id"`      // as it was asked for
	Session *SessionInfo `json:"session"` // as it is then; nil after a destroy and beside an error
	Status  int          `json:"status"`  // of the answer that a request for it alone would have
	Error   *APIError    `json:"error"`   // why it failed; nil if it did not
}

// ChangeSessions does the same with up to MaxBulk sessions, by their ids, names or
// beginnings of ids, a few at a time. It returns a result for each, in the order of
// ids; a session that fails holds up no other and is no error of the call.
func (c *Client) ChangeSessions(ctx context.Context, action BulkAction, ids ...string) ([]BulkResult, error) {
	body := struct {
		Action BulkAction `json:"action"`
		IDs    []string   `json:"ids"`
	}{action, append([]string{}, ids...)}
	var answer struct {
		Results []BulkResult `json:"results"`
	}
	if err := c.call(ctx, postSame("/v1/sessions/bulk", body), &answer); err != nil {
		return nil, err
	}
	for _, one := range answer.Results {
		if one.Error != nil {
			one.Error.Status = one.Status
		}
	}
	return answer.Results, nil
}
