package main

import (
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// status is what ls says of one session.
func (tm *console) status(id string) string {
	tm.t.Helper()
	for line := range strings.Lines(tm.want("ls")) {
		if fields := strings.Fields(line); fields[0] == id {
			return fields[2]
		}
	}
	return "not listed"
}

func TestLifecycleCommands(t *testing.T) {
	tm := startDaemon(t)
	id, other := tm.create(), tm.create()
	tm.want("exec", id, "echo kept > file; x=1")
	for _, step := range []struct {
		args   []string
		status string
	}{
		{[]string{"pause", id, other}, "paused"},
		{[]string{"keep", id}, "paused"},
		{[]string{"resume", id}, "running"},
		{[]string{"pause", id}, "paused"},
		{[]string{"exec", id, "test $x = 1"}, "running"},
		{[]string{"stop", id, other}, "stopped"},
		{[]string{"stats"}, "stopped"},
		{[]string{"start", id}, "running"},
		{[]string{"exec", id, "test -z \"$x\" && grep kept file"}, "running"},
		{[]string{"rm", id}, "not listed"},
	} {
		tm.want(step.args...)
		if got := tm.status(id); got != step.status {
			t.Errorf("%q: it is %s, want %s", step.args, got, step.status)
		}
	}
	if r := tm.run("start", id, other); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "destroyed") {
		t.Errorf("start of one that has ended: %+v", r)
	}
	if got := tm.status(other); got != "running" {
		t.Errorf("the one behind it is %s", got)
	}
}

func TestPolicyFlags(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create("--ttl", "2h", "--on-idle", "pause", "--no-auto-resume", "--label", "a=b")
	if out := tm.want("ls"); !strings.Contains(out, "pause after 5m") {
		t.Errorf("ls does not say what will happen:\n%s", out)
	}
	tm.want("pause", id)
	if r := tm.run("exec", id, "true"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "resume it first") {
		t.Errorf("exec = %+v", r)
	}
	out := tm.want("set", id, "--auto-resume", "--on-idle", "stop", "--idle-timeout", "1h", "--lifetime", "3h", "--json")
	for _, want := range []string{`"on_idle": "stop"`, `"idle_timeout_seconds": 3600`, `"lifetime_seconds": 10800`, `"ttl_seconds": 7200`, `"auto_resume": true`, `"a": "b"`} {
		if !strings.Contains(out, want) {
			t.Errorf("set printed no %s: %s", want, out)
		}
	}
	tm.want("exec", id, "true")
	if r := tm.run("set", id, "--on-idle", "sleep"); r.code != cli.ExitUsage {
		t.Errorf("set = %+v", r)
	}
}

func TestWhenIdle(t *testing.T) {
	for _, test := range []struct {
		session sandkasten.SessionInfo
		want    string
	}{
		{sandkasten.SessionInfo{OnIdle: "destroy", TTLSeconds: 1800}, "destroy after 30m"},
		{sandkasten.SessionInfo{OnIdle: "stop", TTLSeconds: 1800, IdleTimeoutSeconds: 90}, "stop after 1m"},
	} {
		if got := whenIdle(test.session); got != test.want {
			t.Errorf("%+v: %q, want %q", test.session, got, test.want)
		}
	}
}

func TestForkCommand(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	tm.want("exec", id, "echo kept > file")
	forks := strings.Fields(tm.want("fork", id, "--count", "2", "--label", "try=b"))
	if len(forks) != 2 {
		t.Fatalf("forks %q", forks)
	}
	for _, fork := range forks {
		if got := tm.want("exec", fork, "cat file; echo changed > file"); got != "kept\n" {
			t.Errorf("in a fork: %q", got)
		}
	}
	if got := tm.want("exec", id, "cat file"); got != "kept\n" {
		t.Errorf("in the session: %q", got)
	}
	if out := tm.want("fork", id, "--json"); !strings.Contains(out, `"forked_from": "`+id+`"`) {
		t.Errorf("fork printed %s", out)
	}
}
