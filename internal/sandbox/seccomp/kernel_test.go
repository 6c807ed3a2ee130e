package seccomp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// The tests in this file load real filters. A filter cannot be taken off
// again, so each runs in a child: this binary, started with childEnv.
const childEnv = "SECCOMP_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := child(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(125)
	}
}

// child takes the filters of a mode's workload and does one thing under them.
func child(mode, action string, args []string) error {
	for _, policy := range []func(runtime.SeccompMode) seccomp.Policy{seccomp.Runner, seccomp.Narrow} {
		if err := load(policy(runtime.SeccompMode(mode))); err != nil {
			return err
		}
	}
	switch action {
	case "exec":
		path, err := exec.LookPath(args[0])
		if err != nil {
			return err
		}
		return syscall.Exec(path, args, os.Environ())
	case "calls":
		return tryCalls(os.Stdin, os.Stdout)
	case "relay":
		return relay()
	}
	return fmt.Errorf("no action %q", action)
}

func load(p seccomp.Policy) error {
	prog, err := seccomp.Compile(p)
	if err != nil || prog == nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	fprog := &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(fprog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// inChild runs an action under a mode's filter.
func inChild(t *testing.T, mode runtime.SeccompMode, stdin io.Reader, action string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append([]string{string(mode), action}, args...)...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Dir = t.TempDir()
	cmd.Stdin = stdin
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	return out.String(), errOut.String(), err
}

// rawCall is a call to make, and Errno what came of it.
type rawCall struct {
	Nr    uintptr
	Args  [6]uintptr
	Errno syscall.Errno
}

func tryCalls(in io.Reader, out io.Writer) error {
	var calls []rawCall
	if err := json.NewDecoder(in).Decode(&calls); err != nil {
		return err
	}
	for i, c := range calls {
		_, _, calls[i].Errno = unix.Syscall6(c.Nr, c.Args[0], c.Args[1], c.Args[2], c.Args[3], c.Args[4], c.Args[5])
	}
	return json.NewEncoder(out).Encode(calls)
}

func kernelAnswers(t *testing.T, mode runtime.SeccompMode, calls []rawCall) []rawCall {
	t.Helper()
	in, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	out, stderr, err := inChild(t, mode, bytes.NewReader(in), "calls")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	var answers []rawCall
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// Every refused call is made, with arguments that no call can use, and must
// come back with the error of the table. Without the filter it must not, or
// this test would say nothing about the filter.
func TestKernel_RefusedCalls(t *testing.T) {
	var calls []rawCall
	var names, want []string
	for nr, row := range readExpected(t) {
		switch {
		case row[1] == "allow" || row[1] == "args":
			continue
		case row[0] == "vhangup" || strings.HasSuffix(row[0], "probe"):
			continue // has no arguments to get wrong; kill the caller by design
		}
		c := rawCall{Nr: uintptr(nr)}
		for i := range c.Args {
			c.Args[i] = ^uintptr(0)
		}
		if row[1] == "EINVAL" {
			c.Args[3], c.Args[5] = 0, 0 // no wrong flags: the descriptors are wrong enough
		}
		calls, names, want = append(calls, c), append(names, row[0]), append(want, row[1])
	}
	filtered := kernelAnswers(t, runtime.SeccompStrict, calls)
	free := kernelAnswers(t, runtime.SeccompOff, calls)
	for i, name := range names {
		if got := unix.ErrnoName(filtered[i].Errno); got != want[i] {
			t.Errorf("%s: %s, want %s", name, got, want[i])
		}
		if got := unix.ErrnoName(free[i].Errno); os.Getuid() == 0 && want[i] != "ENOSYS" && got == want[i] {
			t.Errorf("%s: %s also without the filter", name, got)
		}
	}
}

func TestKernel_Arguments(t *testing.T) {
	const badFD = ^uintptr(0)
	high := uintptr(1) << 32
	calls := []rawCall{
		{Nr: unix.SYS_IOCTL, Args: [6]uintptr{badFD, unix.TIOCSTI}},
		{Nr: unix.SYS_IOCTL, Args: [6]uintptr{badFD, high | unix.TIOCSTI}},
		{Nr: unix.SYS_IOCTL, Args: [6]uintptr{badFD, high | unix.TIOCSETD}},
		{Nr: unix.SYS_CLONE, Args: [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_THREAD}},
		{Nr: unix.SYS_CLONE, Args: [6]uintptr{high | unix.CLONE_NEWNET | unix.CLONE_THREAD}},
		{Nr: unix.SYS_PERSONALITY, Args: [6]uintptr{high | 0x40000}},
		{Nr: unix.SYS_MKNODAT, Args: [6]uintptr{badFD, 0, unix.S_IFCHR}},
		{Nr: unix.SYS_SETSOCKOPT, Args: [6]uintptr{badFD, unix.SOL_TCP, high | unix.TCP_ULP}},
	}
	free := kernelAnswers(t, runtime.SeccompOff, calls)
	for i, got := range kernelAnswers(t, runtime.SeccompStrict, calls) {
		if got.Errno != unix.EPERM || free[i].Errno == unix.EPERM {
			t.Errorf("call %d %x: %s with the filter and %s without", got.Nr, got.Args, got.Errno, free[i].Errno)
		}
	}
	sockets := []rawCall{
		{Nr: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_VSOCK, unix.SOCK_STREAM}},
		{Nr: unix.SYS_SOCKET, Args: [6]uintptr{high | unix.AF_VSOCK, unix.SOCK_STREAM}},
		{Nr: unix.SYS_SOCKET, Args: [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}},
	}
	for i, want := range []error{unix.EAFNOSUPPORT, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT} {
		if got := kernelAnswers(t, runtime.SeccompStrict, sockets[i:i+1])[0]; got.Errno != want {
			t.Errorf("socket %x: %s, want %s", got.Args, got.Errno, want)
		}
	}
	x32 := []rawCall{{Nr: 1<<30 | unix.SYS_GETPID}, {Nr: 1 << 16}, {Nr: 999}}
	for _, got := range kernelAnswers(t, runtime.SeccompStrict, x32) {
		if got.Errno != unix.ENOSYS {
			t.Errorf("number %#x: %s", got.Nr, got.Errno)
		}
	}
}

// The 32-bit tables are a way around every check of this package, by a 32-bit
// program as well as by a 64-bit one that knows int 0x80.
func TestKernel_ForeignCallsKill(t *testing.T) {
	for program, goarch := range map[string]string{"i386": "386", "int80": "amd64"} {
		t.Run(program, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), program)
			build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./testdata/"+program)
			build.Env = append(os.Environ(), "GOARCH="+goarch, "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			_, out, err := inChild(t, runtime.SeccompOff, nil, "exec", bin)
			if err != nil || !strings.HasPrefix(out, "alive") {
				testenv.Unsupported(t, "no 32-bit calls in this kernel: %q, %v", out, err)
			}
			_, out, err = inChild(t, runtime.SeccompStrict, nil, "exec", bin)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGSYS {
				t.Errorf("printed %q and ended with %v, want SIGSYS", out, err)
			}
		})
	}
}

// Go's net package moves data between connections with splice.
func TestKernel_GoFallsBackFromSplice(t *testing.T) {
	out, stderr, err := inChild(t, runtime.SeccompStrict, nil, "relay")
	if err != nil || out != "through two connections" {
		t.Errorf("got %q, %v: %s", out, err, stderr)
	}
}

// relay sends a sentence through a copy from one TCP connection to another.
func relay() error {
	var conns [4]net.Conn
	for i := range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		dial := net.Dialer{}
		if conns[2*i], err = dial.DialContext(context.Background(), "tcp", ln.Addr().String()); err != nil {
			return err
		}
		if conns[2*i+1], err = ln.Accept(); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(conns[0], "through two connections"); err != nil {
		return err
	}
	if err := conns[0].Close(); err != nil {
		return err
	}
	if _, err := io.Copy(conns[2], conns[1]); err != nil {
		return err
	}
	if err := conns[2].Close(); err != nil {
		return err
	}
	_, err := io.Copy(os.Stdout, conns[3])
	return err
}
