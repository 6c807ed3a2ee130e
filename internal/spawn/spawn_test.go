package spawn_test

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// run starts sh -c script with its output on a pipe and returns both.
func run(t *testing.T, c *spawn.Cmd, script string) (string, unix.WaitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", script}
	if c.Env == nil {
		c.Env = []string{"PATH=/usr/bin:/bin"}
	}
	if c.Files == nil {
		c.Files = map[int]int{}
	}
	c.Files[1], c.Files[2] = int(w.Fd()), int(w.Fd())
	p, err := spawn.Start(c)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p.PidFD)
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.PID, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	return string(out), ws
}

func TestStartRunsProgram(t *testing.T) {
	out, ws := run(t, &spawn.Cmd{Dir: "/usr", Env: []string{"A=b c", "PATH=/bin:/usr/bin"}}, `echo "$A"; pwd; exit 7`)
	if out != "b c\n/usr\n" || ws.ExitStatus() != 7 {
		t.Fatalf("out %q, status %v", out, ws)
	}
}

func TestFilesMayTradeNumbers(t *testing.T) {
	a, b := memfd(t, "first"), memfd(t, "second")
	// Each one's number is the other one's source.
	out, _ := run(t, &spawn.Cmd{Files: map[int]int{a: b, b: a}}, "cat /dev/fd/"+strconv.Itoa(a)+"; cat /dev/fd/"+strconv.Itoa(b))
	if out != "secondfirst" {
		t.Fatalf("got %q", out)
	}
}

// A program that is executed by its descriptor, whose number a file gets.
func TestFileMayTakeTheProgramsNumber(t *testing.T) {
	program, err := unix.Open("/bin/sh", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(program)
	content := memfd(t, "content")
	out, ws := run(t, &spawn.Cmd{ExecFD: program, Files: map[int]int{program: content}}, "cat /dev/fd/"+strconv.Itoa(program)+"; ls /proc/self/fd | wc -l")
	if out != "content4\n" || ws.ExitStatus() != 0 { // its output twice, the file, and the directory
		t.Fatalf("out %q, status %v", out, ws)
	}
}

func TestNothingElseIsOpen(t *testing.T) {
	leak, err := unix.Dup(1) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	// ls itself holds 0 on the directory it lists.
	out, _ := run(t, &spawn.Cmd{}, "ls /proc/self/fd | tr '\\n' ' '")
	if f := strings.Fields(out); len(f) != 3 || f[0] != "0" || f[2] != "2" {
		t.Fatalf("descriptors in the child: %q", out)
	}
}

func TestSignalsAreDefault(t *testing.T) {
	signal.Ignore(unix.SIGTERM)
	defer signal.Reset(unix.SIGTERM)
	out, _ := run(t, &spawn.Cmd{}, `grep -E '^Sig(Ign|Blk)' /proc/self/status | tr -d '\t\n'`)
	want := "SigBlk:0000000000000000SigIgn:0000000000000000"
	if out != want {
		t.Fatalf("got %s\nwant %s", out, want)
	}
}

func TestFailedStepIsNamed(t *testing.T) {
	steps := []spawn.Step{
		spawn.Chdir("/nowhere").Optional(),
		spawn.Chdir("/nowhere"),
	}
	_, err := spawn.Start(&spawn.Cmd{Path: "/bin/true", Args: []string{"true"}, Steps: steps})
	var se *spawn.StepError
	if !errors.As(err, &se) || se.Step != "chdir /nowhere" || !errors.Is(err, unix.ENOENT) {
		t.Fatalf("got %v", err)
	}
	_, err = spawn.Start(&spawn.Cmd{Path: "/nowhere", Args: []string{"x"}})
	if !errors.Is(err, unix.ENOENT) {
		t.Fatalf("exec of nothing: %v", err)
	}
}

func TestWriteFilePassesDescriptorOn(t *testing.T) {
	path := t.TempDir() + "/f"
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	steps := append([]spawn.Step{spawn.Setsid()}, spawn.WriteFile(1, path, "hello")...)
	out, _ := run(t, &spawn.Cmd{Steps: steps}, "cat "+path)
	if out != "hello" {
		t.Fatalf("got %q", out)
	}
}

func TestBarrierHoldsUntilByteOrEnd(t *testing.T) {
	for _, tc := range []struct {
		name string
		send bool
	}{{"byte", true}, {"end", false}} {
		t.Run(tc.name, func(t *testing.T) {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			// The write end must not live on in the child, or it would wait for itself.
			c := &spawn.Cmd{Path: "/bin/true", Args: []string{"true"}, Steps: append(spawn.CloseOthers(p[0]), spawn.Barrier(p[0]))}
			proc, err := c.Clone()
			if err != nil {
				t.Fatal(err)
			}
			if tc.send {
				if _, err := unix.Write(p[1], []byte{1}); err != nil {
					t.Fatal(err)
				}
			}
			unix.Close(p[1])
			err = proc.Wait()
			unix.Close(p[0])
			if tc.send {
				if err != nil {
					t.Fatal(err)
				}
				unix.Close(proc.PidFD)
				if _, err := unix.Wait4(proc.PID, nil, 0, nil); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, unix.EPROTO) {
				t.Fatalf("child passed the barrier: %v", err)
			}
		})
	}
}

// Children at barriers do not hold each other there: each ends when its own other side
// does, whatever was open when it was cloned.
func TestBarriersOfSeveralChildren(t *testing.T) {
	const children = 3
	var pairs [children][2]int
	for i := range pairs {
		if err := unix.Pipe2(pairs[i][:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	var procs [children]*spawn.Process
	for i, p := range pairs {
		c := &spawn.Cmd{Path: "/bin/true", Args: []string{"true"}, Steps: append(spawn.CloseOthers(p[0]), spawn.Barrier(p[0]))}
		var err error
		if procs[i], err = c.Clone(); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range pairs { // the others wait on
		unix.Close(p[1])
		ended := make(chan error, 1)
		go func() { ended <- procs[i].Wait() }()
		select {
		case err := <-ended:
			if !errors.Is(err, unix.EPROTO) {
				t.Errorf("child %d passed the barrier: %v", i, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("child %d waits for another one's other side", i)
		}
		unix.Close(p[0])
		unix.Close(procs[i].PidFD)
	}
}

func TestCopiedMemory(t *testing.T) {
	if out, ws := run(t, &spawn.Cmd{Memory: spawn.Copied, Dir: "/usr"}, "pwd; exit 3"); out != "/usr\n" || ws.ExitStatus() != 3 {
		t.Errorf("%q, %v", out, ws)
	}
	_, err := spawn.Start(&spawn.Cmd{Memory: spawn.Copied, Path: "/bin/true", Args: []string{"true"}, Steps: []spawn.Step{spawn.Setsid(), spawn.Chdir("/nowhere")}})
	var se *spawn.StepError
	if !errors.As(err, &se) || se.Step != "chdir /nowhere" {
		t.Errorf("failed step: %v", err)
	}
}

// What a child needs may be larger than usual, and images are used again.
func TestCopiedArguments(t *testing.T) {
	for _, size := range []int{1, 100 << 10, 2, 60 << 10, 3} {
		value := strings.Repeat("x", size)
		c := &spawn.Cmd{Memory: spawn.Copied, Env: []string{"A=" + value, "B=end"}}
		if out, ws := run(t, c, `printf %s "$A$B"`); out != value+"end" || ws != 0 {
			t.Errorf("%d bytes of environment: got %d, %v", size, len(out), ws)
		}
	}
}

// A child that is stopped before its program starts does not stop us.
func TestStoppedChildIsGivenUp(t *testing.T) {
	stop := spawn.Step{Name: "stop", Nr: unix.SYS_KILL}
	stop.Args[1] = uintptr(unix.SIGSTOP)
	// kill(0) is the whole process group, so the child first gets one of its own.
	_, err := spawn.Start(&spawn.Cmd{Memory: spawn.Copied, Path: "/bin/true", Args: []string{"true"}, Steps: []spawn.Step{spawn.Setsid(), stop}})
	if !errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("got %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if out, ws := run(t, &spawn.Cmd{}, "echo $((6*7))"); out != "42\n" || ws != 0 {
					t.Errorf("out %q status %v", out, ws)
				}
			}
		})
	}
	wg.Wait()
}

func TestIdentityOwnsUserNamespace(t *testing.T) {
	testenv.NeedsRoot(t)
	c := &spawn.Cmd{
		CloneFlags: unix.CLONE_NEWUSER,
		Identity:   &spawn.Identity{UID: 70001, GID: 70002},
	}
	out, _ := run(t, c, "id -u; id -g; grep CapEff /proc/self/status | tr -d '\\t'")
	// Not mapped, so shown as the overflow ids; and exec of a non-root takes
	// the capabilities away.
	if out != "65534\n65534\nCapEff:0000000000000000\n" {
		t.Fatalf("got %q", out)
	}
	out, _ = run(t, &spawn.Cmd{Identity: &spawn.Identity{UID: 70001, GID: 70002}}, "grep -E '^(Uid|Gid)' /proc/self/status")
	if out != "Uid:\t70001\t70001\t70001\t70001\nGid:\t70002\t70002\t70002\t70002\n" {
		t.Fatalf("got %q", out)
	}
	if os.Geteuid() != 0 {
		t.Fatal("the parent's identity was not restored")
	}
}

func memfd(t *testing.T, text string) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.Pwrite(fd, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
	return fd
}

func BenchmarkStartTrue(b *testing.B) {
	for name, memory := range map[string]spawn.Memory{"shared": spawn.Shared, "copied": spawn.Copied} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := spawn.Start(&spawn.Cmd{Path: "/bin/true", Args: []string{"true"}, Memory: memory})
				if err != nil {
					b.Fatal(err)
				}
				unix.Close(p.PidFD)
				if _, err := unix.Wait4(p.PID, nil, 0, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
