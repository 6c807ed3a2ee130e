package seccomp_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
)

var update = flag.Bool("update", false, "write docs/seccomp.md anew")

const docsPath = "../../../docs/seccomp.md"

// docs/seccomp.md is the policies in words. Run with -update after a change.
func TestDocs(t *testing.T) {
	want := document()
	if *update {
		if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/seccomp.md is not what the policies say; run: go test ./internal/sandbox/seccomp -run TestDocs -update")
	}
}

const docsHead = `# System calls

Which system calls a sandbox may make, and why not the others. This page is written from the policy itself
(` + "`go test ./internal/sandbox/seccomp -run TestDocs -update`" + `); the table is that of %s.

A call that needs no look at its arguments is decided by its number. Where arguments decide, only their low 32 bits are
looked at, as the kernel does, but for pointers that may be null. A call that is "done" succeeds and changes nothing. A
number that the table does not name, an x32 number among them, fails with ENOSYS. A call of another instruction set,
which a 32-bit program makes, kills the process.

` + "`security.seccomp`" + ` chooses the policy: ` + "`strict`" + ` is the default, ` + "`mvp`" + ` differs where the
tables say so, ` + "`off`" + ` is no filter at all.
`

func document() string {
	strict, runner := seccomp.Workload(runtime.SeccompStrict), seccomp.Runner(runtime.SeccompStrict)
	mvp := seccomp.Workload(runtime.SeccompMVP)
	var b strings.Builder
	fmt.Fprintf(&b, docsHead, strict.Arch.Name)

	b.WriteString("\n## Refused\n\n| what | calls | error | why |\n| --- | --- | --- | --- |\n")
	for i, r := range strict.Rules {
		if r.Then != seccomp.Allow && len(r.Check) == 0 {
			answer := verdict(r.Then)
			if other := mvp.Rules[i].Then; other != r.Then {
				answer += "; in mvp: " + verdict(other)
			}
			row(&b, r.Group, calls(r), answer, r.Why)
		}
	}

	b.WriteString("\n## Decided by arguments\n\n| what | calls | otherwise | why |\n| --- | --- | --- | --- |\n")
	for _, r := range strict.Rules {
		if len(r.Check) > 0 {
			row(&b, r.Group, calls(r), verdict(r.Then), r.Why)
		}
	}
	for _, r := range strict.Rules {
		if len(r.Check) > 0 {
			fmt.Fprintf(&b, "\n%s: %s\n\n", calls(r), r.Group)
			for _, c := range r.Check {
				fmt.Fprintf(&b, "- %s: %s\n", conditions(c), verdict(c.Then))
			}
		}
	}

	b.WriteString("\n## Allowed\n\n| what | calls |\n| --- | --- |\n")
	for _, r := range strict.Rules {
		if r.Then == seccomp.Allow && len(r.Check) == 0 {
			row(&b, r.Group, calls(r))
		}
	}

	b.WriteString("\n## What the runner has beyond that\n\nPID 1 of a sandbox starts the workload, and takes its own filter before it does.\n\n" +
		"| what | calls | why |\n| --- | --- | --- |\n")
	for i, r := range runner.Rules {
		if r.Then != strict.Rules[i].Then || len(r.Check) != len(strict.Rules[i].Check) {
			row(&b, r.Group, calls(r), r.Why)
		}
	}
	return b.String()
}

func row(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

func calls(r seccomp.Rule) string {
	names := slices.Sorted(slices.Values(r.Calls))
	return "`" + strings.Join(names, " ") + "`"
}

func conditions(c seccomp.Case) string {
	var parts []string
	for _, cond := range c.When {
		var values []string
		for _, in := range cond.In {
			if in.Lo == in.Hi {
				values = append(values, fmt.Sprintf("%#x", in.Lo))
			} else {
				values = append(values, fmt.Sprintf("%#x-%#x", in.Lo, in.Hi))
			}
		}
		what := fmt.Sprintf("argument %d", cond.Arg+1)
		if cond.High {
			what += "'s high half"
		}
		if cond.Mask != 0xffffffff {
			what += fmt.Sprintf(" & %#x", cond.Mask)
		}
		parts = append(parts, fmt.Sprintf("%s in {%s}", what, strings.Join(values, " ")))
	}
	return strings.Join(parts, ", ")
}
