package proc

// Family is processes that belong together, in one reading of the table.
type Family struct {
	list     []Process
	children map[int][]Process // by parent
	taken    map[int]bool
	found    []Process
}

// NewFamily begins an empty family within list.
func NewFamily(list []Process) *Family {
	f := &Family{list: list, children: make(map[int][]Process), taken: make(map[int]bool)}
	for _, pr := range list {
		f.children[pr.Parent] = append(f.children[pr.Parent], pr)
	}
	return f
}

// Descend adds the descendants of a process that ok accepts. Those of one that
// it does not accept are left out as well.
func (f *Family) Descend(pid int, ok func(Process) bool) {
	for _, pr := range f.children[pid] {
		if ok(pr) && f.take(pr) {
			f.Descend(pr.PID, ok)
		}
	}
}

// Add adds the processes that ok accepts, with all of their descendants.
func (f *Family) Add(ok func(Process) bool) {
	for _, pr := range f.list {
		if ok(pr) && f.take(pr) {
			f.Descend(pr.PID, func(Process) bool { return true })
		}
	}
}

// take adds pr once: the table may have changed while it was read, and say
// that a process is its own ancestor.
func (f *Family) take(pr Process) bool {
	if f.taken[pr.PID] {
		return false
	}
	f.taken[pr.PID] = true
	f.found = append(f.found, pr)
	return true
}

// Members returns all that were added.
func (f *Family) Members() []Process { return f.found }
