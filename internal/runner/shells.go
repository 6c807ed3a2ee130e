package runner

import (
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/protocol"
)

// face is what others see of a shell, which is its loop's own.
type face struct {
	mu   sync.Mutex
	info protocol.ShellInfo // guarded by mu
	shut bool               // guarded by mu; no more execs are taken

	began proc.Moment // guarded by mu; of the exec that runs
}

func (f *face) change(how func(*protocol.ShellInfo)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(&f.info)
}

// shellInfos describes the shells, by name.
func (r *Runner) shellInfos() []protocol.ShellInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]protocol.ShellInfo, 0, len(r.shells))
	for _, s := range r.shells {
		list = append(list, s.about())
	}
	slices.SortFunc(list, func(a, b protocol.ShellInfo) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// shellJobs adds to the shells what runs in their background. A reading of the
// table that fails has none.
func (r *Runner) shellJobs(list []protocol.ShellInfo) []protocol.ShellInfo {
	table, err := r.procs.List()
	if err != nil {
		return list
	}
	left := protocol.MaxJobs
	for i := range list {
		jobs := jobsOf(table, list[i].PID, r.beganIn(list[i]))
		jobs = jobs[:min(left, len(jobs))]
		list[i].Jobs, left = jobs, left-len(jobs)
	}
	return list
}

// beganIn is when the exec began that a shell runs, or now if it runs none.
func (r *Runner) beganIn(info protocol.ShellInfo) proc.Moment {
	r.mu.Lock()
	s := r.shells[info.Name]
	r.mu.Unlock()
	if s == nil || info.Exec == "" {
		return r.procs.Now()
	}
	s.face.mu.Lock()
	defer s.face.mu.Unlock()
	return s.face.began
}

// jobsOf are the children of a shell that were there before a moment, each with what
// it and all that it started use.
func jobsOf(table []proc.Process, shell int, before proc.Moment) (jobs []protocol.Job) {
	if shell == 0 {
		return nil
	}
	for _, pr := range table {
		if pr.Parent != shell || pr.After(before) {
			continue
		}
		f := proc.NewFamily(table)
		f.Add(func(one proc.Process) bool { return one.PID == pr.PID })
		job := protocol.Job{PID: pr.PID, Name: strings.ToValidUTF8(pr.Name, "\uFFFD")}
		for _, member := range f.Members() {
			job.Usage.CPUUS += member.CPU.Microseconds()
			job.Usage.MemoryBytes += member.Memory
			job.Usage.Processes++
		}
		jobs = append(jobs, job)
	}
	slices.SortFunc(jobs, func(a, b protocol.Job) int { return a.PID - b.PID })
	return jobs
}

// about describes the shell.
func (s *shell) about() protocol.ShellInfo {
	s.face.mu.Lock()
	defer s.face.mu.Unlock()
	info := s.face.info
	info.Queued = len(s.queue)
	return info
}

// closeShell ends a shell and everything that it has started, and returns when
// that is done.
func (r *Runner) closeShell(name string) error {
	r.mu.Lock()
	s, ok := r.shells[name]
	delete(r.shells, name)
	r.mu.Unlock()
	if !ok {
		return protocol.Refuse(protocol.CodeNotFound, "no shell %q", name).Because(protocol.ReasonNoSuchShell)
	}
	s.end()
	return nil
}

// end ends the shell and returns when it has ended: each step is bounded.
func (s *shell) end() {
	s.shut()
	<-s.ended
}

// shut makes the loop end.
func (s *shell) shut() { s.once.Do(func() { close(s.closing) }) }

// finish is the loop's last act. If it is the shell that ends and not the
// sandbox, nothing that it started is left.
func (s *shell) finish() {
	if !s.r.isClosed() && s.proc != nil {
		s.proc.Signal(unix.SIGSTOP) // so that it starts nothing more
		s.killing(proc.Moment{}).Kill()
	}
	s.discard()
	for {
		select {
		case e := <-s.queue:
			e.end(ending{cause: protocol.CauseCanceled, code: codeCanceled, cwd: s.cwd})
			s.r.records.ended()
		default:
			close(s.ended)
			return
		}
	}
}

// shellJob is what a shell's command has started.
type shellJob struct{ killing proc.Killing }

func (j shellJob) signal(sig int) error {
	if j.killing.Signal(unix.Signal(sig)) == 0 {
		return protocol.Refuse(protocol.CodeConflict, "the command runs no program that could be signalled; cancel it")
	}
	return nil
}

func newFace(name, cwd string) face {
	return face{info: protocol.ShellInfo{Name: name, Cwd: cwd, CreatedMS: time.Now().UnixMilli()}}
}
