package docker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/bits"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/sandbox/relay"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

// Labels of what is ours in the engine. Everything has the first.
const (
	labelNode      = "sandkasten.node"
	labelSandbox   = "sandkasten.sandbox"   // of a container: its sandbox's id when it was made
	labelTry       = "sandkasten.try"       // of a container: which Create made it
	labelLimits    = "sandkasten.limits"    // of a container: its Limits in JSON
	labelWorkspace = "sandkasten.workspace" // of a volume: its workspace's id
	labelProgram   = "sandkasten.program"   // of a volume: it holds a runner; of a container: it helps, and is nobody's
	labelImage     = "sandkasten.image"     // of an image, and of a container that is made of it: the digest that we know it by
	labelSeccomp   = "sandkasten.seccomp"   // of a container: its policy
	labelUser      = "sandkasten.user"      // of a container: Options.User when it was made
	labelMemory    = "sandkasten.memory"    // of a container: its workspace is in memory and ends with its processes
	labelFork      = "sandkasten.fork"      // of an image that forks are made of, and of these: its name
	labelEnv       = "sandkasten.env"       // of a volume with nothing in it: variables in JSON that a container was claimed with
)

// shownLabels are those of a session that its container has, too, for the engine's
// tools. Others may mean something to them that is not the client's to say.
var shownLabels = []string{"astraforge.sandbox.session", "astraforge.sandbox.user"}

// programDir is where containers have the volume with the runner's program.
const programDir = "/.sandkasten"

const (
	programFile = "runner"
	program     = programDir + "/" + programFile
)

// runnerTasks is room for the threads of the runner and of two relays beside
// it, which the engine counts with the sandbox's.
const runnerTasks = 80

func (d *Driver) container(id runtime.ID) string {
	return "sandkasten-" + d.opts.Node + "-" + string(id)
}

// creation is what a container is planned from.
type creation struct {
	id     runtime.ID
	try    string
	spec   runtime.Spec // with all its limits
	rootfs Rootfs
	image  string // the engine's name for it
	volume string // with the runner
	size   int64  // of the root in bytes, with a workspace of its own in it, or 0: no limit, and the workspace is a volume
	apart  bool   // the workspace is a volume in any case

	user      *stage.User // whom the programs are; nil is root
	userLabel string      // Options.User that this is by
	baseline  string      // the path of the list of what the image is made of
	fork      string      // the image that it is a fork of, or ""
}

// plan says all about a container. Nothing in it is taken from a request but
// by way of a Spec, which has no words for mounts, devices or privileges.
func (d *Driver) plan(c creation) (client.ContainerCreateOptions, error) {
	p := d.profiles[c.spec.Seccomp]
	machineID := ""
	if !c.spec.ReadonlyRoot {
		machineID = guest.NewMachineID()
	}
	inMemory := ""
	if d.inMemory(c) {
		inMemory = "workspace"
	}
	boot, err := json.Marshal(stage.ContainerBoot{
		Socket:         relay.Socket,
		Workspace:      guest.Workspace,
		Env:            stage.NewEnv(guest.Environment(c.rootfs.Env, c.spec.Env, c.rootfs.Shell)),
		WorkloadFilter: p.workload,
		Baseline:       c.baseline,
		MachineID:      machineID,
		User:           c.user,
	})
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	limits, err := json.Marshal(c.spec.Limits)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	config := &container.Config{
		Image:      c.image,
		Hostname:   c.spec.Hostname,
		User:       "0:0", // of the runner
		WorkingDir: "/",
		Entrypoint: []string{program, stage.ContainerCommand},
		Env:        []string{stage.ContainerBootVar + "=" + string(boot)},
		OpenStdin:  true,      // over which the first link is opened
		StdinOnce:  true,      // the runner hears of its end
		StopSignal: "SIGKILL", // what a session's programs are to hear is the runner's business
		Labels: map[string]string{
			labelNode: d.opts.Node, labelSandbox: string(c.id), labelTry: c.try, labelLimits: string(limits),
			labelImage: c.spec.Image, labelSeccomp: string(c.spec.Seccomp), labelFork: c.fork,
			labelUser: c.userLabel, labelMemory: inMemory,
		},
	}
	for _, name := range shownLabels {
		if value, ok := c.spec.Labels[name]; ok {
			config.Labels[name] = value
		}
	}
	config.Hostname = hostnameOf(c.spec)
	return client.ContainerCreateOptions{Name: d.container(c.id), Config: config, HostConfig: d.planHost(c, p)}, nil
}

func (d *Driver) planHost(c creation, p profile) *container.HostConfig {
	no := false
	memory := c.spec.Limits.MemoryMB << 20
	host := &container.HostConfig{
		NetworkMode:    "none",
		DNS:            netns.Resolvers[:],
		DNSOptions:     netns.ResolverOptions,
		DNSSearch:      []string{"."}, // none, or the engine would take its host's
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		CapDrop:        []string{"ALL"},
		CapAdd:         capabilities(stage.ContainerCaps),
		SecurityOpt:    []string{"no-new-privileges", "seccomp=" + p.engine},
		MaskedPaths:    append(append(append([]string{}, guest.MaskedFiles...), guest.MaskedDirs...), maskedSys...),
		ReadonlyPaths:  append([]string{"/sys/fs/cgroup"}, guest.ReadonlyPaths...), // its top is a tmpfs on cgroup v1
		ReadonlyRootfs: c.spec.ReadonlyRoot,
		ShmSize:        max(memory/2, 1<<20),
		Runtime:        d.opts.Runtime,
		UsernsMode:     container.UsernsMode(d.opts.Userns),
		Init:           &no, // the runner is
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:      container.LogConfig{Type: "none"}, // or the engine would write down all that is said over the link
		Mounts: []mount.Mount{
			{Type: mount.TypeVolume, Source: c.volume, Target: programDir, ReadOnly: true, VolumeOptions: &mount.VolumeOptions{NoCopy: true}},
		},
		StorageOpt: storageOptions(c.size),
		Resources:  *limitsOf(c.spec.Limits),
	}
	if c.spec.Network.Mode == runtime.NetworkEngine {
		host.NetworkMode, host.DNS, host.DNSOptions, host.DNSSearch = container.NetworkMode(d.opts.Network), nil, nil, nil
	}
	if !d.inMemory(c) && (c.size == 0 || c.apart || c.spec.Workspace != "") {
		host.Mounts = append(host.Mounts, mount.Mount{
			Type: mount.TypeVolume, Source: d.workspaceVolume(c.spec.Workspace), Target: guest.Workspace, VolumeOptions: &mount.VolumeOptions{NoCopy: true},
		})
	}
	host.Memory, host.MemorySwap = memory, memory
	host.Ulimits = []*container.Ulimit{
		{Name: "core", Soft: 1, Hard: 1}, // at 0 a helper of the host would run as its root
		{Name: "nofile", Soft: 16384, Hard: 16384},
		{Name: "memlock", Soft: 64 << 10, Hard: 64 << 10},
		{Name: "msgqueue", Soft: 819200, Hard: 819200},
		{Name: "sigpending", Soft: 4096, Hard: 4096},
	}
	if c.spec.ReadonlyRoot {
		// What programs need to write although the root is read-only. It counts
		// as memory.
		host.Tmpfs = map[string]string{"/tmp": tmpfs(memory / 2), "/run": tmpfs(memory / 4)}
		for _, dir := range d.opts.Tmpfs {
			if host.Tmpfs[dir] == "" {
				host.Tmpfs[dir] = tmpfs(memory / 4)
			}
		}
	}
	if d.inMemory(c) {
		if host.Tmpfs == nil {
			host.Tmpfs = map[string]string{}
		}
		host.Tmpfs[guest.Workspace] = tmpfs(cmp.Or(c.spec.Limits.DiskMB<<20, memory))
	}
	return host
}

// inMemory reports whether a container's workspace is in memory. One that outlives
// its sessions never is.
func (d *Driver) inMemory(c creation) bool { return d.opts.Memory && c.spec.Workspace == "" }

// isInMemory is inMemory of a container that is there.
func isInMemory(got container.InspectResponse) bool { return got.Config.Labels[labelMemory] != "" }

// limitsOf are those limits that can be changed of a container that runs.
func limitsOf(l runtime.Limits) *container.Resources {
	pids := l.Pids + runnerTasks
	return &container.Resources{NanoCPUs: int64(l.CPU * 1e9), PidsLimit: &pids}
}

// tmpfs bounds a directory in memory in bytes and in files.
func tmpfs(size int64) string {
	size = max(size, 1<<20)
	return fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d,nr_inodes=%d", size, size>>12)
}

// maskedSys is /sys without the container's own control group, which tells the
// runner how often the kernel killed for want of memory.
var maskedSys = []string{
	"/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/firmware", "/sys/hypervisor", "/sys/kernel",
	"/sys/module", "/sys/power", "/sys/fs/bpf", "/sys/fs/btrfs", "/sys/fs/ext4", "/sys/fs/fuse", "/sys/fs/pstore", "/sys/fs/xfs",
}

// hostnameOf is the name of a sandbox of spec.
func hostnameOf(spec runtime.Spec) string { return cmp.Or(spec.Hostname, guest.Hostname) }

// capabilityNames is <linux/capability.h> as far as a sandbox can have it.
var capabilityNames = map[int]string{
	0: "CHOWN", 1: "DAC_OVERRIDE", 3: "FOWNER", 4: "FSETID", 5: "KILL", 6: "SETGID", 7: "SETUID", 8: "SETPCAP", 10: "NET_BIND_SERVICE",
}

// capabilities names those of a set.
func capabilities(set uint64) []string {
	var names []string
	for ; set != 0; set &= set - 1 {
		names = append(names, capabilityNames[bits.TrailingZeros64(set)])
	}
	return names
}
