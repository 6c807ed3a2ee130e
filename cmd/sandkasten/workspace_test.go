package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestWorkspaceCommands(t *testing.T) {
	tm := startDaemon(t)
	if r := tm.run("workspace", "ls"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "workspace create") {
		t.Errorf("ls of none = %+v", r)
	}
	if out := tm.want("workspace", "create", "project.v2", "--size", "64", "-l", "a=b"); out != "project.v2\n" {
		t.Errorf("create = %q", out)
	}
	if out := tm.want("workspace", "create"); len(out) != 27 {
		t.Errorf("create without an id = %q", out)
	}
	id := strings.TrimSpace(tm.want("create", "--workspace", "project.v2"))
	tm.want("exec", id, "echo kept > notes")
	if r := tm.run("workspace", "rm", "project.v2"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "in use") {
		t.Errorf("rm of one in use = %+v", r)
	}
	tm.want("rm", id)
	if out := tm.want("run", "-w", "project.v2", "base", "cat notes"); out != "kept\n" {
		t.Errorf("run = %q", out)
	}

	var w sandkasten.WorkspaceInfo
	if err := json.Unmarshal([]byte(tm.want("workspace", "inspect", "project.v2")), &w); err != nil {
		t.Fatal(err)
	}
	if w.ID != "project.v2" || w.SizeMB != 64 || w.Labels["a"] != "b" || w.SizeBytes != 5 || w.SessionCount != 2 || w.ActiveSessionCount != 0 {
		t.Errorf("inspect = %+v", w)
	}
	if out := tm.want("workspace", "ls"); !strings.Contains(out, "LAST USED") || !strings.Contains(out, "64.0 MiB") {
		t.Errorf("ls = %s", out)
	}
	if out := tm.want("workspace", "ls", "-q"); strings.Count(out, "\n") != 2 {
		t.Errorf("ls -q = %q", out)
	}

	id = strings.TrimSpace(tm.want("create", "--workspace", "project.v2"))
	if out := tm.want("workspace", "rm", "--force", "project.v2"); out != "project.v2\n" {
		t.Errorf("rm --force = %q", out)
	}
	if r := tm.run("exec", id, "true"); r.code != cli.ExitNotRun || !strings.Contains(r.errOut, "destroyed") {
		t.Errorf("its session afterwards = %+v", r)
	}
	if r := tm.run("workspace", "inspect", "project.v2"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "no such workspace") {
		t.Errorf("inspect afterwards = %+v", r)
	}
}

func TestWorkspaceCopies(t *testing.T) {
	tm := startDaemon(t)
	tm.want("workspace", "create", "w.1")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tree/sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tree/sub/file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	tm.want("workspace", "cp", filepath.Join(dir, "tree"), "w.1:")
	if out := tm.want("workspace", "files", "w.1"); !strings.Contains(out, "dir") || !strings.Contains(out, "tree") {
		t.Errorf("files = %s", out)
	}
	if out := tm.want("workspace", "files", "--json", "w.1", "tree/sub"); !strings.Contains(out, `"name": "file"`) {
		t.Errorf("files --json = %s", out)
	}
	tm.want("workspace", "cp", "w.1:tree", filepath.Join(dir, "back"))
	if text, err := os.ReadFile(filepath.Join(dir, "back/sub/file")); err != nil || string(text) != "text" {
		t.Errorf("copied back: %q, %v", text, err)
	}
	if out := tm.want("ls", "-a", "-q"); out != "" {
		t.Errorf("sessions are seen: %q", out)
	}
	if r := tm.run("workspace", "cp", "a:b", "c:d"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "WORKSPACE:PATH") {
		t.Errorf("cp of two remote paths = %+v", r)
	}
}

func TestWorkspaceRows(t *testing.T) {
	now := time.Now()
	got := workspaceRows([]sandkasten.WorkspaceInfo{{
		ID: "w", SizeMB: 1024, SizeBytes: 1536, ActiveSessionCount: 2, CreatedAt: now.Add(-time.Hour), LastUsedAt: now,
	}}, now)
	if want := []string{"w", "1.5 KiB", "1.0 GiB", "2", "1h", "0s"}; !cmp.Equal(got[1], want) {
		t.Errorf("got %q, want %q", got[1], want)
	}
}
