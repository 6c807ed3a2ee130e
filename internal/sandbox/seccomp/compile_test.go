package seccomp_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
)

const auditAMD64 = 0xc000003e

func compile(t testing.TB, p seccomp.Policy) []unix.SockFilter {
	t.Helper()
	prog, err := seccomp.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(prog) > seccomp.MaxInstructions {
		t.Fatalf("%d instructions", len(prog))
	}
	return prog
}

// policies is every policy that is a program.
func policies() map[string]seccomp.Policy {
	return map[string]seccomp.Policy{
		"workload strict": seccomp.Workload(runtime.SeccompStrict),
		"workload mvp":    seccomp.Workload(runtime.SeccompMVP),
		"runner strict":   seccomp.Runner(runtime.SeccompStrict),
		"runner mvp":      seccomp.Runner(runtime.SeccompMVP),
	}
}

func TestCompile_Off(t *testing.T) {
	for _, p := range []seccomp.Policy{seccomp.Workload(runtime.SeccompOff), seccomp.Runner(runtime.SeccompOff), seccomp.Narrow(runtime.SeccompOff)} {
		prog, err := seccomp.Compile(p)
		if prog != nil || err != nil {
			t.Errorf("got %d instructions, %v; want none", len(prog), err)
		}
	}
}

func TestWorkload_UnknownModeIsStrict(t *testing.T) {
	got := compile(t, seccomp.Workload("strikt"))
	want := compile(t, seccomp.Workload(runtime.SeccompStrict))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("a mode that does not exist is not strict")
	}
}

func TestCompile_RefusesBadPolicies(t *testing.T) {
	arch := seccomp.Arch{Name: "toy", Audit: 7, Calls: []string{"a", "b"}}
	allow := func(names ...string) seccomp.Rule { return seccomp.Rule{Then: seccomp.Allow, Calls: names} }
	with := func(c seccomp.Cond) []seccomp.Rule {
		r := allow("a", "b")
		r.Check = []seccomp.Case{{When: []seccomp.Cond{c}, Then: seccomp.KillProcess}}
		return []seccomp.Rule{r}
	}
	for name, tc := range map[string]struct {
		rules []seccomp.Rule
		want  string
	}{
		"call without a rule":     {[]seccomp.Rule{allow("a")}, "no rule for b"},
		"call with two rules":     {[]seccomp.Rule{allow("a", "b"), allow("b")}, "two rules for b"},
		"call that is not":        {[]seccomp.Rule{allow("a", "b", "c")}, "no call named c on toy"},
		"condition without value": {with(seccomp.Cond{Mask: 1}), "a condition without"},
		"seventh argument":        {with(seccomp.Cond{Arg: 6, Mask: 1, In: []seccomp.Range{{}}}), "a condition without"},
		"value outside the mask":  {with(seccomp.Cond{Mask: 0xf, In: []seccomp.Range{{Lo: 16, Hi: 16}}}), "cannot be under mask"},
		"range backwards":         {with(seccomp.Cond{Mask: 0xf, In: []seccomp.Range{{Lo: 2, Hi: 1}}}), "cannot be under mask"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := seccomp.Compile(seccomp.Policy{Arch: arch, Rules: tc.rules})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCompile_RefusesLongPrograms(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := randomPolicy(rng, 1000)
	for i := range p.Rules {
		p.Rules[i].Check = make([]seccomp.Case, 10)
	}
	if _, err := seccomp.Compile(p); err == nil || !strings.Contains(err.Error(), "the kernel takes 4096") {
		t.Errorf("got %v", err)
	}
}

// A decision that needs no argument must not read one, or the kernel would
// run the program at each of these calls instead of looking in its bitmap.
func TestCompile_PlainDecisionsReadNoArgument(t *testing.T) {
	for name, p := range policies() {
		prog := compile(t, p)
		checked := map[string]bool{}
		for _, r := range p.Rules {
			for _, c := range r.Calls {
				checked[c] = len(r.Check) > 0
			}
		}
		for nr, sysname := range p.Arch.Calls {
			_, read, err := run(prog, call{nr: uint32(nr), arch: auditAMD64})
			if err != nil || read != checked[sysname] {
				t.Errorf("%s: %s: read an argument: %v, %v", name, sysname, read, err)
			}
		}
	}
}

// randomPolicy has calls calls, some without a name, under rules with any
// number of cases, so that branches of all lengths occur.
func randomPolicy(rng *rand.Rand, calls int) seccomp.Policy {
	p := seccomp.Policy{
		Arch:    seccomp.Arch{Name: "random", Audit: rng.Uint32(), Calls: make([]string, calls)},
		Foreign: seccomp.KillProcess,
		Unknown: seccomp.Errno(unix.ENOSYS),
	}
	for i := range 1 + rng.IntN(12) {
		p.Rules = append(p.Rules, seccomp.Rule{Group: fmt.Sprint(i), Then: seccomp.Action(i), Check: randomCases(rng)})
	}
	for nr := range calls {
		if rng.IntN(10) == 0 {
			continue
		}
		p.Arch.Calls[nr] = fmt.Sprint("call", nr)
		r := &p.Rules[rng.IntN(len(p.Rules))]
		r.Calls = append(r.Calls, p.Arch.Calls[nr])
	}
	return p
}

func randomCases(rng *rand.Rand) []seccomp.Case {
	var cases []seccomp.Case
	for i := range rng.IntN(4) {
		c := seccomp.Case{Then: seccomp.Action(100 + i)}
		for range rng.IntN(3) {
			cond := seccomp.Cond{Arg: rng.IntN(6), Mask: []uint32{0xff, 0xf0, 0xffffffff}[rng.IntN(3)]}
			for range 1 + rng.IntN(90) {
				lo := uint32(rng.IntN(256)) & cond.Mask
				cond.In = append(cond.In, seccomp.Range{Lo: lo, Hi: lo | uint32(rng.IntN(16))&cond.Mask})
			}
			c.When = append(c.When, cond)
		}
		cases = append(cases, c)
	}
	return cases
}

// FuzzCompile holds programs of random policies against the rules themselves.
func FuzzCompile(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := randomPolicy(rng, rng.IntN(60))
		prog, err := seccomp.Compile(p)
		if err != nil {
			if strings.Contains(err.Error(), "the kernel takes") {
				return
			}
			t.Fatal(err)
		}
		for range 500 {
			c := call{nr: uint32(rng.IntN(70)), arch: p.Arch.Audit}
			for i := range c.args {
				c.args[i] = uint64(rng.IntN(300)) | uint64(rng.IntN(2))<<32
			}
			compare(t, p, prog, c)
		}
	})
}

// FuzzPolicies holds our own policies' programs against their rules.
func FuzzPolicies(f *testing.F) {
	f.Add(uint32(unix.SYS_IOCTL), uint32(auditAMD64), uint64(0), uint64(1<<32|unix.TIOCSTI), uint64(0))
	f.Add(uint32(unix.SYS_SOCKET), uint32(auditAMD64), uint64(unix.AF_ALG), uint64(5), uint64(0))
	f.Add(uint32(1<<30|unix.SYS_PTRACE), uint32(auditAMD64), uint64(0), uint64(0), uint64(0))
	f.Add(uint32(102), uint32(0x40000003), uint64(1), uint64(0), uint64(0))
	all := policies()
	progs := map[string][]unix.SockFilter{}
	for name, p := range all {
		progs[name] = compile(f, p)
	}
	f.Fuzz(func(t *testing.T, nr, arch uint32, a0, a1, a2 uint64) {
		for name, p := range all {
			compare(t, p, progs[name], call{nr: nr, arch: arch, args: [6]uint64{a0, a1, a2}})
		}
	})
}

func compare(t *testing.T, p seccomp.Policy, prog []unix.SockFilter, c call) {
	t.Helper()
	got, _, err := run(prog, c)
	if want := decide(p, c); err != nil || got != want {
		t.Fatalf("%+v: got %s, %v; want %s", c, verdict(got), err, verdict(want))
	}
}
