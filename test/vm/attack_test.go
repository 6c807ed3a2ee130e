package vm_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
	"github.com/sandkasten/sandkasten/test/vm"
)

// battery is the package of the attack battery, and batteryImages where the
// machine has the image of its sessions, imported: an emulated processor takes
// minutes to.
const (
	battery       = module + "/test/attack"
	batteryImages = "/var/lib/battery/images"
)

// notAttackedHere are the cases that are not tried in the machine, and why each
// is not. All of them are tried on the host itself.
var notAttackedHere = map[string]string{
	// What a machine ten times as slow cannot say anything about.
	"TestA07_SlowClients":      "beside 600 connections of its own, commands take longer than it waits",
	"TestR06_OutputFloods":     "an emulated processor prints too little for a flood",
	"TestH07_HugeTrees":        "two minutes of making files, about the calls for files",
	"TestR05_Inodes":           "two minutes of making 400,000 files; the disk package's own test of that runs",
	"TestT05_CompressionBombs": "unpacks gigabytes, about archives",
	"TestT06_StructureBombs":   "unpacks gigabytes, about archives",
	"TestT06_ManyEntries":      "a million entries, about archives",
	"TestT07_Damaged":          "thousands of archives",
	"TestT08_TrojanPrograms":   "imports a Debian, which takes minutes",

	// What neither the kernel nor its control groups have a part in, and takes long.
	"TestA01_Keys":               "hundreds of requests, about keys",
	"TestA04_UnknownFields":      "about requests",
	"TestA05_Numbers":            "about requests",
	"TestA06_Bodies":             "a gigabyte of requests",
	"TestA12_Idempotency":        "about requests",
	"TestA13_Races":              "about requests",
	"TestA14_LogLines":           "about requests",
	"TestC01_DaemonSecrets":      "reads all there is, about the daemon",
	"TestH01_LinksInFileAPI":     "hundreds of requests, about the calls for files; H02 is the same as a race",
	"TestH03_PathFormsInFileAPI": "hundreds of requests, about the calls for files",
	"TestH05_HugeFiles":          "gigabytes, about the calls for files",
	"TestH06_ShiftingFiles":      "gigabytes, about the calls for files",
	"TestI01_AllowList":          "imports, about names of images",
	"TestT01_NamesThatLeadOut":   "a minute of archives",
	"TestT02_LinksThatLeadOut":   "half a minute of archives",
	"TestT03_HardLinks":          "half a minute of archives",
	"TestT11_KnownBreakouts":     "most of a minute of archives",
	"TestR15_LogFlood":           "a thousand requests, about the daemon's log",
	"TestDockerTable":            "reads the repository",
}

// batteryTime is what the battery may take in the machine, twice what it takes
// where two processors emulate the machine's two.
const batteryTime = 25 * time.Minute

// slower is how many times as long as on the host things may take there, also
// where other checks run beside the machine.
const slower = "20"

// batteryMachine is a machine on this root file system with the programs and the image
// of the battery, and the environment of the battery there.
func batteryMachine(ctx context.Context, t *testing.T, root string) (vm.Machine, []string) {
	t.Helper()
	dir := testenv.DataDir(t)
	rootfs := filepath.Join(dir, "rootfs")
	if out, err := exec.CommandContext(ctx, "cp", "-a", root, rootfs).CombinedOutput(); err != nil {
		t.Fatalf("copy the root file system: %v: %s", err, out)
	}
	program := testenv.Program(t)
	env := append(blackbox.Environ(), "SANDKASTEN_DATA_DIR="+filepath.Join(rootfs, filepath.Dir(batteryImages)))
	if err := blackbox.ImportImage(ctx, program, testenv.BaseRootfs(t), "base", env); err != nil {
		t.Fatal(err)
	}
	m, err := vm.Prepare(ctx, rootfs, dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Files = map[string]string{
		path.Join(vm.BinDir, "sandkasten"): program,
		path.Join(vm.BinDir, "with-liar"):  testenv.ProgramWith(t, testenv.Build(t, "./test/attack/testdata/liar"), "with-liar"),
		path.Join(vm.BinDir, "probe"):      testenv.Build(t, "./internal/runtime/linux/testdata/probe"),
	}
	m.MemoryMB = 3072
	return m, slices.Concat(inMachine, []string{
		blackbox.ImagesVar + "=" + batteryImages,
		"SANDKASTEN_ATTACK_SLOW=" + slower,
	})
}

// TestBatteryOnCgroup2 runs the attack battery in a machine: what keeps an attacker
// in is there the control groups of version 2, and another kernel than the host's.
// It is part of the long tier; TestCgroup2 is what every run has of it.
func TestBatteryOnCgroup2(t *testing.T) {
	ctx := needMachine(t)
	m, env := batteryMachine(ctx, t, testenv.BaseRootfs(t))
	packages, err := vm.ListTestPackages(ctx, battery)
	if err != nil || len(packages) != 1 {
		t.Fatalf("%d packages, %v", len(packages), err)
	}
	packages[0].Skip = anyOf(slices.Sorted(maps.Keys(notAttackedHere)))
	runAndReport(ctx, t, m, vm.Suite{Packages: packages, Env: env, Timeout: batteryTime})
}

// runAndReport runs the tests of a suite and reports each as its own.
func runAndReport(ctx context.Context, t *testing.T, m vm.Machine, suite vm.Suite) {
	t.Helper()
	outcomes, err := runUnlessSilent(ctx, t, m, suite)
	if errors.Is(err, errSilent) {
		t.Logf("%v; once more", err)
		outcomes, err = runUnlessSilent(ctx, t, m, suite)
	}
	report(t, outcomes)
	if err != nil {
		t.Error(err)
	}
}

// silence is longer than any test takes in a machine. One that tells of no test for so
// long hangs: the emulation sometimes does, soon after the start, with both processors
// busy and no word of the kernel's.
const silence = 8 * time.Minute

var errSilent = errors.New("the machine hangs: it told of no test for " + silence.String())

// runUnlessSilent runs a suite in a machine, and gives up one that hangs.
func runUnlessSilent(ctx context.Context, t *testing.T, m vm.Machine, suite vm.Suite) ([]vm.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hung := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer hung.Stop()
	suite.Progress = func(line string) {
		hung.Reset(silence)
		t.Log(strings.TrimPrefix(line, module+"/"))
	}
	outcomes, err := m.RunSuite(ctx, testenv.DataDir(t), suite)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return nil, errSilent
	}
	return outcomes, err
}

// Every test that is left out or chosen exists; a name that no test has any more
// is a reason for nothing.
func TestWhatIsLeftOutExists(t *testing.T) {
	tables := map[string][]string{battery: slices.Collect(maps.Keys(notAttackedHere))}
	for pkg, left := range notHere {
		tables[pkg] = slices.Collect(maps.Keys(left))
	}
	for pkg, chosen := range onCgroup2 {
		tables[pkg] = append(tables[pkg], chosen...)
	}
	for _, name := range notOfGroups {
		if !holdsText(t, filepath.Join("..", "..", "internal", "runtime", "runtimetest", "*.go"), `"`+name+`"`) {
			t.Errorf("the driver suite has no case %s", name)
		}
	}
	for pkg, names := range tables {
		files, err := filepath.Glob(filepath.Join("..", "..", strings.TrimPrefix(pkg, module), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(source)
		}
		for _, name := range names {
			if !strings.Contains(text.String(), "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("%s has no %s", pkg, name)
			}
		}
	}
}

// holdsText reports whether one of the files that the pattern names has a text.
func holdsText(t *testing.T, pattern, text string) bool {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(source), text)
	})
}
