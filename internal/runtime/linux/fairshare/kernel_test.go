package fairshare

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A Keeper's word is the kernel's: a sandbox that uses much is marked, and of a
// processor that both want it gets what another leaves, until it is told to take
// its turn again.
func TestTheKernelLetsOthersFirst(t *testing.T) {
	testenv.NeedsRoot(t)
	groups := newGroups(t)
	// The light one has by its limit less than anybody is put behind others for.
	// What a script that mostly sleeps takes depends on the machine.
	burner, light := newSandbox(t, groups, "burner", 1), newSandbox(t, groups, "light", 0.02)
	burner.run(t, "while :; do :; done")
	light.run(t, "while :; do :; done")

	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		New(groups, slog.New(slog.DiscardHandler)).Run(quit)
	}()
	for deadline := time.Now().Add(30 * time.Second); (!burner.Yields() || light.Yields()) && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	if !burner.Yields() || light.Yields() {
		t.Errorf("behind: the burner %v, the light one %v", burner.Yields(), light.Yields())
	}
	close(quit) // or the light one would go behind, too, as soon as it uses as much
	<-ended

	if err := light.Limit(limits(1)); err != nil {
		t.Fatal(err)
	}
	if much, little := use(light, burner); little > much/10 {
		t.Errorf("the one behind had %s of the processor, the other %s", little, much)
	}
	if err := burner.Yield(false); err != nil {
		t.Fatal(err)
	}
	// The kernel counts time in the last place as much more than it was, and has it
	// wait for that first.
	a, b := use(light, burner)
	for deadline := time.Now().Add(30 * time.Second); b < a/3 && time.Now().Before(deadline); {
		a, b = use(light, burner)
	}
	if burner.Yields() || b < a/3 {
		t.Errorf("in its turn again it had %s of the processor, the other %s", b, a)
	}
}

// use is how much of their one processor two have within two seconds.
func use(a, b sandboxGroup) (ofA, ofB time.Duration) {
	beforeA, beforeB := a.CPU(), b.CPU()
	time.Sleep(2 * time.Second)
	return a.CPU() - beforeA, b.CPU() - beforeB
}

func newGroups(t *testing.T) *cgroup.Manager {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	name := testenv.Mark() + "turns"
	groups, err := cgroup.New(string(mounts), name+"/test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := groups.Close(); err != nil {
			t.Error(err)
		}
		// A daemon leaves its two directories; these would have one of each run.
		for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
			dirs, err := filepath.Glob(pattern)
			if err != nil {
				t.Error(err)
			}
			for _, dir := range dirs {
				for _, one := range []string{filepath.Join(dir, "test"), dir} {
					if err := os.Remove(one); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Error(err)
					}
				}
			}
		}
	})
	return groups
}

// sandboxGroup is the control group of a sandbox, with programs in it, all on one
// processor.
type sandboxGroup struct{ cgroup.Group }

func limits(cores float64) cgroup.Limits {
	return cgroup.Limits{Memory: 64 << 20, CPU: cores, Pids: 16}
}

func newSandbox(t *testing.T, groups *cgroup.Manager, id string, cores float64) sandboxGroup {
	t.Helper()
	g := sandboxGroup{groups.Group(id)}
	if err := g.Create(limits(cores), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(10 * time.Second); err != nil {
			t.Error(err)
		}
	})
	return g
}

// run starts a script in the group, until the end of the test.
func (g sandboxGroup) run(t *testing.T, script string) {
	t.Helper()
	dir, tasks, err := g.Workload()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "read go; "+script)
	cmd.Stdin = in
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the script ended by itself")
		}
	})
	for _, task := range tasks {
		file := os.NewFile(uintptr(task), "tasks")
		defer file.Close()
		if _, err := file.WriteString(strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	var first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &first); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if first.IsSet(cpu) {
			first.Zero()
			first.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(cmd.Process.Pid, &first); err != nil {
		t.Fatal(err)
	}
	if _, err := out.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
}
