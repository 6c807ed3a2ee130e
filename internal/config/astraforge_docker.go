package config

import (
	"slices"
	"strconv"
	"strings"
)

// originalSetting is a key of ours with the value that a variable of the original has
// for it, as our own variable would be written.
type originalSetting struct{ key, variable, value string }

// originalDockerSettings reads the variables of AstraForge's orchestrator for its mode docker.
// It returns the keys that they set, and a remark for the log about each variable
// that asks for what sandboxes here never have, or have in any case. An empty variable
// counts as not set.
func originalDockerSettings(lookup func(name string) string) (set []originalSetting, remarks []string) {
	for _, read := range originalDocker {
		value := strings.TrimSpace(lookup(read.variable))
		if value == "" {
			continue
		}
		settings, remark := read.as(value)
		for key, text := range settings {
			set = append(set, originalSetting{key, read.variable, text})
		}
		if remark != "" {
			remarks = append(remarks, read.variable+"="+value+" "+remark)
		}
	}
	slices.SortStableFunc(set, func(a, b originalSetting) int { return strings.Compare(a.key, b.key) })
	return set, remarks
}

// originalDocker says what each variable means here: the keys that it sets, and what
// the log says of it.
var originalDocker = []struct {
	variable string
	as       func(value string) (set map[string]string, remark string)
}{
	{"SANDBOX_DOCKER_NETWORK", originalNetwork},
	{"SANDBOX_DOCKER_HOST_GATEWAY", originalGateway},
	{"SANDBOX_DOCKER_TMPFS", originalTmpfs},
	{"SANDBOX_DOCKER_SECCOMP", originalSeccomp},
	{"SANDBOX_DOCKER_PIDS_LIMIT", originalPids},
	{"SANDBOX_DOCKER_READ_ONLY", originalReadOnly},
	{"SANDBOX_DOCKER_USER", originalUser},
	{"SANDBOX_DOCKER_VOLUME_MODE", originalVolumeMode},
	{"SANDBOX_DOCKER_VOLUME_NAME", func(value string) (map[string]string, string) {
		return map[string]string{"orchestrator.workspace_name": value}, ""
	}},
	{"SANDBOX_DOCKER_VOLUME_PREFIX", func(string) (map[string]string, string) {
		return nil, "has no effect: volumes are named after this daemon's node and their workspace"
	}},
}

func originalNetwork(value string) (map[string]string, string) {
	switch {
	case value == "none": // which is ours
		return nil, ""
	case value == "host" || strings.HasPrefix(value, "container:"):
		return nil, "has no effect: a sandbox is never in the network of the host or of another container; use an internal network of the engine, or a policy in defaults.network"
	}
	return map[string]string{"docker.network": value}, ""
}

func originalGateway(value string) (map[string]string, string) {
	if !truth(value) {
		return nil, ""
	}
	return nil, "has no effect: sandboxes never reach their host; put the gateway on an internal network of the engine, and name that in docker.network"
}

// originalTmpfs takes the directories of a list as /tmp:rw,nosuid;/run:rw. Their
// options are ours in any case.
func originalTmpfs(value string) (map[string]string, string) {
	set, remark := map[string]string{}, ""
	var dirs []string
	for entry := range strings.SplitSeq(value, ";") {
		dir, options, _ := strings.Cut(strings.TrimSpace(entry), ":")
		for option := range strings.SplitSeq(options, ",") {
			if option == "suid" || option == "dev" {
				remark = "has no effect as to suid and dev: directories in memory have nosuid and nodev"
			}
		}
		switch dir {
		case "", "/tmp", "/run": // which are there in any case
		case "/workspace":
			set["docker.workspace"] = WorkspaceInMemory
		default:
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) > 0 {
		set["docker.tmpfs"] = strings.Join(dirs, ",")
	}
	return set, remark
}

func originalSeccomp(value string) (map[string]string, string) {
	switch value {
	case "unconfined":
		return nil, "has no effect: sandboxes have the filter of security.seccomp"
	case "default":
		return nil, ""
	}
	return nil, "has no effect: sandboxes have the filter of security.seccomp, which allows less than the engine's own"
}

func originalPids(value string) (map[string]string, string) {
	if most, err := strconv.ParseInt(value, 10, 64); err == nil && most <= 0 {
		return nil, "has no effect: sandboxes have at most defaults.pids_limit processes"
	}
	return map[string]string{"defaults.pids_limit": value}, ""
}

func originalReadOnly(value string) (map[string]string, string) {
	if truth(value) {
		return map[string]string{"defaults.readonly_rootfs": "true"}, ""
	}
	return nil, "changes nothing: a sandbox may write to its own copy of the root unless defaults.readonly_rootfs is true"
}

func originalUser(value string) (map[string]string, string) {
	name, _, _ := strings.Cut(value, ":")
	if name == "root" || name == "0" {
		return nil, "changes nothing: programs are root, without rights outside their sandbox, unless docker.user names another user"
	}
	return map[string]string{"docker.user": value}, ""
}

func originalVolumeMode(value string) (map[string]string, string) {
	return map[string]string{"orchestrator.workspace": strings.ToLower(value)}, ""
}

// truth is how the original reads a switch.
func truth(value string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(value))
}
