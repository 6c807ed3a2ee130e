package stage

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

func pair(t *testing.T) (a, b int) {
	t.Helper()
	a, b, err := sys.Socketpair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sys.Close(a, b) })
	return a, b
}

func someBoot() *Boot {
	return &Boot{
		Layers: 2, Hostname: "h", Workspace: "/workspace", Env: NewEnv([]string{"A=b"}), TasksFiles: 1,
		Mounts:       []Mount{{From: FromNew, FS: "proc", Target: "/proc", Options: "hidepid=invisible"}},
		Links:        []Link{{Path: "/dev/fd", Target: "/proc/self/fd"}},
		RunnerFilter: NewFilter([]unix.SockFilter{{Code: 6, K: 0x7fff0000}}),
	}
}

func TestBootTravelsWithDescriptors(t *testing.T) {
	a, b := pair(t)
	sent := someBoot()
	fds := make([]int, sent.descriptors())
	for i := range fds {
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fds[i] = int(f.Fd())
	}
	if err := Send(a, sent, fds); err != nil {
		t.Fatal(err)
	}
	got, gotFDs, err := receive(b)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close(gotFDs...)
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v\nwant %+v", got, sent)
	}
	if len(gotFDs) != 8 { // two layers, one tasks file, and the five of every boot
		t.Errorf("%d descriptors", len(gotFDs))
	}
	if with := (&Boot{Layers: 2, Volume: true, TasksFiles: 1}).descriptors(); with != 9 {
		t.Errorf("%d descriptors with a volume", with)
	}
	for _, fd := range gotFDs {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d would leak into a program: %v", fd, err)
		}
	}
}

func TestReceiveRefusesMissingDescriptors(t *testing.T) {
	a, b := pair(t)
	if err := Send(a, someBoot(), nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := receive(b); err == nil || !strings.Contains(err.Error(), "0 descriptors, not 8") {
		t.Fatalf("got %v", err)
	}
}

func TestSendRefusesWhatDoesNotFit(t *testing.T) {
	a, _ := pair(t)
	b := someBoot()
	b.Hostname = strings.Repeat("x", maxMessage)
	if err := Send(a, b, nil); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Fatalf("got %v", err)
	}
}

func TestAwaitReady(t *testing.T) {
	for name, tc := range map[string]struct{ answer, want string }{
		"ready": {ready, ""},
		"error": {"mount /proc: no\n\x1b[31m", `in the sandbox: "mount /proc: no\n\x1b[31m"`},
		"end":   {"", "ended before it was ready"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			if tc.answer != "" {
				if err := sys.Write(b, tc.answer); err != nil {
					t.Fatal(err)
				}
			} else if err := unix.Shutdown(b, unix.SHUT_RDWR); err != nil {
				t.Fatal(err)
			}
			err := AwaitReady(a)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// Steps that a caller has put in refer to each other by position, and prepare
// puts its own before them.
func TestPrepareKeepsReferences(t *testing.T) {
	in := &Inside{filter: []unix.SockFilter{{Code: 6}}, cgroup: 6, tasks: []int{7, 8}}
	c := &spawn.Cmd{Steps: spawn.WriteFile(0, "/f", "x")}
	in.prepare(c)
	if c.Steps[0].Name != "join cgroup" || c.Steps[1].Args[0] != 8 {
		t.Fatalf("steps: %+v", c.Steps)
	}
	n := len(c.Steps)
	if got := c.Steps[n-2].Save[0].Step; got != n-1 {
		t.Errorf("the opened file goes to step %d, not %d", got, n-1)
	}
	if len(c.Final) != 1 || c.Final[0].Name != "seccomp" {
		t.Errorf("the filter is not last: %+v", c.Final)
	}
}

func TestEnvKeepsItsVariables(t *testing.T) {
	vars := []string{"A=b", "EMPTY=", "ODD=\x01\n\xff\""}
	if got := NewEnv(vars).Vars(); !reflect.DeepEqual(got, vars) {
		t.Errorf("got %q", got)
	}
	// The largest environment that a session may have fits, whatever is in it.
	a, _ := pair(t)
	b := someBoot()
	b.Env = NewEnv([]string{"A=" + strings.Repeat("\x01", 64<<10)})
	if err := Send(a, b, nil); err != nil {
		t.Error(err)
	}
}

func TestWarm(t *testing.T) {
	if err := Warm(); err != nil {
		t.Fatal(err)
	}
}

func TestFilterKeepsItsProgram(t *testing.T) {
	prog := []unix.SockFilter{{Code: 0x20, K: 4}, {Code: 0x15, Jt: 1, Jf: 2, K: 0xc000003e}, {Code: 6, K: 0x7fff0000}}
	if got := NewFilter(prog).program(); !reflect.DeepEqual(got, prog) {
		t.Errorf("got %v", got)
	}
	if NewFilter(nil) != nil || len(Filter(nil).program()) != 0 {
		t.Error("no program is not empty")
	}
}

func TestSplit(t *testing.T) {
	for path, want := range map[string][2]string{"/dev/null": {"dev", "null"}, "/dev": {".", "dev"}, "/a/b/c": {"a/b", "c"}} {
		if dir, name := split(path); dir != want[0] || name != want[1] {
			t.Errorf("%s: %q %q", path, dir, name)
		}
	}
}

func TestLandlockRightsGrowWithTheKernel(t *testing.T) {
	last := uint64(0)
	for abi := 1; abi <= 8; abi++ {
		attr := landlockRights(abi)
		if attr.Handled_access_fs&last != last {
			t.Errorf("ABI %d handles less than the one before", abi)
		}
		last = attr.Handled_access_fs
		if (attr.Scoped != 0) != (abi >= 6) {
			t.Errorf("ABI %d: scoped %x", abi, attr.Scoped)
		}
	}
}

func TestWorkloadCapsLeaveOutWhatReachesTheRunner(t *testing.T) {
	for _, c := range []int{
		unix.CAP_KILL, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_NICE,
		unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_MKNOD, unix.CAP_SYS_CHROOT, unix.CAP_SETFCAP, unix.CAP_DAC_READ_SEARCH, unix.CAP_BPF,
	} {
		if WorkloadCaps&(1<<c) != 0 {
			t.Errorf("capability %d is in the workload's set", c)
		}
	}
}
