package quota_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/session/quota"
)

func TestChecks(t *testing.T) {
	one := quota.Held{Limits: runtime.Limits{CPU: 0.5, MemoryMB: 100, DiskMB: 1000}}
	var there quota.Sum
	there.Add(one)
	there.Add(quota.Held{Limits: one.Limits, Stopped: true})
	if want := (quota.Sum{Sessions: 2, Running: 1, CPU: 0.5, MemoryMB: 100, DiskMB: 2000}); there != want {
		t.Fatalf("there is %+v", there)
	}
	tests := map[string]struct {
		quota auth.Quota
		over  string // of a create; "" fits
		start string
		code  errdefs.Code
	}{
		"none":     {},
		"all fit":  {quota: auth.Quota{Sessions: 3, Running: 2, CPU: 1, MemoryMB: 200, DiskMB: 3000}},
		"sessions": {auth.Quota{Sessions: 2}, quota.Sessions, "", errdefs.ResourceExhausted},
		"running":  {auth.Quota{Running: 1}, quota.Running, quota.Running, errdefs.ResourceExhausted},
		"cpu":      {auth.Quota{CPU: 0.9}, quota.CPU, quota.CPU, errdefs.ResourceExhausted},
		"memory":   {auth.Quota{MemoryMB: 199}, quota.Memory, quota.Memory, errdefs.ResourceExhausted},
		"disk":     {auth.Quota{DiskMB: 2999}, quota.Disk, "", errdefs.InsufficientSpace},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantOver(t, quota.CheckCreate(tt.quota, there, one), tt.over, tt.code)
			wantOver(t, quota.CheckStart(tt.quota, there, one), tt.start, tt.code)
		})
	}
}

func wantOver(t *testing.T, err error, name string, code errdefs.Code) {
	t.Helper()
	if name == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Code != code || e.Reason != errdefs.QuotaExceeded || e.Quota.Name != name || e.Quota.Limit == 0 {
		t.Errorf("%v: %+v; want %s", err, e, name)
	}
}

// What workspaces may take counts as the disks of sessions do.
func TestWorkspacesCountAsDisk(t *testing.T) {
	q := auth.Quota{DiskMB: 3000, Workspaces: 3}
	var kept quota.Kept
	add := func(sizeMB int64) error {
		there := kept.Of("alice")
		there.Add(quota.Held{Limits: runtime.Limits{DiskMB: 1000}})
		return kept.Add(q, there, "alice", sizeMB, 0)
	}
	wantOver(t, add(2001), quota.Disk, errdefs.InsufficientSpace)
	wantOver(t, add(1500), "", "")
	if err := add(501); !strings.Contains(err.Error(), "2500 of 3000 are used; ask for less, delete a workspace (of 1, which take 1500), or one of the sessions has to end") {
		t.Error(err)
	}
	wantOver(t, add(400), "", "")
	wantOver(t, add(100), "", "")
	wantOver(t, add(0), quota.Workspaces, errdefs.ResourceExhausted)
	if want := (quota.Sum{Workspaces: 3, WorkspaceMB: 2000, DiskMB: 2000}); kept.Of("alice") != want {
		t.Errorf("alice has %+v", kept.Of("alice"))
	}
	wantOver(t, quota.CheckCreate(q, kept.Of("alice"), quota.Held{Limits: runtime.Limits{DiskMB: 1001}}), quota.Disk, errdefs.InsufficientSpace)
	wantOver(t, quota.CheckCreate(q, kept.Of("alice"), quota.Held{Limits: runtime.Limits{DiskMB: 1000}}), "", "")
	kept.Count("alice", -1, -1500)
	wantOver(t, add(1500), "", "")
	if kept.Of("bob") != (quota.Sum{}) {
		t.Errorf("bob has %+v", kept.Of("bob"))
	}
}

// Of the daemon's maximum an owner has no more than are left for others: there is always
// something for who has nothing yet.
func TestOwnersShareWorkspaces(t *testing.T) {
	const most = 12
	var kept quota.Kept
	fill := func(owner string) (n int) {
		for ; n < 2*most; n++ {
			err := kept.Add(auth.Quota{}, kept.Of(owner), owner, 1, most)
			if err == nil {
				continue
			}
			if !errdefs.Is(err, errdefs.ResourceExhausted) || !strings.Contains(err.Error(), "workspace.max_count") {
				t.Error(err)
			}
			break
		}
		return n
	}
	for i, want := range []int{6, 3, 2, 1, 0} { // half of what is left each time, which is 1 in the end
		if got := fill(string(rune('a' + i))); got != want {
			t.Errorf("owner %d has %d workspaces, want %d", i, got, want)
		}
	}
	kept.Count("a", -6, -6)
	if got := fill("e"); got != 3 {
		t.Errorf("when the first owner has none the last one has %d", got)
	}
	if got := fill("d"); got != 1 {
		t.Errorf("one who had 1 has %d more", got)
	}
}

// Parts of cores that fit exactly do.
func TestCoresThatFit(t *testing.T) {
	one := quota.Held{Limits: runtime.Limits{CPU: 0.4}}
	var there quota.Sum
	there.Add(one)
	there.Add(one)
	wantOver(t, quota.CheckStart(auth.Quota{CPU: 1.2}, there, one), "", "")
	wantOver(t, quota.CheckStart(auth.Quota{CPU: 1.199}, there, one), quota.CPU, errdefs.ResourceExhausted)
}

// What is taken back leaves what was there before, of sessions that run and that are stopped.
func TestRemoveTakesBackWhatAddAdded(t *testing.T) {
	var there quota.Sum
	there.Add(quota.Held{Limits: runtime.Limits{CPU: 1, MemoryMB: 2, DiskMB: 3}})
	before := there
	for _, stopped := range []bool{true, false} {
		one := quota.Held{Limits: runtime.Limits{CPU: 4, MemoryMB: 5, DiskMB: 6}, Stopped: stopped}
		there.Add(one)
		there.Remove(one)
		if there != before {
			t.Errorf("stopped %t: %+v, and was %+v", stopped, there, before)
		}
	}
}
