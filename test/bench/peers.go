package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"

	"github.com/sandkasten/sandkasten/test/bench/oci"
)

// limits are the same for every subject that can have them: the daemon's
// defaults.
const (
	memoryLimit = 512 << 20
	pidsLimit   = 512
	cpuQuota    = 100_000 // microseconds per period: one core
	cpuPeriod   = 100_000
)

// bundleLimits are they for OCI runtimes.
var bundleLimits = oci.Limits{Memory: memoryLimit, Pids: pidsLimit, CPUQuota: cpuQuota, CPUPeriod: cpuPeriod}

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
func ociSubject(tool string, start oci.Starter, bundle string) *processSubject {
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
		start: oci.StartHere,
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
		start: oci.StartHere,
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
