package main

import (
	"regexp"
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
	out := tm.want("set", id, "--auto-resume", "--on-idle", "stop", "--on-expiry", "destroy", "--idle-timeout", "1h", "--lifetime", "3h", "--json")
	for _, want := range []string{`"on_idle": "stop"`, `"on_expiry": "destroy"`, `"idle_timeout_seconds": 3600`, `"lifetime_seconds": 10800`, `"ttl_seconds": 7200`, `"auto_resume": true`, `"a": "b"`} {
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
		{sandkasten.SessionInfo{OnIdle: "destroy", TTLSeconds: 1800}, "destroy after 30m"}, // of an older daemon
		{sandkasten.SessionInfo{OnIdle: "destroy", OnExpiry: "stop", TTLSeconds: 1800}, "stop after 30m"},
		{sandkasten.SessionInfo{OnIdle: "destroy", OnExpiry: "stop", TTLSeconds: 1800, IdleTimeoutSeconds: 60}, "destroy after 1m"},
		{sandkasten.SessionInfo{OnIdle: "stop", TTLSeconds: 1800, IdleTimeoutSeconds: 90}, "stop after 1m"},
	} {
		if got := whenIdle(test.session); got != test.want {
			t.Errorf("%+v: %q, want %q", test.session, got, test.want)
		}
	}
}

// What somebody makes by hand is stopped at the end of its time, and create says when, and
// how to go on. What run makes is for its command.
func TestCreateSaysWhenASessionEndsAndHow(t *testing.T) {
	tm := startDaemon(t)
	for _, c := range []struct {
		flags []string
		want  string // ON EXPIRY
		says  string
	}{
		{nil, "stop", `^Without use it is stopped at 20\S+ \S+, and its files are kept until 20\S+ \S+; .sandkasten start [a-z2-7]{26}. goes on with them\.\n$`},
		{[]string{"--name", "build"}, "stop", "sandkasten start build"},
		{[]string{"--on-expiry", "destroy"}, "destroy", `^Without use it is destroyed with its files at 20\S+ \S+; .sandkasten set [a-z2-7]{26} --ttl 8h. gives it longer\.\n$`},
		{[]string{"--idle-timeout", "10m"}, "destroy", "destroyed with its files"},
		{[]string{"--lifetime", "20m"}, "destroy", "destroyed with its files"},
	} {
		r := tm.run(append([]string{"create", "base"}, c.flags...)...)
		if r.code != 0 || !regexp.MustCompile(c.says).MatchString(r.errOut) {
			t.Errorf("create %v = %+v", c.flags, r)
		}
		id := strings.TrimSpace(r.out)
		if line := lineOf(tm.want("ls"), id); !regexp.MustCompile(` ` + c.want + ` +/workspace`).MatchString(line) {
			t.Errorf("create %v is listed as %q", c.flags, line)
		}
		tm.want("rm", id)
	}
	r := tm.run("run", "--keep", "--name", "kept", "base", "true")
	if r.code != 0 || !strings.Contains(lineOf(tm.want("ls"), "kept"), " destroy ") {
		t.Errorf("run = %+v", r)
	}
}

// lineOf is the line that a text is in.
func lineOf(out, text string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// The name of a session that has ended says what became of it.
func TestExecSaysWhatBecameOfAName(t *testing.T) {
	tm := startDaemon(t)
	tm.create("--name", "build")
	tm.want("stop", "build")
	if r := tm.run("exec", "build", "true"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "a client stopped it") {
		t.Errorf("exec in one that is stopped = %+v", r)
	}
	if r := tm.run("create", "base", "--name", "build"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "sandkasten rm build") {
		t.Errorf("create of its name = %+v", r)
	}
	tm.want("rm", "build")
	if r := tm.run("exec", "build", "true"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "was destroyed at") {
		t.Errorf("exec in one that has ended = %+v", r)
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
