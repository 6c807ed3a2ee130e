package images

import (
	"regexp"
	"slices"
	"strings"
)

// defaultEnv is what a login gives root on Debian. What an image says wins.
var defaultEnv = []string{
	"HOME=/root",
	"LANG=C.UTF-8",
	"LOGNAME=root",
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"USER=root",
}

const (
	maxEnvironmentFile = 64 << 10
	maxEnvVars         = 512
	maxEnvValue        = 32 << 10
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// mergeEnv joins lists of NAME=value, later ones winning, and sorts. Entries
// without a valid name, with a NUL, or over the limits are left out.
func mergeEnv(lists ...[]string) []string {
	values := map[string]string{}
	for _, list := range lists {
		for _, e := range list {
			name, value, ok := strings.Cut(e, "=")
			if !ok || !envName.MatchString(name) || len(value) > maxEnvValue || strings.ContainsRune(value, 0) {
				continue
			}
			if _, known := values[name]; !known && len(values) == maxEnvVars {
				continue
			}
			values[name] = value
		}
	}
	env := make([]string, 0, len(values))
	for name, value := range values {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// parseEnvironment reads /etc/environment as pam_env does: NAME=value lines,
// an optional "export", optional quotes around the value, no expansion.
func parseEnvironment(data []byte) []string {
	var env []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimPrefix(line, "export ")
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		env = append(env, strings.TrimSpace(name)+"="+value)
	}
	return env
}
