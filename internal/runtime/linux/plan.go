package linux

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

const (
	noSuidDev     = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	noSuidDevExec = noSuidDev | unix.MOUNT_ATTR_NOEXEC
)

// planMounts lists what is mounted below a sandbox's root, in order.
func planMounts(spec runtime.Spec) []stage.Mount {
	mounts := []stage.Mount{
		// A process sees its own user's only, so nobody sees the runner. File
		// modes alone would not do: the kernel gives the files of a process that
		// cannot be dumped to root, here the sandbox's.
		{From: stage.FromNew, FS: "proc", Target: "/proc", Attrs: noSuidDevExec, Options: "hidepid=" + hidepid()},
		{
			From: stage.FromNew, FS: "tmpfs", Target: "/dev", Attrs: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC,
			Options: "size=64k,nr_inodes=64,mode=755",
		},
	}
	for _, dev := range devices() {
		node := stage.Mount{
			From: stage.FromFacade, Path: dev.name, Target: "/dev/" + dev.name, Make: stage.MakeFile,
			Attrs: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC,
		}
		if protection.Off(protection.OwnInodes) {
			node.From, node.Path = stage.FromHost, node.Target
		}
		mounts = append(mounts, node)
	}
	mounts = append(mounts,
		stage.Mount{
			From: stage.FromNew, FS: "devpts", Target: "/dev/pts", Make: stage.MakeDir, Attrs: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC,
			Options: fmt.Sprintf("newinstance,ptmxmode=666,mode=620,gid=5,max=%d", protection.Wider(protection.Terminals, 64, 4)),
		},
		memoryFS("/dev/shm", spec.Limits.MemoryMB/2, stage.MakeDir),
		stage.Mount{From: workspaceSource(spec), Path: disk.Workspace, Target: guest.Workspace, Attrs: writtenInside()},
	)
	if spec.ReadonlyRoot {
		// What programs need to write although the root is read-only. Its size
		// counts as memory.
		mounts = append(mounts, memoryFS("/tmp", spec.Limits.MemoryMB/2, ""), memoryFS("/run", spec.Limits.MemoryMB/4, ""))
	}
	return mounts
}

func workspaceSource(spec runtime.Spec) stage.Source {
	if spec.Workspace != "" {
		return stage.FromVolume
	}
	return stage.FromDisk
}

// writtenInside are the attributes of mounts of what programs of a sandbox write.
func writtenInside() uint64 {
	if protection.Off(protection.NoSuid) {
		return unix.MOUNT_ATTR_NODEV
	}
	return noSuidDev
}

func hidepid() string {
	if protection.Off(protection.Hidepid) {
		return "off"
	}
	return "invisible"
}

// memoryFS is a directory in memory, bounded in bytes and in files.
func memoryFS(target string, mib int64, create stage.Kind) stage.Mount {
	mib = protection.Wider(protection.MemoryFiles, max(mib, 1), 16)
	return stage.Mount{
		From: stage.FromNew, FS: "tmpfs", Target: target, Make: create, Attrs: noSuidDev,
		Options: fmt.Sprintf("size=%dm,nr_inodes=%d,mode=1777", mib, mib*256),
	}
}

// planMasks picks from the lists what others than root can read on this host.
func planMasks(readable func(path string) bool) stage.Masks {
	if protection.Off(protection.MaskedPaths) {
		return stage.Masks{}
	}
	pick := func(paths []string) []string {
		return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !readable(p) })
	}
	return stage.Masks{Files: pick(guest.MaskedFiles), Dirs: pick(guest.MaskedDirs), ReadOnly: pick(guest.ReadonlyPaths)}
}

// devLinks are the customary names in /dev.
var devLinks = []stage.Link{
	{Path: "/dev/ptmx", Target: "pts/ptmx"},
	{Path: "/dev/fd", Target: "/proc/self/fd"},
	{Path: "/dev/stdin", Target: "/proc/self/fd/0"},
	{Path: "/dev/stdout", Target: "/proc/self/fd/1"},
	{Path: "/dev/stderr", Target: "/proc/self/fd/2"},
}
