package docker

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/netns"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
)

// offline is a driver that never gets to an engine.
func offline(t *testing.T, change ...func(*Options)) *Driver {
	t.Helper()
	o := Options{Host: "unix:///nowhere/s", Node: "test", Runner: []byte("program"), Images: oneImage{}}
	for _, do := range change {
		do(&o)
	}
	return open(t, o)
}

// checkHardened is what SECURITY.md's D01 asks of a container, planned or made.
func checkHardened(t *testing.T, d *Driver, spec runtime.Spec, c *container.Config, h *container.HostConfig) {
	t.Helper()
	for what, ok := range map[string]bool{
		"not privileged":    !h.Privileged,
		"capabilities":      slices.Equal(h.CapDrop, []string{"ALL"}) && capSet(h.CapAdd) == stage.ContainerCaps,
		"no new privileges": slices.Contains(h.SecurityOpt, "no-new-privileges"),
		"our seccomp":       slices.Contains(h.SecurityOpt, "seccomp="+d.profiles[spec.Seccomp].engine),
		"nothing of a host": len(h.Binds)+len(h.Devices)+len(h.DeviceRequests)+len(h.DeviceCgroupRules)+len(h.VolumesFrom)+len(h.PortBindings)+len(c.ExposedPorts) == 0,
		"volumes only":      !slices.ContainsFunc(h.Mounts, func(m mount.Mount) bool { return m.Type != mount.TypeVolume }),
		"program read-only": h.Mounts[0].ReadOnly && h.Mounts[0].Target == programDir,
		"own namespaces":    h.NetworkMode == "none" && h.IpcMode == "private" && h.CgroupnsMode == "private" && h.PidMode == "" && h.UTSMode == "" && h.UsernsMode == "",
		"our resolvers":     slices.Equal(h.DNS, netns.Resolvers[:]) && slices.Equal(h.DNSSearch, []string{"."}),
		"memory, no swap":   h.Memory == spec.Limits.MemoryMB<<20 && h.MemorySwap == h.Memory,
		"processor":         h.NanoCPUs == int64(spec.Limits.CPU*1e9),
		"processes":         h.PidsLimit != nil && *h.PidsLimit == spec.Limits.Pids+runnerTasks,
		"ulimits":           len(h.Ulimits) == 5,
		"shared memory":     h.ShmSize == h.Memory/2,
		"root as asked":     h.ReadonlyRootfs == spec.ReadonlyRoot && (len(h.Tmpfs) == 2) == spec.ReadonlyRoot,
		"masks":             slices.Contains(h.MaskedPaths, "/proc/kallsyms") && slices.Contains(h.MaskedPaths, "/sys/kernel") && slices.Contains(h.ReadonlyPaths, "/proc/sys"),
		"runtime":           d.opts.Runtime == "" || h.Runtime == d.opts.Runtime,
		"no restarts":       h.RestartPolicy.Name == container.RestartPolicyDisabled && !h.AutoRemove,
		"our program is 1":  slices.Equal(c.Entrypoint, []string{program, stage.ContainerCommand}) && len(c.Cmd) == 0 && (h.Init == nil || !*h.Init),
		"no terminal":       !c.Tty,
		"input only once":   c.OpenStdin && c.StdinOnce,
		"no log":            h.LogConfig.Type == "none",
		"labels":            c.Labels[labelNode] == d.opts.Node && c.Labels[labelSandbox] != "" && c.Labels[labelLimits] != "",
	} {
		if !ok {
			t.Errorf("not so: %s\n%+v\n%+v", what, c, h)
		}
	}
}

func capSet(names []string) (set uint64) {
	for number, name := range capabilityNames {
		if slices.Contains(names, name) || slices.Contains(names, "CAP_"+name) {
			set |= 1 << number
		}
	}
	return set
}

func TestPlan(t *testing.T) {
	limits := runtime.Limits{CPU: 1.5, MemoryMB: 100, Pids: 50, DiskMB: 10}
	for name, spec := range map[string]runtime.Spec{
		"plain":     {Limits: limits},
		"read-only": {Limits: limits, ReadonlyRoot: true, Seccomp: runtime.SeccompMVP},
		"session's": {Limits: limits, Hostname: "host", Env: map[string]string{"A": "b\x01\"\n"}, Workspace: "w1", Seccomp: runtime.SeccompOff},
	} {
		t.Run(name, func(t *testing.T) {
			d := offline(t, func(o *Options) { o.Runtime = "runsc" })
			got, err := d.plan(creation{id: "s1", try: "t", spec: spec, rootfs: Rootfs{Env: []string{"IMAGE=x"}, Shell: "/bin/sh"}, image: "i", volume: "v"})
			if err != nil {
				t.Fatal(err)
			}
			checkHardened(t, d, spec, got.Config, got.HostConfig)
			if got.Name != "sandkasten-test-s1" || got.Config.Hostname != cmp.Or(spec.Hostname, guest.Hostname) {
				t.Errorf("name %q, host name %q", got.Name, got.Config.Hostname)
			}
			if source := got.HostConfig.Mounts[1].Source; (source == "sandkasten-test-workspace-w1") != (spec.Workspace != "") {
				t.Errorf("workspace from %q", source)
			}
			text, ok := strings.CutPrefix(got.Config.Env[0], stage.ContainerBootVar+"=")
			var boot stage.ContainerBoot
			if err := json.Unmarshal([]byte(text), &boot); !ok || err != nil || len(got.Config.Env) != 1 {
				t.Fatalf("%v: %q", err, got.Config.Env)
			}
			if want := guest.Environment([]string{"IMAGE=x"}, spec.Env, "/bin/sh"); string(boot.Env) != string(stage.NewEnv(want)) {
				t.Errorf("environment %q", boot.Env)
			}
			if (len(boot.WorkloadFilter) == 0) != (spec.Seccomp == runtime.SeccompOff) {
				t.Errorf("a filter of %d bytes", len(boot.WorkloadFilter))
			}
		})
	}
}

// A workspace in memory has the size of the disk limit, or else of the memory. One
// that outlives its sessions stays a volume.
func TestPlanOfMemory(t *testing.T) {
	limits := runtime.Limits{CPU: 1, MemoryMB: 100, Pids: 50, DiskMB: 10}
	for name, c := range map[string]struct {
		spec  runtime.Spec
		tmpfs map[string]int64 // in MiB, by directory
	}{
		"read-only root":  {runtime.Spec{Limits: limits, ReadonlyRoot: true}, map[string]int64{"/tmp": 50, "/run": 25, "/var/tmp": 25, "/workspace": 10}},
		"without a limit": {runtime.Spec{Limits: runtime.Limits{MemoryMB: 100}}, map[string]int64{"/workspace": 100}},
		"kept workspace":  {runtime.Spec{Limits: limits, Workspace: "w1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := offline(t, func(o *Options) { o.Memory, o.Tmpfs = true, []string{"/tmp", "/var/tmp"} })
			got, err := d.plan(creation{id: "s1", spec: c.spec, rootfs: Rootfs{Shell: "/bin/sh"}, image: "i", volume: "v"})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for dir, mb := range c.tmpfs {
				want[dir] = tmpfs(mb << 20)
			}
			if !maps.Equal(got.HostConfig.Tmpfs, want) {
				t.Errorf("%v, want %v", got.HostConfig.Tmpfs, want)
			}
			inMemory := c.spec.Workspace == ""
			if volumes := len(got.HostConfig.Mounts); (volumes == 1) != inMemory || (got.Config.Labels[labelMemory] != "") != inMemory {
				t.Errorf("%d volumes, labels %v", volumes, got.Config.Labels)
			}
		})
	}
	if d := offline(t, func(o *Options) { o.Memory = true }); !d.LimitsDisk(true) || d.LimitsDisk(false) {
		t.Error("the disk limit does not hold under a read-only root alone")
	}
}

// Of a session's labels its container has those only that mean nothing to other
// programs of the engine's host.
func TestPlanOfLabels(t *testing.T) {
	d := offline(t)
	asked := map[string]string{"astraforge.sandbox.session": "u", "astraforge.sandbox.user": "alice", "traefik.enable": "true", labelNode: "other"}
	got, err := d.plan(creation{id: "s1", spec: runtime.Spec{Labels: asked}, rootfs: Rootfs{Shell: "/bin/sh"}})
	if err != nil {
		t.Fatal(err)
	}
	labels := got.Config.Labels
	if labels["astraforge.sandbox.session"] != "u" || labels["astraforge.sandbox.user"] != "alice" || labels["traefik.enable"] != "" || labels[labelNode] != "test" {
		t.Errorf("labels %v", labels)
	}
}

func TestRefusedSpecs(t *testing.T) {
	d := offline(t)
	for name, c := range map[string]struct {
		id   runtime.ID
		spec runtime.Spec
		want errdefs.Code
	}{
		"no id":         {"", runtime.Spec{}, errdefs.InvalidArgument},
		"a path":        {"../x", runtime.Spec{}, errdefs.InvalidArgument},
		"seccomp":       {"x", runtime.Spec{Seccomp: "lax"}, errdefs.InvalidArgument},
		"a network":     {"x", runtime.Spec{Network: runtime.Network{Mode: "host"}}, errdefs.Unimplemented},
		"no such image": {"x", runtime.Spec{Image: "sha256:0"}, errdefs.NotFound},
		"no engine":     {"x", runtime.Spec{Image: testImage}, errdefs.Unavailable},
	} {
		if _, err := d.Create(t.Context(), c.id, c.spec); !errdefs.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	good := Options{Node: "n1", Runner: []byte("x"), Host: "unix:///s"}
	for name, spoil := range map[string]func(*Options){
		"no node":   func(o *Options) { o.Node = "" },
		"odd node":  func(o *Options) { o.Node = "a/b" },
		"no runner": func(o *Options) { o.Runner = nil },
		"odd host":  func(o *Options) { o.Host = "nonsense" },
	} {
		o := good
		spoil(&o)
		if d, err := New(o); err == nil {
			t.Errorf("%s: no error; closing it: %v", name, d.Close())
		}
	}
}

// An engine at a socket is on this host; any other has a host of its own.
func TestRemote(t *testing.T) {
	for host, want := range map[string]bool{"unix:///nowhere/s": false, "tcp://127.0.0.1:1": true} {
		d := offline(t, func(o *Options) { o.Host = host })
		if got := d.Remote(); got != want || d.Admit(t.Context()) != nil {
			t.Errorf("%s: remote is %v", host, got)
		}
	}
}

// TestUnavailable: whatever is asked of an engine that is not there, the answer
// is to try later.
func TestUnavailable(t *testing.T) {
	d := offline(t)
	ctx := t.Context()
	s := &sandbox{d: d, id: "x"}
	for name, do := range map[string]func() error{
		"Check":   func() error { return d.Check(ctx) },
		"Open":    func() error { _, err := d.Open(ctx, "x"); return err },
		"Destroy": func() error { return d.Destroy(ctx, "x") },
		"Stop":    func() error { return d.Stop(ctx, "x") },
		"Start":   func() error { _, err := d.Start(ctx, "x"); return err },
		"Sweep":   func() error { return d.Sweep(ctx) },
		"Dial":    func() error { _, err := s.DialRunner(ctx); return err },
		"Pause":   func() error { return s.Pause(ctx) },
		"Stats":   func() error { _, err := s.Stats(ctx); return err },
		"NetNS":   func() error { _, err := s.NetNS(ctx); return err },
		"List": func() error {
			for _, err := range d.List(ctx) {
				return err
			}
			return nil
		},
		"CreateWorkspace":  func() error { return d.CreateWorkspace(ctx, "w", 1) },
		"DestroyWorkspace": func() error { return d.DestroyWorkspace(ctx, "w") },
		"WorkspaceBytes":   func() error { _, err := d.WorkspaceBytes(ctx, "w"); return err },
		"Workspaces": func() error {
			for _, err := range d.Workspaces(ctx) {
				return err
			}
			return nil
		},
	} {
		if err := do(); !errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("%s: %v, want %s", name, err, errdefs.Unavailable)
		}
	}
}

// TestEngineProfile: the engine's form of a policy says of every call what
// ours does, as far as it can.
func TestEngineProfile(t *testing.T) {
	for _, mode := range []runtime.SeccompMode{runtime.SeccompStrict, runtime.SeccompMVP} {
		policy := seccomp.Runner(mode)
		f := engineProfile(policy)
		if f.DefaultAction != "SCMP_ACT_ERRNO" || f.DefaultErrno != 38 || !slices.Equal(f.Architectures, []string{"SCMP_ARCH_X86_64"}) {
			t.Errorf("%+v", f)
		}
		rules := make(map[string][]engineRule)
		for _, r := range f.Syscalls {
			for _, name := range r.Names {
				rules[name] = append(rules[name], r)
			}
		}
		for _, rule := range policy.Rules {
			checkRule(t, rule, rules)
		}
	}
}

func checkRule(t *testing.T, rule seccomp.Rule, rules map[string][]engineRule) {
	t.Helper()
	for _, name := range rule.Calls {
		got := rules[name]
		if len(got) == 0 {
			t.Errorf("%s is in no rule", name)
			continue
		}
		conditional := rule.Then != seccomp.Allow && len(rule.Check) > 0
		for _, r := range got {
			if conditional != (len(r.Args) > 0) {
				t.Errorf("%s: arguments %+v", name, r.Args)
			}
			if allowed := r.Action == "SCMP_ACT_ALLOW"; allowed != (rule.Then == seccomp.Allow || conditional) {
				t.Errorf("%s: %s", name, r.Action)
			}
		}
	}
	if rule.Then == seccomp.Allow {
		return
	}
	refusals := false
	for _, c := range rule.Check { // or the engine's form would allow more
		if c.Then != seccomp.Allow {
			refusals = true // with another error, which our own filter says
			continue
		}
		for _, cond := range c.When {
			for _, r := range cond.In {
				if r.Lo != r.Hi || refusals {
					t.Errorf("%v: a case that the engine's form cannot say: %+v", rule.Calls, c)
				}
			}
		}
	}
}

func TestCombinations(t *testing.T) {
	got := combinations([]seccomp.Cond{
		{Arg: 0, Mask: 0xff, In: []seccomp.Range{{Lo: 1, Hi: 1}, {Lo: 2, Hi: 2}}},
		{Arg: 2, Mask: 0xf, In: []seccomp.Range{{Lo: 3, Hi: 3}, {Lo: 4, Hi: 4}}},
	})
	var all []string
	for _, args := range got {
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	const first = `[{"index":0,"value":255,"valueTwo":1,"op":"SCMP_CMP_MASKED_EQ"},{"index":2,"value":15,"valueTwo":3,"op":"SCMP_CMP_MASKED_EQ"}]`
	slices.Sort(all)
	if len(slices.Compact(all)) != 4 || all[0] != first {
		t.Errorf("%s", all)
	}
}

// A container is in the engine's network only where its session and the configuration
// both say so, and keeps the engine's resolver there.
func TestPlanOfTheEnginesNetwork(t *testing.T) {
	spec := runtime.Spec{Limits: runtime.Limits{CPU: 1, MemoryMB: 100, Pids: 50}, Network: runtime.Network{Mode: runtime.NetworkEngine}}
	d := offline(t, func(o *Options) { o.Network = "agents" })
	if d.EngineNetwork() != "agents" || d.checkNetwork(spec) != nil {
		t.Errorf("%q, %v", d.EngineNetwork(), d.checkNetwork(spec))
	}
	for mode, want := range map[runtime.NetworkMode]container.NetworkMode{runtime.NetworkEngine: "agents", runtime.NetworkNone: "none"} {
		spec.Network.Mode = mode
		got, err := d.plan(creation{id: "s1", try: "t", spec: spec, rootfs: Rootfs{Shell: "/bin/sh"}, image: "i", volume: "v"})
		if err != nil {
			t.Fatal(err)
		}
		if h := got.HostConfig; h.NetworkMode != want || (len(h.DNS) == 0) != (want == "agents") {
			t.Errorf("%s: %s, resolvers %v", mode, h.NetworkMode, h.DNS)
		}
	}
	spec.Network.Mode = runtime.NetworkEngine
	if err := offline(t).checkNetwork(spec); !errdefs.Is(err, errdefs.Unimplemented) {
		t.Errorf("without a network in the configuration: %v", err)
	}
}
