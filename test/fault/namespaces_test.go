package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// inNamespaces makes a daemon in namespaces of its own, where its data directory has
// the path of everybody's.
func inNamespaces(t *testing.T, path string, flags ...string) *host {
	t.Helper()
	h := prepare(t, blackbox.Options{})
	file := filepath.Join(t.TempDir(), "sandkasten")
	before, run, after := "exec", `exec "$@"`, ""
	if len(flags) > 0 { // unshare forks then, and takes no signals
		// A shell is the first process, with which all end. The daemon is not told of its
		// parent's end for certain: the kernel forgets that when a thread becomes somebody else.
		before, run, after = "setpriv --pdeathsig KILL", `"$@"; exit $?`, "& trap \"kill -KILL $!\" TERM; wait"
	}
	text := fmt.Sprintf(`#!/bin/sh
export SANDKASTEN_DATA_DIR=%[2]s
%[3]s unshare --mount --propagation private %[4]s sh -c 'mount --bind "$0" %[2]s && %[7]s' %[1]s %[5]s "$@" %[6]s
`, h.Data, path, before, strings.Join(flags, " "), program(t), after, run)
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	h.Program = file
	h.Start()
	return h
}

// Daemons to which one path is different directories, as in containers beside each
// other, have nothing in common: neither groups nor ids nor loop devices, whatever
// happens to one of them.
func TestF14_OnePathInSeveralNamespaces(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"mount":         nil,
		"mount and pid": {"--pid", "--fork", "--kill-child", "--mount-proc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.NeedsRoot(t)
			base := testenv.DataDir(t)
			wantNoRemains(t, base) // a loop device has the path that its daemon sees
			path := filepath.Join(base, "data")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			one, other := inNamespaces(t, path, flags...), inNamespaces(t, path)
			if one.node() == other.node() {
				t.Fatalf("both are %s", one.node())
			}
			s, kept := one.create(nil), other.create(nil)
			other.sh(kept, "v=kept")
			ids := map[int]string{}
			for _, h := range []*host{one, other} {
				p, err := h.look()
				if err != nil {
					t.Fatal(err)
				}
				for name, b := range p.Boxes {
					if twin := ids[b.IDs]; twin != "" {
						t.Errorf("sandboxes %s and %s have the same user ids", name, twin)
					}
					ids[b.IDs] = name
				}
			}
			for range 3 { // what it finds at its start it sweeps
				one.Kill()
				one.Start()
			}
			if got := other.sh(kept, "echo $v"); got != "kept" {
				t.Errorf("the other daemon's session has %q", got)
			}
			if flags == nil {
				one.sh(s, "true") // its processes did not end with the daemon
			}
			other.Restart()
			if got := other.sh(kept, "echo $v"); got != "kept" {
				t.Errorf("after a restart it has %q", got)
			}
			one.sh(one.create(nil), "true")
			other.oracle()
			other.wantNothing()
			one.destroyAll()
			one.Kill()
			one.Program = program(t)
			if out, err := one.Command("fsck", "--repair").CombinedOutput(); err != nil {
				t.Errorf("repair: %v\n%s", err, out)
			}
		})
	}
}

// A copy of a data directory is refused as long as the sandboxes of the original
// live, and is another installation after that.
func TestF14_CopyOfADataDirectory(t *testing.T) {
	t.Parallel()
	const config = "sessions: {survive_reboot: true}"
	h := start(t, config)
	s := h.create(nil)
	h.sh(s, "v=kept; echo here > f; sync")
	dir := testenv.DataDir(t)
	if out, err := exec.Command("cp", "-a", h.Data+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	copied := prepare(t, blackbox.Options{DataDir: dir, Config: config})
	for _, running := range []bool{true, false} {
		if !running {
			h.Stop()
		}
		if err := copied.TryStart(); err == nil || !strings.Contains(err.Error(), "is a copy") {
			t.Fatalf("a copy, while the original's daemon runs (%v): %v", running, err)
		}
	}
	h.Start()
	if got := h.sh(s, "echo $v"); got != "kept" {
		t.Errorf("the original has %q", got)
	}
	h.destroy(s)
	h.Stop()
	copied.Start()
	if copied.node() == h.node() {
		t.Error("the copy has the identity of the original")
	}
	h.Start()
	for _, one := range []*host{h, copied} {
		one.sh(one.create(nil), "true")
		one.oracle()
		one.wantNothing()
	}
}
