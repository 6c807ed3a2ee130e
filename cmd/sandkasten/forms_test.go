package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

// What a subcommand prints for people it prints for programs too.
func TestFormsForPrograms(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	var looks []struct {
		ID         string   `json:"id"`
		CPUPercent *float64 `json:"cpu_percent"`
	}
	tm.decode(&looks, "top", "--json", "-n", "1", "-i", "10ms")
	if len(looks) != 1 || looks[0].ID != id || looks[0].CPUPercent == nil {
		t.Errorf("top: %+v", looks)
	}
	if out := tm.want("top", "--format", "{{.ID}}", "-n", "2", "-i", "10ms"); out != id+"\n"+id+"\n" {
		t.Errorf("top: %q", out)
	}

	if out := tm.want("exec", "--format", "{{.Cause}} {{.Output}}", id, "printf hi"); out != "exited hi\n" {
		t.Errorf("exec: %q", out)
	}
	exec := strings.TrimSpace(tm.want("exec", "-d", "--format", "{{.ExecID}}", id, "--", "sh", "-c", "echo out; exit 6"))
	var ended sandkasten.ExecDetail
	if r := tm.run("wait", id, exec, "--format", "{{.Cause}}"); r.code != 6 || r.out != "exited\n" {
		t.Errorf("wait: %+v", r)
	}
	tm.decodeAs(6, &ended, "wait", "--json", id, exec)
	if ended.Cause != "exited" || ended.Output != "out\n" {
		t.Errorf("wait: %+v", ended)
	}

	var result sandkasten.ExecResult
	tm.decodeAs(3, &result, "run", "--json", "base", "echo out; (exit 3)")
	if result.Output != "out\n" || result.ExitCode != 3 {
		t.Errorf("run: %+v", result)
	}
	if r := tm.run("run", "-t", "--json", "base"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "--json") {
		t.Errorf("run on a terminal: %+v", r)
	}
}

func TestCpSaysWhereTheCopyIs(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := tm.want("cp", "--format", "{{.To}} {{.Skipped}}", file, id+":"); out != "/workspace/a.txt 0\n" {
		t.Errorf("in: %q", out)
	}
	var got struct{ From, To string }
	tm.decode(&got, "cp", "--json", id+":a.txt", dir+"/")
	if got.From != id+":a.txt" || got.To != file {
		t.Errorf("out: %+v", got)
	}
	if r := tm.run("cp", "--json", id+":a.txt", "-"); r.code == 0 || r.out != "" {
		t.Errorf("to standard output: %+v", r)
	}
}
