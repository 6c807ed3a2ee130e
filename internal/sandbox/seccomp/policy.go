package seccomp

import "github.com/sandkasten/sandkasten/internal/runtime"

// Workload is the policy of everything a client runs. SeccompOff is the empty
// policy. A mode this package does not know is treated as SeccompStrict.
func Workload(mode runtime.SeccompMode) Policy {
	if mode == runtime.SeccompOff {
		return Policy{}
	}
	return newPolicy(concat(common(), debugging(mode), workloadOnly()))
}

// Runner is the policy of PID 1, which its children inherit and then Narrow: it
// allows what Workload of the same mode does and the little more that starting
// them takes.
func Runner(mode runtime.SeccompMode) Policy {
	if mode == runtime.SeccompOff {
		return Policy{}
	}
	return newPolicy(concat(common(), debugging(mode), runnerOnly()))
}

// Narrow is what a child of the runner adds to Runner to be under Workload. All
// of Workload would refuse nothing more, and take the kernel 0.1 ms longer to
// load at each start.
func Narrow(mode runtime.SeccompMode) Policy {
	if mode == runtime.SeccompOff {
		return Policy{}
	}
	inherited := Rule{Group: "inherited", Why: "The runner's filter decides.", Then: Allow}
	for _, r := range concat(common(), debugging(mode)) {
		inherited.Calls = append(inherited.Calls, r.Calls...)
	}
	return newPolicy(append(workloadOnly(), inherited))
}

// Netlink is what the runner listens to: it decides of each netlink socket that
// Workload allows. Calls of other instruction sets are Runner's to kill.
func Netlink(mode runtime.SeccompMode) Policy {
	if mode == runtime.SeccompOff {
		return Policy{}
	}
	ask := Rule{Then: Allow, Check: []Case{{When: []Cond{is(0, afNetlink)}, Then: notify}}, Calls: []string{"socket"}}
	others := Rule{Then: Allow}
	for _, name := range amd64().Calls {
		if name != "" && name != "socket" {
			others.Calls = append(others.Calls, name)
		}
	}
	return Policy{Arch: amd64(), Rules: []Rule{ask, others}, Foreign: Allow, Unknown: Allow}
}

func newPolicy(rules []Rule) Policy {
	return Policy{Arch: amd64(), Rules: rules, Foreign: KillProcess, Unknown: notImplemented}
}

func concat(parts ...[]Rule) []Rule {
	var all []Rule
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// common is what both policies share in every mode.
func common() []Rule { return concat(allowed(), checked(), refused()) }

// debugging is what depends on the mode.
func debugging(mode runtime.SeccompMode) []Rule {
	trace, splice := Allow, Allow
	if mode != runtime.SeccompMVP {
		trace, splice = notPermitted, invalid
	}
	return []Rule{
		{
			Group: "tracing",
			Why:   "Reading and changing other processes. `mvp` allows it, for gdb and strace; the runner is out of reach by its user id.",
			Then:  trace,
			Calls: []string{"ptrace", "process_vm_readv", "process_vm_writev"},
		},
		{
			Group: "splicing",
			Why: "Puts page cache pages of any readable file into pipes and sockets, the first half of several kernel exploits. " +
				"EINVAL and not ENOSYS, because Go's net package falls back to copying only on EINVAL. `mvp` allows it.",
			Then:  splice,
			Calls: []string{"splice", "tee", "vmsplice"},
		},
	}
}

// workloadOnly is what the workload is refused and the runner is not.
func workloadOnly() []Rule {
	return []Rule{
		{
			Group: "clone3",
			Why:   "Its flags lie in memory, where no filter can see them. libc and language runtimes fall back to clone.",
			Then:  notImplemented,
			Calls: []string{"clone3"},
		},
		{
			Group: "namespaces",
			Why:   "A new user namespace would hand out every capability over a large part of the kernel.",
			Then:  notPermitted,
			Calls: []string{"unshare"},
		},
		{
			Group: "host name",
			Why:   "The name is set when the sandbox is made.",
			Then:  notPermitted,
			Calls: []string{"sethostname"},
		},
	}
}

// runnerOnly is how the runner starts the workload: in a cgroup of its own,
// and once at hand-out with the session's host name.
func runnerOnly() []Rule {
	return []Rule{
		{Group: "clone3", Why: "Starts each command in its own cgroup.", Then: Allow, Calls: []string{"clone3"}},
		{
			Group: "namespaces",
			Why:   "A cgroup namespace only.",
			Then:  notPermitted,
			Check: []Case{{When: []Cond{is(0, 0x02000000)}, Then: Allow}}, // CLONE_NEWCGROUP
			Calls: []string{"unshare"},
		},
		{Group: "host name", Why: "Set when a session takes the sandbox.", Then: Allow, Calls: []string{"sethostname"}},
	}
}
