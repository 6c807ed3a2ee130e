package runner

import (
	"bytes"
	"errors"

	"github.com/sandkasten/sandkasten/protocol"
)

// Warm takes an exec through the wire once, from nobody to nobody: what the
// first of a process costs over any later one, pages of the program and types
// that the JSON package gets to know, is then paid before somebody waits.
func Warm() error {
	var wire bytes.Buffer
	daemon, runner := protocol.NewWriter(&wire), protocol.NewWriter(&wire)
	command := []byte("true")
	err := errors.Join(
		daemon.Send(protocol.TypeExec, protocol.Exec{ID: "warm", CommandBytes: int64(len(command))}, command),
		daemon.Flush(),
	)
	in := protocol.NewReader(&wire, protocol.Daemon)
	h, nextErr := in.Next()
	var req protocol.Exec
	err = errors.Join(err, nextErr, h.Decode(&req), in.Discard())
	settleErr := daemon.Send(protocol.TypeSettle, protocol.Settle{}, nil)
	h, nextErr = in.Next()
	var settle protocol.Settle
	err = errors.Join(err, settleErr, nextErr, h.Decode(&settle))
	return errors.Join(err,
		runner.Put(protocol.TypeOutput, protocol.Output{}, command),
		runner.Send(protocol.TypeDone, protocol.Record{ID: req.ID}, nil),
		runner.Flush(),
	)
}
