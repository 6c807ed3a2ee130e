package quota_test

import (
	"errors"
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

// Parts of cores that fit exactly do.
func TestCoresThatFit(t *testing.T) {
	one := quota.Held{Limits: runtime.Limits{CPU: 0.4}}
	var there quota.Sum
	there.Add(one)
	there.Add(one)
	wantOver(t, quota.CheckStart(auth.Quota{CPU: 1.2}, there, one), "", "")
	wantOver(t, quota.CheckStart(auth.Quota{CPU: 1.199}, there, one), quota.CPU, errdefs.ResourceExhausted)
}
