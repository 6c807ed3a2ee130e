package testenv

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

// recorder is a testing.TB that ends like a test does and remembers how.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper() {}

func (r *recorder) Context() context.Context { return context.Background() }

func (r *recorder) Skip(args ...any) { r.finish("skip: " + fmt.Sprint(args...)) }

func (r *recorder) Skipf(format string, args ...any) {
	r.finish("skip: " + fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.finish("fail: " + fmt.Sprintf(format, args...))
}

func (r *recorder) finish(end string) {
	r.end = end
	runtime.Goexit()
}

// record returns how a test that does f ends: "skip: ...", "fail: ..." or "".
func record(f func(testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.end
}

func TestUnsupportedSkipsOnlyWhereSkipsAreAllowed(t *testing.T) {
	unsupported := func(t testing.TB) { Unsupported(t, "no %s here", "kvm") }
	for mode, want := range map[string]string{
		"":  "skip: no kvm here",
		"0": "skip: no kvm here",
		"1": "fail: " + RootMode + "=1 and this machine cannot run the test: no kvm here",
	} {
		t.Setenv(RootMode, mode)
		if got := record(unsupported); got != want {
			t.Errorf("%s=%q: %q, want %q", RootMode, mode, got, want)
		}
	}
}

func TestNeedsRoot(t *testing.T) {
	root := os.Geteuid() == 0
	for mode, ends := range map[string]map[bool]string{
		"":  {true: "", false: "skip: needs root"},
		"0": {true: "skip: " + RootMode, false: "skip: " + RootMode},
		"1": {true: "", false: "fail: "},
	} {
		t.Setenv(RootMode, mode)
		want, got := ends[root], record(func(t testing.TB) { NeedsRoot(t) })
		if (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s=%q: %q, want %q", RootMode, mode, got, want)
		}
	}
}

func TestDataDirIsPrivateOnDiskAndRemoved(t *testing.T) {
	var dir string
	t.Run("test", func(t *testing.T) {
		dir = DataDir(t)
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("stat %s: %v, %v", dir, info, err)
		}
		if !onDisk(dir) {
			t.Errorf("%s is not on a disk", dir)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the test, stat %s: %v", dir, err)
	}
	if onDisk("/dev/shm") {
		t.Error("/dev/shm counts as a disk")
	}
}

// TestLeaks makes one thing of each kind, and sees it reported while it is
// there and no longer when it is gone.
func TestLeaks(t *testing.T) {
	for _, kind := range []struct {
		name string
		make func(t *testing.T) (remove func())
		want string
	}{
		{"descriptor", leakDescriptor, "descriptor"},
		{"child", leakChild, "(sleep)"},
		{"loop device", leakLoop, "loop device loop"},
		{"mount", leakMount, "mount "},
		{"loop mount elsewhere", leakLoopMount, "mount "},
		{"marked cgroup", leakCgroup, "cgroup "},
		{"cgroup of a data directory", leakNode, "cgroup "},
		{"cgroup of a data directory that is gone", leakGoneNode, "cgroup "},
	} {
		t.Run(kind.name, func(t *testing.T) {
			before, err := hostState()
			if err != nil {
				t.Fatal(err)
			}
			remove := kind.make(t)
			left, err := before.left()
			remove()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(left, func(s string) bool { return strings.Contains(s, kind.want) }) {
				t.Errorf("left %q, want one with %q", left, kind.want)
			}
			if err := before.waitFor(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOthersLeaveNothing makes during a check what other daemons and other tests
// of a host make, and sees nothing reported.
func TestOthersLeaveNothing(t *testing.T) {
	NeedsRoot(t)
	otherTest := markPrefix + "1-other" // process 1 is no test
	for _, other := range []struct {
		name string
		make func(t *testing.T, dir string) (remove func())
	}{
		{"loop device", func(t *testing.T, dir string) func() { return makeLoop(t, dir) }},
		{"mount", func(t *testing.T, dir string) func() { return makeMount(t, dir) }},
		{"loop mount", func(t *testing.T, dir string) func() { return makeLoopMount(t, dir, dir) }},
		{"cgroup of a daemon", func(t *testing.T, dir string) func() { return makeGroups(t, "sandkasten", NodeName(dir)) }},
		{"lease of a daemon", func(t *testing.T, dir string) func() {
			return makeGroups(t, "sandkasten", "_ids", "1", NodeName(dir))
		}},
		{"cgroup of another test", func(t *testing.T, _ string) func() { return makeGroups(t, otherTest, "node", "id") }},
		{"process", func(t *testing.T, _ string) func() { return makeOrphan(t) }},
	} {
		for _, whose := range []string{otherTest, "sandkasten-daemon"} {
			t.Run(other.name+" of "+whose, func(t *testing.T) {
				dir, err := os.MkdirTemp("/var/tmp", whose)
				if err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(dir)
				before, err := hostState()
				if err != nil {
					t.Fatal(err)
				}
				remove := other.make(t, dir)
				left, err := before.left()
				remove()
				if err != nil || len(left) > 0 {
					t.Errorf("left %q, %v; want nothing", left, err)
				}
			})
		}
	}
}

func leakDescriptor(t *testing.T) func() {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

func leakChild(t *testing.T) func() {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("sleep was not killed")
		}
	}
}

func leakLoop(t *testing.T) func() {
	NeedsRoot(t)
	return makeLoop(t, DataDir(t))
}

// makeLoop attaches an image in dir.
func makeLoop(t *testing.T, dir string) func() {
	file := filepath.Join(dir, "image")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	return func() { run(t, "losetup", "--detach", strings.TrimSpace(string(out))) }
}

func leakMount(t *testing.T) func() {
	NeedsRoot(t)
	return makeMount(t, DataDir(t))
}

func makeMount(t *testing.T, dir string) func() {
	run(t, "mount", "-t", "tmpfs", "tmpfs", dir)
	return func() { run(t, "umount", dir) }
}

// leakLoopMount mounts an image of a data directory at a path without a mark.
func leakLoopMount(t *testing.T) func() {
	NeedsRoot(t)
	return makeLoopMount(t, DataDir(t), t.TempDir())
}

// makeLoopMount mounts an image in dir at a path.
func makeLoopMount(t *testing.T, dir, at string) func() {
	file := filepath.Join(dir, "image")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", file)
	run(t, "mount", "-o", "loop", file, at)
	return func() { run(t, "umount", at) }
}

func leakCgroup(t *testing.T) func() {
	NeedsRoot(t)
	return makeGroups(t, Mark()+"leak", "node", "id")
}

func leakNode(t *testing.T) func() {
	NeedsRoot(t)
	return makeGroups(t, "sandkasten", NodeName(DataDir(t)), "id")
}

// leakGoneNode makes a group of an installation whose directory has gone before
// anyone looks for groups.
func leakGoneNode(t *testing.T) func() {
	NeedsRoot(t)
	var remove func()
	t.Run("daemon", func(t *testing.T) {
		data := filepath.Join(DataDir(t), "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "node"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		remove = makeGroups(t, "sandkasten", NodeName(data), "id")
	})
	return remove
}

// makeGroups makes a control group and those above it.
func makeGroups(t *testing.T, names ...string) func() {
	dir := "/sys/fs/cgroup"
	if _, err := os.Stat(dir + "/cgroup.procs"); err != nil {
		dir += "/pids" // not v2: any v1 hierarchy will do
	}
	var made []string
	for _, name := range names {
		dir = filepath.Join(dir, name)
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			made = append(made, dir)
		case !errors.Is(err, fs.ErrExist):
			t.Fatal(err)
		}
	}
	return func() {
		for _, dir := range slices.Backward(made) {
			// Another daemon may have begun to use a directory that all share.
			if err := os.Remove(dir); err != nil && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
				t.Error(err)
			}
		}
	}
}

// makeOrphan starts a process that is no child of this one.
func makeOrphan(t *testing.T) func() {
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	return func() { run(t, "kill", strings.TrimSpace(string(out))) }
}

// A walk along the parents finds children, their children, and orphans with a
// mark, and no process of others.
func TestOffspring(t *testing.T) {
	number := fmt.Sprintf("1000.%d", os.Getpid())
	sh := exec.CommandContext(t.Context(), "sh", "-c", "sleep "+number+" & cat")
	stdin, err := sh.StdinPipe()
	if err == nil {
		err = sh.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	sleeps := func() []int {
		t.Helper()
		below, err := Offspring(CommandHas(number))
		if err != nil || slices.Contains(below, os.Getpid()) || slices.Contains(below, 1) {
			t.Errorf("offspring %v, %v", below, err)
		}
		return slices.DeleteFunc(below, func(pid int) bool { return pid == sh.Process.Pid || !CommandHas(number)(pid) })
	}
	var grandchild []int
	Eventually(t, "sh starts sleep", func() bool { grandchild = sleeps(); return len(grandchild) == 1 })
	if err := errors.Join(stdin.Close(), sh.Wait()); err != nil {
		t.Error(err)
	}
	if orphan := sleeps(); !slices.Equal(orphan, grandchild) {
		t.Errorf("the orphan is %v, want %v", orphan, grandchild)
	}
	for _, pid := range grandchild {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	Eventually(t, "sleep ends", func() bool { return len(sleeps()) == 0 })
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
}

func TestBaseRootfsHasWhatTestsCall(t *testing.T) {
	NeedsRoot(t)
	root := BaseRootfs(t)
	for _, path := range []string{"bin/bash", "bin/sh", "bin/ps", "usr/bin/python3", "etc/passwd"} {
		if _, err := os.Lstat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
}

func TestModuleRoot(t *testing.T) {
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "internal", "testenv")); err != nil {
		t.Error(err)
	}
	t.Chdir("/")
	if root, err := ModuleRoot(); err == nil {
		t.Errorf("found a module at %s, above /", root)
	}
}

func TestRunnerIsStaticAndBuiltOnce(t *testing.T) {
	first := Runner(t)
	f, err := elf.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the runner wants a dynamic linker, which an image may not have")
		}
	}
	if second := Runner(t); second != first {
		t.Errorf("%s, then %s", first, second)
	}
	t.Setenv(BinVar, "/built")
	if got := Build(t, "./cmd/runner"); got != "/built/runner" {
		t.Errorf("with %s: %s", BinVar, got)
	}
}

func TestBuildSaysWhatIsWrong(t *testing.T) {
	end := record(func(t testing.TB) { Build(t, "./internal/testenv/none") })
	if !strings.HasPrefix(end, "fail: build ./internal/testenv/none: ") {
		t.Errorf("end %q", end)
	}
}

// Programs of two packages are two files, whatever the last parts of their paths are.
func TestBuildsOfTwoPackagesAreTwoFiles(t *testing.T) {
	t.Parallel()
	one := Build(t, "./internal/runtime/linux/testdata/crash", "failpoint")
	other := Build(t, "./internal/runtime/docker/testdata/crash", "failpoint")
	if one == other || filepath.Base(one) != filepath.Base(other) {
		t.Fatalf("built as %s and %s, want one name in two places", one, other)
	}
}
