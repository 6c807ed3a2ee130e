package seccomp_test

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp/seccomptest"
)

// expected is seccomptest.Calls: verdicts by number, one per column.
type expected map[uint32][]string

func readExpected(t *testing.T) expected {
	t.Helper()
	table := expected{}
	for line := range strings.Lines(seccomptest.Calls) {
		fields := strings.Fields(line)
		if len(fields) != 5 {
			continue
		}
		nr, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil {
			continue
		}
		table[uint32(nr)] = fields[1:]
	}
	if len(table) < 380 {
		t.Fatalf("only %d calls", len(table))
	}
	return table
}

// Every number there is or could be, each with arguments that a plain
// decision must not depend on.
func TestPolicies_EveryNumber(t *testing.T) {
	table := readExpected(t)
	for column, p := range []seccomp.Policy{
		seccomp.Workload(runtime.SeccompStrict), seccomp.Workload(runtime.SeccompMVP), seccomp.Runner(runtime.SeccompStrict),
	} {
		prog := compile(t, p)
		for nr := range uint32(1024) {
			name, want := "no call", "ENOSYS"
			if row, ok := table[nr]; ok {
				name, want = row[0], row[1+column]
			}
			for _, args := range argumentVectors() {
				got := answer(t, prog, call{nr: nr, arch: auditAMD64, args: args})
				if want != "args" && got != want {
					t.Errorf("policy %d: %d %s %x: got %s, want %s", column, nr, name, args, got, want)
				}
			}
		}
	}
}

// What is not x86-64 proper never gets as far as the kernel's call tables.
func TestPolicies_OtherABIs(t *testing.T) {
	const x32 = 1 << 30
	for name, p := range policies() {
		prog := compile(t, p)
		for nr := range uint32(1024) {
			for _, args := range argumentVectors() {
				for _, arch := range []uint32{0x40000003, 0xc00000b7, 0, 0xffffffff, auditAMD64 ^ 1} {
					if got := answer(t, prog, call{nr: nr, arch: arch, args: args}); got != "kill" {
						t.Fatalf("%s: number %d of architecture %#x: %s", name, nr, arch, got)
					}
				}
				for _, bit := range []uint32{x32, 1 << 31, x32 | 1<<31, 1 << 16} {
					if got := answer(t, prog, call{nr: bit | nr, arch: auditAMD64, args: args}); got != "ENOSYS" {
						t.Fatalf("%s: number %#x: %s", name, bit|nr, got)
					}
				}
			}
		}
		if got := answer(t, prog, call{nr: 0xffffffff, arch: auditAMD64}); got != "ENOSYS" {
			t.Errorf("%s: number -1: %s", name, got)
		}
	}
}

// A child of the runner is under both filters and the stricter answer holds:
// what the runner's refuses, no workload can have.
func TestRunner_AllowsWhatWorkloadDoes(t *testing.T) {
	for _, mode := range []runtime.SeccompMode{runtime.SeccompStrict, runtime.SeccompMVP} {
		runner, workload := compile(t, seccomp.Runner(mode)), compile(t, seccomp.Workload(mode))
		for nr := range uint32(1024) {
			for _, args := range argumentVectors() {
				c := call{nr: nr, arch: auditAMD64, args: args}
				if answer(t, workload, c) == "allow" && answer(t, runner, c) != "allow" {
					t.Errorf("%s: %d %x: the workload may and the runner may not", mode, nr, args)
				}
			}
		}
	}
}

// That answer is Workload's, for every call of every instruction set.
func TestNarrow_MakesWorkloadOfRunner(t *testing.T) {
	for _, mode := range []runtime.SeccompMode{runtime.SeccompStrict, runtime.SeccompMVP, "strikt"} {
		runner, narrow, workload := compile(t, seccomp.Runner(mode)), compile(t, seccomp.Narrow(mode)), compile(t, seccomp.Workload(mode))
		if len(narrow)*5 > len(workload) {
			t.Errorf("%s: %d instructions, beside %d of the whole", mode, len(narrow), len(workload))
		}
		for nr := range uint32(1024) {
			for _, args := range argumentVectors() {
				for _, c := range []call{
					{nr: nr, arch: auditAMD64, args: args},
					{nr: nr | 1<<30, arch: auditAMD64, args: args},
					{nr: ^nr, arch: auditAMD64, args: args},
					{nr: nr, arch: 0x40000003, args: args},
				} {
					if got, want := stricter(t, narrow, runner, c), answer(t, workload, c); got != want {
						t.Errorf("%s: %+v: got %s, want %s", mode, c, got, want)
					}
				}
			}
		}
	}
}

// stricter is the kernel's answer where both programs were loaded, newer last.
func stricter(t *testing.T, newer, older []unix.SockFilter, c call) string {
	t.Helper()
	first, readArgs, err1 := run(newer, c)
	second, _, err2 := run(older, c)
	if err1 != nil || err2 != nil || readArgs {
		t.Fatalf("%+v: %v, %v, or it reads an argument", c, err1, err2)
	}
	const kind = 0xffff0000
	if int32(second&kind) < int32(first&kind) {
		return verdict(second)
	}
	return verdict(first)
}

// The kernel this runs on may know calls that the table does not. They are
// refused; this says when the table is worth extending.
func TestArch_KnowsThisKernelsLanguage(t *testing.T) {
	calls := seccomp.Workload(runtime.SeccompStrict).Arch.Calls
	for nr, want := range map[int]string{
		unix.SYS_READ: "read", unix.SYS_CLONE3: "clone3", unix.SYS_MSEAL: "mseal", unix.SYS_FILE_SETATTR: "file_setattr",
		unix.SYS_PTRACE: "ptrace", unix.SYS_MOUNT: "mount", unix.SYS_IO_URING_SETUP: "io_uring_setup",
	} {
		if calls[nr] != want {
			t.Errorf("%d is %q, want %q", nr, calls[nr], want)
		}
	}
}

func answer(t *testing.T, prog []unix.SockFilter, c call) string {
	t.Helper()
	action, _, err := run(prog, c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return verdict(action)
}

// argumentVectors are arguments of all kinds, in every position.
func argumentVectors() [][6]uint64 {
	vectors := [][6]uint64{{}, {^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}}
	for _, v := range []uint64{1, 0x5412, 0x02000000, 0x10000000, 1 << 32, 1<<32 | 0x10000000} {
		vectors = append(vectors, [6]uint64{v, v, v, v, v, v})
	}
	return vectors
}
