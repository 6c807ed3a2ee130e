package tools

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// ended is what the answers about a command that has ended have in common.
type ended struct {
	Cause         string                     `json:"cause,omitempty"` // unless it exited by itself
	TimedOut      bool                       `json:"timed_out,omitempty"`
	DiskFull      bool                       `json:"disk_full,omitempty"`
	NetworkDenied []sandkasten.NetworkDenial `json:"network_denied,omitempty"`
	DurationMS    int64                      `json:"duration_ms,omitempty"`
	Hint          string                     `json:"hint,omitempty"`
}

func newEnded(end sandkasten.ExecEnd) ended {
	e := ended{TimedOut: end.TimedOut, DiskFull: end.DiskFull, NetworkDenied: end.NetworkDenied, DurationMS: end.DurationMS}
	if end.Cause != "exited" {
		e.Cause = end.Cause
	}
	switch {
	case end.TimedOut:
		e.Hint = "It was ended at its timeout. Send a longer timeout_seconds, or stream true for a program that goes on."
	case end.Cause == "oom_killed":
		e.Hint = "It needed more memory than the sandbox has. Work on less at once; limits are those of the opening, so a larger limits.memory_mb needs another session_key."
	case end.Cause == "sandbox_gone":
		e.Hint = "The sandbox ended meanwhile. Call sandbox_open and use the sandbox_id that it returns."
	case end.DiskFull:
		e.Hint = "The sandbox's disk is full. Delete files that are not needed."
	case len(end.NetworkDenied) > 0:
		e.Hint = networkHint(end.NetworkDenied)
	}
	return e
}

// networkHint says what opens what the network refused, which is the user's to decide.
func networkHint(denied []sandkasten.NetworkDenial) string {
	var entries []string
	for _, d := range denied {
		if d.Entry != "" && !slices.Contains(entries, d.Entry) {
			entries = append(entries, d.Entry)
		}
	}
	const refused = "The sandbox's network does not allow these hosts. Use what is installed"
	if len(entries) == 0 {
		return refused + ": why says what refuses them, and no entry of the network's allow list would open them."
	}
	return refused + ", or ask the user to add to the network's allow list: " + strings.Join(entries, ", ") + "."
}

// unreached is in what programs print that look for a host and find no network: they are
// told as much as a program without a name server is.
var unreached = regexp.MustCompile(`(?i)could(n't| not) resolve|name resolution|name or service not known|no address associated|network is unreachable|network unreachable|getaddrinfo|ENOTFOUND|EAI_AGAIN|no such host`)

// missingNetwork is the hint where a command has failed that looked for a host in a sandbox
// without a network, or nothing. The daemon cannot tell: such a sandbox asks nobody.
func missingNetwork(ctx context.Context, session *sandkasten.Session, exitCode int, output string) string {
	if exitCode == 0 || !unreached.MatchString(output) {
		return ""
	}
	info, err := session.Refresh(ctx)
	if err != nil || info.NetworkMode != "none" {
		return ""
	}
	return "The sandbox has no network, so no host is reached from it. Use what is installed, ask the user to allow hosts (sandkasten network allow " + info.ID + " HOST), or open another sandbox: sandbox_open with another session_key and network internet, if that is allowed."
}

// readOn says how to read what an answer has no room for. Of long output the daemon
// keeps only the beginning and the end.
func readOn(end sandkasten.ExecEnd) string {
	const read = "sandbox_exec_read with this exec_id and since_seq 0 reads "
	if end.DroppedBytes == 0 {
		return read + "all"
	}
	return fmt.Sprintf("%sits beginning and end; %d more bytes of output are lost: run it again with its output to a file", read, end.DroppedBytes)
}

// oddBytes is the hint where an output has bytes that are no text.
const oddBytes = "U+FFFD stands for bytes that are no text. sandbox_exec_read with this exec_id and bytes true has them."
