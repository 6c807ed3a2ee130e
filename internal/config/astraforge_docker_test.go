package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each variable sets a key of ours, or the log says why it sets none. What is set can
// be read as our own variables are.
func TestOriginalDocker(t *testing.T) {
	for name, c := range map[string]struct {
		environ map[string]string
		want    []originalSetting
		remarks []string // a part of each
	}{
		"nothing":                  {},
		"network":                  {map[string]string{"NETWORK": "astraforge-sandbox"}, []originalSetting{{"docker.network", "NETWORK", "astraforge-sandbox"}}, nil},
		"network of the host":      {map[string]string{"NETWORK": "host"}, nil, []string{"never in the network of the host"}},
		"network of a container":   {map[string]string{"NETWORK": "container:db"}, nil, []string{"never in the network of the host"}},
		"no network":               {map[string]string{"NETWORK": "none"}, nil, nil},
		"gateway":                  {map[string]string{"HOST_GATEWAY": "1"}, nil, []string{"never reach their host"}},
		"no gateway":               {map[string]string{"HOST_GATEWAY": "0"}, nil, nil},
		"the original's own tmpfs": {map[string]string{"TMPFS": "/tmp:rw,nosuid,nodev;/run:rw,nosuid,nodev"}, nil, nil},
		"further tmpfs": {
			map[string]string{"TMPFS": "/tmp:rw; /var/tmp:rw,suid;/workspace:rw;/cache"},
			[]originalSetting{{"docker.tmpfs", "TMPFS", "/var/tmp,/cache"}, {"docker.workspace", "TMPFS", "memory"}},
			[]string{"nosuid and nodev"},
		},
		"no seccomp":      {map[string]string{"SECCOMP": "unconfined"}, nil, []string{"security.seccomp"}},
		"seccomp profile": {map[string]string{"SECCOMP": "/etc/profile.json"}, nil, []string{"security.seccomp"}},
		"default seccomp": {map[string]string{"SECCOMP": "default"}, nil, nil},
		"processes":       {map[string]string{"PIDS_LIMIT": "256"}, []originalSetting{{"defaults.pids_limit", "PIDS_LIMIT", "256"}}, nil},
		"all processes":   {map[string]string{"PIDS_LIMIT": "-1"}, nil, []string{"defaults.pids_limit"}},
		"read-only root":  {map[string]string{"READ_ONLY": "true"}, []originalSetting{{"defaults.readonly_rootfs", "READ_ONLY", "true"}}, nil},
		"writable root":   {map[string]string{"READ_ONLY": "0"}, nil, []string{"defaults.readonly_rootfs"}},
		"user":            {map[string]string{"USER": "1000:1000"}, []originalSetting{{"docker.user", "USER", "1000:1000"}}, nil},
		"root":            {map[string]string{"USER": "root"}, nil, []string{"docker.user"}},
		"volume of users": {map[string]string{"VOLUME_MODE": "User"}, []originalSetting{{"orchestrator.workspace", "VOLUME_MODE", "user"}}, nil},
		"volume of a name": {
			map[string]string{"VOLUME_MODE": "static", "VOLUME_NAME": "team", "VOLUME_PREFIX": "x-"},
			[]originalSetting{{"orchestrator.workspace", "VOLUME_MODE", "static"}, {"orchestrator.workspace_name", "VOLUME_NAME", "team"}},
			[]string{"named after this daemon's node"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set, remarks := originalDockerSettings(func(name string) string { return c.environ[strings.TrimPrefix(name, "SANDBOX_DOCKER_")] })
			var environ []string
			for i := range set {
				environ = append(environ, "SANDKASTEN_"+strings.ReplaceAll(strings.ToUpper(set[i].key), ".", "__")+"="+set[i].value)
				set[i].variable = strings.TrimPrefix(set[i].variable, "SANDBOX_DOCKER_")
			}
			if diff := cmp.Diff(c.want, set, cmp.AllowUnexported(originalSetting{})); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
			if _, problems := parse(nil, environ, drivers); len(problems) > 0 {
				t.Errorf("%v: %v", environ, problems)
			}
			if len(remarks) != len(c.remarks) {
				t.Fatalf("remarks %q, want %q", remarks, c.remarks)
			}
			for i, part := range c.remarks {
				if !strings.Contains(remarks[i], part) || !strings.HasPrefix(remarks[i], "SANDBOX_DOCKER_") {
					t.Errorf("remark %q, want %q in it", remarks[i], part)
				}
			}
		})
	}
}

func TestDirectoriesInMemory(t *testing.T) {
	for value, good := range map[string]bool{
		"[/var/tmp, /cache]": true, "[]": true,
		"[/]": false, "[tmp]": false, "[/proc/x]": false, "[/workspace]": false, "[/.sandkasten]": false, "[/a/../proc]": false, "[/a, /a]": false, `["/a:exec"]`: false,
	} {
		_, problems := parse([]byte("docker: {tmpfs: "+value+"}"), nil, drivers)
		if (len(problems) == 0) != good {
			t.Errorf("%s: %v", value, problems)
		}
	}
}

func TestKeptWorkspacesOfTheOrchestrator(t *testing.T) {
	for value, good := range map[string]bool{
		"orchestrator: {enabled: true, workspace: user}":                              true,
		"orchestrator: {enabled: true, workspace: static, workspace_name: a.b-1}":     true,
		"orchestrator: {enabled: true, workspace: user}\nworkspace: {enabled: false}": false,
		"orchestrator: {enabled: true, workspace: all}":                               false,
		"orchestrator: {enabled: true, workspace: static, workspace_name: a/b}":       false,
		"orchestrator: {enabled: true, workspace: static, workspace_name: \"..\"}":    false,
		"orchestrator: {enabled: true}\nworkspace: {enabled: false}":                  true,
	} {
		if _, problems := parse([]byte(value), nil, drivers); (len(problems) == 0) != good {
			t.Errorf("%s: %v", value, problems)
		}
	}
}

// Our own keys win, and the log hears what the variables cannot have.
func TestOriginalDockerIsRead(t *testing.T) {
	environ := []string{"SANDBOX_DOCKER_USER=1000", "SANDBOX_DOCKER_PIDS_LIMIT=64", "SANDBOX_DOCKER_SECCOMP=unconfined", "SANDBOX_DOCKER_TMPFS=/cache"}
	c, problems := parse([]byte("orchestrator: {enabled: true}\ndefaults: {pids_limit: 128}\n"), environ, drivers)
	if len(problems) > 0 || c.Docker.User != "1000" || c.Defaults.Pids != 128 || !slices.Equal(c.Docker.Tmpfs, []string{"/cache"}) {
		t.Errorf("%+v, %d, %v", c.Docker, c.Defaults.Pids, problems)
	}
	if len(c.Remarks) != 1 || !strings.HasPrefix(c.Remarks[0], "SANDBOX_DOCKER_SECCOMP=unconfined has no effect") {
		t.Errorf("remarks %q", c.Remarks)
	}
	if c, _ := parse(nil, environ, drivers); c.Docker.User != "" {
		t.Error("a daemon without the orchestrator reads them")
	}
	_, problems = parse([]byte("orchestrator: {enabled: true}\n"), []string{"SANDBOX_DOCKER_TMPFS=/proc"}, drivers)
	if len(problems) != 1 || problems[0].Where != "SANDBOX_DOCKER_TMPFS" || problems[0].Key != "docker.tmpfs" {
		t.Errorf("problems %v", problems)
	}
}
