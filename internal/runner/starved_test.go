package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// A shell that has no processor when its command is out of time is not taken for one
// that hangs: it keeps its variables.
func TestStopOfAShellThatIsStarved(t *testing.T) {
	testenv.NeedsRoot(t)
	p := newHost(t).dial()
	shell := strings.TrimSpace(string(p.sh("kept=yes; echo $$").output))
	id := p.start(protocol.Exec{TimeoutMS: 500, GraceMS: 100}, "echo begun; while :; do :; done")
	waitFor(t, func() bool { return p.h.dial().recordOf(id).OutputBytes > 0 })
	feed := starve(t, shell)
	r, err := p.finish()
	must(t, err)
	if r.Cause != protocol.CauseTimeout {
		t.Errorf("%+v", r)
	}
	feed()
	n := p.run(protocol.Exec{TimeoutMS: 15_000}, "echo $kept")
	n.want(t, "yes\n", 0, protocol.CauseExited)
	if n.ShellRestarted {
		t.Error("the shell was restarted")
	}
}

// starve gives a process a millisecond of each second, until feed is called.
func starve(t *testing.T, pid string) (feed func()) {
	t.Helper()
	root, limits := "/sys/fs/cgroup/cpu", map[string]string{"cpu.cfs_period_us": "1000000", "cpu.cfs_quota_us": "1000"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		root, limits = "/sys/fs/cgroup", map[string]string{"cpu.max": "1000 1000000"}
	}
	group := filepath.Join(root, testenv.Mark()+"starved")
	must(t, os.Mkdir(group, 0o755))
	feed = func() {
		if err := os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(pid), 0); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		feed()
		must(t, unix.Rmdir(group))
	})
	for name, value := range limits {
		must(t, os.WriteFile(filepath.Join(group, name), []byte(value), 0))
	}
	must(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid), 0))
	return feed
}
