// Package inspect compares what lies about on a host with the records of the
// native driver's sandboxes: control groups, runners, loop devices, mounts and
// user ids. It reads and judges; what is to be done about a stray is the
// driver's business, and what a sandbox is for is nobody's here.
package inspect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Scene is all that was seen of one daemon's sandboxes.
type Scene struct {
	Daemon    int    // the process that works on the directory now; 0 is none
	Node      string // the installation
	DataDir   string
	Sandboxes []Sandbox
	Volumes   map[runtime.WorkspaceID]File
	VolumeMB  map[runtime.WorkspaceID]int64
	Groups    []Group
	Runners   []Process
	Loops     []Loop   // on files below DataDir
	Mounts    []string // of files below DataDir, where everybody on the host sees them
	Scratch   []string // what lies in the directory of unfinished work
	Spans     Spans
}

// Sandbox is what a sandbox's directory says.
type Sandbox struct {
	ID       runtime.ID
	Made     time.Time
	Spec     runtime.Spec
	Unknown  bool   // what the directory says cannot be read
	Claimed  bool   // there is no record yet: it is being made, or a crash came between
	Group    string // the name of its control group
	IDs      int    // the first of its user ids; 0 is none
	Runner   Process
	Alive    bool
	CutOff   bool // it lives, and its socket is gone
	Kept     bool // its disk is to be there, whether it is alive or not
	Disk     File
	DiskPath string
}

// File identifies a file by what the kernel knows of it. The zero File is not
// there.
type File struct{ Device, Inode uint64 }

// Group is a control group of that name, in whatever hierarchies it is.
type Group struct {
	Name      string
	Populated bool
	Frozen    bool
	Changed   []string // limits that are not its sandbox's, in words
	PIDs      []int
	Foreign   []int // processes that are no sandbox's, by their user ids
}

// Process is one that may be a runner.
type Process struct {
	PID    int
	Start  string // clock ticks since boot, as in /proc/PID/stat
	Parent int
	Halted bool // by a signal
}

// Loop is a loop device.
type Loop struct {
	Number int
	Path   string // of its file, as it was when the device was set up
	File   File
}

// Spans are the leases of user ids, of which installations are the owners.
type Spans struct {
	Owners map[int]string
	Of     func(id int) (span int, ok bool) // where an id belongs
}

// Differences are what does not fit together.
func (s Scene) Differences() []runtime.Difference {
	all := append(append(s.directories(), s.groups()...), s.twins()...)
	for _, g := range s.StrayGroups() {
		all = append(all, runtime.Difference{
			What: "control group", Where: g.Name, Expected: "none", Found: "a group that no sandbox has" + with(g.Populated, ", with processes"), Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
		})
	}
	for _, p := range s.StrayRunners() {
		all = append(all, runtime.Difference{
			What: "process", Where: strconv.Itoa(p.PID), Expected: "none", Found: "a runner that no sandbox has", Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
		})
	}
	for _, l := range s.StrayLoops() {
		all = append(all, runtime.Difference{
			What: "loop device", Where: "loop" + strconv.Itoa(l.Number), Expected: "none", Found: "a device on " + l.Path + ", which nothing should use", Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
		})
	}
	for _, m := range s.Mounts {
		all = append(all, runtime.Difference{
			What: "mount", Where: m, Expected: "none", Found: "files of a sandbox, mounted where the host sees them", Mend: "unmount it", Command: "umount " + m, Grave: true,
		})
	}
	if s.Daemon == 0 { // else it may be working on them
		for _, name := range s.Scratch {
			all = append(all, runtime.Difference{
				What: "scratch", Where: name, Expected: "none", Found: "what a crash has interrupted", Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
			})
		}
	}
	return append(all, s.blocks()...)
}

func with(said bool, text string) string {
	if said {
		return text
	}
	return ""
}

// directories are the sandboxes whose own parts do not fit together.
func (s Scene) directories() []runtime.Difference {
	var all []runtime.Difference
	for _, b := range s.Sandboxes {
		atStart := func(expected, found, then string) {
			all = append(all, runtime.Difference{What: "sandbox", Where: string(b.ID), Expected: expected, Found: found, Mend: runtime.MendAtStart + then, Command: runtime.CommandAtStart})
		}
		byHand := func(expected, found, mend string) {
			all = append(all, runtime.Difference{What: "sandbox", Where: string(b.ID), Expected: expected, Found: found, Mend: mend, Grave: true})
		}
		switch {
		case b.Unknown:
			atStart("a record of it in its directory", "one that cannot be read", "")
		case b.Claimed:
			atStart("a record of it in its directory", "none: a crash came while it was made or removed", "")
		case !b.Alive && !b.Kept:
			atStart("a runner", "none: it has died, and its files are lost", "")
		case b.Disk == File{}:
			byHand("its disk", "none at "+b.DiskPath, "remove its session: its files are lost")
		case b.Alive && !s.hasGroup(b.Group):
			byHand("the control group "+b.Group, "none", "remove its session: it has no limits any more")
		case b.CutOff:
			atStart("the socket of its runner", "none: nobody can reach it", "; its session is stopped then")
		}
		if b.Alive && s.halted(b.Runner.PID) {
			atStart("a runner that runs", "one that a signal has stopped", "")
		}
	}
	return all
}

func (s Scene) hasGroup(name string) bool {
	return slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Name == name })
}

func (s Scene) halted(pid int) bool {
	return slices.ContainsFunc(s.Runners, func(p Process) bool { return p.PID == pid && p.Halted })
}

// groups are the control groups of sandboxes that are not as they were made.
func (s Scene) groups() []runtime.Difference {
	var all []runtime.Difference
	for _, g := range s.Groups {
		if len(g.Changed) > 0 {
			all = append(all, runtime.Difference{
				What: "control group", Where: g.Name, Expected: "the limits of its sandbox", Found: strings.Join(g.Changed, ", "), Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
			})
		}
		for _, pid := range g.Foreign {
			all = append(all, runtime.Difference{
				What: "control group", Where: g.Name, Expected: "processes of its sandbox", Found: "process " + strconv.Itoa(pid) + ", which is the host's", Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
			})
		}
	}
	return all
}

// TwinLoops are the devices on files that have more than one, which would be two
// file systems in one place. To detach those of them that are in use does nothing.
func (s Scene) TwinLoops() []Loop {
	count := make(map[File]int, len(s.Loops))
	for _, l := range s.Loops {
		count[l.File]++
	}
	return slices.DeleteFunc(slices.Clone(s.Loops), func(l Loop) bool { return count[l.File] < 2 || filepath.Base(l.Path) == poolFile })
}

// twins is TwinLoops as one difference for each file.
func (s Scene) twins() []runtime.Difference {
	devices := map[File][]string{}
	for _, l := range s.TwinLoops() {
		devices[l.File] = append(devices[l.File], "loop"+strconv.Itoa(l.Number))
	}
	var all []runtime.Difference
	for _, l := range s.TwinLoops() {
		if names := devices[l.File]; names != nil {
			all = append(all, runtime.Difference{
				What: "loop device", Where: strings.Join(names, ", "), Expected: "one on " + l.Path, Found: strconv.Itoa(len(names)), Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
			})
			delete(devices, l.File)
		}
	}
	return all
}

// StrayGroups are control groups of no sandbox.
func (s Scene) StrayGroups() []Group {
	known := make(map[string]bool, len(s.Sandboxes))
	for _, b := range s.Sandboxes {
		known[b.Group], known[string(b.ID)] = true, true
	}
	return slices.DeleteFunc(slices.Clone(s.Groups), func(g Group) bool { return known[g.Name] })
}

// StrayRunners are runners of no sandbox: neither is it the record's, nor one
// that the running daemon has prepared, nor a child of one of those. While a
// record cannot be read there are none, for it may be the one that names it.
func (s Scene) StrayRunners() []Process {
	known := make(map[int]bool, len(s.Sandboxes))
	for _, b := range s.Sandboxes {
		if b.Unknown {
			return nil
		}
		known[b.Runner.PID] = b.Alive
	}
	return slices.DeleteFunc(slices.Clone(s.Runners), func(p Process) bool {
		return known[p.PID] || known[p.Parent] || s.Daemon != 0 && p.Parent == s.Daemon
	})
}

// StrayLoops are loop devices on files that nothing uses: of a sandbox that is
// not alive, or that is deleted. Those on nameless files of the scratch directory
// are disks that the running daemon has prepared.
func (s Scene) StrayLoops() []Loop {
	used := make(map[File]bool, len(s.Sandboxes))
	unknown := false
	for _, b := range s.Sandboxes {
		used[b.Disk] = b.Alive
		unknown = unknown || b.Unknown
	}
	for _, v := range s.Volumes {
		used[v] = true // the last sandbox's end detaches it, a moment later
	}
	return slices.DeleteFunc(slices.Clone(s.Loops), func(l Loop) bool {
		return used[l.File] || unknown || s.Daemon != 0 && s.nameless(l.Path) || filepath.Base(l.Path) == poolFile
	})
}

// poolFile is the pool of disks, whose device has as many users as there are
// disks in it.
const poolFile = "pool.img"

// nameless reports whether a path is what the kernel calls a file that was made
// in the scratch directory without a name.
func (s Scene) nameless(path string) bool {
	return strings.HasPrefix(path, filepath.Join(s.DataDir, "scratch")+"/#")
}

// blocks are the user ids that more than one has.
func (s Scene) blocks() []runtime.Difference {
	var all []runtime.Difference
	first := map[int]runtime.ID{}
	for _, b := range s.Sandboxes {
		if b.IDs == 0 || !b.Alive {
			continue
		}
		where := fmt.Sprintf("user ids %d of %s", b.IDs, b.ID)
		if other, taken := first[b.IDs]; taken {
			all = append(all, runtime.Difference{
				What: "user ids", Where: where, Expected: "ids of its own", Found: "those of sandbox " + string(other), Mend: "remove one of the two sessions", Grave: true,
			})
		}
		first[b.IDs] = b.ID
		span, ok := s.Spans.Of(b.IDs)
		if owner := s.Spans.Owners[span]; !ok || owner != s.Node {
			all = append(all, runtime.Difference{
				What: "user ids", Where: where, Expected: "a lease of this daemon's", Found: with(owner != "", "one of "+owner) + with(owner == "", "none"), Mend: runtime.MendAtStart, Command: runtime.CommandAtStart,
			})
		}
	}
	return all
}

// Inspection is the scene as others see it.
func (s Scene) Inspection() runtime.Inspection {
	seen := runtime.Inspection{
		Sandboxes: map[runtime.ID]runtime.Status{}, Paused: map[runtime.ID]bool{}, Specs: map[runtime.ID]runtime.Spec{},
		Workspaces: map[runtime.WorkspaceID]bool{}, WorkspaceMB: s.VolumeMB,
		Differences: s.Differences(),
	}
	frozen := map[string]bool{}
	for _, g := range s.Groups {
		frozen[g.Name] = g.Frozen
	}
	for _, b := range s.Sandboxes {
		seen.Sandboxes[b.ID] = runtime.Status{ID: b.ID, Alive: b.Alive, Startable: !b.Alive && b.Kept, CreatedAt: b.Made}
		if !b.Unknown && !b.Claimed {
			seen.Specs[b.ID] = b.Spec
		}
		seen.Paused[b.ID] = frozen[b.Group]
	}
	for id, file := range s.Volumes {
		seen.Workspaces[id] = file != File{}
	}
	return seen
}
