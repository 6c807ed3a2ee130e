package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/cli"
	"github.com/sandkasten/sandkasten/sdk/go"
)

func TestUserCommands(t *testing.T) {
	tm := startDaemon(t)
	if r := tm.run("user", "ls"); r.code != 0 || r.out != "" || !strings.Contains(r.errOut, "user add") {
		t.Errorf("ls of none = %+v", r)
	}
	if out := tm.want("user", "add", "dora", "--email", "dora@example.org"); out != "dora\n" {
		t.Errorf("add = %q", out)
	}
	root := strings.TrimSpace(tm.want("user", "add", "root", "--admin", "--key"))
	if !strings.HasPrefix(root, "sk_") {
		t.Fatalf("add --key = %q", root)
	}
	asRoot := *tm
	asRoot.key = root
	if out := asRoot.want("user", "ls", "-q"); out != "dora\nroot\n" {
		t.Errorf("ls -q as root = %q", out)
	}
	var u sandkasten.User
	if err := json.Unmarshal([]byte(tm.want("user", "set", "dora", "--role", "admin", "--email", "", "--disable", "--json")), &u); err != nil ||
		u.Role != "admin" || u.Email != "" || u.State != "disabled" {
		t.Errorf("set = %+v, %v", u, err)
	}
	tm.want("user", "set", "dora", "--enable")
	for _, want := range []string{"NAME", "dora", "root", "admin", "active"} {
		if out := tm.want("user", "ls"); !strings.Contains(out, want) {
			t.Errorf("ls lacks %q: %s", want, out)
		}
	}
	if out := tm.want("__complete", "--", "user", "rm", "do"); out != "dora\n" {
		t.Errorf("completed to %q", out)
	}
	if out := tm.want("user", "rm", "dora"); out != "dora\n" {
		t.Errorf("rm = %q", out)
	}
	if r := tm.run("user", "rm", "dora"); r.code != cli.ExitFailed || !strings.Contains(r.errOut, `there is no user "dora"`) {
		t.Errorf("rm of who is gone = %+v", r)
	}
	if r := tm.run("user", "add", "Root"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "name") {
		t.Errorf("add of a wrong name = %+v", r)
	}
}

// A user changes the password with the current one, where the key is less than signing in.
func TestCurrentPassword(t *testing.T) {
	tm := startDaemon(t)
	as := func(key, input string, args ...string) result {
		its := *tm
		its.key = key
		return its.runCtx(t.Context(), input, args...)
	}
	if r := as(tm.key, "the first password\n", "user", "add", "dora", "--password"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	short := strings.TrimSpace(tm.want("key", "create", "--user", "dora", "--expires", "1h"))
	set := []string{"user", "set", "dora", "--password"}
	if r := as(short, "another password\n", set...); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "current password") {
		t.Errorf("without the current one: %+v", r)
	}
	set = append(set, "--current-password")
	if r := as(short, "a wrong password\nanother password\n", set...); r.code != cli.ExitFailed || !strings.Contains(r.errOut, "the current password is another one") {
		t.Errorf("with a wrong one: %+v", r)
	}
	if r := as(short, "the first password\nanother password\n", set...); r.code != 0 || r.out != "dora\n" {
		t.Errorf("with the right one: %+v", r)
	}
}

func TestKeyCommands(t *testing.T) {
	tm := startDaemon(t)
	doras := *tm
	doras.key = strings.TrimSpace(tm.want("user", "add", "dora", "--key"))
	text := strings.TrimSpace(doras.want("key", "create", "--name", "agent", "--scope", "read", "--expires", "30d"))
	child := *tm
	child.key = text
	if r := child.run("create"); r.code == 0 || !strings.Contains(r.errOut, "this key may only read") {
		t.Errorf("a key that only reads creates: %+v", r)
	}
	out := tm.want("key", "ls", "--user", "dora") + tm.want("key", "ls", "--json")
	for _, want := range []string{"ID", "dora", "agent", "read", "valid", "29d"} {
		if !strings.Contains(out, want) {
			t.Errorf("ls lacks %q: %s", want, out)
		}
	}
	if strings.Contains(out, text) || strings.Contains(out, doras.key) {
		t.Errorf("ls shows a key: %s", out)
	}
	id := strings.TrimSpace(child.want("key", "ls", "-q"))
	if out := tm.want("key", "revoke", id); out != id+"\n" {
		t.Errorf("revoke = %q", out)
	}
	if r := child.run("ls"); r.code == 0 || !strings.Contains(r.errOut, "key") {
		t.Errorf("a revoked key lists: %+v", r)
	}
	if out := doras.want("key", "ls"); !strings.Contains(out, "revoked") {
		t.Errorf("ls lacks revoked: %s", out)
	}
	if r := tm.run("key", "create"); r.code != cli.ExitUsage || !strings.Contains(r.errOut, "--user") {
		t.Errorf("create for nobody = %+v", r)
	}
	if r := tm.run("key", "create", "--scope", "all"); r.code != cli.ExitUsage {
		t.Errorf("create of a wrong scope = %+v", r)
	}
}
