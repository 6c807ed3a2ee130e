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
		{"cgroup", leakCgroup, "cgroup "},
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
	file := filepath.Join(DataDir(t), "image")
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
	dir := DataDir(t)
	run(t, "mount", "-t", "tmpfs", "tmpfs", dir)
	return func() { run(t, "umount", dir) }
}

func leakCgroup(t *testing.T) func() {
	NeedsRoot(t)
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		root += "/pids" // not v2: any v1 hierarchy will do
	}
	dir := filepath.Join(root, Mark()+"leak")
	sandbox := filepath.Join(dir, "node", "id")
	if err := os.MkdirAll(sandbox, 0o755); err != nil {
		t.Fatal(err)
	}
	return func() { run(t, "rmdir", sandbox, filepath.Dir(sandbox), dir) }
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
