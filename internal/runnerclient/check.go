package runnerclient

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// Lengths of what a runner may have shown to people.
const (
	maxText = 512 // a message
	maxName = 64  // an id, a shell
)

// checkRecord refuses numbers that cannot be and cuts strings to size.
func checkRecord(r *protocol.Record) error {
	switch {
	case r.ExitCode < 0 || r.ExitCode > 255:
		return fmt.Errorf("%w: exit code %d", ErrProtocol, r.ExitCode)
	case r.Signal < 0 || r.Signal > 64:
		return fmt.Errorf("%w: signal %d", ErrProtocol, r.Signal)
	case r.OutputBytes < 0 || r.DroppedBytes < 0 || r.DroppedBytes > r.OutputBytes:
		return fmt.Errorf("%w: %d of %d bytes dropped", ErrProtocol, r.DroppedBytes, r.OutputBytes)
	case r.DurationUS < 0 || r.StartedUnixMS < 0:
		return fmt.Errorf("%w: started at %d for %d", ErrProtocol, r.StartedUnixMS, r.DurationUS)
	case !validEnd(r.State, r.Cause):
		return fmt.Errorf("%w: state %q with cause %q", ErrProtocol, clip(string(r.State), maxName), clip(string(r.Cause), maxName))
	}
	r.ID = clip(r.ID, maxName)
	r.Shell = clip(r.Shell, maxName)
	r.Command = clip(r.Command, maxText)
	r.Cwd = clip(r.Cwd, protocol.MaxPath)
	return nil
}

// validEnd reports whether an exec in this state has this cause. A runner
// cannot say that its own sandbox is gone.
func validEnd(s protocol.State, c protocol.Cause) bool {
	switch s {
	case protocol.StateQueued, protocol.StateRunning:
		return c == ""
	case protocol.StateEnded:
		switch c {
		case protocol.CauseExited, protocol.CauseSignaled, protocol.CauseTimeout,
			protocol.CauseOOMKilled, protocol.CauseShellExited, protocol.CauseCanceled:
			return true
		}
	}
	return false
}

func checkFile(f *protocol.FileInfo) error {
	switch f.Type {
	case "file", "dir", "symlink", "other":
	default:
		return fmt.Errorf("%w: file type %q", ErrProtocol, clip(f.Type, maxName))
	}
	if f.Size < 0 {
		return fmt.Errorf("%w: file of %d bytes", ErrProtocol, f.Size)
	}
	f.Mode &= 0o7777
	f.Target = clip(f.Target, protocol.MaxPath)
	return nil
}

// refusable holds the codes that a runner may refuse an operation with. The
// others are the daemon's own to use.
var refusable = map[errdefs.Code]bool{
	errdefs.InvalidArgument:   true,
	errdefs.PermissionDenied:  true,
	errdefs.NotFound:          true,
	errdefs.AlreadyExists:     true,
	errdefs.Conflict:          true,
	errdefs.TooLarge:          true,
	errdefs.Unprocessable:     true,
	errdefs.ResourceExhausted: true,
	errdefs.Unimplemented:     true,
	errdefs.Unavailable:       true,
	errdefs.InsufficientSpace: true,
}

// decodeError turns a refusal into the error that the client of the API gets.
// err is of the frame itself.
func decodeError(h protocol.Header) (refusal *errdefs.Error, err error) {
	var e protocol.Error
	if err := h.Decode(&e); err != nil {
		return nil, err
	}
	message := clip(printable(e.Message), maxText)
	code := errdefs.Code(e.Code)
	if !refusable[code] {
		cause := fmt.Errorf("the runner reports %q: %s", clip(printable(e.Code), maxName), message)
		return errdefs.Wrap(cause, errdefs.Internal, "the sandbox could not do it"), nil
	}
	return errdefs.New(code, "%s", message), nil
}

// clip cuts s to at most n bytes, at the start of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// printable replaces what would move a terminal's cursor or break a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
