package far

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// op names what a connection is for. Each has a request, and then an answer. Behind the
// answer of opDial it is the runner's.
type op string

const (
	opCheck            op = "check"
	opCreate           op = "create"
	opOpen             op = "open"
	opList             op = "list"
	opDestroy          op = "destroy"
	opStop             op = "stop"
	opStart            op = "start"
	opStartQuiet       op = "start quiet"
	opFork             op = "fork"
	opResolve          op = "resolve"
	opCreateWorkspace  op = "create workspace"
	opDestroyWorkspace op = "destroy workspace"
	opWorkspaces       op = "workspaces"
	opWorkspaceBytes   op = "workspace bytes"
	opDial             op = "dial"
	opStats            op = "stats"
	opPause            op = "pause"
	opResume           op = "resume"
	opPaused           op = "paused"
)

type request struct {
	Op        op
	ID        runtime.ID
	Spec      runtime.Spec
	Branches  []runtime.Branch
	Workspace runtime.WorkspaceID
	SizeMB    int64
	Image     string
}

type answer struct {
	Failure    *failure
	Sandboxes  []runtime.ID
	Copied     bool
	List       []runtime.Status
	Workspaces []runtime.WorkspaceID
	Bytes      int64
	Paused     bool
	Stats      runtime.Stats
	Image      string
}

// failure is an error on the wire.
type failure struct {
	Code           errdefs.Code // "" is an error without one
	Message, Field string
}

func failureOf(err error) *failure {
	if e, ok := errors.AsType[*errdefs.Error](err); ok {
		return &failure{e.Code, e.Message, e.Field}
	}
	return &failure{Message: err.Error()}
}

func (f *failure) err() error {
	switch {
	case f == nil:
		return nil
	case f.Code == "":
		return fmt.Errorf("at the far end: %s", f.Message)
	}
	return &errdefs.Error{Code: f.Code, Message: f.Message, Field: f.Field}
}

// maxLine bounds a request and an answer.
const maxLine = 1 << 20

// readLine reads one line of JSON, and nothing behind it.
func readLine(conn net.Conn, v any) error {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := conn.Read(one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line, v)
		}
		if line = append(line, one[0]); len(line) > maxLine {
			return errors.New("the line is too long")
		}
	}
}

func writeLine(conn net.Conn, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(text, '\n'))
	return err
}
