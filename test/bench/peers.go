package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// limits are the same for every subject that can have them: the daemon's
// defaults.
const (
	memoryLimit = 512 << 20
	pidsLimit   = 512
	cpuQuota    = 100_000 // microseconds per period: one core
	cpuPeriod   = 100_000
)

// firstID is the host's id of a peer's root, and idCount how many follow.
const (
	firstID = 1_000_000_000
	idCount = 65_536
)

// newIDs returns a source of names that no two sandboxes share.
func newIDs() func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("sandkasten-bench-%d-%d", os.Getpid(), n.Add(1)) }
}

func installed(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

// ociSubject is an OCI runtime that runs a bundle with rootfs: every
// namespace, limits, no capabilities to speak of, a read-only root.
func ociSubject(tool string, start starter, bundle string) *processSubject {
	return &processSubject{
		title: tool + " run",
		start: start,
		newID: newIDs(),
		command: func(id string) []string {
			return []string{tool, "run", "--bundle", bundle, id}
		},
		execIn: func(id string) []string { return []string{tool, "exec", id, "true"} },
	}
}

// bwrapSubject is bubblewrap: every namespace and no control group.
func bwrapSubject(rootfs string) *processSubject {
	return &processSubject{
		title: "bubblewrap",
		start: startHere,
		newID: newIDs(),
		command: func(string) []string {
			return []string{
				"bwrap", "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0", "--die-with-parent", "--new-session",
				"--ro-bind", rootfs, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
				"--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--cap-drop", "ALL",
				"/bin/bash", "-c", readyCommand,
			}
		},
	}
}

// dockerRunSubject is the docker command line, hardened as docker can.
func dockerRunSubject(host, image string) *processSubject {
	return &processSubject{
		title: "docker run",
		start: startHere,
		newID: newIDs(),
		command: func(id string) []string {
			args := []string{"docker", "--host", host, "run", "--rm", "--interactive", "--name", id}
			args = append(args, dockerLimits()...)
			return append(args, image, "/bin/bash", "-c", readyCommand)
		},
		execIn: func(id string) []string { return []string{"docker", "--host", host, "exec", id, "true"} },
	}
}

func dockerLimits() []string {
	return []string{
		"--network", "none", "--memory", strconv.Itoa(memoryLimit), "--pids-limit", strconv.Itoa(pidsLimit),
		"--cpu-quota", strconv.Itoa(cpuQuota), "--cpu-period", strconv.Itoa(cpuPeriod),
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp",
	}
}

type object = map[string]any

// writeBundle makes an OCI bundle for rootfs in dir, which has to be reachable
// by everyone: root in the bundle's user namespace is nobody here.
func writeBundle(dir, rootfs string) error {
	config, err := json.MarshalIndent(bundleConfig(rootfs), "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
}

func bundleConfig(rootfs string) object {
	mount := func(target, kind string, options ...string) object {
		return object{"destination": target, "type": kind, "source": kind, "options": options}
	}
	ids := []object{{"containerID": 0, "hostID": firstID, "size": idCount}}
	var namespaces []object
	for _, kind := range []string{"pid", "network", "ipc", "uts", "mount", "user", "cgroup"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	return object{
		"ociVersion": "1.0.2",
		"hostname":   "bench",
		"root":       object{"path": rootfs, "readonly": true},
		"process": object{
			"user":            object{"uid": 0, "gid": 0},
			"args":            []string{"/bin/bash", "-c", readyCommand},
			"env":             []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			"cwd":             "/",
			"noNewPrivileges": true,
			"capabilities":    object{},
		},
		"mounts": []object{
			mount("/proc", "proc"),
			mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
			mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
			mount("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
			mount("/tmp", "tmpfs", "nosuid", "nodev", "mode=1777", "size=65536k"),
		},
		"linux": object{
			"uidMappings": ids,
			"gidMappings": ids,
			"namespaces":  namespaces,
			"resources": object{
				"memory": object{"limit": memoryLimit},
				"pids":   object{"limit": pidsLimit},
				"cpu":    object{"quota": cpuQuota, "period": cpuPeriod},
			},
			"maskedPaths":   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/proc/acpi"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
}
