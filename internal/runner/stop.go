package runner

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Times of stopping a command.
const (
	lookAgain   = 10 * time.Millisecond  // while its processes are given time
	reportTime  = 100 * time.Millisecond // for the shell when all of them are gone
	killRounds  = 100                    // of looking for processes and killing them
	plainRounds = 10                     // after so many, everything is frozen first
	roundTime   = 2 * time.Millisecond
)

// stop ends the exec's processes: TERM, the grace of the request, KILL. The
// shell stands still meanwhile and then skips what is left of the command. If
// it does not come out of it, it is killed as well. Whatever earlier execs
// left in the background is not touched.
func (s *shell) stop(x *run, how ending) ending {
	s.proc.hush()
	x.e.out.flood() // a reader that is behind must not hold up the end
	k := killing{s: s, began: x.began}
	skip, resume := s.proc.dialect.skip()
	// Stopped first: else it would go on to the next command of a list as soon
	// as the one that it waits for is killed.
	s.proc.signal(unix.SIGSTOP)
	if skip != 0 {
		s.proc.signal(skip)
	}
	k.terminate(time.Duration(x.e.req.GraceMS) * time.Millisecond)
	k.kill()
	// What the shell writes from here on is about what happened to its
	// children, and not the command's.
	x.out.settle()
	x.out.direct(nil)
	s.proc.signal(unix.SIGCONT)
	st, ok := s.await(reportTime)
	if ok && skip != 0 && s.proc.send(resume) != nil {
		ok = false
	}
	if !ok {
		// Nothing can be started between the last look and the end.
		s.proc.signal(unix.SIGSTOP)
		k.kill()
		s.proc.kill()
		k.kill()
		return how
	}
	k.kill() // what it started before it was told to skip
	how.cwd = st.cwd
	s.last = how.code
	return how
}

// killing is one run of stop.
type killing struct {
	s     *shell
	began moment
}

// terminate asks the processes to end and waits until they have, but not
// longer than grace.
func (k killing) terminate(grace time.Duration) {
	deadline := time.Now().Add(grace)
	for _, pr := range k.tree() {
		k.s.r.procs.signal(pr, unix.SIGTERM)
		k.s.r.procs.signal(pr, unix.SIGCONT)
	}
	for time.Now().Before(deadline) && len(k.tree()) > 0 {
		time.Sleep(lookAgain) //nolint:forbidigo // the processes are nobody's children here: only looking tells
	}
}

// kill kills the processes until there are none. One look at the process
// table does not see those that are forked meanwhile, so it looks again. Some
// fork and die faster than that; they are frozen with everything else first.
func (k killing) kill() {
	procs := k.s.r.procs
	for round := range killRounds {
		tree := k.tree()
		if len(tree) == 0 {
			return
		}
		thaw := func() {}
		if round >= plainRounds {
			thaw = k.freeze()
			tree = k.tree()
		}
		for _, pr := range tree {
			procs.signal(pr, unix.SIGKILL)
		}
		thaw()
		time.Sleep(roundTime) //nolint:forbidigo // as above
	}
}

// freeze stops every process of the sandbox at once and returns what lets
// them go on. Only PID 1 can do that: to it, -1 is the whole sandbox.
func (k killing) freeze() (thaw func()) {
	if !k.s.r.opts.Init {
		return func() {}
	}
	before, err := k.s.r.procs.list()
	if err != nil || unix.Kill(-1, unix.SIGSTOP) != nil {
		return func() {}
	}
	stopped := make(map[int]uint64) // those that were so already
	for _, pr := range before {
		if pr.stopped {
			stopped[pr.pid] = pr.start
		}
	}
	return func() {
		now, err := k.s.r.procs.list()
		if err != nil {
			return
		}
		for _, pr := range now {
			if stopped[pr.pid] != pr.start {
				k.s.r.procs.signal(pr, unix.SIGCONT)
			}
		}
	}
}

// tree returns the processes of the exec: those that the shell started since
// its beginning, with their descendants. A dead shell's have been handed to
// PID 1, where those of no living shell are taken for its own.
func (k killing) tree() []process {
	list, err := k.s.r.procs.list()
	if err != nil {
		return nil
	}
	children := make(map[int][]process)
	for _, pr := range list {
		children[pr.ppid] = append(children[pr.ppid], pr)
	}
	var tree []process
	var walk func(parent, depth int)
	walk = func(parent, depth int) {
		if depth > len(list) {
			return // the table changed while it was read: no tree is so deep
		}
		for _, pr := range children[parent] {
			if pr.after(k.began) && !k.s.r.reaper.owns(pr.pid) {
				tree = append(tree, pr)
				walk(pr.pid, depth+1)
			}
		}
	}
	walk(k.s.proc.pid, 0)
	if k.s.r.opts.Init && (k.s.proc.dead() || !k.s.proc.dialect.adopts()) {
		walk(os.Getpid(), 0)
	}
	return tree
}
