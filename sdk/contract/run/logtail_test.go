package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestLogTailShowsWholeLines: the log's end says why a case failed, and its size is bounded.
func TestLogTailShowsWholeLines(t *testing.T) {
	t.Parallel()
	const head = "run: the end of the daemon's log:\n"
	shown := func(l *logTail) string {
		var out strings.Builder
		l.show(&out)
		return strings.TrimPrefix(out.String(), head)
	}
	var log logTail
	if got := shown(&log); got != "(empty)\n" {
		t.Errorf("an empty log is shown as %q", got)
	}
	fmt.Fprintln(&log, "first")
	if got := shown(&log); got != "first\n" {
		t.Errorf("a short log is shown as %q", got)
	}
	for i := range 4000 {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	got := shown(&log)
	if len(got) > logBytes || !strings.HasPrefix(got, "line ") || !strings.HasSuffix(got, "\nline 3999\n") {
		t.Errorf("a long log is shown in %d bytes, from %.20q to %q", len(got), got, got[max(0, len(got)-20):])
	}
}
