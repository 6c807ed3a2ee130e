package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
)

// What the daemon says of a field is said of the flag that sets it.
func TestErrorsNameTheFlag(t *testing.T) {
	tm := startDaemon(t)
	id := tm.create()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"create", "base", "--ttl", "9999d"}, "--ttl must be at most 365d"},
		{[]string{"create", "base", "--cpu", "9999"}, "--cpu must be at most 1024"},
		{[]string{"create", "base", "--memory", "1"}, "--memory must be between 16 and 1048576 MiB"},
		{[]string{"create", "base", "--name", "a b"}, "--name must be 1 to 64"},
		{[]string{"create", "base", "-e", "1=2"}, "--env must have names"},
		{[]string{"create", "base", "--workspace", "a b"}, "--workspace must be 1 to 64"},
		{[]string{"create", "base", "--network", "internet"}, "--network must be none: this daemon"},
		{[]string{"create", "base", "--restore", "a b"}, "--restore must be the id of a snapshot"},
		{[]string{"set", id, "--lifetime", "9999d"}, "--lifetime must be at most 3650d"},
		{[]string{"exec", "--timeout", "99d", id, "true"}, "--timeout must be at most 1d"},
		{[]string{"exec", "-u", "a b", id, "true"}, "--user must be a name or a number"},
		{[]string{"kill", "-s", "ZZ", id, "x"}, "--signal must be a name"},
		{[]string{"fork", "-n", "99999", id}, "--count must be at most 100"},
	} {
		code := cli.ExitUsage
		switch {
		case test.args[0] == "exec":
			code = cli.ExitNotRun
		case slices.Contains(test.args, "--network"): // which is right, and not here
			code = cli.ExitFailed
		}
		if r := tm.run(test.args...); r.code != code || !strings.Contains(r.errOut, test.want) || strings.Contains(r.errOut, "_seconds") {
			t.Errorf("%v: %+v, want %q", test.args, r, test.want)
		}
	}
}
