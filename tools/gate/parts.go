package main

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// part is one of the gate's parts: a task and how it shares the machine.
type part struct {
	name       string   // of the task, unless call says otherwise
	call       []string // the task and its arguments, where they are not the name
	what       string   // what it guards, for -list
	needs      []string // parts that must have passed before
	minutes    float64  // from start to end in a whole run on two processors; its limit is four times as much, at least ten
	cpu        float64  // minutes of a processor that it uses in such a run, all of its processes together
	background bool     // it runs with what the others leave, since nothing in it is timed
	alone      bool     // it measures time, and runs without others
	env        []string
}

// cores is how many processors the part keeps busy.
func (p part) cores() float64 {
	return p.cpu / p.minutes
}

// task is what is given to the task runner.
func (p part) task() []string {
	if p.call != nil {
		return p.call
	}
	return []string{p.name}
}

// limit is when a part is stopped: a machine may be slow, but a run ends.
func (p part) limit() time.Duration {
	return max(10*time.Minute, time.Duration(4*p.minutes*float64(time.Minute)))
}

// paced doubles the times within which the attack battery asks for an answer:
// other parts run beside it. One slice of the long tier asks for the times
// themselves.
var paced = []string{"SANDKASTEN_ATTACK_SLOW=2"}

// parts are what every run has, in the order in which they get their turn.
// TestTheRunStaysShort adds their minutes of a processor up.
var parts = []part{
	{name: "build", what: "the programs, for Linux", cpu: 3, minutes: 2},
	// It takes longest of all, and what it emulates twice as long as alone.
	{
		name: "test:vm", what: "cgroup v2: the driver's suite, limits, kill and pause, and the systemd unit, in a virtual machine",
		needs: []string{"build"}, cpu: 10, minutes: 10,
	},
	{name: "test:go", what: "all Go tests of packages, also those that need root, with the race detector where goroutines meet", needs: []string{"build"}, cpu: 15, minutes: 16},
	// It waits most of its time, and for longest. Browsers end without waiting for their processes, which are a part of this.
	{
		name: "test:web", what: "the console in a browser, and that its page is what web/ builds", call: []string{"test:web", "--", "-skip=^TestConsole$/^(scale|screen)$"},
		needs: []string{"build"}, cpu: 3, minutes: 8,
	},
	{
		name: "test:e2e", what: "scripts, the documentation's commands, packages, the orchestrator's client, the agents' tools",
		needs: []string{"build"}, cpu: 6, minutes: 11,
	},
	{name: "test:sdk", what: "the SDKs as users install them, and the agents' programs", needs: []string{"build"}, cpu: 5, minutes: 6},
	{name: "test:fault", what: "a broken host, and kill -9 in every place", needs: []string{"build"}, cpu: 3, minutes: 6},
	{name: "test:attack", what: "hostile code and clients against a real daemon", needs: []string{"build"}, cpu: 2.5, minutes: 6, env: paced},
	{name: "test:attack:docker", what: "the attacks on sandboxes that an engine decides, in containers", needs: []string{"build"}, cpu: 1.4, minutes: 3.5, env: paced},
	{
		name: "test:web:scale", what: "the console with 2,000 sessions and with a flood in its terminal, and what its page takes of a processor", call: []string{"test:web", "--", "-run=^TestConsole$/^(scale|screen)$"},
		needs: []string{"build"}, alone: true, cpu: 0.6, minutes: 2,
	},
	{name: "test:ratios", what: "what requests cost the daemon: allocations, system calls, processor time", needs: []string{"build"}, alone: true, cpu: 0.8, minutes: 1.5},
	{name: "test:limits", what: "sessions at their limits, and what others notice of them", needs: []string{"build"}, alone: true, cpu: 0.8, minutes: 1},
	// What follows is not in a hurry, and nothing in it is timed.
	{name: "lint", what: "formatting and linters", needs: []string{"build"}, background: true, cpu: 5, minutes: 9},
	{name: "lint:sdk", what: "linters, types and references of the Python and TypeScript SDKs", background: true, cpu: 1.2, minutes: 4},
	{name: "build:wsl", what: "the programs, for Windows", needs: []string{"build"}, background: true, cpu: 1, minutes: 1},
	{name: "vuln", what: "known vulnerabilities, where the database can be reached", needs: []string{"build"}, background: true, cpu: 0.1, minutes: 0.5},
}

// tier is the long tier, in slices of at most a quarter of an hour. A whole run
// has one of them.
var tier = []part{
	{name: "long:vm-battery", what: "the attack battery on cgroup v2", call: []string{"test:vm", "--", "-run=TestBatteryOnCgroup2"}, needs: []string{"build"}, cpu: 26, minutes: 13},
	{name: "long:vm-suite", what: "the driver's whole suite on cgroup v2", call: []string{"test:vm", "--", "-run=TestSuiteOnCgroup2"}, needs: []string{"build"}, cpu: 22, minutes: 11},
	{
		name: "long:vm-host", what: "a loss of power, a clock that jumps, Docker on XFS and with user namespaces, and the machine itself",
		call: []string{"test:vm", "--", "-skip=TestBatteryOnCgroup2|TestSuiteOnCgroup2|TestCgroup2"}, cpu: 24, minutes: 12,
	},
	{name: "long:attack", what: "the attack battery by itself, with the times that it promises", call: []string{"test:attack", "--", "-parallel=1"}, needs: []string{"build"}, alone: true, cpu: 2, minutes: 5},
	{name: "long:attack-docker", what: "all attacks on sandboxes in containers", call: []string{"test:attack:docker"}, needs: []string{"build"}, cpu: 3, minutes: 7, env: slices.Concat(paced, []string{"SANDKASTEN_ATTACK_CASES=all"})},
	{name: "long:monkey", what: "faults mixed by a seed, for ten minutes", call: []string{"test:monkey"}, needs: []string{"build"}, cpu: 8, minutes: 11},
	{name: "long:monkey-orchestrator", what: "files of orchestrated sessions under faults mixed by a seed, for ten minutes", call: []string{"test:monkey:orchestrator"}, needs: []string{"build"}, cpu: 8, minutes: 11},
	{name: "long:surfaces", what: "both APIs, asked whatever their documents allow and what they do not", call: []string{"test:surfaces"}, needs: []string{"build"}, cpu: 7, minutes: 7},
	{name: "long:users", what: "200 users with 2,000 sessions over a kill -9", call: []string{"test:users"}, needs: []string{"build"}, cpu: 20, minutes: 14},
	{name: "long:adapters", what: "the Python SDK under AutoGen, Inspect and SWE-ReX", call: []string{"test:sdk:python:adapters"}, needs: []string{"build"}, cpu: 5, minutes: 6},
	{name: "long:agents-race", what: "the agents with the race detector", call: []string{"test:sdk:agents:race"}, needs: []string{"build"}, cpu: 4, minutes: 3},
	{name: "long:mcp", what: "the conformance suite of MCP, and its Inspector", call: []string{"test:mcp"}, needs: []string{"build"}, cpu: 2, minutes: 3},
	{name: "long:traces", what: "a run of an agent in a real Jaeger", call: []string{"test:traces"}, needs: []string{"build"}, cpu: 8, minutes: 6},
	{name: "long:programs", what: "servers, language runtimes and debuggers in sandboxes", call: []string{"test:programs"}, needs: []string{"build"}, cpu: 3, minutes: 4},
	{name: "long:contexts", what: "code in contexts compared with Jupyter's own client, and the image data", call: []string{"test:contexts"}, needs: []string{"build"}, cpu: 5, minutes: 8},
	raced(1), raced(2),
	fuzz(1), fuzz(2), fuzz(3),
	control(1), control(2), control(3),
	{name: "long:bench", what: "that the benchmark runs, in short", call: []string{"bench", "--", "-scale=0.2", "-only=sandkasten"}, needs: []string{"build"}, alone: true, cpu: 10, minutes: 10},
}

// raced is a half of all packages with the race detector: a regular run has it
// where goroutines meet.
func raced(n int) part {
	return part{
		name: fmt.Sprintf("long:race-%d", n), what: "half of all packages with the race detector", call: []string{"test:go:race"}, cpu: 20, minutes: 12,
		env: []string{fmt.Sprintf("PART=%d/2", n)},
	}
}

// thirds is into how many slices the fuzz targets and the control's rows are cut.
const thirds = 3

func fuzz(n int) part {
	return part{
		name: fmt.Sprintf("long:fuzz-%d", n), what: "a third of the fuzz targets, for a minute each", call: []string{"test:fuzz"}, background: true, cpu: 20, minutes: 12,
		env: []string{"FUZZTIME=1m", fmt.Sprintf("FUZZPART=%d/%d", n, thirds)},
	}
}

func control(n int) part {
	return part{
		name: fmt.Sprintf("long:control-%d", n), what: "a third of the protections taken away in turn, which the attack battery must notice", cpu: 6, minutes: 12,
		call: []string{"test:attack:control", "--", fmt.Sprintf("-part=%d/%d", n, thirds)},
	}
}

// turn chooses one by a tree's hash, so that clones of a tree agree, among those
// that have not run for longest, so that each has its turn.
func turn(tree string, from []part, r record) part {
	from = overdue(from, r)
	sum := fnv.New32a()
	sum.Write([]byte(tree))
	return from[sum.Sum32()%uint32(len(from))]
}

// pick is the parts with these names, after what they need, in the table's order.
// The name long means the whole tier.
func pick(from []part, names []string) ([]part, error) {
	wanted := map[string]bool{}
	var want func(name string) error
	want = func(name string) error {
		i := slices.IndexFunc(from, func(p part) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("there is no part %q; -list prints them", name)
		}
		wanted[name] = true
		for _, need := range from[i].needs {
			if err := want(need); err != nil {
				return err
			}
		}
		return nil
	}
	if slices.Contains(names, "long") {
		for _, p := range tier {
			names = append(names, p.name)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == "long" })
	}
	for _, name := range names {
		if err := want(strings.TrimSpace(name)); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(from), func(p part) bool { return !wanted[p.name] }), nil
}

// listing is the table of what there is, and when each last ran.
func listing(every, some []part, r record) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-20s %7s %7s  %-10s  %s\n", "part", "minutes", "cpu", "last run", "what it guards")
	for _, group := range [][]part{every, some} {
		for _, p := range group {
			fmt.Fprintf(&out, "%-20s %7g %7g  %-10s  %s\n", p.name, p.minutes, p.cpu, cmp.Or(r.Parts[p.name].Date, "never"), p.what)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}
