package runnerclient

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/protocol"
)

// Lengths of what a runner may have shown to people.
const (
	maxText = 512 // a message
	maxName = 64  // an id, a shell
)

// maxBelow is how long a path below a directory can be: bytes that are not
// UTF-8 come as four.
const maxBelow = 4 * protocol.MaxPath

// The first and the last time that can be shown in JSON: the years 0 and 9999.
const (
	minTimeMS = -62_167_219_200_000
	maxTimeMS = 253_402_300_799_999
)

// checkRecord refuses numbers that cannot be and cuts strings to size.
func checkRecord(r *protocol.Record) error {
	switch {
	case protection.Off(protection.RunnerRecords):
	case r.ExitCode < 0 || r.ExitCode > 255:
		return fmt.Errorf("%w: exit code %d", ErrProtocol, r.ExitCode)
	case r.Signal < 0 || r.Signal > 64:
		return fmt.Errorf("%w: signal %d", ErrProtocol, r.Signal)
	case r.OutputBytes < 0 || r.DroppedBytes < 0 || r.DroppedBytes > r.OutputBytes:
		return fmt.Errorf("%w: %d of %d bytes dropped", ErrProtocol, r.DroppedBytes, r.OutputBytes)
	case r.DurationUS < 0 || r.StartedUnixMS < 0 || r.StartedUnixMS > maxTimeMS:
		return fmt.Errorf("%w: started at %d for %d", ErrProtocol, r.StartedUnixMS, r.DurationUS)
	case r.PID < 0 || r.Kind != protocol.KindShell && r.Kind != protocol.KindProcess:
		return fmt.Errorf("%w: process %d of kind %q", ErrProtocol, r.PID, clip(string(r.Kind), maxName))
	case r.Usage != nil && (r.Usage.CPUUS < 0 || r.Usage.MemoryBytes < 0 || r.Usage.Processes < 0):
		return fmt.Errorf("%w: usage %+v", ErrProtocol, *r.Usage)
	case !validEnd(r.State, r.Cause):
		return fmt.Errorf("%w: state %q with cause %q", ErrProtocol, clip(string(r.State), maxName), clip(string(r.Cause), maxName))
	}
	r.ID = clip(r.ID, maxName)
	r.Shell = clip(r.Shell, maxName)
	r.Command = clip(r.Command, maxText)
	r.Cwd = clip(r.Cwd, protocol.MaxPath)
	r.OutputFile = clip(r.OutputFile, protocol.MaxPath)
	r.OutputFileError = clip(printable(r.OutputFileError), maxText)
	return nil
}

// checkShell does for a shell what checkRecord does for an exec.
func checkShell(s *protocol.ShellInfo) error {
	if s.PID < 0 || s.Queued < 0 || s.Restarts < 0 || s.CreatedMS < 0 || s.CreatedMS > maxTimeMS {
		return fmt.Errorf("%w: shell %+v", ErrProtocol, *s)
	}
	s.Name = clip(s.Name, maxName)
	s.Exec = clip(s.Exec, maxName)
	s.Cwd = clip(s.Cwd, protocol.MaxPath)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.PID < 0 || j.Usage.CPUUS < 0 || j.Usage.MemoryBytes < 0 || j.Usage.Processes < 0 {
			return fmt.Errorf("%w: job %+v", ErrProtocol, *j)
		}
		j.Name = clip(printable(j.Name), maxName)
	}
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
	case "file", "dir", "symlink", "fifo", "socket", "device":
	default:
		return fmt.Errorf("%w: file type %q", ErrProtocol, clip(f.Type, maxName))
	}
	if f.Size < 0 {
		return fmt.Errorf("%w: file of %d bytes", ErrProtocol, f.Size)
	}
	f.Mode &= 0o7777
	f.ModTimeMS = max(minTimeMS, min(f.ModTimeMS, maxTimeMS))
	f.Target = clip(f.Target, protocol.MaxPath)
	if f.Tag != "" && !entityTag.MatchString(f.Tag) {
		return fmt.Errorf("%w: tag %q", ErrProtocol, clip(f.Tag, maxName))
	}
	return nil
}

// entityTag is a tag as a runner makes it, which becomes a header.
var entityTag = regexp.MustCompile(`^(W/)?"[0-9a-f-]{1,80}"$`)

// checkBelow refuses what is not a path below the directory that was asked
// about, in its shortest form.
func checkBelow(rel string) error {
	if rel == "" || len(rel) > maxBelow || strings.IndexByte(rel, 0) >= 0 {
		return fmt.Errorf("%w: an entry that is no path", ErrProtocol)
	}
	for part := range strings.SplitSeq(rel, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%w: an entry that leads elsewhere", ErrProtocol)
		}
	}
	return nil
}

// checkEntries refuses more than limit entries, and what cannot be in a
// directory, or only below it.
func checkEntries(e *protocol.Entries, limit int, deep bool) error {
	if len(e.Entries) > limit {
		return fmt.Errorf("%w: more entries than asked for", ErrProtocol)
	}
	if len(e.Next) > protocol.MaxPath {
		return fmt.Errorf("%w: a place to go on that is no path", ErrProtocol)
	}
	for i := range e.Entries {
		if err := checkFile(&e.Entries[i]); err != nil {
			return err
		}
		if err := checkBelow(e.Entries[i].Name); err != nil {
			return err
		}
		if !deep && strings.Contains(e.Entries[i].Name, "/") {
			return fmt.Errorf("%w: an entry that is no name", ErrProtocol)
		}
	}
	return nil
}

// checkMatches refuses more than limit matches, and numbers that cannot be.
func checkMatches(m *protocol.Matches, limit protocol.Grep) error {
	if len(m.Matches) > limit.Max || m.Files < 0 {
		return fmt.Errorf("%w: %d matches in %d files", ErrProtocol, len(m.Matches), m.Files)
	}
	for _, line := range m.Matches {
		if line.Line < 1 || line.Column < 1 || len(line.Before) > limit.Before || len(line.After) > limit.After {
			return fmt.Errorf("%w: a match that cannot be", ErrProtocol)
		}
		if line.Path != "" {
			if err := checkBelow(line.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkChange refuses what no directory can tell.
func checkChange(c *protocol.Change) error {
	switch c.Op {
	case "ready", "overflow":
		*c = protocol.Change{Op: c.Op}
		return nil
	case "create", "write", "remove", "rename", "chmod":
	default:
		return fmt.Errorf("%w: change %q", ErrProtocol, clip(c.Op, maxName))
	}
	switch c.Type {
	case "", "file", "dir", "symlink", "fifo", "socket", "device":
	default:
		return fmt.Errorf("%w: file type %q", ErrProtocol, clip(c.Type, maxName))
	}
	if c.Path == "." && c.Op != "rename" { // the directory itself
		return nil
	}
	if (c.Op == "rename") != (c.From != "") {
		return fmt.Errorf("%w: a change from %q with %s", ErrProtocol, clip(c.From, maxName), c.Op)
	}
	if c.From != "" {
		if err := checkBelow(c.From); err != nil {
			return err
		}
	}
	return checkBelow(c.Path)
}

// refusable holds the codes that a runner may refuse an operation with. The
// others are the daemon's own to use.
var refusable = map[errdefs.Code]bool{
	errdefs.InvalidArgument:    true,
	errdefs.PermissionDenied:   true,
	errdefs.NotFound:           true,
	errdefs.AlreadyExists:      true,
	errdefs.Conflict:           true,
	errdefs.PreconditionFailed: true,
	errdefs.TooLarge:           true,
	errdefs.Unprocessable:      true,
	errdefs.ResourceExhausted:  true,
	errdefs.Unimplemented:      true,
	errdefs.Unavailable:        true,
	errdefs.InsufficientSpace:  true,
}

// refusableField holds the fields that a runner may find at fault.
var refusableField = map[string]bool{"cmd": true, "cwd": true, "user": true}

// refusableReason holds the reasons that a runner may give: those of what is in the sandbox.
var refusableReason = map[errdefs.Reason]bool{
	errdefs.NoSuchFile:       true,
	errdefs.FileExists:       true,
	errdefs.FileChanged:      true,
	errdefs.IsADirectory:     true,
	errdefs.NotADirectory:    true,
	errdefs.DirNotEmpty:      true,
	errdefs.NotRegular:       true,
	errdefs.NoPermission:     true,
	errdefs.ReadOnlyFS:       true,
	errdefs.OutsideWorkspace: true,
	errdefs.ProgramNotFound:  true,
	errdefs.NotExecutable:    true,
	errdefs.NoSuchUser:       true,
	errdefs.TextNotFound:     true,
	errdefs.TextNotUnique:    true,
	errdefs.NoSuchExec:       true,
	errdefs.NoSuchShell:      true,
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
	refusal = errdefs.New(code, "%s", message)
	if refusableField[e.Field] {
		refusal.Field = e.Field
	}
	if reason := errdefs.Reason(e.Reason); refusableReason[reason] {
		refusal.Reason = reason
	}
	return refusal, nil
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
