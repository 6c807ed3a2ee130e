package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// ScopePath is what every route of one scope takes.
type ScopePath struct {
	Namespace string `path:"namespace" enum:"workflow,agent,user" doc:"Whose scope it is." example:"workflow"`
	ID        string `path:"id" doc:"1 to 128 of a-z, A-Z, 0-9, '.', '_', '-', ':' and '@'." example:"run-1"`
}

func (p ScopePath) scope() string { return p.Namespace + ":" + p.ID }

type completeInput struct {
	ScopePath
	Body *CompleteRequest
}

// CompleteRequest says when the sessions of a scope end.
type CompleteRequest struct {
	Retention int64 `json:"retention_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"How long they are kept. 0 is not at all." example:"0"`
}

// Completed is what is left of a complete scope.
type Completed struct {
	Scope    string    `json:"scope" example:"workflow:run-1"`
	Sessions int       `json:"sessions" doc:"That have not ended yet." example:"0"`
	EndsAt   time.Time `json:"ends_at" doc:"When they begin to end."`
}

type completedOutput struct{ Body Completed }

// scopeRoutes are those of scopes, which sessions belong to by their labels.
func (s *surface) scopeRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "POST /v1/scopes/{namespace}/{id}/complete", Scope: api.Key, Class: api.Long,
		Doc: kit.Doc{
			ID: "complete-scope", Summary: "Complete a scope", Errors: []int{403, 415, 501, 507},
			Description: "Ends the sessions whose label sandkasten.scope is namespace:id, now or after retention_seconds, also if the daemon restarts meanwhile. Sessions that are made after that time stay. To repeat it is no error; another retention takes the place of the first.",
		},
	}, s.completeScope)
}

func (s *surface) completeScope(ctx context.Context, in *completeInput) (*completedOutput, error) {
	if s.opts.Scopes == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon has no scopes")
	}
	var retention time.Duration
	if in.Body != nil {
		retention = time.Duration(in.Body.Retention) * time.Second
	}
	done, left, err := s.opts.Scopes.Complete(ctx, api.Caller(ctx), in.scope(), retention)
	if err != nil {
		return nil, err
	}
	return &completedOutput{Completed{Scope: done.Scope, Sessions: left, EndsAt: done.Due}}, nil
}
