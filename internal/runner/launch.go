package runner

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/account"
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
	var theirs fdSet
	defer theirs.close()
	if err := p.connect(cmd, &theirs, len(stdin) > 0); err != nil {
		return protocol.Refuse(protocol.CodeUnavailable, "the program cannot be given pipes or a terminal (%v); the sandbox may be out of descriptors", err)
	}
	p.oom, p.began = r.oomKills(), r.procs.Now()
	e.start(false)
	if p.child, err = r.reaper.start(cmd); err != nil {
		return p.explain(err, cmd.Path, req)
	}
	p.run(stdin)
	return nil
}

// run lets the program, which has been started, go its way.
func (p *program) run(stdin []byte) {
	for _, pipe := range p.pipes {
		pipe.direct(p.e.out)
		p.r.wg.Go(func() {
			pipe.pump()
			p.r.dropPipe(pipe)
		})
	}
	if len(stdin) > 0 {
		<-p.stdin.turn // before anybody else can
		p.r.wg.Go(func() {
			p.stdin.feed(stdin, !p.start.OpenStdin && !p.start.TTY)
			p.e.release()
		})
	} else {
		p.e.release()
	}
	p.e.runsAs(p)
	p.r.wg.Go(p.live)
}

// discard gives back what a program took that cannot be started.
func (p *program) discard() {
	p.closeStdin()
	for _, pipe := range p.pipes {
		p.r.closePipe(pipe)
	}
	if p.group != nil {
		p.r.closeGroup(p.group)
	}
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
	if path.IsAbs(dir) {
		return dir
	}
	return path.Join(r.opts.Workspace, dir)
}

// command says what to execute, as whom and where.
func (p *program) command(argv, env []string) (*spawn.Cmd, error) {
	cmd := &spawn.Cmd{Args: argv, Dir: p.cwd, Steps: []spawn.Step{spawn.Setsid(), umask()}}
	base := p.r.opts.Env
	if p.start.User != "" {
		u, err := account.Find(p.start.User, p.r.source("/etc/passwd"), p.r.source("/etc/group"))
		if err != nil {
			return nil, err
		}
		p.user = &u
		// Without root's user id, its capabilities are gone as well.
		cmd.Steps = append(cmd.Steps, spawn.SetIDs(u.UID, u.GID, u.Groups...)...)
		if u.Name != "" {
			base = mergeEnv(base, []string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name})
		}
	}
	cmd.Env = mergeEnv(base, env)
	if len(argv) == 0 {
		cmd.Path, _ = p.r.dialect.program()
		cmd.Args = []string{"-" + path.Base(cmd.Path)}
		return cmd, nil
	}
	var err error
	cmd.Path, err = find(argv[0], cmd.Env, p.cwd)
	return cmd, err
}

// source opens a file of the sandbox for package account.
func (r *Runner) source(name string) account.Source {
	return func() (io.ReadCloser, error) {
		f, err := r.files.Read(protocol.Read{Path: name, AllowOutside: true})
		if err != nil {
			return nil, err
		}
		return f, nil
	}
}

// find looks a program up as execvp does: a name without a slash in the PATH
// of env, whose relative elements begin at dir.
func find(name string, env []string, dir string) (string, error) {
	if name == "" {
		return "", protocol.Refuse(protocol.CodeUnprocessable, "the program's name is empty")
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	list, found := "", ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			list = v
		}
	}
	for element := range strings.SplitSeq(list, ":") {
		if !path.IsAbs(element) {
			element = path.Join(dir, element)
		}
		file := path.Join(element, name)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		found = file
	}
	if found != "" {
		return "", protocol.Refuse(protocol.CodeUnprocessable, "%q is not executable; make it so with chmod +x", found)
	}
	return "", protocol.Refuse(protocol.CodeUnprocessable, "no program %q in the sandbox's PATH (%s); install it, or give its whole path", name, list)
}

// mergeEnv returns base with the variables of extra, NAME=VALUE each, instead
// of its own or beside them.
func mergeEnv(base, extra []string) []string {
	env := make([]string, 0, len(base)+len(extra))
	last := make(map[string]int, len(base)+len(extra)) // where a name's value is
	for _, kv := range slices.Concat(base, extra) {
		name, _, _ := strings.Cut(kv, "=")
		if at, ok := last[name]; ok {
			env[at] = kv
			continue
		}
		last[name] = len(env)
		env = append(env, kv)
	}
	return env
}

// connect makes the program's pipes or its terminal. theirs holds the ends
// that are the program's.
func (p *program) connect(cmd *spawn.Cmd, theirs *fdSet, hasStdin bool) error {
	if p.start.TTY {
		return p.openScreen(cmd, theirs)
	}
	cmd.Files = map[int]int{}
	for i, stream := range []protocol.Stream{protocol.StreamStdout, protocol.StreamStderr} {
		ends, err := p.newPipe(theirs, 1)
		if err != nil {
			return err
		}
		if err := p.addPipe(theirs.keep(ends[0]), stream); err != nil {
			return err
		}
		cmd.Files[i+1] = ends[1]
	}
	if !hasStdin && !p.start.OpenStdin {
		cmd.Files[0] = theirs.open("/dev/null", unix.O_RDONLY)
		return theirs.err
	}
	ends, err := p.newPipe(theirs, 0)
	if err != nil {
		return err
	}
	cmd.Files[0] = ends[0]
	if err := unix.SetNonblock(ends[1], true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	p.stdin = newInput(os.NewFile(uintptr(theirs.keep(ends[1])), "stdin"))
	return nil
}

// newPipe returns the ends of a pipe of which one is the program's.
func (p *program) newPipe(theirs *fdSet, its int) ([2]int, error) {
	ends := theirs.pipe()
	if theirs.err != nil {
		return ends, theirs.err
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
		closeFD(fd)
		return os.NewSyscallError("fcntl", err)
	}
	pipe, err := wrapPipe(fd, stream, &p.lock)
	if err != nil {
		return err
	}
	p.pipes = append(p.pipes, pipe)
	return nil
}

// explain says what to do about a program that cannot be started.
func (p *program) explain(err error, file string, req protocol.Start) error {
	step, ok := errors.AsType[*spawn.StepError](err)
	if !ok {
		return protocol.Refuse(protocol.CodeUnavailable, "the program cannot be started (%v); the sandbox may be out of memory or processes", err)
	}
	refuse := func(format string, args ...any) error {
		return protocol.Refuse(protocol.CodeUnprocessable, format, args...)
	}
	dir := strings.HasPrefix(step.Step, "chdir ")
	switch {
	case dir && step.Errno == unix.ENOENT:
		return refuse("the working directory %q does not exist; make it, or give another cwd", p.cwd)
	case dir:
		return refuse("the working directory %q cannot be entered: %v", p.cwd, step.Errno)
	case strings.HasPrefix(step.Step, "set") && req.User != "":
		return refuse("the sandbox may not run programs as %q: %s", req.User, step.Error())
	case !strings.HasPrefix(step.Step, "exec"):
		return protocol.Refuse(protocol.CodeUnavailable, "the program cannot be started (%s)", step.Error())
	case step.Errno == unix.ENOENT && p.exists(file):
		return refuse("%q names an interpreter (its #! line, or its dynamic loader) that the sandbox does not have", file)
	case step.Errno == unix.ENOENT:
		return refuse("no program %q in the sandbox", file)
	case step.Errno == unix.EACCES:
		return refuse("%q is not executable, or not for this user; make it so with chmod +x", file)
	case step.Errno == unix.ENOEXEC:
		return refuse("%q is neither a program for this machine nor a script with a #! line; run it with its interpreter, as in [\"sh\", %q]", file, file)
	case step.Errno == unix.E2BIG:
		return refuse("the arguments and the environment are too long together, or one of them is longer than 128 KiB; pass long input as stdin or in a file")
	}
	return refuse("%q cannot be run: %v", file, step.Errno)
}

// exists reports whether there is a file, seen from the program's directory.
func (p *program) exists(file string) bool {
	if !path.IsAbs(file) {
		file = path.Join(p.cwd, file)
	}
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// loosePipes is how many pipes are read, and what comes is dropped, after
// their program has ended and left others that may write to them. Beyond, the
// oldest is closed.
const loosePipes = 64

// loosen lets go of a pipe whose program has ended. A terminal is closed, as
// it would be anywhere.
func (r *Runner) loosen(pipe *outPipe, terminal bool) {
	if terminal || pipe.loosen() {
		r.closePipe(pipe)
		return
	}
	r.mu.Lock()
	var oldest *outPipe
	if r.loose = append(r.loose, pipe); len(r.loose) > loosePipes || r.closed {
		oldest, r.loose = r.loose[0], r.loose[1:]
	}
	r.mu.Unlock()
	if oldest != nil {
		r.closePipe(oldest)
	}
}

// dropPipe closes a pipe that is not read any more.
func (r *Runner) dropPipe(pipe *outPipe) {
	r.mu.Lock()
	r.loose = slices.DeleteFunc(r.loose, func(other *outPipe) bool { return other == pipe })
	r.mu.Unlock()
	r.closePipe(pipe)
}

func (r *Runner) closePipe(pipe *outPipe) {
	if err := pipe.close(); err != nil {
		return // nothing was written through it
	}
}

func (r *Runner) closeGroup(g Group) {
	if err := g.Close(); err != nil {
		return // what is left of it goes with the sandbox
	}
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
