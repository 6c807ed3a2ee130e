package vm_test

import (
	"maps"
	"slices"
	"testing"
	"time"

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
		"TestR03_FilesInMemory",
		"TestR07_Descriptors",
		"TestR09_Zombies",
		"TestR11_KernelMemory",
	},
}

// ofDisks are the cases of the driver suite that fill disks: long, and not about
// control groups.
const ofDisks = "^TestDriverSuite$/^all$/^WorkspaceFull$"

// TestCgroup2 runs the tests of onCgroup2 in one machine and reports each as its
// own. There, too, what cannot run fails.
func TestCgroup2(t *testing.T) {
	ctx, m, env := batteryMachine(t)
	maps.Copy(m.Files, suitePrograms(t))
	packages, err := vm.ListTestPackages(ctx, slices.Sorted(maps.Keys(onCgroup2))...)
	if err != nil || len(packages) != len(onCgroup2) {
		t.Fatalf("of %d packages %d have tests: %v", len(onCgroup2), len(packages), err)
	}
	for i, p := range packages {
		packages[i].Skip = ofDisks
		if chosen := onCgroup2[p.ImportPath]; chosen != nil {
			packages[i].Run = anyOf(chosen)
		}
	}
	runAndReport(ctx, t, m, vm.Suite{Packages: packages, Env: env, Timeout: 12 * time.Minute})
}
