package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/cli"
)

// TestNamesOfSessions is what somebody does who does not type ids.
func TestNamesOfSessions(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create("base", "--name", "build", "--label", "task=42", "--memory", "64m", "--ttl", "1d", "--idle-timeout", "90")
	for _, ref := range []string{"build", id[:6], id} {
		if out := tm.want("exec", ref, "echo hi"); out != "hi\n" {
			t.Errorf("exec in %s prints %q", ref, out)
		}
	}
	other := tm.create("base", "--label", "task=7")
	if out := tm.want("ls", "--label", "task=42", "--format", "{{.ID}} {{.Name}} {{.Labels.task}} {{.Labels.none}}{{.TTLSeconds}} {{.Limits.MemoryMB}}"); out != id+" build 42 86400 64\n" {
		t.Errorf("ls prints %q", out)
	}
	if out := tm.want("ls", "-q", "--label", "task"); !strings.Contains(out, id) || !strings.Contains(out, other) {
		t.Errorf("ls of a label prints %q", out)
	}
	if out := tm.want("ls"); !strings.Contains(out, "build") || !strings.Contains(out, "task=42") {
		t.Errorf("ls shows\n%s", out)
	}
	if out := tm.want("__complete", "--", "exec", "bu"); out != "build\n" {
		t.Errorf("completed to %q", out)
	}
	var found struct{ ID, Name string }
	if err := json.Unmarshal([]byte(tm.want("inspect", "build")), &found); err != nil || found.ID != id || found.Name != "build" {
		t.Errorf("inspect tells %+v, %v", found, err)
	}
	if out := tm.want("inspect", "--format", "{{.Status}} {{json .Labels}}", "build", other[:5]); out != "running {\"task\":\"42\"}\nrunning {\"task\":\"7\"}\n" {
		t.Errorf("inspect prints %q", out)
	}
	if r := tm.run("create", "base", "--name", "build"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, id) {
		t.Errorf("the name is given twice: %+v", r)
	}
	if out := tm.want("top", "-n", "1", "-i", "10ms"); !strings.Contains(out, "build") || !strings.Contains(out, "%") {
		t.Errorf("top shows\n%s", out)
	}
	tm.want("cp", "cli_test.go", "build:")
	if out := tm.want("rm", "-f", "build", "never-was"); out != "build\nnever-was\n" {
		t.Errorf("rm -f prints %q", out)
	}
	tm.want("rm", "-f")
	if out := tm.want("ls", "--all"); !strings.Contains(out, "WHY") || !strings.Contains(out, "a client destroyed it") {
		t.Errorf("ls --all does not say why:\n%s", out)
	}
	if r := tm.run("rm", "build"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "`sandkasten ls` lists") || strings.Contains(r.errOut, "/v1/") {
		t.Errorf("rm of what is gone: %+v", r)
	}
}

func TestFormats(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create("base")
	tm.want("exec", id, "echo b > a.txt")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"ps", "-a", "--format", "{{.Kind}} {{.Cmd}}", id}, "shell echo b > a.txt\n"},
		{[]string{"shells", "--format", "{{.Name}}", id}, "default\n"},
		{[]string{"shells", "-q", id}, "default\n"},
		{[]string{"logs", "--format", "{{.Cause}}", id}, "exited\n"},
		{[]string{"stats", "--format", "{{.ID}}", id}, id + "\n"},
		{[]string{"stats", "-q", id}, id + "\n"},
		{[]string{"workspace", "ls", "--format", "{{.ID}}"}, ""},
		{[]string{"fs", "ls", "--format", "{{.Name}}", id}, "a.txt\n"},
		{[]string{"fs", "find", "--format", "{{.Name}}", id, "*.txt"}, "a.txt\n"},
		{[]string{"fs", "grep", "--format", "{{.Line}} {{.Text}}", id, "b"}, "1 b\n"},
		{[]string{"ls", "--format", "a\tb{{\"\\x1b\"}}"}, "a\tb\\x1b\n"},
	} {
		if out := tm.want(test.args...); out != test.want {
			t.Errorf("%q prints %q, not %q", test.args, out, test.want)
		}
	}
	for format, want := range map[string]string{"{{.Nope}}": ".Labels", "{{": "no Go template"} {
		if r := tm.run("ls", "--format", format); r.code == 0 || !strings.Contains(r.errOut, want) {
			t.Errorf("%s: %+v", format, r)
		}
	}
	if r := tm.run("ls", "--format", "{{.ID}}", "--json"); r.code != cli.ExitUsage {
		t.Errorf("two forms: %+v", r)
	}
}

// TestExecOfALineWithFlags holds that one word is a line for a shell, whatever
// flags there are.
func TestExecOfALineWithFlags(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create("base")
	if out := tm.want("exec", "-e", "A=x y", "-w", "/tmp", id, `echo "$A"; pwd`); out != "x y\n/tmp\n" {
		t.Errorf("it prints %q", out)
	}
	if r := tm.run("exec", "-e", "A=1", id, "exit $((A + 2))"); r.code != 3 {
		t.Errorf("%+v", r)
	}
	if out := tm.want("exec", "-e", "A=1", id, "--", "echo", "$A; b"); out != "$A; b\n" {
		t.Errorf("several words: %q", out)
	}
	if r := tm.run("exec", "--argv", id, "echo a; echo b"); r.code != cli.ExitNotRun {
		t.Errorf("--argv: %+v", r)
	}
	if r := tm.run("run", "base"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "-it") {
		t.Errorf("run of nothing: %+v", r)
	}
	if r := tm.run("run", "-it", "base"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "terminal") || tm.want("ls", "-q") != id+"\n" {
		t.Errorf("run -it without a terminal: %+v", r)
	}
}

// TestPsShowsJobs holds that what a shell has in the background can be seen.
func TestPsShowsJobs(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create("base")
	tm.want("exec", id, "sleep 600 &")
	job := func() string {
		return tm.want("ps", "--format", "{{.Kind}} {{.Shell}} {{.Cmd}} {{.Usage.Processes}}", id)
	}
	out := job()
	for deadline := time.Now().Add(10 * time.Second); out == "job default bash 1\n" && time.Now().Before(deadline); out = job() {
		time.Sleep(10 * time.Millisecond) // the shell has forked, and what it forked is still the shell
	}
	if out != "job default sleep 1\n" {
		t.Errorf("ps prints %q", out)
	}
	if out := tm.want("ps", id); !strings.Contains(out, "job default") {
		t.Errorf("ps shows\n%s", out)
	}
	tm.want("exec", id, "kill %1")
	for tm.want("ps", "-q", id) != "" {
		continue // it ends a moment later
	}
}
