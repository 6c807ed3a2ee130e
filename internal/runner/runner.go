// Package runner is the service inside a sandbox: it keeps shells, runs
// commands in them and programs without them, and serves files to the daemon
// over a listening socket that it is given.
//
// What sets the sandbox up (namespaces, mounts, identities, filters) does not
// belong here: it happened before, or is handed in as Options.Clone. Hostile
// programs talk to this code through pipes, exit codes and /proc, so whatever
// comes from them is bounded and believed only as far as it concerns
// themselves. The package imports little, because the binary around it is
// started for every sandbox.
package runner

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/guard"
	"github.com/sandkasten/sandkasten/internal/runner/child"
	"github.com/sandkasten/sandkasten/internal/runner/dialect"
	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/internal/runner/pipe"
	"github.com/sandkasten/sandkasten/internal/runner/proc"
	"github.com/sandkasten/sandkasten/internal/spawn"
	"github.com/sandkasten/sandkasten/protocol"
)

// Options configures a Runner. Listener and Workspace must be set.
type Options struct {
	// Listener is a listening unix socket. The Runner owns it from New on.
	Listener int

	// Admit reports whether an accepted connection is the daemon's. It may be
	// nil where nobody else can reach the listener.
	Admit func(conn int) bool

	// Init says that this process is PID 1 of the sandbox: it reaps every
	// process and ignores the signals that the sandbox may send it.
	Init bool

	// Workspace is where shells start and where relative paths of the file
	// requests begin. It must exist.
	Workspace string

	// Env is the whole environment of shells and programs.
	Env []string

	// User is whom programs and shells are, and what works on files for them. The
	// default is the runner's own user, and a program's request may name another.
	// With a User it may not.
	User *User

	// Quiet says that no shell is started before somebody asks for one.
	Quiet bool

	// Clone makes a process of the workload with all that makes it one:
	// identity, limits, filter. The default is the command's own Clone.
	Clone func(*spawn.Cmd) (*spawn.Process, error)

	// Tool is an open program that calls fileops.RunTool with its arguments: a
	// process of it, made by Clone, does what may take much on files. Without
	// one the runner does all of that itself.
	Tool int

	// Changes is an open directory, to which overlayfs writes what is changed of
	// the root, or 0.
	Changes int

	// Baseline is the path of a list of package baseline, of what the root was
	// made of, where there is no such directory. Nobody else must be able to
	// write it.
	Baseline string

	// OOMKills returns how often the kernel has killed a process of this
	// sandbox for want of memory. It may be nil.
	OOMKills func() int64

	// Group makes a group for a program that is about to be started. It may be
	// nil, and may fail: then the program is found by its descent.
	Group func() (Group, error)

	// Rename gives the sandbox a name, and /etc/hosts the content that goes with
	// it. Without it the sandbox keeps the name that it has.
	Rename func(hostname, hostsFile string) error

	// Proc is where procfs is mounted. The default is /proc.
	Proc string
}

// User is whom programs are.
type User struct {
	UID, GID int
	Groups   []int // supplementary
}

// steps make a process that is root the user's. A nil User has none.
func (u *User) steps() []spawn.Step {
	if u == nil {
		return nil
	}
	return spawn.SetIDs(u.UID, u.GID, u.Groups...)
}

// Limits of one runner. What is over them is refused, or dropped and counted.
const (
	maxConns    = 256
	maxShells   = 64
	maxQueued   = 64       // execs that wait for one shell
	maxPayload  = 32 << 20 // of all requests whose execs wait, or read it
	maxPrograms = 128
	maxTerms    = 32 // of them
	maxIDLen    = 64
	maxRecords  = 64 // execs that have ended
	recordLife  = 10 * time.Minute
	outputTotal = 16 << 20 // of all execs' replay
)

// Runner serves one sandbox.
type Runner struct {
	opts    Options
	reaper  *child.Reaper
	procs   proc.Table
	home    atomic.Pointer[home]
	records *records
	dialect dialect.Dialect

	closing chan struct{} // closed by Close
	wg      guard.Group

	payload atomic.Int64 // bytes of execs that have not ended
	dials   atomic.Int64 // connections to ports
	watches atomic.Int64 // of directories

	mu     sync.Mutex
	conns  map[*conn]struct{} // guarded by mu
	shells map[string]*shell  // guarded by mu; key is the name
	closed bool               // guarded by mu

	settled  bool           // guarded by mu
	programs int            // guarded by mu; those that run
	terms    int            // guarded by mu; those of them that have a terminal
	loose    []*pipe.Output // guarded by mu; of programs that have ended
}

// New prepares a Runner. It starts nothing; Serve does.
func New(o Options) (*Runner, error) {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Changes == 0 {
		o.Changes = -1
	}
	if o.Clone == nil {
		o.Clone = (*spawn.Cmd).Clone
	}
	fs, err := files.Open(o.Workspace, o.Changes, o.Baseline)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		opts:    o,
		reaper:  child.NewReaper(o.Clone, o.Init),
		procs:   proc.Open(o.Proc),
		records: newRecords(),
		dialect: dialect.Find(),
		closing: make(chan struct{}),
		conns:   make(map[*conn]struct{}),
		shells:  make(map[string]*shell),
	}
	r.home.Store(&home{env: o.Env, files: fs})
	return r, nil
}

// Serve starts the default shell, unless it is to be quiet, and answers connections. It returns nil
// after Close, and an error only if the listener cannot be used any more.
func (r *Runner) Serve() error {
	if r.opts.Init {
		defer child.HoldSignals()()
	}
	stop := r.reaper.Watch()
	defer stop()
	defer r.wg.Wait() // shells wait for their processes to be reaped
	if !r.opts.Quiet {
		if _, err := r.shell(""); err != nil {
			return err
		}
	}
	return r.accept()
}

// Close ends Serve, all connections, shells and programs, and returns when
// their goroutines have ended. What runs in the background is left to the
// caller, who owns the sandbox.
func (r *Runner) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	close(r.closing)
	for c := range r.conns {
		c.hangUp()
	}
	for _, s := range r.shells {
		s.shut()
	}
	loose := r.loose
	r.loose = nil
	r.mu.Unlock()
	r.reaper.Hold(false) // or what waits would never hear of it
	for _, out := range loose {
		out.Close()
	}

	// Shutdown wakes the accept loop, which then closes the listener.
	err := unix.Shutdown(r.opts.Listener, unix.SHUT_RDWR)
	r.wg.Wait()
	r.records.close()
	return errors.Join(err, r.procs.Close(), r.home.Load().files.Close())
}

// shell returns the shell of that name, and makes it if it is new.
func (r *Runner) shell(name string) (*shell, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.shells[name]; ok {
		return s, nil
	}
	if r.closed {
		return nil, protocol.Refuse(protocol.CodeUnavailable, "the sandbox is going away")
	}
	if len(r.shells) >= maxShells {
		return nil, protocol.Refuse(protocol.CodeExhausted, "the sandbox has %d shells, which is the limit; use one of them", maxShells)
	}
	s := newShell(r, name)
	r.shells[name] = s
	r.wg.Go(s.loop, func(error) { r.dropShell(s) })
	return s, nil
}

// dropShell forgets a shell whose loop has ended by a fault: the next exec of that
// name makes a new one.
func (r *Runner) dropShell(s *shell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shells[s.name] == s {
		delete(r.shells, s.name)
	}
}

// full reports whether the disk is full, for what has just failed. What has
// succeeded is not worth looking.
func (r *Runner) full(code int) bool { return code != 0 && r.home.Load().files.Full() }

func (r *Runner) oomKills() int64 {
	if r.opts.OOMKills == nil {
		return 0
	}
	return r.opts.OOMKills()
}
