package cgroup

// runnersWeight is how much of the processors runners get beside a sandbox's
// programs, whose weight is 100.
const runnersWeight = 2000

// Yield says whether the group's processes run only when those of no other
// group of ours want to, or like theirs again. The host's other processes are
// not concerned: it is about what they leave to all groups together.
func (g Group) Yield(on bool) error {
	idle, weight, shares := int64(0), int64(100), int64(1024) // the kernel's defaults
	if on {
		idle, weight, shares = 1, 1, 2
	}
	dir := g.cpuDir()
	err := writeNumber(dir, "cpu.idle", idle)
	if !absent(err) {
		return err
	}
	// A kernel before 5.15: almost the same, but that it takes its turn.
	if g.m.Hybrid() {
		return ignoreMissing(writeNumber(dir, "cpu.shares", shares))
	}
	return ignoreMissing(writeNumber(dir, "cpu.weight", weight))
}

// Yields reports what Yield said last, where the kernel knows.
func (g Group) Yields() bool { return number(g.cpuDir(), "cpu.idle") == 1 }

func (g Group) cpuDir() string {
	if g.m.Hybrid() {
		return g.v1("cpu")
	}
	return g.unified()
}
