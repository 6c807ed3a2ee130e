package vm_test

import (
	"bytes"
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/vm"
	"github.com/sandkasten/sandkasten/test/vm/guest"
)

const module = "github.com/sandkasten/sandkasten"

// suitePatterns are the packages that the host's kernel and control groups
// make a difference to.
var suitePatterns = []string{
	module + "/internal/runtime/linux/...",
	module + "/internal/spawn",
}

// notHere are the tests that do not run in the machine, by package, and why
// each does not: it needs what a machine has not, or it takes an emulated
// processor long to say what control groups have no part in. All of them run
// on the host itself.
var notHere = map[string]map[string]string{
	module + "/internal/runtime/linux": {
		"TestCrashOfStopAndStart": "two minutes of starting a program again, about files; the suite stops and starts",
		"TestCrashOfFork":         "a minute of the same; the suite forks",
		"TestCrashOfClaim":        "a minute of the same; the suite claims",
	},
	module + "/internal/sandbox/seccomp": {
		"TestDocs":                    "reads the repository",
		"TestKernel_ForeignCallsKill": "needs a compiler",
		"TestKernel_ProgramsWork":     "needs the programs of a workstation",
	},
}

// packageTimeout is twice what the largest package takes where two processors
// emulate the machine's two.
const packageTimeout = 18 * time.Minute

// prepare returns a machine without jobs, or ends the test where none can run.
func prepare(t *testing.T) (context.Context, vm.Machine) {
	t.Helper()
	ctx := needMachine(t)
	m, err := vm.Prepare(ctx, testenv.BaseRootfs(t), testenv.DataDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return ctx, m
}

func TestMachineIsAnOrdinaryCgroup2Host(t *testing.T) {
	ctx, m := prepare(t)
	checks := []struct{ command, want string }{
		{"stat -fc %T /sys/fs/cgroup", "cgroup2fs\n"},
		{"grep -c cgroup /proc/mounts", "1\n"},
		{"cat /sys/fs/cgroup/cgroup.subtree_control", "cpuset cpu io memory pids\n"},
		{"mkdir /sys/fs/cgroup/t && echo 1048576 > /sys/fs/cgroup/t/memory.max && cat /sys/fs/cgroup/t/memory.max", "1048576\n"},
		{"stat -fc %T / /var/tmp", "ext2/ext3\next2/ext3\n"},
		{"unshare -m sh -c 'mount --bind /image /mnt && cd /mnt && pivot_root . mnt && ls -d /bin/bash'", "/bin/bash\n"},
		{"cd /tmp && mkdir u w m && mount -t overlay o -o lowerdir=/image,upperdir=u,workdir=w m && touch m/etc/x && ls u/etc", "x\n"},
		{"truncate -s 32M f && mkfs.ext4 -q f && mkdir l && mount -o loop f l && stat -fc %T l", "ext2/ext3\n"},
		{"cat /sys/class/net/lo/operstate", "unknown\n"},
		{"(sleep 0 & exec sleep 1) & wait; ps -eo stat= | grep -c Z", "0\n"},
	}
	for _, c := range checks {
		m.Jobs = append(m.Jobs, guest.Job{Args: []string{"/bin/sh", "-c", c.command}, Dir: "/var/tmp", Timeout: time.Minute})
	}
	outputs := make([]bytes.Buffer, len(checks))
	if err := m.Run(ctx, func(ev guest.Event) { outputs[ev.Job].Write(ev.Output) }); err != nil {
		t.Fatal(err)
	}
	for i, c := range checks {
		if got := outputs[i].String(); got != c.want {
			t.Errorf("%s:\n%q, want %q", c.command, got, c.want)
		}
	}
}

func TestMachineReportsHowJobsEnd(t *testing.T) {
	ctx, m := prepare(t)
	m.Stdin = strings.NewReader("ignored")
	m.Jobs = []guest.Job{
		{Args: []string{"sh", "-c", "exit 7"}},
		{Args: []string{"sh", "-c", "kill -9 $$"}},
		{Args: []string{"sleep", "1000"}, Timeout: 2 * time.Second},
		{Args: []string{"/no/such/command"}},
		{Args: []string{"sh", "-c", "sleep 1000 & echo $A; pwd"}, Env: []string{"A=a"}, Dir: "/var"},
	}
	ends := make([]guest.End, len(m.Jobs))
	var last bytes.Buffer
	err := m.Run(ctx, func(ev guest.Event) {
		if ev.End != nil {
			ends[ev.Job] = *ev.End
		}
		if ev.Job == len(ends)-1 {
			last.Write(ev.Output)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []guest.End{{Code: 7}, {Code: 137}, {Code: 137, TimedOut: true}, {Code: 127}, {Code: 0}} {
		if got := ends[i]; got.Code != want.Code || got.TimedOut != want.TimedOut {
			t.Errorf("job %d: %+v, want %+v", i, got, want)
		}
	}
	if got := last.String(); got != "a\n/var\n" {
		t.Errorf("the last job printed %q", got)
	}
}

func TestMachineThatBreaksIsAnErrorWithItsConsole(t *testing.T) {
	ctx, m := prepare(t)
	m.Jobs = []guest.Job{{Args: []string{"sh", "-c", "echo c > /proc/sysrq-trigger"}}}
	err := m.Run(ctx, func(guest.Event) {})
	if err == nil || !strings.Contains(err.Error(), "sysrq triggered crash") {
		t.Errorf("a panic of the machine gave: %v", err)
	}
}

// TestSuiteOnCgroup2 runs the tests of suitePatterns in a machine and reports
// each as its own. There, too, what cannot run fails. It is part of the long
// tier; TestCgroup2 is what every run has of it.
func TestSuiteOnCgroup2(t *testing.T) {
	ctx, m := prepare(t)
	packages, err := vm.ListTestPackages(ctx, suitePatterns...)
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatalf("no package with tests matches %q", suitePatterns)
	}
	for i, p := range packages {
		if skip := notHere[p.ImportPath]; len(skip) > 0 {
			packages[i].Skip = anyOf(slices.Sorted(maps.Keys(skip)))
		}
	}
	m.Files = suitePrograms(t)
	runAndReport(ctx, t, m, vm.Suite{
		Packages: packages,
		Env:      inMachine,
		Timeout:  packageTimeout,
	})
}

// inMachine is the environment of all tests there.
var inMachine = []string{
	testenv.RootMode + "=1",
	testenv.RootfsVar + "=" + guest.ImageMount,
	testenv.BinVar + "=" + vm.BinDir,
}

// suitePrograms are what the tests of suitePatterns start, by their places in
// the machine.
func suitePrograms(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, program := range []string{
		testenv.Runner(t),
		testenv.Build(t, "./internal/runtime/linux/testdata/probe"),
		testenv.Build(t, "./internal/runtime/linux/testdata/crash", "failpoint"),
	} {
		files[path.Join(vm.BinDir, filepath.Base(program))] = program
	}
	return files
}

// anyOf is a pattern of -test.run and -test.skip for tests with these names.
func anyOf(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// report makes each outcome a test of its own. What was skipped has failed.
func report(t *testing.T, outcomes []vm.Outcome) {
	t.Helper()
	for _, o := range outcomes {
		t.Run(strings.TrimPrefix(path.Join(o.Package, o.Test), module+"/"), func(t *testing.T) {
			if o.Action != "pass" {
				t.Errorf("%s in the machine:\n%s", o.Action, o.Output)
			}
		})
	}
}
