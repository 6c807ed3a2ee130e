package daemon

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// A writer that takes nothing holds up nobody who logs; when it takes lines
// again it is told how many are missing.
func TestLogWriterDoesNotWait(t *testing.T) {
	reader, w := io.Pipe()
	l := NewLogWriter(w)
	const lines = 2 * logQueue
	began := time.Now()
	for i := range lines {
		if _, err := fmt.Fprintf(l, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%d lines took %s", lines, took)
	}
	text := make(chan string, 1)
	go func() {
		all, err := io.ReadAll(reader)
		if err != nil {
			t.Error(err)
		}
		text <- string(all)
	}()
	for end := time.Now().Add(10 * time.Second); len(l.lines) > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	fmt.Fprintln(l, "after all")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.Close()
	got := strings.Split(strings.TrimSpace(<-text), "\n")
	if got[0] != "line 0" || !strings.HasPrefix(got[len(got)-1], "after all") || !strings.Contains(got[len(got)-2], "missing") {
		t.Errorf("%d lines, from %q to %q", len(got), got[0], got[max(0, len(got)-2):])
	}
}

// A writer that never takes anything does not keep the daemon from ending.
func TestLogWriterGivesUp(t *testing.T) {
	reader, w := io.Pipe()
	l := NewLogWriter(w)
	fmt.Fprintln(l, "never read")
	if err := l.Close(); err == nil {
		t.Error("it says that all is written")
	}
	reader.Close()
	<-l.done
	if err := l.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}
