package docker

import (
	"encoding/json"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

// profile is one mode's policy in the two forms that are used: for the engine,
// who applies it to all that it starts in a container, and for the runner, who
// loads it into each process of the workload.
//
// The engine's form cannot say "all arguments but these". Where our policy
// does (of ioctl, setsockopt, prctl and mknod), it lets the call pass, for our
// runner and whoever uses `docker exec` by hand; the workload is under the
// exact one as well.
type profile struct {
	engine   string       // a value of the engine's security option seccomp
	workload stage.Filter // empty: none
}

func newProfiles() (map[runtime.SeccompMode]profile, error) {
	all := map[runtime.SeccompMode]profile{runtime.SeccompOff: {engine: "unconfined"}}
	for _, mode := range []runtime.SeccompMode{runtime.SeccompStrict, runtime.SeccompMVP} {
		program, err := seccomp.Compile(seccomp.Workload(mode))
		if err != nil {
			return nil, fmt.Errorf("compile the seccomp policy %q: %w", mode, err)
		}
		text, err := json.Marshal(engineProfile(seccomp.Runner(mode)))
		if err != nil {
			return nil, err
		}
		all[mode] = profile{engine: string(text), workload: stage.NewFilter(program)}
	}
	all[""] = all[runtime.SeccompStrict]
	return all, nil
}

// The engine's form of a policy.
type (
	engineFilter struct {
		DefaultAction string       `json:"defaultAction"`
		DefaultErrno  uint16       `json:"defaultErrnoRet"`
		Architectures []string     `json:"architectures"` // a call of any other kills
		Syscalls      []engineRule `json:"syscalls"`
	}
	engineRule struct {
		Names  []string    `json:"names"`
		Action string      `json:"action"`
		Errno  *uint16     `json:"errnoRet,omitempty"`
		Args   []engineArg `json:"args,omitempty"`
	}
	engineArg struct {
		Index    int    `json:"index"`
		Value    uint64 `json:"value"` // the mask
		ValueTwo uint64 `json:"valueTwo"`
		Op       string `json:"op"`
	}
)

func engineProfile(p seccomp.Policy) engineFilter {
	action, number := engineAction(p.Unknown)
	f := engineFilter{DefaultAction: action, DefaultErrno: *number, Architectures: []string{"SCMP_ARCH_X86_64"}}
	for _, rule := range p.Rules {
		f.Syscalls = append(f.Syscalls, engineRules(rule)...)
	}
	return f
}

// engineRules puts a rule as the engine does: the arguments that are allowed,
// or the call whatever they are.
func engineRules(rule seccomp.Rule) []engineRule {
	action, number := engineAction(rule.Then)
	if rule.Then == seccomp.Allow || len(rule.Check) == 0 {
		return []engineRule{{Names: rule.Calls, Action: action, Errno: number}}
	}
	var rules []engineRule
	for _, c := range rule.Check {
		if c.Then != seccomp.Allow {
			continue // refused without it, too
		}
		action, number := engineAction(c.Then)
		for _, args := range combinations(c.When) {
			rules = append(rules, engineRule{Names: rule.Calls, Action: action, Errno: number, Args: args})
		}
	}
	return rules
}

// combinations are all arguments that meet the conditions, each compared in
// its low 32 bits. Every range must be of one value.
func combinations(conds []seccomp.Cond) [][]engineArg {
	all := [][]engineArg{nil}
	for _, cond := range conds {
		var longer [][]engineArg
		for _, args := range all {
			for _, r := range cond.In {
				arg := engineArg{Index: cond.Arg, Value: uint64(cond.Mask), ValueTwo: uint64(r.Lo), Op: "SCMP_CMP_MASKED_EQ"}
				longer = append(longer, append(args[:len(args):len(args)], arg))
			}
		}
		all = longer
	}
	return all
}

// engineAction is an action, and the error number where it returns one.
func engineAction(a seccomp.Action) (string, *uint16) {
	switch a {
	case seccomp.Allow:
		return "SCMP_ACT_ALLOW", nil
	case seccomp.KillProcess:
		return "SCMP_ACT_KILL_PROCESS", nil
	}
	number := uint16(a)
	return "SCMP_ACT_ERRNO", &number
}
