package v1

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/api"
	"github.com/sandkasten/sandkasten/internal/api/v1/contract"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/ops"
)

type waitInput struct {
	ExecPath
	Body *WaitRequest
}

// WaitRequest bounds a wait.
type WaitRequest struct {
	TimeoutMS int64 `json:"timeout_ms,omitempty" minimum:"1" maximum:"600000" doc:"After it the answer is the record as it is then. Without it, 600000." example:"60000"`
}

type execRecordOutput struct{ Body ExecRecord }

func (s *surface) waitExec(ctx context.Context, in *waitInput) (*execRecordOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	wait := ops.MaxWait
	if in.Body != nil && in.Body.TimeoutMS > 0 {
		wait = time.Duration(in.Body.TimeoutMS) * time.Millisecond
	}
	record, err := s.manager.Execs.Wait(ctx, api.Caller(ctx), string(id), in.ExecID, wait)
	if err != nil {
		return nil, err
	}
	return &execRecordOutput{recordOf(record)}, nil
}

type stdinInput struct {
	ExecPath
	Body StdinRequest
}

// StdinRequest is what a process or a command reads next.
type StdinRequest struct {
	Data       string `json:"data,omitempty" maxLength:"1048576" doc:"Text of at most 1 MiB." example:"yes\n"`
	DataBase64 string `json:"data_base64,omitempty" maxLength:"1398104" contentEncoding:"base64" doc:"Bytes instead of text."`
	Close      bool   `json:"close,omitempty" doc:"End of file behind the data. A terminal has none; type \\u0004 instead."`
}

// StdinResponse says what became of it.
type StdinResponse struct {
	AcceptedBytes int64 `json:"accepted_bytes" doc:"What the command took. If it is less than was sent, the command did not read within 5 s; send the rest again." example:"4"`
	Closed        bool  `json:"closed" doc:"Its stdin has ended."`
}

type stdinOutput struct{ Body StdinResponse }

func (s *surface) writeStdin(ctx context.Context, in *stdinInput) (*stdinOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	data, err := textOrBase64("data", in.Body.Data, in.Body.DataBase64)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 && !in.Body.Close {
		return nil, errdefs.Invalid("data", "or data_base64 or close is needed")
	}
	taken, err := s.manager.Execs.WriteStdin(ctx, api.Caller(ctx), string(id), in.ExecID, data, in.Body.Close)
	if err != nil {
		return nil, err
	}
	return &stdinOutput{StdinResponse{AcceptedBytes: taken.Bytes, Closed: taken.Closed}}, nil
}

// textOrBase64 returns the bytes that two fields of a request say, of which
// one at most may be used.
func textOrBase64(field, text, inBase64 string) ([]byte, error) {
	if inBase64 == "" {
		return []byte(text), nil
	}
	if text != "" {
		return nil, errdefs.Invalid(field, "and %s_base64 cannot both be given", field)
	}
	data, err := base64.StdEncoding.DecodeString(inBase64)
	if err != nil {
		return nil, errdefs.Invalid(field+"_base64", "must be standard base64 with padding")
	}
	return data, nil
}

type signalInput struct {
	ExecPath
	Body SignalRequest
}

// SignalRequest names a signal.
type SignalRequest struct {
	Signal any `json:"signal" doc:"A name like TERM or SIGTERM, or a number between 1 and 64." example:"\"TERM\""`
}

func (s *surface) signalExec(ctx context.Context, in *signalInput) (*contract.OKOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	number, err := signalNumber(in.Body.Signal)
	if err != nil {
		return nil, err
	}
	if err := s.manager.Execs.Signal(ctx, api.Caller(ctx), string(id), in.ExecID, number); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}

// signals are the names of Linux's signals, by their number less one.
var signals = strings.Fields(`HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT
	CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS`)

const maxSignal = 64

func signalNumber(v any) (int, error) {
	switch v := v.(type) {
	case float64:
		if n := int(v); float64(n) == v && n >= 1 && n <= maxSignal {
			return n, nil
		}
	case string:
		if i := slices.Index(signals, strings.TrimPrefix(strings.ToUpper(v), "SIG")); i >= 0 {
			return i + 1, nil
		}
	}
	return 0, errdefs.Invalid("signal", "must be a name like TERM or a number between 1 and %d", maxSignal)
}

type resizeInput struct {
	ExecPath
	Body SizeRequest
}

// SizeRequest is a terminal's size in characters.
type SizeRequest struct {
	Rows uint16 `json:"rows" minimum:"1" maximum:"4096" example:"24"`
	Cols uint16 `json:"cols" minimum:"1" maximum:"4096" example:"80"`
}

func (s *surface) resizeExec(ctx context.Context, in *resizeInput) (*contract.OKOutput, error) {
	id, err := s.find(ctx, in.SessionPath)
	if err != nil {
		return nil, err
	}
	size := ops.TerminalSize{Rows: in.Body.Rows, Cols: in.Body.Cols}
	if err := s.manager.Execs.Resize(ctx, api.Caller(ctx), string(id), in.ExecID, size); err != nil {
		return nil, err
	}
	return contract.Done(), nil
}
