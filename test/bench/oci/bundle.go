// Package oci is what OCI runtimes need to be measured: a bundle, and a place to
// start them in.
package oci

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// firstID is the host's id of a peer's root, and idCount how many follow.
const (
	firstID = 1_000_000_000
	idCount = 65_536
)

// Limits are what a bundle's processes may use.
type Limits struct {
	Memory    int64 // bytes
	Pids      int64
	CPUQuota  int64 // microseconds per CPUPeriod
	CPUPeriod int64
}

type object = map[string]any

// WriteBundle makes an OCI bundle for rootfs in dir, whose bash runs
// command. dir has to be reachable
// by everyone: root in the bundle's user namespace is nobody here.
func WriteBundle(dir, rootfs, command string, l Limits) error {
	config, err := json.MarshalIndent(bundleConfig(rootfs, command, l), "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644)
}

func bundleConfig(rootfs, command string, l Limits) object {
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
			"args":            []string{"/bin/bash", "-c", command},
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
				"memory": object{"limit": l.Memory},
				"pids":   object{"limit": l.Pids},
				"cpu":    object{"quota": l.CPUQuota, "period": l.CPUPeriod},
			},
			"maskedPaths":   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi", "/proc/acpi"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
}
