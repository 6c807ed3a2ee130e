package inspect

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
)

// lookAtGroup sees one group.
func lookAtGroup(groups *cgroup.Manager, name string) (Group, error) {
	g := groups.Group(name)
	populated, popErr := g.Populated()
	frozen, err := g.Freezing()
	pids, pidErr := g.PIDs()
	return Group{Name: name, Populated: populated, Frozen: frozen, PIDs: pids}, errors.Join(popErr, err, pidErr)
}

// Look sees all but the sandboxes and the mounts: the groups of a daemon, and
// what is below its data directory and in the directory of leases.
func Look(groups *cgroup.Manager, node, dataDir, leases string, daemon int) (s Scene, err error) {
	s = Scene{Daemon: daemon, Node: node, DataDir: dataDir, Spans: Spans{Of: ids.Span}, Volumes: map[runtime.WorkspaceID]File{}, VolumeMB: map[runtime.WorkspaceID]int64{}}
	var errs []error
	names, err := groups.List()
	errs = append(errs, err)
	for _, name := range names {
		g, err := lookAtGroup(groups, name)
		errs = append(errs, err)
		s.Groups = append(s.Groups, g)
	}
	pids, err := groups.RunnerPIDs()
	errs = append(errs, err)
	s.Runners, err = Processes("/proc", pids)
	errs = append(errs, err)
	loops, err := disk.Loops(dataDir, node)
	errs = append(errs, err)
	for _, l := range loops {
		s.Loops = append(s.Loops, Loop{Number: l.Number, Path: l.Path, File: File{Device: l.Device, Inode: l.Inode}})
	}
	s.Scratch, err = Names(filepath.Join(dataDir, "scratch"))
	errs = append(errs, err)
	volumes, err := Names(filepath.Join(dataDir, "workspaces"))
	errs = append(errs, err)
	for _, id := range volumes {
		image := filepath.Join(dataDir, "workspaces", id, "disk.img")
		file, err := FileOf(image)
		errs = append(errs, err)
		s.Volumes[runtime.WorkspaceID(id)] = file
		if info, err := os.Stat(image); err == nil {
			s.VolumeMB[runtime.WorkspaceID(id)] = info.Size() >> 20
		}
	}
	s.Spans.Owners, err = ids.Owners(leases)
	return s, errors.Join(append(errs, err)...)
}
