package vm_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/vm"
)

// onCgroup2 are the tests that every run of the checks makes in a machine, by
// package: those about what the control groups of version 2, which most users
// have, do otherwise than those of version 1. Limits are reached and told,
// everything is killed, stands still and wakes, and nothing of it is left. An
// empty list means all tests of the package. The rest runs on the host in every
// run, and in the machine as slices of the long tier.
var onCgroup2 = map[string][]string{
	module + "/internal/spawn":                   nil,
	module + "/internal/runtime/linux/cgroup":    nil,
	module + "/internal/sandbox/stage":           nil,
	module + "/internal/runtime/linux/fairshare": nil,
	module + "/internal/runtime/linux": {
		"TestDriverSuite",
		"TestCheckKernel",
		"TestFailedCreateLeavesNothing",
		"TestFileWorkIsCharged",
		"TestHugePages",
		"TestOutOfMemoryIsNotTheRunnersEnd",
		"TestParked",
		"TestProgramsEndByTheirCgroup",
		"TestStats",
		"TestStoppedHoldsNothing",
	},
	battery: {
		"TestE01_Detached",
		"TestE02_IgnoredSignals",
		"TestE03_Stopped",
		"TestE05_ForkAndDie",
		"TestK20_KillEverything",
		"TestP05_Cgroups",
		"TestR01_ForkBombs",
		"TestR02_Memory",
		"TestR07_Descriptors",
		"TestR09_Zombies",
		"TestR11_KernelMemory",
	},
}

// notOfGroups are the cases of the driver suite that control groups have no part in, or
// none that another case has not: they are about files, disks, names, networks and what
// is refused. The host's run has them all, and so has the long tier's in the machine.
var notOfGroups = []string{
	"ClaimDead", "ClaimOther", "ClaimPlain", "ClaimReadonly", "ClaimTaken", "ClaimUsed", "ClaimWaits", "ClaimWorkspace", "CreateTaken",
	"CreateUnknownImage", "DestroyAbsent", "Env", "Files", "ForkFails", "ForkOfFork", "MachineID", "Network", "NetworkClaimed",
	"NetworkForked", "OpenAbsent", "ProcessUser", "Snapshot", "SnapshotRoot", "StartFails", "StartQuiet", "StopAgain", "Terminal", "Trees",
	"Watch", "WorkspaceAtOnce", "WorkspaceFull", "WorkspaceLasts", "WorkspaceRefusals", "WorkspaceShared",
}

// TestCgroup2 runs the tests of onCgroup2 and what looks at the systemd unit in one
// machine, since a boot and the copies for it take a minute of two processors. It
// reports each as its own. There, too, what cannot run fails.
func TestCgroup2(t *testing.T) {
	ctx := needMachine(t)
	m, env := batteryMachine(ctx, t, testenv.SystemdRootfs(t))
	maps.Copy(m.Files, suitePrograms(t))
	systemd := systemdScript(ctx, t, m.Files)
	packages, err := vm.ListTestPackages(ctx, slices.Sorted(maps.Keys(onCgroup2))...)
	if err != nil || len(packages) != len(onCgroup2) {
		t.Fatalf("of %d packages %d have tests: %v", len(onCgroup2), len(packages), err)
	}
	for i, p := range packages {
		packages[i].Skip = "^TestDriverSuite$/^all$/" + anyOf(notOfGroups)
		if chosen := onCgroup2[p.ImportPath]; chosen != nil {
			packages[i].Run = anyOf(chosen)
		}
	}
	runAndReport(ctx, t, m, vm.Suite{Packages: packages, Env: env, Timeout: 12 * time.Minute, Scripts: []vm.Script{systemd}})
}
