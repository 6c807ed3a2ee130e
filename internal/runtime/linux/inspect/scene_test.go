package inspect

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
)

// base is the first id of a block.
const base = 0x70000000

// clean is a host with one sandbox that lives and one that is stopped, beside a
// daemon that has prepared a runner.
func clean() Scene {
	return Scene{
		Daemon: 1, Node: "node", DataDir: "/data",
		Sandboxes: []Sandbox{
			{ID: "live", Group: "pool-1", IDs: base, Runner: Process{PID: 10, Start: "5"}, Alive: true, Disk: File{1, 10}, DiskPath: "/data/sandboxes/live/disk.img"},
			{ID: "stopped", Group: "stopped", Kept: true, Disk: File{1, 11}},
		},
		Volumes: map[runtime.WorkspaceID]File{"v": {1, 12}},
		Groups:  []Group{{Name: "pool-1", Populated: true}},
		Runners: []Process{{PID: 10, Start: "5", Parent: 1}, {PID: 11, Parent: 1}, {PID: 12, Parent: 10}},
		Loops:   []Loop{{1, "/data/scratch/#1", File{1, 10}}, {2, "/data/workspaces/v/disk.img", File{1, 12}}, {3, "/data/scratch/#3", File{1, 13}}, {4, "/data/pool.img", File{1, 14}}},
		Scratch: []string{"template-1"},
		Spans:   Spans{Owners: map[int]string{0: "node"}, Of: ids.Span},
	}
}

func TestNothingDiffersWhereAllIsInOrder(t *testing.T) {
	if found := clean().Differences(); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// Each kind of damage is one difference, and nothing else.
func TestEachDamageIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*Scene)
		want   string // what, where
	}{
		"a group without a sandbox":     {func(s *Scene) { s.Groups = append(s.Groups, Group{Name: "x"}) }, "control group x"},
		"a runner without a sandbox":    {func(s *Scene) { s.Runners = append(s.Runners, Process{PID: 99, Parent: 2}) }, "process 99"},
		"a prepared one of a dead one":  {func(s *Scene) { s.Daemon, s.Scratch, s.Runners, s.Loops = 0, nil, s.Runners[:2], nil }, "process 11"},
		"a device on a stopped disk":    {func(s *Scene) { s.Loops = append(s.Loops, Loop{9, "/data/sandboxes/stopped/disk.img", File{1, 11}}) }, "loop device loop9"},
		"a device of a prepared disk":   {func(s *Scene) { s.Daemon, s.Scratch, s.Runners = 0, nil, nil }, "loop device loop3"},
		"half-done work":                {func(s *Scene) { s.Daemon, s.Runners, s.Loops = 0, nil, nil }, "scratch template-1"},
		"a mount":                       {func(s *Scene) { s.Mounts = []string{"/mnt"} }, "mount /mnt"},
		"no record":                     {func(s *Scene) { s.Sandboxes = append(s.Sandboxes, Sandbox{ID: "x", Claimed: true}) }, "sandbox x"},
		"a record that cannot be read":  {func(s *Scene) { s.Sandboxes = append(s.Sandboxes, Sandbox{ID: "x", Unknown: true}) }, "sandbox x"},
		"a runner that died":            {func(s *Scene) { s.Sandboxes = append(s.Sandboxes, Sandbox{ID: "x", Disk: File{1, 20}}) }, "sandbox x"},
		"a disk that is gone":           {func(s *Scene) { s.Sandboxes[1].Disk = File{} }, "sandbox stopped"},
		"a group that is gone":          {func(s *Scene) { s.Groups = nil }, "sandbox live"},
		"a socket that is gone":         {func(s *Scene) { s.Sandboxes[0].CutOff = true }, "sandbox live"},
		"a runner that is stopped":      {func(s *Scene) { s.Runners[0].Halted = true }, "sandbox live"},
		"a limit that is changed":       {func(s *Scene) { s.Groups[0].Changed = []string{"pids.max is max instead of 9"} }, "control group pool-1"},
		"a process of the host's":       {func(s *Scene) { s.Groups[0].Foreign = []int{7} }, "control group pool-1"},
		"a second device on a disk":     {func(s *Scene) { s.Loops = append(s.Loops, Loop{9, "/data/x", File{1, 10}}) }, "loop device loop1, loop9"},
		"ids that nobody has leased":    {func(s *Scene) { s.Spans.Owners = nil }, "user ids user ids 1879048192 of live"},
		"ids that another has leased":   {func(s *Scene) { s.Spans.Owners[0] = "other" }, "user ids user ids 1879048192 of live"},
		"ids that another sandbox has":  {twins, "user ids user ids 1879048192 of twin"},
		"ids that are those of no span": {func(s *Scene) { s.Sandboxes[0].IDs = 1 }, "user ids user ids 1 of live"},
	} {
		s := clean()
		c.damage(&s)
		var got []string
		for _, d := range s.Differences() {
			got = append(got, d.What+" "+d.Where)
		}
		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func twins(s *Scene) {
	twin := s.Sandboxes[0]
	twin.ID, twin.Disk, twin.Runner = "twin", File{1, 30}, Process{PID: 30}
	s.Sandboxes = append(s.Sandboxes, twin)
}

// A record that cannot be read may be the one that names a runner and a disk.
func TestNothingIsAStrayBesideARecordThatCannotBeRead(t *testing.T) {
	s := clean()
	s.Sandboxes[0].Unknown, s.Sandboxes[0].Alive, s.Daemon = true, false, 0
	if runners, loops := s.StrayRunners(), s.StrayLoops(); len(runners)+len(loops) > 0 {
		t.Errorf("%+v %+v", runners, loops)
	}
}

func TestMountsBelow(t *testing.T) {
	const table = `21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 7:3 / /mnt/seen rw shared:1 - ext4 /dev/loop3 rw
23 21 7:4 / /mnt/others rw - ext4 /dev/loop4 rw
24 21 0:5 / /data rw - ext4 /dev/sdb rw
25 24 0:6 / /data/workspaces/v/x rw - tmpfs tmpfs rw
short
`
	if diff := cmp.Diff([]string{"/mnt/seen", "/data/workspaces/v/x"}, MountsBelow(table, "/data", []Loop{{Number: 3}})); diff != "" {
		t.Error(diff)
	}
}

func TestProcesses(t *testing.T) {
	start, state, err := Stat(os.Getpid())
	if err != nil || !state.Running() || state.Halted() {
		t.Fatal(state, err)
	}
	got, err := Processes("/proc", []int{os.Getpid(), 1 << 30})
	if diff := cmp.Diff([]Process{{PID: os.Getpid(), Start: start, Parent: os.Getppid()}}, got); err != nil || diff != "" {
		t.Error(diff, err)
	}
	if _, err := parseStat(1, []byte("1 (a) b) R 0 0")); err == nil {
		t.Error("a short line is taken")
	}
	if p, found, err := ActingAs("/proc", []int{os.Getpid()}, os.Geteuid()); !found || p.Start != start || err != nil {
		t.Errorf("%+v %v %v", p, found, err)
	}
	if _, found, _ := ActingAs("/proc", []int{os.Getpid()}, 12345); found {
		t.Error("we act as somebody else")
	}
}

func TestFileOf(t *testing.T) {
	dir := t.TempDir()
	if f, err := FileOf(dir); f == (File{}) || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := FileOf(dir + "/x"); f != (File{}) || err != nil {
		t.Errorf("%+v, %v", f, err)
	}
	if names, err := Names(dir + "/x"); names != nil || err != nil {
		t.Errorf("%v, %v", names, err)
	}
}

func TestIsReadOnly(t *testing.T) {
	for options, want := range map[string]bool{
		"rw": false, "ro": true, "rw,emergency_ro,errors=remount-ro": true, "rw,shutdown": true, "rw,errors=remount-ro": false,
	} {
		proc := t.TempDir()
		if err := os.Mkdir(proc+"/7", 0o700); err != nil {
			t.Fatal(err)
		}
		table := "1 0 0:5 / / ro - overlay overlay ro\n2 1 7:3 /workspace /workspace rw - ext4 /dev/loop3 " + options + "\n"
		if err := os.WriteFile(proc+"/7/mountinfo", []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := IsReadOnly(proc, 7, "/workspace"); got != want {
			t.Errorf("%s: %v", options, got)
		}
	}
	if IsReadOnly(t.TempDir(), 7, "/workspace") {
		t.Error("of a process that is not there")
	}
}
