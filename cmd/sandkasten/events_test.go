package main

import (
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
)

// ofEvents is a stream that the daemon refuses when it is asked again.
const ofEvents = "event: ready\nid: a-1\ndata: {\"id\":\"a-1\",\"type\":\"ready\",\"time\":\"2026-11-21T09:00:00Z\"}\n\n" +
	"event: session.state\nid: a-2\ndata: {\"id\":\"a-2\",\"type\":\"session.state\",\"time\":\"2026-11-21T09:00:00Z\",\"session_id\":\"s1\",\"before\":\"running\",\"session\":{\"id\":\"s1\",\"status\":\"paused\",\"end_reason\":\"idle \\u001b[31m\"}}\n\n" +
	"event: exec.finished\nid: a-3\ndata: {\"id\":\"a-3\",\"type\":\"exec.finished\",\"time\":\"2026-11-21T09:00:00Z\",\"session_id\":\"s1\",\"exec\":{\"exec_id\":\"e1\",\"exit_code\":3,\"cause\":\"exited\",\"duration_ms\":20,\"cmd\":\"make\"}}\n\n" +
	"event: gap\nid: a-4\ndata: {\"id\":\"a-4\",\"type\":\"gap\",\"time\":\"2026-11-21T09:00:00Z\",\"reason\":\"slow\",\"reload\":[\"session\",\"exec\"]}\n\n" +
	"event: later\ndata: {\n\n" // which no daemon sends: the stream ends with an error

func TestEvents(t *testing.T) {
	tm, d := startNetworkDaemon(t, map[string]string{"GET /v1/events": ofEvents})
	r := tm.run("events", "-f", "--types", "session,exec")
	for _, want := range []string{"session.state", "s1", "running -> paused  idle \\x1b[31m", "e1  exited 3  20ms  make", "slow: list again session, exec"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("it does not say %q:\n%s", want, r.out)
		}
	}
	if r.code == 0 || strings.Contains(r.out, "ready") || len(d.asked) != 1 {
		t.Errorf("code %d after %q:\n%s", r.code, d.asked, r.out)
	}
	if r := tm.run("events", "--json"); strings.Count(r.out, `"type"`) != 4 || !strings.Contains(r.out, `"a-3"`) {
		t.Errorf("as JSON it says\n%s", r.out)
	}
	if r := tm.run("events", "--types", "x"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "--types: must be one of") {
		t.Errorf("%+v", r)
	}
}

func TestCompletionOfFlagValues(t *testing.T) {
	tm, _ := startNetworkDaemon(t, map[string]string{"GET /v1/sessions": `[{"id":"s1","name":"work","status":"running"}]`})
	for line, want := range map[string]string{
		"events --types se": "session", "events --types session,ex": "session,exec", "events --session w": "work", "create --network al": "allow",
	} {
		if r := tm.run(append([]string{"__complete", "--"}, strings.Fields(line)...)...); strings.TrimSpace(r.out) != want {
			t.Errorf("%s: %q, want %q", line, r.out, want)
		}
	}
}
