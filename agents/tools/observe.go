package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
)

// CallInfo is what is known of a call at its beginning. The tool is one of the table,
// or "unknown".
type CallInfo struct {
	Tool  string
	Scope Scope
}

// Outcome is how a call ended. It has no content: ids, codes and sizes only.
type Outcome struct {
	SandboxID string
	ExecID    string
	Cause     string // of the end of a command, unless it exited by itself
	Code      string // of the error; empty is none
	Bytes     int    // of the answer, pictures in base64 included, as a model is given it
}

// Observer is told of each call, for spans and counts. The call goes on with the
// context that it returns, and ended is called once, at the end. It is called
// concurrently.
type Observer func(ctx context.Context, call CallInfo) (_ context.Context, ended func(Outcome))

// unknownTool stands for all names that no tool has: models make up many.
const unknownTool = "unknown"

// outcome reads how a call ended from its answer.
func outcome(result Result, args map[string]any) Outcome {
	var said struct {
		SandboxID string `json:"sandbox_id"`
		ExecID    string `json:"exec_id"`
		Cause     string `json:"cause"`
		Code      string `json:"code"`
	}
	// All answers are objects of ours, and a field of another kind is not one of these.
	_ = json.Unmarshal(result.JSON, &said)
	o := Outcome{SandboxID: said.SandboxID, ExecID: said.ExecID, Cause: said.Cause, Bytes: len(result.JSON)}
	for _, image := range result.Images {
		o.Bytes += base64.StdEncoding.EncodedLen(len(image.Data))
	}
	if result.IsError {
		o.Code = said.Code
	}
	if id, ok := args["sandbox_id"].(string); ok && o.SandboxID == "" && o.Code == "" {
		o.SandboxID = id
	}
	return o
}
