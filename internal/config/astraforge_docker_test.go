package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each variable sets a key of ours, or the log says why it sets none. What is set can
// be read as our own variables are.
func TestOriginalDocker(t *testing.T) {
	for name, c := range map[string]struct {
		environ map[string]string
		want    []OriginalSetting
		remarks []string // a part of each
	}{
		"nothing":                  {},
		"network":                  {map[string]string{"NETWORK": "astraforge-sandbox"}, []OriginalSetting{{"docker.network", "NETWORK", "astraforge-sandbox"}}, nil},
		"network of the host":      {map[string]string{"NETWORK": "host"}, nil, []string{"never in the network of the host"}},
		"network of a container":   {map[string]string{"NETWORK": "container:db"}, nil, []string{"never in the network of the host"}},
		"no network":               {map[string]string{"NETWORK": "none"}, nil, nil},
		"gateway":                  {map[string]string{"HOST_GATEWAY": "1"}, nil, []string{"never reach their host"}},
		"no gateway":               {map[string]string{"HOST_GATEWAY": "0"}, nil, nil},
		"the original's own tmpfs": {map[string]string{"TMPFS": "/tmp:rw,nosuid,nodev;/run:rw,nosuid,nodev"}, nil, nil},
		"further tmpfs": {
			map[string]string{"TMPFS": "/tmp:rw; /var/tmp:rw,suid;/workspace:rw;/cache"},
			[]OriginalSetting{{"docker.tmpfs", "TMPFS", "/var/tmp,/cache"}, {"docker.workspace", "TMPFS", "memory"}},
			[]string{"nosuid and nodev"},
		},
		"no seccomp":      {map[string]string{"SECCOMP": "unconfined"}, nil, []string{"security.seccomp"}},
		"seccomp profile": {map[string]string{"SECCOMP": "/etc/profile.json"}, nil, []string{"security.seccomp"}},
		"default seccomp": {map[string]string{"SECCOMP": "default"}, nil, nil},
		"processes":       {map[string]string{"PIDS_LIMIT": "256"}, []OriginalSetting{{"defaults.pids_limit", "PIDS_LIMIT", "256"}}, nil},
		"all processes":   {map[string]string{"PIDS_LIMIT": "-1"}, nil, []string{"defaults.pids_limit"}},
		"read-only root":  {map[string]string{"READ_ONLY": "true"}, []OriginalSetting{{"defaults.readonly_rootfs", "READ_ONLY", "true"}}, nil},
		"writable root":   {map[string]string{"READ_ONLY": "0"}, nil, []string{"defaults.readonly_rootfs"}},
		"user":            {map[string]string{"USER": "1000:1000"}, []OriginalSetting{{"docker.user", "USER", "1000:1000"}}, nil},
		"root":            {map[string]string{"USER": "root"}, nil, []string{"docker.user"}},
		"volume of users": {map[string]string{"VOLUME_MODE": "User"}, []OriginalSetting{{"orchestrator.workspace", "VOLUME_MODE", "user"}}, nil},
		"volume of a name": {
			map[string]string{"VOLUME_MODE": "static", "VOLUME_NAME": "team", "VOLUME_PREFIX": "x-"},
			[]OriginalSetting{{"orchestrator.workspace", "VOLUME_MODE", "static"}, {"orchestrator.workspace_name", "VOLUME_NAME", "team"}},
			[]string{"named after this daemon's node"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set, remarks := OriginalDocker(func(name string) string { return c.environ[strings.TrimPrefix(name, "SANDBOX_DOCKER_")] })
			var environ []string
			for i := range set {
				environ = append(environ, "SANDKASTEN_"+strings.ReplaceAll(strings.ToUpper(set[i].Key), ".", "__")+"="+set[i].Value)
				set[i].Variable = strings.TrimPrefix(set[i].Variable, "SANDBOX_DOCKER_")
			}
			if diff := cmp.Diff(c.want, set); diff != "" {
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
