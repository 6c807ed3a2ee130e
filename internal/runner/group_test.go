package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// cgroup is a Group in the cgroup v2 hierarchy of this machine.
type cgroup struct {
	path   string
	dir    *os.File
	mu     sync.Mutex
	closed int // guarded by mu
}

// cgroups makes Groups below a cgroup of the test's own.
func cgroups(t *testing.T) (func() (runner.Group, error), func() []*cgroup) {
	t.Helper()
	testenv.NeedsRoot(t)
	root := ""
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
			root = dir
		}
	}
	if root == "" {
		testenv.Unsupported(t, "no cgroup v2 hierarchy")
	}
	base, err := os.MkdirTemp(root, testenv.Mark())
	if err != nil {
		testenv.Unsupported(t, "no cgroup can be made: %v", err)
	}
	var mu sync.Mutex
	var made []*cgroup
	t.Cleanup(func() {
		for _, g := range made {
			waitFor(t, func() bool { return unix.Rmdir(g.path) != unix.EBUSY })
		}
		must(t, unix.Rmdir(base))
	})
	group := func() (runner.Group, error) {
		mu.Lock()
		defer mu.Unlock()
		g := &cgroup{path: filepath.Join(base, strconv.Itoa(len(made)))}
		if err := os.Mkdir(g.path, 0o755); err != nil {
			return nil, err
		}
		var err error
		if g.dir, err = os.Open(g.path); err != nil {
			return nil, err
		}
		made = append(made, g)
		return g, nil
	}
	return group, func() []*cgroup {
		mu.Lock()
		defer mu.Unlock()
		return append([]*cgroup(nil), made...)
	}
}

func (g *cgroup) FD() int { return int(g.dir.Fd()) }

func (g *cgroup) Kill() error {
	err := os.WriteFile(g.path+"/cgroup.kill", []byte("1"), 0)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	pids, err := g.PIDs() // an older kernel
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return err
		}
	}
	return err
}

func (g *cgroup) PIDs() ([]int, error) {
	b, err := os.ReadFile(g.path + "/cgroup.procs")
	var pids []int
	for _, field := range strings.Fields(string(b)) {
		pids = append(pids, atoi(field))
	}
	return pids, err
}

func (g *cgroup) CPUUsec() int64 { return 1_234_567_890 }

func (g *cgroup) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed++
	return g.dir.Close()
}

func TestProgramInGroup(t *testing.T) {
	group, made := cgroups(t)
	h := newHost(t, func(o *runner.Options) { o.Group = group })
	p := h.dial()
	r := p.program(protocol.Start{TimeoutMS: 2000, GraceMS: 100}, "sh", "-c",
		"trap 'exit 0' TERM; (setsid sh -c 'trap \"\" TERM; sleep 4009."+pid+"; sleep 4009."+pid+"' &) ; echo up; while :; do sleep 0.05; done")
	if string(r.stdout) != "up\n" || r.ExitCode != 124 || r.Cause != protocol.CauseTimeout {
		t.Errorf("%q, %+v", r.stdout, r.Record)
	}
	if left := alive(t, "4009."+pid); len(left) > 0 {
		t.Errorf("left: %v", left)
		killAll(left)
	}
	if r.Usage == nil || r.Usage.CPUUS != 1_234_567_890 {
		t.Errorf("%+v", r.Usage)
	}
	// By itself: what it leaves lives on, in the group, which is given back.
	p.program(protocol.Start{}, "sh", "-c", "setsid sleep 4010."+pid+" & exit 0").want(t, "", 0, protocol.CauseExited)
	waitFor(t, func() bool { return len(alive(t, "4010."+pid)) == 1 })
	killAll(alive(t, "4010."+pid))
	p.ask(protocol.Start{Cwd: "nowhere"}, nil, "", "true")
	if _, err := p.finish(); codeOf(err) != "unprocessable" {
		t.Error(err)
	}
	for i, g := range made() {
		if g.mu.Lock(); g.closed != 1 {
			t.Errorf("group %d was closed %d times", i, g.closed)
		}
		g.mu.Unlock()
	}
}

// Without a group that could be made it is done as without any.
func TestProgramGroupFails(t *testing.T) {
	h := newHost(t, func(o *runner.Options) {
		o.Group = func() (runner.Group, error) { return nil, errors.New("no more") }
	})
	r := h.dial().program(protocol.Start{TimeoutMS: 300, GraceMS: 50}, "sh", "-c", "(setsid setsid sleep 4011."+pid+" &); sleep 4011."+pid)
	if r.Cause != protocol.CauseTimeout || len(alive(t, "4011."+pid)) > 0 {
		t.Errorf("%+v, left %v", r.Record, alive(t, "4011."+pid))
		killAll(alive(t, "4011."+pid))
	}
}

// As a user a program has nothing of root's, and its own descriptors.
func TestProgramUser(t *testing.T) {
	testenv.NeedsRoot(t)
	h := newHost(t)
	must(t, os.Chmod(filepath.Dir(filepath.Dir(h.workspace)), 0o755))
	must(t, os.Chmod(filepath.Dir(h.workspace), 0o755))
	p := h.dial()
	for _, tc := range []struct{ user, script, want string }{
		{"4321:1234", "id -u; id -g; id -G", "4321\n1234\n1234\n"},
		{"4321", "id -g", "4321\n"},
		{"daemon", "id -un; echo $HOME $USER", "daemon\n/usr/sbin daemon\n"},
		{"4321", "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u", "0000000000000000\n"},
		{"4321", "cat /etc/shadow >/dev/null 2>&1 || echo refused", "refused\n"},
		{"4321", "echo again >/dev/stdout", "again\n"},
		{"root", "id -u; id -G", "0\n0\n"},
		{"", "id -u", "0\n"},
	} {
		r := p.program(protocol.Start{User: tc.user}, "sh", "-c", tc.script)
		if string(r.stdout) != tc.want {
			t.Errorf("%s: %s: %q and %q, want %q", tc.user, tc.script, r.stdout, r.stderr, tc.want)
		}
	}
	s := h.terminal(protocol.Start{User: "4321"}, nil, "sh", "-c", "echo $(id -u) >$(tty); exit 3")
	s.until("4321")
	if r := s.end(); r.ExitCode != 3 {
		t.Errorf("%+v", r.Record)
	}
}

// A program of the memory limit's, as PID 1 sees it.
func TestInitProgramOOMKilled(t *testing.T) {
	h := newInitHost(t)
	r := h.dial().program(protocol.Start{}, "sh", "-c", "printf x >ooms; kill -9 $$")
	r.want(t, "", 137, protocol.CauseOOMKilled)
}

// E05 for a program, and what it leaves to PID 1.
func TestInitStopsProgram(t *testing.T) {
	h := newInitHost(t)
	p := h.dial()
	other := p.background(protocol.Start{}, "sh", "-c", "(setsid sleep 777 &); sleep 777")
	r := p.program(protocol.Start{TimeoutMS: 300, GraceMS: 50}, "sh", "-c", `for i in 1 2 3; do perl -e 'while (1) { fork and exit }' & done; (setsid sleep 888 &); sleep 1000`)
	if r.Cause != protocol.CauseTimeout || r.DurationUS > 15_000_000 {
		t.Errorf("%+v", r.Record)
	}
	// What is dead and not reaped yet has a name, too.
	const living = "ps -eo stat,args | grep -v '^Z' | "
	// A process that was killed is there until a processor has time for its end. One
	// that got away goes on forking.
	const ended = "for i in $(seq 200); do n=$(" + living + "grep -cE '[s]leep (888|1000)|[p]erl'); [ $n = 0 ] && break; sleep 0.05; done; echo $n"
	p.sh(living+"grep -c '[s]leep 777'; "+ended).want(t, "3\n0\n", 0, protocol.CauseExited)
	p.cancel(other.ID)
	if r := p.attach(other.ID, 0); r.Cause != protocol.CauseCanceled {
		t.Errorf("%+v", r.Record)
	}
	p.sh(living+"grep -c '[s]leep 777'; true").want(t, "0\n", 0, protocol.CauseExited)
}
