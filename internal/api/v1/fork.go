package v1

import (
	"cmp"
	"context"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
)

type forkInput struct {
	SessionPath
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[!-~]+$" patternDescription:"visible ASCII characters" doc:"As for a create: a repeated request with the same key and body gives the same sessions."`
	Body           *ForkRequest
}

// ForkRequest is what forks may have otherwise than the session that they are
// of.
type ForkRequest struct {
	Count    int               `json:"count,omitempty" minimum:"1" maximum:"100" doc:"How many; 1 if it is not given." example:"3"`
	Limits                     // cpu, memory_mb and pids; disk_mb is refused
	Env      map[string]string `json:"env,omitempty" maxProperties:"256" doc:"Instead of the session's. Never shown again."`
	Hostname string            `json:"hostname,omitempty" minLength:"1" maxLength:"63" doc:"Of all forks. Without it each has the session's with the beginning of its own id." example:"branch"`
	Labels   map[string]string `json:"labels,omitempty" maxProperties:"64" doc:"Instead of the session's." example:"{\"try\":\"b\"}"`
	Policy
}

// Forked is the answer to a fork.
type Forked struct {
	Sessions []Session `json:"sessions" nullable:"false"`
	Copied   bool      `json:"copied" doc:"The host had to copy the session's files, which took time and space. See disk.pool_mb in the configuration for forks without that. In the answer to a repeated request it is false."`

	DroppedContexts int `json:"dropped_contexts" doc:"Contexts of the session that run. Forks have its files, and neither these nor their variables." example:"1"`
}

type forkOutput struct{ Body Forked }

func (s *surface) forkSession(ctx context.Context, in *forkInput) (*forkOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	req := session.ForkRequest{Count: 1, IdempotencyKey: in.IdempotencyKey}
	if b := in.Body; b != nil {
		req.Count = cmp.Or(b.Count, 1)
		req.Limits = runtime.Limits{CPU: b.CPU, MemoryMB: b.MemoryMB, Pids: b.Pids, DiskMB: b.DiskMB}
		req.Env, req.Hostname, req.Labels, req.Policy = b.Env, b.Hostname, b.Labels, b.policy()
	}
	dropped := s.runningContexts(ctx, id)
	made, err := s.manager.Sessions.Fork(ctx, api.Caller(ctx), id, req)
	if err != nil {
		return nil, err
	}
	out := &forkOutput{Forked{Sessions: make([]Session, len(made.Sessions)), Copied: made.Copied, DroppedContexts: dropped}}
	for i, one := range made.Sessions {
		out.Body.Sessions[i] = view(one)
		api.Made(ctx, "session", string(one.ID))
	}
	return out, nil
}
