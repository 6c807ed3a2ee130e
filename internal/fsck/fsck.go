// Package fsck compares the rows of the store with what there is: sandboxes,
// workspaces, archives of snapshots, images. It is given both as data and says
// what differs. Reading them, and repairing, is done by those whose business
// the things are.
package fsck

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session"
	"github.com/sandkasten/sandkasten/internal/session/snapshots"
	"github.com/sandkasten/sandkasten/internal/session/workspaces"
)

// Difference is what is found.
type Difference = runtime.Difference

// Rows is what the store says.
type Rows struct {
	Exists     bool              // there is a database
	Sessions   []session.Session // that have not ended, helpers too
	Workspaces []workspaces.Workspace
	Snapshots  []snapshots.Snapshot
}

// Found is what there is.
type Found struct {
	Now        time.Time
	Running    bool                          // a daemon works on it
	Inspection map[string]runtime.Inspection // by driver; of one that is not in it nothing is known
	Silent     map[string]error              // drivers that do not answer, and why
	Keeper     string                        // the driver that has the workspaces; "" is none
	Reserved   func(runtime.ID) bool         // sandboxes that are to be there without a session
	Blobs      map[string]int64              // sizes by key; nil is unknown
	Images     map[string]error              // of each digest in the rows, why it cannot be used
	Spool      []string                      // files in the directory of uploads
}

// mend is what repairs a difference, and the command that does so, if one does.
type mend struct {
	text, command string
	grave         bool // something is lost, or cannot be used
}

// atStart is what the daemon does at its start, and what then is of the session.
func atStart(then string) mend {
	return mend{text: runtime.MendAtStart + then, command: runtime.CommandAtStart}
}

// byRecover is of what recover brings back.
func byRecover(text string) mend { return mend{text: text, command: "sandkasten recover"} }

// bySession is of a session that its owner is to remove.
func bySession(id session.ID, text string) mend {
	return mend{text: text, command: "sandkasten rm " + string(id), grave: true}
}

// bySnapshot is of a snapshot that its owner is to remove.
func bySnapshot(id, text string) mend {
	return mend{text: text, command: "sandkasten snapshot rm " + id, grave: true}
}

func newDifference(what, where, expected, found string, m mend) Difference {
	return Difference{What: what, Where: where, Expected: expected, Found: found, Mend: m.text, Command: m.command, Grave: m.grave}
}

// stuck is when a session that is still being made by a running daemon has been
// forgotten by it: nothing that it waits for takes as long.
const stuck = 5 * time.Minute

// mendLost is of what has lost its rows with all else.
var mendLost = mend{text: stopped + "sandkasten restore FILE, or sandkasten recover", command: "sandkasten recover", grave: true}

// stopped is said of commands that no daemon may run beside.
const stopped = "stop the daemon and run "

// Compare says what differs.
func Compare(rows Rows, found Found) []Difference {
	var all []Difference
	if why := Lost(rows, found); why != "" {
		all = append(all, newDifference("database", "sessions", "the rows of what is here", why, mendLost))
	}
	for _, name := range sortedKeys(found.Inspection) {
		all = append(all, found.Inspection[name].Differences...)
	}
	for _, name := range sortedKeys(found.Silent) {
		all = append(all, newDifference("driver", name, "an answer", errdefs.MessageOf(found.Silent[name]), mend{text: "run fsck again when it answers: nothing is known of its sandboxes"}))
	}
	all = append(all, compareSessions(rows, found)...)
	all = append(all, compareOrphans(rows, found)...)
	all = append(all, compareWorkspaces(rows, found)...)
	all = append(all, compareSnapshots(rows, found)...)
	if !found.Running {
		for _, name := range found.Spool {
			all = append(all, newDifference("upload", name, "none", "what an upload has left that was cut off", atStart("")))
		}
	}
	return slices.Compact(all)
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Stay is what both looks have: what was only being changed is not the same the
// second time.
func Stay(first, second []Difference) []Difference {
	return slices.DeleteFunc(slices.Clone(second), func(d Difference) bool { return !slices.Contains(first, d) })
}

func compareSessions(rows Rows, found Found) []Difference {
	var all []Difference
	owners := map[runtime.ID]session.ID{}
	volumes := map[string]bool{}
	for _, w := range rows.Workspaces {
		volumes[w.Owner+"/"+w.ID] = true
	}
	for _, s := range rows.Sessions {
		add := func(expected, is string, m mend) {
			all = append(all, newDifference("session", string(s.ID), expected, is, m))
		}
		if other, taken := owners[s.Sandbox]; taken {
			add("a sandbox of its own", "that of session "+string(other), mend{text: "remove one of the two sessions", grave: true})
		}
		owners[s.Sandbox] = s.ID
		if s.WorkspaceID != "" && !volumes[s.Owner+"/"+s.WorkspaceID] {
			add("the workspace "+s.WorkspaceID, "no row of it", bySession(s.ID, "remove the session"))
		}
		if err := found.Images[s.ImageDigest]; err != nil && s.State != session.Creating {
			add("its image", err.Error(), mend{text: "import or pull the image again: it cannot be started or forked without", grave: true})
		}
		host, known := found.Inspection[s.Driver()]
		if known {
			compareSession(s, host, found, add)
		}
	}
	return all
}

// compareSession compares one row with its sandbox.
func compareSession(s session.Session, host runtime.Inspection, found Found, add func(expected, is string, m mend)) {
	status, there := host.Sandboxes[s.Sandbox]
	switch {
	case !s.State.Alive() && s.State != session.Stopped: // on its way
		if !found.Running || s.State == session.Creating && found.Now.Sub(s.CreatedAt) > stuck {
			add("a state that lasts", string(s.State)+": what the daemon did has been cut off", atStart(""))
		}
	case !there && s.State == session.Stopped:
		add("its files", "no sandbox "+string(s.Sandbox), atStart("; its files are lost"))
	case !there:
		add("a sandbox", "none", atStart("; the session has crashed"))
	case s.State.Alive() && !status.Alive && status.Startable:
		add(string(s.State), "its processes are gone, its files are there", atStart("; the session is stopped then"))
	case s.State.Alive() && !status.Alive:
		add(string(s.State), "its processes are gone", atStart("; the session has crashed"))
	case s.State == session.Stopped && status.Alive:
		add("no processes", "its sandbox runs", byRecover(stopped+"sandkasten recover, which makes it running again"))
	case host.Paused == nil: // it cannot be told
	case s.State == session.Paused && !host.Paused[s.Sandbox]:
		add("paused", "its programs run", atStart(""))
	case s.State == session.Running && host.Paused[s.Sandbox] && !found.Running: // else for a snapshot, perhaps
		add("running", "its programs stand still", atStart(""))
	}
}

// nonZero are the numbers that are not 0, with their names.
func nonZero(numbers map[string]int) []string {
	var all []string
	for _, name := range sortedKeys(numbers) {
		if numbers[name] > 0 {
			all = append(all, fmt.Sprintf("%d %s", numbers[name], name))
		}
	}
	return all
}

// Lost says why the rows cannot be those of what there is, or "": a crash leaves
// some things without rows, but never all, since a row is there first and goes
// last. What no row names is no garbage then.
func Lost(rows Rows, found Found) string {
	boxes, named := countSandboxes(rows, found)
	volumes, owned := countVolumes(rows, found)
	archives := len(slices.DeleteFunc(sortedKeys(found.Blobs), func(key string) bool { return !IsSnapshot(key) }))
	switch {
	case !rows.Exists && boxes+volumes+archives > 0:
		return "the session database is gone, and " + strings.Join(nonZero(map[string]int{"sandboxes": boxes, "workspaces": volumes, "snapshots": archives}), ", ") + " are there"
	case boxes > 0 && named == 0:
		return fmt.Sprintf("the session database names none of the %d sandboxes that are there", boxes)
	case volumes > 0 && owned == 0:
		return fmt.Sprintf("the session database names none of the %d workspaces that are there", volumes)
	}
	return ""
}

// LostError says that the database cannot be the one of what is on the disk, and
// what brings the rows back.
func LostError(path, why string) error {
	return fmt.Errorf("%s: nothing is removed; the database is %s: bring back a backup (`sandkasten restore FILE`), or make rows for what is there (`sandkasten recover`)", why, path)
}

// countSandboxes counts what could be a session's, and what is one's.
func countSandboxes(rows Rows, found Found) (there, named int) {
	wanted := wantedSandboxes(rows)
	for _, host := range found.Inspection {
		for id, status := range host.Sandboxes {
			if found.Reserved(id) || id.Passing() {
				continue
			}
			if wanted[id] {
				named++
			}
			if wanted[id] || status.Alive || status.Startable || !rows.Exists {
				there++
			}
		}
	}
	return there, named
}

func countVolumes(rows Rows, found Found) (there, named int) {
	volumes := found.Inspection[found.Keeper].Workspaces
	for _, w := range rows.Workspaces {
		if volumes[w.Volume] {
			named++
		}
	}
	return len(volumes), named
}

func wantedSandboxes(rows Rows) map[runtime.ID]bool {
	wanted := make(map[runtime.ID]bool, len(rows.Sessions))
	for _, s := range rows.Sessions {
		wanted[s.Sandbox] = true
	}
	return wanted
}

// compareOrphans are sandboxes that no row names.
func compareOrphans(rows Rows, found Found) []Difference {
	wanted := wantedSandboxes(rows)
	how := atStart("")
	if Lost(rows, found) != "" {
		how = mendLost
	}
	var all []Difference
	for _, name := range sortedKeys(found.Inspection) {
		ids := make(map[string]runtime.Status)
		for id, status := range found.Inspection[name].Sandboxes {
			ids[string(id)] = status
		}
		for _, id := range sortedKeys(ids) {
			inHand := found.Running && runtime.ID(id).Passing()
			if !wanted[runtime.ID(id)] && !found.Reserved(runtime.ID(id)) && !inHand {
				is := "a sandbox that no session has"
				if ids[id].Alive {
					is += ", with processes"
				}
				all = append(all, newDifference("sandbox", id, "none", is, how))
			}
		}
	}
	return all
}

func compareWorkspaces(rows Rows, found Found) []Difference {
	there := found.Inspection[found.Keeper].Workspaces
	if there == nil {
		return nil
	}
	var all []Difference
	known := map[runtime.WorkspaceID]bool{}
	for _, w := range rows.Workspaces {
		known[w.Volume] = true
		switch ready := w.State == workspaces.WorkspaceReady; {
		case !ready && !found.Running:
			all = append(all, newDifference("workspace", w.ID, "ready", string(w.State)+": what the daemon did has been cut off", atStart("")))
		case ready && !there[w.Volume]:
			all = append(all, newDifference("workspace", w.ID, "its files", "none in volume "+string(w.Volume), mend{text: "remove the workspace: its files are lost", grave: true}))
		}
	}
	volumes := make(map[string]bool)
	for id := range there {
		volumes[string(id)] = true
	}
	for _, id := range sortedKeys(volumes) {
		if !known[runtime.WorkspaceID(id)] {
			all = append(all, newDifference("volume", id, "a workspace that it belongs to", "no row of it; it is left alone", byRecover(stopped+"sandkasten recover, which makes it a workspace again")))
		}
	}
	return all
}

func compareSnapshots(rows Rows, found Found) []Difference {
	if found.Blobs == nil {
		return nil
	}
	var all []Difference
	known := map[string]bool{}
	for _, s := range rows.Snapshots {
		known[s.Key()] = true
		size, there := found.Blobs[s.Key()]
		switch ready := s.State == snapshots.Ready; {
		case !ready && !found.Running:
			all = append(all, newDifference("snapshot", s.ID, "ready", string(s.State)+": what the daemon did has been cut off", atStart("")))
		case ready && !there:
			all = append(all, newDifference("snapshot", s.ID, "its archive", "none", bySnapshot(s.ID, "remove the snapshot: its files are lost")))
		case ready && size != s.Size:
			all = append(all, newDifference("snapshot", s.ID, fmt.Sprintf("an archive of %d bytes", s.Size), fmt.Sprintf("one of %d", size), bySnapshot(s.ID, "remove the snapshot: it is damaged")))
		}
	}
	for _, key := range sortedKeys(found.Blobs) {
		if !known[key] && IsSnapshot(key) {
			all = append(all, newDifference("archive", key, "a snapshot that it belongs to", "no row of it; it is left alone",
				byRecover(stopped+"sandkasten recover, which makes it a snapshot again; or sandkasten gc --archives, which deletes it")))
		}
	}
	return all
}

// snapshotKey is an id of a snapshot, or the name that the orchestrator gives to an
// archive.
var snapshotKey = regexp.MustCompile(`^(?:[a-z2-7]{26}|snapshots/[0-9a-f-]{36}/[0-9a-f-]{36}\.tar\.gz(?:\.enc)?)$`)

// IsSnapshot reports whether a key is one that a snapshot can have: what else
// is in a bucket is others'.
func IsSnapshot(key string) bool { return snapshotKey.MatchString(key) }
