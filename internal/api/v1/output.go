package v1

import (
	"context"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/execstream"
	"github.com/sandkasten/sandkasten/internal/session/ops"
	"github.com/sandkasten/sandkasten/protocol"
)

type outputInput struct {
	ExecPath
	SinceSeq  int64 `query:"since_seq" minimum:"0" maximum:"9007199254740991" doc:"The seq of the last chunk that was read, or next_seq. 0 is the beginning."`
	MaxChunks int64 `query:"max_chunks" minimum:"1" maximum:"1000" default:"100" doc:"A chunk has at most 64 KiB."`
	WaitMS    int64 `query:"wait_ms" minimum:"0" maximum:"600000" doc:"How long to wait for the first chunk or the end, if there is neither yet."`
}

// OutputResponse is the next part of an output.
type OutputResponse struct {
	Chunks  []execstream.Chunk `json:"chunks" nullable:"false"`
	NextSeq int64              `json:"next_seq" doc:"What to send as since_seq for what comes next." example:"3"`
	Done    bool               `json:"done" doc:"It has ended and there is nothing to come."`
	Dropped int64              `json:"dropped" doc:"Bytes between since_seq and next_seq that are in no chunk, since they are not kept."`

	Status   string         `json:"status" enum:"running,completed"`
	ExitCode *int           `json:"exit_code,omitempty" doc:"This and cause when it is done."`
	Cause    protocol.Cause `json:"cause,omitempty"`
	DiskFull bool           `json:"disk_full,omitempty" doc:"As in exec, when it is done."`
}

type outputOutput struct{ Body OutputResponse }

func (s *surface) readOutput(ctx context.Context, in *outputInput) (*outputOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	c := execstream.NewChunker(int(in.MaxChunks), in.SinceSeq)
	record, next, err := s.manager.Execs.Read(ctx, api.Caller(ctx), string(id), in.ExecID, ops.ReadRequest{
		Offset: in.SinceSeq, MaxBytes: min(s.opts.OutputBytes, in.MaxChunks*execstream.MaxChunk), Wait: time.Duration(in.WaitMS) * time.Millisecond,
	}, c)
	if err != nil {
		return nil, err
	}
	ended := record.State == protocol.StateEnded
	c.End(ended)
	body := OutputResponse{Chunks: c.Chunks, NextSeq: c.NextSeq, Dropped: c.Dropped}
	if ended && next == in.SinceSeq && next < record.OutputBytes { // nothing more is kept
		body.Dropped, body.NextSeq = record.OutputBytes-next, record.OutputBytes
	}
	body.Done = ended && body.NextSeq >= record.OutputBytes
	body.Status = "running"
	if body.Done {
		body.Status, body.ExitCode, body.Cause, body.DiskFull = "completed", &record.ExitCode, record.Cause, record.DiskFull
	}
	return &outputOutput{body}, nil
}
