package sandkasten

import (
	"slices"
	"testing"
)

const (
	eventReady = "event: ready\nid: a-1\ndata: {\"id\":\"a-1\",\"type\":\"ready\",\"time\":\"2026-11-21T09:00:00Z\"}\n\n"
	eventExec  = "event: exec.burst\nid: a-2\ndata: {\"id\":\"a-2\",\"type\":\"exec.burst\",\"time\":\"2026-11-21T09:00:00Z\",\"owner\":\"alice\",\"session_id\":\"s\",\"exec_burst\":{\"started\":3,\"finished\":2}}\n\n"
	eventMark  = "id: a-7\n\n"
	eventAgain = "event: ready\nid: b-1\ndata: {\"id\":\"b-1\",\"type\":\"ready\",\"time\":\"2026-11-21T09:00:00Z\"}\n\n"
	eventLost  = "event: gap\nid: b-1\ndata: {\"id\":\"b-1\",\"type\":\"gap\",\"time\":\"2026-11-21T09:00:00Z\",\"reason\":\"restarted\",\"reload\":[\"session\"]}\n\n"
)

// A stream that breaks is resumed behind its last event or mark, by a daemon that may
// have restarted and then says what is missing.
func TestEventsResume(t *testing.T) {
	c, d := start(t, answer{body: eventReady + eventExec + eventMark}, lost, answer{status: 200, body: eventAgain + eventLost})
	var types []string
	for e, err := range c.Events(t.Context(), EventOptions{Since: "a-0", Types: []string{"session", "exec"}, Session: "s"}) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
		switch e.Type {
		case "exec.burst":
			if e.ID != "a-2" || e.ExecBurst == nil || *e.ExecBurst != (ExecBurst{3, 2}) || e.Owner != "alice" || e.SessionID != "s" {
				t.Errorf("got %+v", e)
			}
		case EventGap:
			if e.Reason != "restarted" || !slices.Equal(e.Reload, []string{"session"}) {
				t.Errorf("got %+v", e)
			}
		}
		if e.Type == EventGap {
			break
		}
	}
	if want := []string{"ready", "exec.burst", "gap"}; !slices.Equal(types, want) {
		t.Errorf("got %q, want %q", types, want)
	}
	var ids []string
	for _, r := range d.seen() {
		ids = append(ids, r.header.Get("Last-Event-Id"))
		if r.target != "/v1/events?session=s&types=session%2Cexec" {
			t.Errorf("asked for %s", r.target)
		}
	}
	if want := []string{"a-0", "a-7", "a-7"}; !slices.Equal(ids, want) {
		t.Errorf("resumed from %q, want %q", ids, want)
	}
}
