package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
)

// Wrong arguments end with 2, whether the program sees it or the daemon does, and what is
// said names the flag and what it takes. Of run, exec and shell, they end with 125.
func TestWrongArguments(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"create", "base", "--cpu", "-1"}, "--cpu must be at least 0\n", cli.ExitUsage},
		{[]string{"create", "base", "--cpu=-1"}, "--cpu must be at least 0\n", cli.ExitUsage},
		{[]string{"create", "base", "--ttl", "-5"}, `--ttl: "-5" is not a time: write it as 90s`, cli.ExitUsage},
		{[]string{"create", "base", "--on-idle", "sleep"}, `--on-idle: must be one of pause, stop, destroy, but is "sleep"`, cli.ExitUsage},
		{[]string{"create", "base", "--network", "open"}, `--network: must be one of none, allow, internet, full, but is "open"`, cli.ExitUsage},
		{[]string{"set", id, "--on-idle", "sleep"}, "must be one of pause, stop, destroy", cli.ExitUsage},
		{[]string{"completion", "tcsh"}, "must be one of bash, zsh, fish", cli.ExitUsage},
		{[]string{"rm"}, "--all", cli.ExitUsage},
		{[]string{"ls", "--format", "{{.Nothing}}"}, "the fields are", cli.ExitUsage},
		{[]string{"fork", "-n", "99999", id}, "--count", cli.ExitUsage},
		{[]string{"fs", "chmod", id, "9", "x"}, "octal", cli.ExitUsage},
		{[]string{"fs", "cat", id, "../../etc/passwd"}, "must be inside /workspace", cli.ExitUsage},
		{[]string{"--url", "nonsense", "ls"}, `"nonsense" is not a daemon's address`, cli.ExitUsage},
		{[]string{"create", "base", "--label", "sandkasten.scope=x"}, "--label must not have this sandkasten.scope: it must be workflow, agent or user", cli.ExitUsage},
		{[]string{"image", "build", "nosuch"}, `no recipe "nosuch"; there are base, data, node, python`, cli.ExitUsage},
		{[]string{"exec", "--timeout", "99d", id, "true"}, "--timeout must be at most 1d", cli.ExitNotRun},
		{[]string{"run", "--memory", "1", "base", "true"}, "--memory must be between 16 and", cli.ExitNotRun},
		{[]string{"exec", id, "cat", "caf\xe9"}, `"caf\xe9" has bytes that are not UTF-8`, cli.ExitNotRun},
		{[]string{"run", "base", "cat caf\xe9"}, "has bytes that are not UTF-8", cli.ExitNotRun},
		{[]string{"stats", "nosuch"}, `"nosuch"`, cli.ExitFailed},
	} {
		r := tm.run(test.args...)
		if r.code != test.code || !strings.Contains(r.errOut, test.want) || strings.Contains(r.errOut, `""`) || strings.Contains(r.errOut, "short flag") {
			t.Errorf("%q = %+v, want %d and %s", test.args, r, test.code, test.want)
		}
	}
}

// What a command inside is given stays as it is.
func TestNegativeNumbersOfCommandsInside(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	for _, args := range [][]string{{"exec", id, "--", "echo", "--timeout", "-1"}, {"exec", "--argv", id, "--", "echo", "--timeout", "-1"}} {
		if out := tm.want(args...); out != "--timeout -1\n" {
			t.Errorf("%q printed %q", args, out)
		}
	}
}

func TestVersionsOfProgramAndDaemon(t *testing.T) {
	tm, _ := startNetworkDaemon(t, map[string]string{"GET /v1/info": `{"version":"v9.9.9"}`})
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if out := tm.want(args...); !strings.HasPrefix(out, "sandkasten ") || !strings.HasSuffix(out, "\ndaemon v9.9.9\n") {
			t.Errorf("%q printed %q", args, out)
		}
	}
	alone := &console{t: t, url: "http://127.0.0.1:1", key: "x"}
	if out := alone.want("--version"); strings.Count(out, "\n") != 1 {
		t.Errorf("without a daemon: %q", out)
	}
}

func TestPreview(t *testing.T) {
	tm, d := startNetworkDaemon(t, map[string]string{
		"POST /v1/sessions/s1/previews": `{"port":3000,"token":"skp_1","url":"http://3000-s1.preview.localhost/?preview_token=skp_1","expires_at":"2026-11-28T18:00:00Z"}`,
	})
	r := tm.run("preview", "--ttl", "10m", "s1", "3000")
	if r.code != 0 || r.out != "http://3000-s1.preview.localhost/?preview_token=skp_1\n" || !strings.HasPrefix(r.errOut, "It opens port 3000 until 20") {
		t.Errorf("%+v", r)
	}
	if d.asked[0] != `POST /v1/sessions/s1/previews {"port":3000,"ttl_seconds":600}` {
		t.Errorf("asked %q", d.asked)
	}
	if out := tm.want("preview", "--format", "{{.Token}}", "s1", "3000"); out != "skp_1\n" {
		t.Errorf("--format printed %q", out)
	}
	if r := tm.run("preview", "s1", "http"); r.code != cli.ExitUsage {
		t.Errorf("%+v", r)
	}
}

func TestCompletionOfImagesSnapshotsAndWorkspaces(t *testing.T) {
	tm, _ := startNetworkDaemon(t, map[string]string{
		"GET /v1/images":     `{"images":[{"names":["python","py"]},{"names":["base"]}]}`,
		"GET /v1/snapshots":  `{"snapshots":[{"id":"snap1"}]}`,
		"GET /v1/workspaces": `{"workspaces":[{"id":"project"}]}`,
		"GET /v1/sessions":   `[{"id":"s1"}]`,
	})
	for line, want := range map[string]string{
		"create p": "py python", "run b": "base", "image rm ": "base py python", "image inspect py": "py python", "snapshot rm ": "snap1",
		"snapshot inspect s": "snap1", "create --restore ": "snap1", "create -w ": "project", "create --workspace p": "project", "create --on-idle ": "destroy pause stop",
		"exec -w ": "s1", // a directory, which is not ours to know
	} {
		found := strings.Fields(tm.want(append([]string{"__complete", "--"}, strings.Split(line, " ")...)...))
		slices.Sort(found)
		if got := strings.Join(found, " "); got != want {
			t.Errorf("completions of %q are %q, want %q", line, got, want)
		}
	}
}
