// Package runtime is the contract between sessions and the drivers that make
// sandboxes. It holds types and interfaces only; drivers live in folders
// below it and pass the suite in runtimetest.
package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// ID names a sandbox. The caller chooses it; it is never used twice. Where
// there are several drivers it says whose the sandbox is; see In.
type ID string

// Native is the driver whose sandboxes' IDs do not name it.
const Native = "native"

// In is id as the driver of that name has it: with the name and a '_' in front,
// but for Native. The ID then is what tells where the sandbox is, whatever the
// configuration says later.
func (id ID) In(driver string) ID {
	if driver == Native {
		return id
	}
	return ID(driver) + "_" + id
}

// Driver is the name that id was given by In.
func (id ID) Driver() string {
	if name, _, named := strings.Cut(string(id), "_"); named {
		return name
	}
	return Native
}

// Spec says what to make. Image, Limits, ReadonlyRoot, Network and Seccomp
// decide which sandboxes are interchangeable. Workspace, Env, Hostname, Labels and
// Owner are the session's own: a pool applies them when it hands a sandbox out.
type Spec struct {
	Image        string // the resolved digest, "sha256:...", or what an ImageResolver returned
	Limits       Limits
	ReadonlyRoot bool
	Network      Network
	Seccomp      SeccompMode

	Workspace WorkspaceID       // of a WorkspaceKeeper; "" is one of the sandbox's own, which ends with it
	Env       map[string]string // added to the image's own environment
	Hostname  string
	Labels    map[string]string // a driver may show some of them to the tools of its engine
	Owner     string            // whose session it is, kept for Inspect alone: a lost database takes the rest along
}

// Limits bounds one sandbox. Zero means the driver's default, never unlimited.
type Limits struct {
	CPU      float64 // cores: 1.5 is one and a half
	MemoryMB int64
	Pids     int64
	DiskMB   int64 // everything the sandbox writes to its root and its own workspace
}

// Or fills in from d what l leaves open.
func (l Limits) Or(d Limits) Limits {
	return Limits{
		CPU: cmp.Or(l.CPU, d.CPU), MemoryMB: cmp.Or(l.MemoryMB, d.MemoryMB), Pids: cmp.Or(l.Pids, d.Pids), DiskMB: cmp.Or(l.DiskMB, d.DiskMB),
	}
}

// SeccompMode names a system call policy.
type SeccompMode string

// The system call policies, from none to the default.
const (
	SeccompOff    SeccompMode = "off"    // no filter: for debugging a host, never for hostile code
	SeccompMVP    SeccompMode = "mvp"    // the allow-list with ptrace and splice left in, for debuggers
	SeccompStrict SeccompMode = "strict" // the allow-list
)

// Driver creates, finds and destroys sandboxes.
//
// A sandbox is a root filesystem, its isolation and a runner as PID 1. It is
// identified by an ID that the caller chooses, and lives until Destroy: it
// survives the daemon. A driver keeps what it needs for Destroy outside its
// own memory, in a state directory or in labels.
//
// Its sandboxes may be on another host. A method returns within seconds of the end of
// its context, whatever the other host does, and an error is Unavailable where that
// does not answer.
//
// Methods may be called concurrently. Calls for one ID are serialised by the
// caller. Errors carry an errdefs code where a method says so; any other error
// means the driver itself is in trouble.
type Driver interface {
	// Check reports why this host cannot run the driver, or nil. The error
	// says what to change.
	Check(ctx context.Context) error

	// Create builds a sandbox and returns when its runner accepts connections.
	// When it fails, nothing is left: no mount, cgroup, process or file. It
	// returns AlreadyExists if id is taken, NotFound if the image is unknown,
	// Unavailable or InsufficientSpace if the host is full.
	Create(ctx context.Context, id ID, spec Spec) (Sandbox, error)

	// Open returns a handle on a running sandbox, also one made by an earlier
	// daemon. It is cheap and does not contact the runner. It returns NotFound
	// if there is no such sandbox or if its runner has died.
	Open(ctx context.Context, id ID) (Sandbox, error)

	// List yields every sandbox the driver can see, dead ones included, until
	// the first error that is not an *AbsentError. See Survey.
	List(ctx context.Context) iter.Seq2[Status, error]

	// Destroy kills the sandbox's processes and frees what it holds. It
	// resumes a half-done Destroy or Create, and destroying an absent sandbox
	// is not an error. When it returns nil no process, cgroup or mount is left
	// and the sandbox's files are out of the way; they may be deleted later.
	Destroy(ctx context.Context, id ID) error
}

// WorkspaceID names a workspace. The caller chooses it, of the characters that
// an ID has; it is never used twice.
type WorkspaceID string

// WorkspaceKeeper is a Driver with workspaces that outlive sandboxes: file
// trees, each bounded in bytes and in files, that Spec.Workspace puts at
// /workspace. Any number of sandboxes may have one at the same time, of
// whatever images; they see each other's changes, owners included, and share
// its space. Create returns NotFound if there is no such workspace and
// Unavailable if it cannot be used now.
//
// What was written is there for the next sandbox as soon as Destroy has
// returned, and is durable when the last sandbox of the workspace is gone. A
// crash of the daemon harms nothing. After a crash of the host the file tree is
// consistent, without the last writes that nobody synced.
//
// Methods may be called concurrently, also for one ID.
type WorkspaceKeeper interface {
	// CreateWorkspace makes an empty workspace of sizeMB. It is durable when
	// it returns; when it fails, nothing is left. It returns AlreadyExists if
	// id is taken and InsufficientSpace if the host is full.
	CreateWorkspace(ctx context.Context, id WorkspaceID, sizeMB int64) error

	// DestroyWorkspace removes a workspace and all that is in it. It returns
	// Conflict, and changes nothing, while a sandbox has it. An absent one is
	// not an error.
	DestroyWorkspace(ctx context.Context, id WorkspaceID) error

	// Workspaces yields every workspace there is, until the first error.
	Workspaces(ctx context.Context) iter.Seq2[WorkspaceID, error]

	// WorkspaceBytes is what the files in a workspace take of its size. It
	// returns NotFound if there is no such workspace.
	WorkspaceBytes(ctx context.Context, id WorkspaceID) (int64, error)
}

// Status is what List sees of one sandbox.
type Status struct {
	ID        ID
	Alive     bool      // its runner is running
	Startable bool      // it is not alive, and what it wrote is kept: a Stopper can go on with it
	Failing   string    // why it cannot go on, though it is alive; "" for one that can
	CreatedAt time.Time // for one that was claimed, when it was made
}

// ErrCutOff is in the error of Open, which is NotFound, for a sandbox that lives and
// that nobody can reach any more. Stop and Destroy end it.
var ErrCutOff = errors.New("its runner could not be reached any more: its socket was gone")

// AbsentError is what the List of several drivers yields in the place of the
// sandboxes of one that does not answer. Those of the others follow.
type AbsentError struct {
	Driver string
	Err    error
}

// Error implements error.
func (e *AbsentError) Error() string { return "driver " + e.Driver + ": " + e.Err.Error() }

// Unwrap is for the errors package.
func (e *AbsentError) Unwrap() error { return e.Err }

// Seen is what a driver can see.
type Seen struct {
	Sandboxes map[ID]Status
	Absent    map[string]error // of several drivers, those whose sandboxes cannot be seen now, and why
}

// How long a driver may take before it counts as one that does not answer: it may have to
// ask another host.
const (
	surveyTime = time.Minute
	openTime   = 10 * time.Second
)

// OpenInTime is d's Open, which is Unavailable if it takes too long.
func OpenInTime(ctx context.Context, d Driver, id ID) (Sandbox, error) {
	var sandbox Sandbox
	err := InTime(ctx, openTime, func(ctx context.Context) (err error) {
		sandbox, err = d.Open(ctx, id)
		return err
	}, "the driver %s does not answer; try again", id.Driver())
	if err != nil {
		return nil, err
	}
	return sandbox, nil
}

// InTime asks a driver for something. If that takes longer than limit, the error is
// Unavailable and says late.
func InTime(ctx context.Context, limit time.Duration, ask func(context.Context) error, late string, args ...any) error {
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := ask(asking)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errdefs.Wrap(err, errdefs.Unavailable, late, args...)
	}
	return err
}

// Survey makes a map of what d lists. It fails if that takes too long.
func Survey(ctx context.Context, d Driver) (Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	seen := Seen{make(map[ID]Status), make(map[string]error)}
	for status, err := range d.List(ctx) {
		if absent, ok := errors.AsType[*AbsentError](err); ok {
			seen.Absent[absent.Driver] = absent.Err
			continue
		}
		if err != nil {
			return Seen{}, fmt.Errorf("list the sandboxes: %w", err)
		}
		seen.Sandboxes[status.ID] = status
	}
	return seen, nil
}

// Sandbox is a handle. It holds no resources and needs no Close.
type Sandbox interface {
	ID() ID

	// DialRunner connects to the sandbox's runner. A connection carries one
	// operation at a time; closing it ends the attachment, not the command.
	// The caller closes it. The error is NotFound when the runner is gone.
	DialRunner(ctx context.Context) (net.Conn, error)

	// Stats returns current use, read from the isolation layer, not from inside.
	Stats(ctx context.Context) (Stats, error)
}

// Parker is a Sandbox that can keep a connection for whoever dials next, where
// that is faster than a new one.
type Parker interface {
	// Park takes over a connection of DialRunner's that is between operations.
	// The driver closes it if nobody dials before the sandbox is stopped or
	// destroyed.
	Park(conn net.Conn)
}

// Pauser is a Sandbox whose programs can be made to stand still. A driver's
// sandboxes have it if the driver can do it.
type Pauser interface {
	// Pause stops every program in the sandbox, and those that they start
	// meanwhile, and returns when none runs. The runner goes on: files can be
	// read, and a command waits. It survives the daemon. To pause what is
	// paused is not an error; when it fails nothing is paused.
	Pause(ctx context.Context) error

	// Resume lets the programs go on. To resume what runs is not an error.
	Resume(ctx context.Context) error

	// Paused reports which of the two was last.
	Paused() (bool, error)
}

// Volatile is a Sandbox whose files may be in memory. A Stopper then refuses to stop it
// with Unimplemented, having changed nothing.
type Volatile interface {
	// Volatile reports whether its workspace ends with its processes.
	Volatile() bool
}

// Stopper is a Driver that can end a sandbox's processes and keep its files.
type Stopper interface {
	// Stop ends every process in the sandbox, its runner too, and frees what
	// they hold. What was written is kept for Start. It resumes a half-done
	// Stop or Start, and stopping what is stopped is not an error. It returns
	// NotFound if there is no such sandbox or if its files did not survive a
	// crash of the host: Destroy is all that is left then.
	Stop(ctx context.Context, id ID) error

	// Start boots a stopped sandbox as Create did, with the same spec, on the
	// files that it has, and returns when its runner accepts connections. When
	// it fails the sandbox is stopped as before. It returns NotFound if there is
	// no such sandbox, Conflict if it is not stopped, and Unavailable or
	// InsufficientSpace if the host is full.
	Start(ctx context.Context, id ID) (Sandbox, error)
}

// QuietStarter is a Stopper that can boot a stopped sandbox for its files alone.
type QuietStarter interface {
	// StartQuiet is Start, but that no program of the sandbox runs before
	// somebody asks for one, a shell's startup files included. Stop ends it.
	StartQuiet(ctx context.Context, id ID) (Sandbox, error)
}

// Claimer is a Driver whose sandboxes can be made before it is known for whom.
type Claimer interface {
	// Claim makes the sandbox ready, which Create made and nobody has used,
	// the sandbox id of a session: it has spec's Workspace, Env and Hostname
	// and the cpu, memory and pids of its Limits from then on, as if Create had
	// made it of spec, and ready is no sandbox any more. The rest of spec must
	// be what ready was made of, which was made without a Workspace, Env and
	// Hostname. It is one step as seen from List: after a crash there is the one
	// or the other, and ready has nothing of a session.
	//
	// It returns AlreadyExists if id is taken, NotFound if there is no such
	// workspace and Unimplemented if ready cannot become one of spec: nothing
	// has changed then. After Conflict, which says
	// that ready does not run, was used, has been claimed or failed on the way,
	// and after any other error, the caller destroys id, and ready if it is still
	// its own.
	Claim(ctx context.Context, ready, id ID, spec Spec) (Sandbox, error)
}

// Forker is a Driver that can branch a sandbox.
type Forker interface {
	// Fork makes a sandbox of spec for each of branches, on a copy of what from
	// has written to its root and to its own workspace, all as it was at one
	// moment of the call. From's programs stand still until that is taken and go
	// on; from may be paused or stopped. Spec's Image, ReadonlyRoot and DiskMB
	// are from's, and so is Env if it is nil; its Hostname does not count. The
	// sandboxes have nothing else of from: no process, memory or id; /etc/hosts,
	// /etc/hostname and /etc/machine-id are their own. It makes all or none, and
	// errors are those of Create, with NotFound also for from.
	Fork(ctx context.Context, from ID, branches []Branch, spec Spec) (Forks, error)
}

// Branch is what Fork makes.
type Branch struct {
	ID       ID
	Hostname string
}

// Forks is what Fork has made.
type Forks struct {
	Sandboxes []Sandbox // in the order of the branches
	// Copied says that the data was copied, for want of a file system that can
	// share it: each fork took its time, and the space that from takes. Else
	// they cost no space until one changes something.
	Copied bool
}

// Stats is what a sandbox uses and may use. A field the host cannot measure
// is zero.
type Stats struct {
	MemoryBytes  int64
	MemoryPeak   int64
	MemoryLimit  int64
	CPUUsageUsec int64
	CPULimit     float64 // cores
	Pids         int64
	PidsLimit    int64
	DiskBytes    int64 // of the root and its own workspace
	DiskLimit    int64
	Files        int64 // directories included, on the same disk
	FilesLimit   int64
	OOMKills     int64
}
