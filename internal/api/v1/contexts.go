package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	contextsapi "github.com/sandkasten/sandkasten/internal/api/v1/contexts"
	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/contexts"
	"github.com/sandkasten/sandkasten/internal/session"
)

// newContexts are the handlers of contexts, over a manager.
func (s *surface) newContexts() *contextsapi.Handlers {
	service := contexts.New(contexts.Options{
		Execs: s.manager.Execs,
		Image: func(ctx context.Context, p auth.Principal, id session.ID) (string, error) {
			found, err := s.manager.Sessions.Get(ctx, p, id)
			return found.Image, err
		},
		Timeouts: func(p auth.Principal) (usual, most time.Duration) {
			d, x, _ := s.manager.Sessions.Limits(p)
			return d.ExecTimeout, x.ExecTimeout
		},
	})
	return &contextsapi.Handlers{Service: service, Find: s.find}
}

// runningContexts counts the contexts that run in a session of the caller.
func (s *surface) runningContexts(ctx context.Context, id session.ID) int {
	return s.contexts.Service.Running(ctx, api.Caller(ctx), id)
}
