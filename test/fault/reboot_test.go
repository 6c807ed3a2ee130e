package fault

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// Rows from another time, as a clock that was set leaves them, end no session at
// once and make none immortal.
func TestF19_RowsOfAnotherTime(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"a day ahead": 24 * time.Hour, "a year ahead": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "max_lifetime_seconds: 0")
			long, short := h.create(nil), h.create(&sandkasten.CreateOptions{TTL: 4 * time.Second})
			h.Stop()
			h.change("UPDATE sessions SET created_at = created_at + ?, last_activity = last_activity + ?", ahead.Microseconds(), ahead.Microseconds())
			h.Start()
			h.sh(long, "true")
			h.wantStatus(short, "expired", 15*time.Second)
			info, err := long.Refresh(t.Context())
			if left := time.Until(info.ExpiresAt); err != nil || left > time.Hour {
				t.Errorf("it lives for another %s: %v", left, err)
			}
			h.oracle()
			h.wantNothing()
		})
	}
}

// A clock that was set forward or back while no daemon ran has ended no session and
// made none immortal: what is left of their time is what it was. Rows that were
// written a day before the clock that is noted beside them went on by a day are what
// that leaves.
func TestF19_ClockSetWhileDown(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"a day forward": 24 * time.Hour, "a day back": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "session_ttl_seconds: 3600\nmax_lifetime_seconds: 7200")
			s, short := h.create(nil), h.create(&sandkasten.CreateOptions{TTL: 4 * time.Second})
			h.Stop()
			h.change("UPDATE sessions SET created_at = created_at - ?1, last_activity = last_activity - ?1", by.Microseconds())
			h.change("UPDATE clock SET offset_us = offset_us - ?", by.Microseconds())
			h.Start()
			h.sh(s, "true")
			h.wantStatus(short, "expired", 15*time.Second)
			info := h.wantStatus(s, "running", settle)
			if left, age := time.Until(info.ExpiresAt), time.Since(info.CreatedAt); left < 50*time.Minute || left > time.Hour || age < 0 || age > 10*time.Minute {
				t.Errorf("it was made %s ago and lives for another %s", age, left)
			}
			h.oracle()
			h.wantNothing()
		})
	}
}

// A host that restarted has no process, no control group, no lease and another
// boot id. Sessions whose disks were made to survive that can be started, the
// others are gone with a reason, and snapshots and workspaces are there.
func TestF20_Reboot(t *testing.T) {
	t.Parallel()
	h := start(t, "sessions: {survive_reboot: true}")
	survives, stopped := h.create(nil), h.create(nil)
	h.sh(survives, "echo kept > f; sync")
	h.sh(stopped, "echo kept > f")
	if _, err := stopped.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	saved, err := survives.Snapshot(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	keeper := h.create(&sandkasten.CreateOptions{WorkspaceID: "w"})
	h.sh(keeper, "echo kept > f; sync")
	h.Kill()
	h.killAll()
	h.forgetBoot()
	h.Start()
	for _, s := range []*sandkasten.Session{survives, stopped} {
		h.wantStatus(s, "stopped", settle)
		if _, err := s.Start(t.Context()); err != nil {
			t.Errorf("start: %v", err)
			continue
		}
		if got := h.sh(s, "cat f"); got != "kept" {
			t.Errorf("its file is %q", got)
		}
	}
	again := h.create(&sandkasten.CreateOptions{RestoreSnapshotID: saved.ID})
	user := h.create(&sandkasten.CreateOptions{WorkspaceID: "w"})
	for _, s := range []*sandkasten.Session{again, user} {
		if got := h.sh(s, "cat f"); got != "kept" {
			t.Errorf("what was saved is %q", got)
		}
	}
	h.oracle()
	h.wantNothing()
}

// The same of a host whose sessions were not made to survive it.
func TestF20_RebootOfShortLived(t *testing.T) {
	t.Parallel()
	h := start(t, "")
	lost, stopped := h.create(nil), h.create(nil)
	if _, err := stopped.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Kill()
	h.killAll()
	h.forgetBoot()
	h.Start()
	h.wantStatus(stopped, "stopped", settle)
	if info := h.wantStatus(lost, "crashed", settle); info.EndReason == "" {
		t.Error("it has ended without a reason")
	}
	h.oracle()
	h.wantNothing()
}

// forgetBoot takes away what a restart of the host takes from a daemon that
// does not run: control groups, leases, and the boot that processes are of.
func (h *host) forgetBoot() {
	h.t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/sandkasten/", "/sys/fs/cgroup/*/sandkasten/"} {
		node := h.node()
		for _, path := range []string{node + "/*/*", node + "/*", node, "_ids/*/" + node} {
			dirs, err := filepath.Glob(pattern + path)
			if err != nil {
				h.t.Fatal(err)
			}
			for _, dir := range dirs {
				if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
					h.eventually(settle, func() error { return ignoreGone(os.Remove(dir)) })
				}
			}
		}
	}
	states, err := filepath.Glob(filepath.Join(h.Data, "sandboxes", "*", "state.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, file := range states {
		var state map[string]any
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &state)
		}
		if err != nil {
			h.t.Fatal(err)
		}
		if process, ok := state["process"].(map[string]any); ok && process["boot_id"] != "" {
			process["boot_id"] = "00000000-0000-4000-8000-000000000000"
		}
		if text, err = json.Marshal(state); err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}
