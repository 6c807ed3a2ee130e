package runner

import (
	"io"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/fds"
	"github.com/sandkasten/sandkasten/internal/runner/lookup"
	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// launch starts the program of e, which has been registered. What it takes is
// given back if it cannot be started.
func (r *Runner) launch(e *exec, req protocol.Start, argv, env []string, stdin []byte) (err error) {
	if err := r.takeProgram(req.TTY); err != nil {
		return err
	}
	p := &program{r: r, e: e, start: req, cwd: r.resolve(req.Cwd)}
	defer func() {
		if err != nil {
			p.discard()
		}
	}()
	cmd, err := p.command(argv, env)
	if err != nil {
		return err
	}
	if err := r.spill(e); err != nil {
		return err
	}
	p.joinGroup(cmd)
	var theirs fds.Set
	defer theirs.Close()
	if err := p.connect(cmd, &theirs, len(stdin) > 0); err != nil {
		return protocol.Refuse(protocol.CodeUnavailable, "the program cannot be given pipes or a terminal (%v); the sandbox may be out of descriptors", err)
	}
	p.oom, p.began = r.oomKills(), r.procs.Now()
	begin := time.Now()
	if p.child, err = r.reaper.Start(cmd); err != nil {
		return lookup.Explain(err, lookup.Attempt{Program: cmd.Path, Dir: p.cwd, User: req.User})
	}
	p.begin(stdin, begin)
	if p.stdin == nil && !req.Background && p.brief(&theirs) {
		return nil
	}
	p.run()
	return nil
}

// begin lets the program, which has been started, go its way.
func (p *program) begin(stdin []byte, begin time.Time) {
	for _, out := range p.pipes {
		out.Direct(p.e.out)
	}
	if len(stdin) > 0 {
		p.stdin.Hold() // before anybody else can
		p.r.wg.Go(func() {
			defer p.e.release()
			p.stdin.Feed(stdin, !p.start.OpenStdin && !p.start.TTY)
		}, p.e.fault)
	} else {
		p.e.release()
	}
	p.e.started(p, begin)
}

// run follows the program to its end in the background. A pipe for which there
// is no descriptor any more is read at the end alone.
func (p *program) run() {
	for _, out := range p.pipes {
		if _, err := out.Watch(); err == nil {
			p.r.pump(out, p.e)
		}
	}
	p.r.wg.Go(p.live, p.e.fault)
}

// discard gives back what a program took that cannot be started.
func (p *program) discard() {
	p.closeStdin()
	for _, out := range p.pipes {
		out.Close()
	}
	p.leaveGroup()
	p.r.giveProgram(p.start.TTY)
}

// joinGroup starts the program in a group of its own, if one can be had. Else
// it adopts what its descendants orphan, so that they can be found.
func (p *program) joinGroup(cmd *spawn.Cmd) {
	if p.r.opts.Group != nil {
		if g, err := p.r.opts.Group(); err == nil {
			p.group, cmd.CgroupFD = g, g.FD()
			return
		}
	}
	cmd.Steps = append([]spawn.Step{spawn.Prctl("PR_SET_CHILD_SUBREAPER", unix.PR_SET_CHILD_SUBREAPER, 1)}, cmd.Steps...)
}

// resolve makes a working directory absolute.
func (r *Runner) resolve(dir string) string {
	dir = protocol.UnescapeName(dir)
	if path.IsAbs(dir) {
		return dir
	}
	return path.Join(r.opts.Workspace, dir)
}

// defaultTerm is the kind of a terminal of which neither the request nor the session
// says it: without one programs take it for a teletype.
const defaultTerm = "xterm-256color"

// command says what to execute, as whom and where.
func (p *program) command(argv, env []string) (*spawn.Cmd, error) {
	cmd := &spawn.Cmd{Args: argv, Dir: p.cwd, Steps: []spawn.Step{spawn.Setsid(), spawn.Umask(0o022)}}
	base := p.r.home.Load().env
	if p.start.TTY {
		base = lookup.Env([]string{"TERM=" + defaultTerm}, base)
	}
	if err := p.chooseUser(); err != nil {
		return nil, err
	}
	if u := p.user; u == nil {
		cmd.Steps = append(cmd.Steps, p.r.opts.User.steps()...)
	} else {
		// Without root's user id, its capabilities are gone as well.
		cmd.Steps = append(cmd.Steps, spawn.SetIDs(u.UID, u.GID, u.Groups...)...)
		if u.Name != "" {
			base = lookup.Env(base, []string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name})
		}
	}
	cmd.Env = lookup.Env(base, env)
	if len(argv) == 0 {
		cmd.Path, _ = p.r.dialect.Program()
		cmd.Args = []string{"-" + path.Base(cmd.Path)}
		return cmd, nil
	}
	var err error
	cmd.Path, err = lookup.Program(argv[0], cmd.Env, p.cwd)
	return cmd, err
}

// chooseUser finds the user that the request names, if it is not the sandbox's
// own. Where all programs are one user's, it has to be that one.
func (p *program) chooseUser() error {
	if p.start.User == "" {
		return nil
	}
	u, err := p.r.account(p.start.User)
	if err == nil && p.r.opts.User == nil {
		p.user = &u
	}
	return err
}

// account finds the user that a request names. Where all is one user's, it has to
// be that one.
func (r *Runner) account(spec string) (lookup.User, error) {
	u, err := lookup.Account(spec, r.source("/etc/passwd"), r.source("/etc/group"))
	if err != nil {
		return u, err
	}
	if only := r.opts.User; only != nil && (u.UID != only.UID || u.GID != only.GID) {
		return u, protocol.Refuse(protocol.CodeUnprocessable, "the sandbox runs programs as %d:%d alone, not as %q: leave user out", only.UID, only.GID, spec).For("user")
	}
	return u, nil
}

// source opens a file of the sandbox for package lookup.
func (r *Runner) source(name string) lookup.Source {
	return func() (io.ReadCloser, error) {
		f, err := r.home.Load().files.Read(protocol.Read{Path: name, AllowOutside: true})
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

// connect makes the program's pipes or its terminal. theirs holds the ends
// that are the program's.
func (p *program) connect(cmd *spawn.Cmd, theirs *fds.Set, hasStdin bool) error {
	if p.start.TTY {
		return p.openScreen(cmd, theirs)
	}
	cmd.Files = map[int]int{}
	streams := []protocol.Stream{protocol.StreamStdout, protocol.StreamStderr}
	if p.start.Merge {
		streams = []protocol.Stream{protocol.StreamOutput}
	}
	for i, stream := range streams {
		ends, err := p.newPipe(theirs, 1)
		if err != nil {
			return err
		}
		if err := p.addPipe(theirs.Keep(ends[0]), stream); err != nil {
			return err
		}
		cmd.Files[i+1] = ends[1]
	}
	if p.start.Merge {
		cmd.Files[2] = cmd.Files[1]
	}
	if !hasStdin && !p.start.OpenStdin {
		cmd.Files[0] = theirs.Open("/dev/null", unix.O_RDONLY)
		return theirs.Err
	}
	ends, err := p.newPipe(theirs, 0)
	if err != nil {
		return err
	}
	cmd.Files[0] = ends[0]
	if err := unix.SetNonblock(ends[1], true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	p.stdin = pipe.NewInput(os.NewFile(uintptr(theirs.Keep(ends[1])), "stdin"))
	return nil
}

// newPipe returns the ends of a pipe of which one is the program's.
func (p *program) newPipe(theirs *fds.Set, its int) ([2]int, error) {
	ends := theirs.Pipe()
	if theirs.Err != nil {
		return ends, theirs.Err
	}
	return ends, p.own(ends[its])
}

// own lets a program that runs as somebody else open its descriptors again,
// as /dev/stdout for instance.
func (p *program) own(fd int) error {
	if p.user == nil {
		return nil
	}
	return os.NewSyscallError("fchown", unix.Fchown(fd, p.user.UID, p.user.GID))
}

// addPipe makes fd one of the program's outputs.
func (p *program) addPipe(fd int, stream protocol.Stream) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		fds.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	p.pipes = append(p.pipes, pipe.Wrap(fd, stream, &p.lock))
	return nil
}

// loosePipes is how many pipes are read, and what comes is dropped, after
// their program has ended and left others that may write to them. Beyond, the
// oldest is closed.
const loosePipes = 64

// loosen lets go of a pipe whose program has ended. A terminal is closed, as
// it would be anywhere.
func (r *Runner) loosen(out *pipe.Output, terminal bool) {
	if terminal || out.Loosen() {
		out.Close()
		return
	}
	r.mu.Lock()
	var oldest *pipe.Output
	if r.loose = append(r.loose, out); len(r.loose) > loosePipes || r.closed {
		oldest, r.loose = r.loose[0], r.loose[1:]
	}
	r.mu.Unlock()
	if oldest != nil {
		oldest.Close()
	}
	switch news, err := out.Watch(); {
	case err != nil:
		out.Close()
	case news:
		r.pump(out, nil)
	}
}

// pump reads a pipe that is watched until there is nothing more to come. It is
// that of e, which is nil if its program has ended.
func (r *Runner) pump(out *pipe.Output, e *exec) {
	r.wg.Go(func() {
		defer r.dropPipe(out)
		out.Pump()
	}, func(err error) {
		if e != nil {
			e.fault(err)
		}
	})
}

// dropPipe closes a pipe that is not read any more.
func (r *Runner) dropPipe(out *pipe.Output) {
	r.mu.Lock()
	r.loose = slices.DeleteFunc(r.loose, func(other *pipe.Output) bool { return other == out })
	r.mu.Unlock()
	out.Close()
}

// takeProgram counts a program, or refuses it.
func (r *Runner) takeProgram(terminal bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return protocol.Refuse(protocol.CodeUnavailable, "the sandbox is going away")
	case r.programs >= maxPrograms:
		return protocol.Refuse(protocol.CodeExhausted, "the sandbox runs %d programs, which is the limit; cancel one or wait for its end", maxPrograms)
	case terminal && r.terms >= maxTerms:
		return protocol.Refuse(protocol.CodeExhausted, "the sandbox has %d terminals, which is the limit; close one", maxTerms)
	}
	r.programs++
	if terminal {
		r.terms++
	}
	return nil
}

func (r *Runner) giveProgram(terminal bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs--
	if terminal {
		r.terms--
	}
}
