package events

import (
	"slices"
	"time"
)

// Kind is what an event is about. Subscribers choose by it.
type Kind string

// The kinds. Those of the daemon as a whole are for who may see its state.
const (
	Session   Kind = "session"
	Exec      Kind = "exec"
	Network   Kind = "network"
	Workspace Kind = "workspace"
	Snapshot  Kind = "snapshot"
	Image     Kind = "image"
	Pool      Kind = "pool"
	Account   Kind = "account"
)

// Kinds are all kinds, in the order of the documentation.
var Kinds = []Kind{Session, Exec, Network, Workspace, Snapshot, Image, Pool, Account}

// OfDaemon reports whether events of a kind belong to no owner but to the daemon.
func (k Kind) OfDaemon() bool { return k == Image || k == Pool || k == Account }

// ofSession reports whether events of a kind are about one session.
func (k Kind) ofSession() bool { return k == Session || k == Exec || k == Network }

// inside reports whether events of a kind tell of what runs in a session: to look there is
// a right of its own.
func (k Kind) inside() bool { return k == Exec || k == Network }

// Type is what happened. The strings are part of the API.
type Type string

// The types.
const (
	SessionCreated   Type = "session.created"
	SessionState     Type = "session.state"
	SessionChanged   Type = "session.changed"
	SessionEnded     Type = "session.ended"
	ExecStarted      Type = "exec.started"
	ExecFinished     Type = "exec.finished"
	ExecBurst        Type = "exec.burst"
	NetworkDecision  Type = "network.decision"
	NetworkBurst     Type = "network.burst"
	WorkspaceChanged Type = "workspace.changed"
	WorkspaceDeleted Type = "workspace.deleted"
	SnapshotCreated  Type = "snapshot.created"
	SnapshotDeleted  Type = "snapshot.deleted"
	ImageJob         Type = "image.job"
	PoolChanged      Type = "pool.changed"
	AccountChanged   Type = "account.changed"
)

// Types are all types with their kinds, in the order of the documentation.
var Types = []struct {
	Type Type
	Kind Kind
}{
	{SessionCreated, Session},
	{SessionState, Session},
	{SessionChanged, Session},
	{SessionEnded, Session},
	{ExecStarted, Exec},
	{ExecFinished, Exec},
	{ExecBurst, Exec},
	{NetworkDecision, Network},
	{NetworkBurst, Network},
	{WorkspaceChanged, Workspace},
	{WorkspaceDeleted, Workspace},
	{SnapshotCreated, Snapshot},
	{SnapshotDeleted, Snapshot},
	{ImageJob, Image},
	{PoolChanged, Pool},
	{AccountChanged, Account},
}

var kindOf = func() map[Type]Kind {
	kinds := make(map[Type]Kind, len(Types))
	for _, t := range Types {
		kinds[t.Type] = t.Kind
	}
	return kinds
}()

// Kind is what an event of the type is about.
func (t Type) Kind() Kind { return kindOf[t] }

// IsKind reports whether name is a kind's.
func IsKind(name string) bool { return slices.Contains(Kinds, Kind(name)) }

// Event is something that happened. Its Data never changes.
type Event struct {
	Type    Type
	Time    time.Time // of Publish, if it is zero
	Owner   string    // whose it is; nobody's for kinds of the daemon
	Session string    // the id of the session that it is about, if it is about one
	Denied  bool      // of NetworkDecision
	Data    any       // what a surface shows; see the publishers
	Size    int       // about how many bytes Data keeps in memory, beyond its fixed part
}

// Burst counts events of one session that came too fast to be told one by one.
type Burst struct {
	Began, Ended    int // of exec.burst
	Allowed, Denied int // of network.burst
}

// Gone is the Data of what is no more: a workspace or a snapshot.
type Gone struct{ ID string }
