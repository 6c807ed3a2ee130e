package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/kit"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/history"
)

// HistorySelection says which samples are meant, of a session or of the host.
type HistorySelection struct {
	Since string `query:"since" maxLength:"40" doc:"Only samples from this time on, as in RFC 3339; a day without it." example:"2026-11-21T09:00:00Z"`
	Step  int    `query:"step" enum:"10,60" doc:"Seconds between samples. Without it 10 if since is less than an hour ago, and else 60."`
}

// read is the step and the time that a selection names. Which steps there are is
// history's to say.
func (in HistorySelection) read() (history.Step, time.Time, error) {
	since, err := timeOf("since", in.Since)
	return history.Step(time.Duration(in.Step) * time.Second), since, err
}

type historyInput struct {
	SessionPath
	HistorySelection
}

// StatsHistory is what a session used over its life.
type StatsHistory struct {
	StepSeconds int           `json:"step_seconds" example:"10"`
	Samples     []StatsSample `json:"samples" nullable:"false" doc:"Oldest first. Where the session did not run there is a hole."`
}

// StatsSample is what a session used at a time.
type StatsSample struct {
	At            time.Time `json:"at"`
	CPUUsageUsec  int64     `json:"cpu_usage_usec" doc:"Processor time used up to then. It begins anew with the session's start." example:"8123"`
	MemoryBytes   int64     `json:"memory_bytes" doc:"With a step of 60 the most of the minute." example:"1482752"`
	DiskBytes     int64     `json:"disk_bytes" example:"40960"`
	Pids          int64     `json:"pids" example:"2"`
	SentBytes     int64     `json:"sent_bytes" doc:"By its network since its last start, or the daemon's."`
	ReceivedBytes int64     `json:"received_bytes"`
}

type historyOutput struct{ Body StatsHistory }

// historyRoutes are those of what was used over time.
func (s *surface) historyRoutes() {
	kit.Route(s.kit, kit.Row{
		Pattern: "GET /v1/sessions/{id}/stats/history", Scope: api.Key, Turn: true, Resolve: s.resolveSession,
		Doc: kit.Doc{
			ID: "get-stats-history", Summary: "List what a session used over its life", Errors: []int{404, 501},
			Description: "A sample every 10 seconds for an hour, and each minute for a day; with more than 500 sessions for a shorter time. They are kept over restarts of the daemon, but for up to a minute before a crash, and go with the session.",
		},
	}, s.statsHistory)
}

func (s *surface) statsHistory(ctx context.Context, in *historyInput) (*historyOutput, error) {
	found, err := s.get(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	if s.opts.History == nil {
		return nil, errdefs.New(errdefs.Unimplemented, "this daemon keeps no history")
	}
	step, since, err := in.read()
	if err != nil {
		return nil, err
	}
	samples, step, err := s.opts.History.Of(ctx, found.ID, step, since)
	if err != nil {
		return nil, err
	}
	out := &historyOutput{StatsHistory{StepSeconds: int(time.Duration(step) / time.Second), Samples: make([]StatsSample, len(samples))}}
	for i, one := range samples {
		out.Body.Samples[i] = StatsSample{
			At: one.At.UTC(), CPUUsageUsec: one.CPUUsageUsec, MemoryBytes: one.MemoryBytes, DiskBytes: one.DiskBytes, Pids: one.Pids, SentBytes: one.SentBytes, ReceivedBytes: one.ReceivedBytes,
		}
	}
	return out, nil
}
