package seccomp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MaxInstructions is the kernel's limit for one program (BPF_MAXINSNS).
const MaxInstructions = 4096

// Offsets in struct seccomp_data. An argument is 64 bits, its low half first
// on the little-endian machines that Arch can describe.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// Compile makes the program for SECCOMP_SET_MODE_FILTER. It is nil for the
// empty policy. A call that Arch does not have, one that two rules name, one
// that no rule names and a condition that cannot hold are errors.
//
// The program first compares the instruction set, then finds the call's number
// by binary search. A decision that needs no argument reads nothing else, so
// that the kernel can take it from a bitmap and never run the program for it.
func Compile(p Policy) ([]unix.SockFilter, error) {
	if len(p.Rules) == 0 {
		return nil, nil
	}
	spans, err := p.spans()
	if err != nil {
		return nil, err
	}
	var a assembler
	native, foreign, root := a.label(), a.label(), a.label()
	a.load(offsetArch)
	a.branch(unix.BPF_JEQ, p.Arch.Audit, native, foreign)
	a.place(foreign)
	a.ret(p.Foreign)
	a.place(native)
	a.load(offsetNumber)
	for _, check := range a.search(root, spans) {
		a.place(check.at)
		a.check(check.rule)
	}
	prog, err := a.assemble()
	if err != nil {
		return nil, fmt.Errorf("assemble seccomp policy: %w", err)
	}
	return prog, nil
}

// span is a run of numbers, from first to where the next one begins, that one
// answer holds for: rule where its arguments decide, then where not.
type span struct {
	first uint32
	then  Action
	rule  *Rule
}

// spans lists the answers to every number from 0 to the largest.
func (p Policy) spans() ([]span, error) {
	rules, err := p.byName()
	if err != nil {
		return nil, err
	}
	var spans []span
	add := func(s span) {
		if n := len(spans); n > 0 && s.rule == nil && spans[n-1].rule == nil && spans[n-1].then == s.then {
			return
		}
		spans = append(spans, s)
	}
	for nr, name := range p.Arch.Calls {
		s := span{first: uint32(nr), then: p.Unknown}
		if name != "" {
			rule, ok := rules[name]
			if !ok {
				return nil, fmt.Errorf("no rule for %s", name)
			}
			delete(rules, name)
			s.then = rule.Then
			if len(rule.Check) > 0 {
				s.rule = rule
			}
		}
		add(s)
	}
	for name := range rules {
		return nil, fmt.Errorf("no call named %s on %s", name, p.Arch.Name)
	}
	// x32 numbers, with bit 30 set, are in this last span too.
	add(span{first: uint32(len(p.Arch.Calls)), then: p.Unknown})
	return spans, nil
}

func (p Policy) byName() (map[string]*Rule, error) {
	rules := make(map[string]*Rule, len(p.Arch.Calls))
	for i := range p.Rules {
		if err := p.Rules[i].valid(); err != nil {
			return nil, err
		}
		for _, name := range p.Rules[i].Calls {
			if rules[name] != nil {
				return nil, fmt.Errorf("two rules for %s", name)
			}
			rules[name] = &p.Rules[i]
		}
	}
	return rules, nil
}

// valid refuses conditions that would hold always or never: each would turn a
// list of refusals into none.
func (r *Rule) valid() error {
	for _, c := range r.Check {
		for _, cond := range c.When {
			if cond.Arg < 0 || cond.Arg > 5 || len(cond.In) == 0 {
				return fmt.Errorf("rule %q: a condition without an argument or a value", r.Group)
			}
			for _, in := range cond.In {
				if in.Lo > in.Hi || (in.Lo|in.Hi)&^cond.Mask != 0 {
					return fmt.Errorf("rule %q: %#x to %#x cannot be under mask %#x", r.Group, in.Lo, in.Hi, cond.Mask)
				}
			}
		}
	}
	return nil
}

// pending is a check that search branches to and that is yet to be placed.
type pending struct {
	at   label
	rule *Rule
}

// search emits, at the label at, the tree that finds the number in the
// accumulator among spans. It returns the checks that leaves branch to.
func (a *assembler) search(at label, spans []span) []pending {
	if len(spans) == 1 {
		if spans[0].rule != nil {
			return []pending{{at: at, rule: spans[0].rule}}
		}
		a.place(at)
		a.ret(spans[0].then)
		return nil
	}
	mid := len(spans) / 2
	low, high := a.label(), a.label()
	a.place(at)
	a.branch(unix.BPF_JGE, spans[mid].first, high, low)
	return append(a.search(low, spans[:mid]), a.search(high, spans[mid:])...)
}

// check emits a rule's cases in order.
func (a *assembler) check(r *Rule) {
	for _, c := range r.Check {
		next := a.label()
		for _, cond := range c.When {
			holds := a.label()
			a.cond(cond, holds, next)
			a.place(holds)
		}
		a.ret(c.Then)
		a.place(next)
	}
	a.ret(r.Then)
}

// cond emits the comparisons of one argument.
func (a *assembler) cond(c Cond, holds, fails label) {
	offset := offsetArgs + 8*uint32(c.Arg)
	if c.High {
		offset += 4
	}
	a.load(offset)
	if c.Mask != fullMask {
		a.and(c.Mask)
	}
	for i, r := range c.In {
		next := fails
		if i < len(c.In)-1 {
			next = a.label()
		}
		if r.Lo == r.Hi {
			a.branch(unix.BPF_JEQ, r.Lo, holds, next)
		} else {
			above := a.label()
			a.branch(unix.BPF_JGE, r.Lo, above, next)
			a.place(above)
			a.branch(unix.BPF_JGT, r.Hi, next, holds)
		}
		if next != fails {
			a.place(next)
		}
	}
}
