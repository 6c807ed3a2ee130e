package v1

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/session"
)

// bulkWorkers is how many sessions of one request change at the same time: enough that
// a slow one holds up few, and no more than the host does at once anyway.
const bulkWorkers = 8

type bulkInput struct{ Body BulkRequest }

// BulkRequest is one change of many sessions.
type BulkRequest struct {
	Action string   `json:"action" enum:"stop,start,pause,resume,destroy" doc:"What to do with each." example:"stop"`
	IDs    []string `json:"ids" nullable:"false" minItems:"1" maxItems:"1000" doc:"Ids, names or beginnings of ids." example:"[\"f5q2bz7lq4m3k5n6p7r2s3t4u5\"]"`
}

// BulkAnswer has a result for each id of the request, in its order.
type BulkAnswer struct {
	Results []BulkResult `json:"results" nullable:"false"`
}

// BulkResult is what came of one session.
type BulkResult struct {
	ID      string         `json:"id" doc:"As in the request." example:"f5q2bz7lq4m3k5n6p7r2s3t4u5"`
	Session *Session       `json:"session,omitempty" doc:"As it is then. Absent after destroy, and beside error."`
	Status  int            `json:"status" doc:"The status of the answer that a request for this session alone would have." example:"200"`
	Error   *api.ErrorBody `json:"error,omitempty" doc:"Why it failed. Absent if it did not."`
}

type bulkOutput struct{ Body BulkAnswer }

// bulkAction is a change that a bulk request can make, and the route that makes it of
// one session.
type bulkAction struct {
	route  string
	change func(context.Context, auth.Principal, session.ID) (session.Session, error)
}

// bulkActions are those of BulkRequest.Action.
func (s *surface) bulkActions() map[string]bulkAction {
	sessions := s.manager.Sessions
	return map[string]bulkAction{
		"stop":  {"POST /v1/sessions/{id}/stop", sessions.Stop},
		"start": {"POST /v1/sessions/{id}/start", sessions.Start},
		"pause": {"POST /v1/sessions/{id}/pause", func(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error) {
			return sessions.Pause(ctx, p, id, session.MemoryRAM)
		}},
		"resume": {"POST /v1/sessions/{id}/resume", sessions.Resume},
		"destroy": {"DELETE /v1/sessions/{id}", func(ctx context.Context, p auth.Principal, id session.ID) (session.Session, error) {
			return session.Session{}, sessions.Destroy(ctx, p, id)
		}},
	}
}

// bulkRoutes are those of many sessions at once.
func (s *surface) bulkRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/sessions/bulk", Scope: api.Key, Class: api.Long,
		Doc: kit.Doc{
			ID: "change-sessions", Summary: "Stop, start, pause, resume or destroy many sessions", Errors: []int{415},
			Description: "Does the same with each session as a request for it alone, a few at a time, and answers when all are done. A failure of one is in its result and holds up no other: the answer is 200 even if all fail. To repeat it is no error. The limit of requests per second counts each id as a request: 429, and no session changes, while the key has too few left. The audit log has an entry for each session, too.",
		},
	}, s.changeSessions)
}

// bulkOutcome is what came of the session at one place of the request.
type bulkOutcome struct {
	index   int
	id      session.ID
	session session.Session
	err     error
	took    time.Duration
}

func (s *surface) changeSessions(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	if err := api.Charge(ctx, len(in.Body.IDs)); err != nil {
		return nil, err
	}
	action := s.bulkActions()[in.Body.Action]
	answer := BulkAnswer{Results: make([]BulkResult, len(in.Body.IDs))}
	// One goroutine describes and audits, since a request is not made for several.
	for done := range s.changeEach(ctx, action, in.Body.IDs) {
		result := BulkResult{ID: in.Body.IDs[done.index], Status: 200}
		switch {
		case done.err != nil:
			var body api.ErrorBody
			body, result.Status = api.Problem(ctx, done.err)
			result.Error = &body
		case done.session.ID != "":
			now := view(done.session)
			result.Session = &now
		}
		answer.Results[done.index] = result
		api.AuditPart(ctx, action.route, string(done.id), result.Status, done.took)
	}
	return &bulkOutput{answer}, nil
}

// changeEach changes the sessions and tells of each when it is done.
func (s *surface) changeEach(ctx context.Context, action bulkAction, refs []string) <-chan bulkOutcome {
	next, outcomes := make(chan int), make(chan bulkOutcome)
	var workers sync.WaitGroup
	for range min(bulkWorkers, len(refs)) {
		workers.Go(func() {
			for index := range next {
				outcomes <- s.changeOne(ctx, action, index, refs[index])
			}
		})
	}
	go func() {
		for index := range refs {
			next <- index
		}
		close(next)
		workers.Wait()
		close(outcomes)
	}()
	return outcomes
}

func (s *surface) changeOne(ctx context.Context, action bulkAction, index int, ref string) bulkOutcome {
	start := time.Now()
	caller := api.Caller(ctx)
	id, err := s.called(ctx, ref)
	// Who has gone, or lost the key, changes nothing more.
	if ended := context.Cause(ctx); ended != nil {
		err = errors.Join(err, ended)
	}
	done := bulkOutcome{index: index, id: id, err: err}
	if err == nil {
		done.session, done.err = action.change(ctx, caller, id)
	}
	done.took = time.Since(start)
	return done
}
