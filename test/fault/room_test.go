package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// diskErrors are the file systems of a daemon's sandboxes that have had an error.
func (h *host) diskErrors() (found []string) {
	h.t.Helper()
	loops, err := h.loops()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, loop := range loops {
		dev, _, _ := strings.Cut(loop, " ")
		text, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(dev), "errors_count"))
		if err == nil && strings.TrimSpace(string(text)) != "0" {
			found = append(found, loop)
		}
	}
	return found
}

// The disks of sessions are together larger than the host's. When they fill it, each
// is told that its disk is full before the host's is: no write that a program takes
// for done is lost, and with room all go on.
func TestF10_OvercommittedDisks(t *testing.T) {
	const sessions, reserveMB = 4, 64
	disk := newSmall(t, 700)
	h := newHost(t, blackbox.Options{
		DataDir: disk.dir,
		Config: fmt.Sprintf(`reaper_interval_seconds: 1
defaults: {disk_limit_mb: 400, mem_limit_mb: 256, pids_limit: 64}
admission: {memory_reserve_mb: 0, disk_reserve_mb: %d, pids_reserve: 0}`, reserveMB),
	})
	h.Start()
	all := make([]*sandkasten.Session, sessions)
	for i := range all {
		all[i] = h.create(nil)
	}
	var writers sync.WaitGroup
	for _, s := range all {
		writers.Go(func() {
			r, err := s.Exec(t.Context(), `i=0; while head -c 5000000 /dev/urandom > part.$i && sync part.$i; do sha1sum part.$i >> sums; i=$((i+1)); done; rm -f part.$i; exit 1`, &sandkasten.ExecOptions{Timeout: 2 * time.Minute})
			if err != nil || r.ExitCode != 1 {
				t.Errorf("a program that fills the disk: %+v, %v", r, err)
			}
		})
	}
	writers.Wait()
	if left := disk.free(); left < reserveMB<<20*3/4 {
		t.Errorf("%d MiB of the host's disk are left, %d are to be", left>>20, reserveMB)
	}
	for _, s := range all {
		r, err := s.Exec(t.Context(), "head -c 50000000 /dev/zero > more; code=$?; rm -f more; exit $code", nil)
		if err != nil || r.ExitCode == 0 {
			t.Errorf("with a full disk: %+v, %v", r, err)
		}
		// What is left may be divided anew between the failed write and the end of its
		// command, and each attempt takes what that gave.
		h.eventually(settle, func() error {
			r, err := s.Exec(t.Context(), "head -c 50000000 /dev/zero >> more", nil)
			if err == nil && r.ExitCode == 0 {
				t.Error("50 MB go into a full disk")
			}
			if err == nil && !r.DiskFull {
				err = fmt.Errorf("with a full disk it is not told disk_full: %+v", r)
			}
			return err
		})
		h.sh(s, "rm more; sync; sha1sum --quiet -c sums")
	}
	if found := h.diskErrors(); len(found) > 0 {
		t.Errorf("errors on %v", found)
	}
	h.destroy(all[0])
	h.eventually(settle, func() error {
		r, err := all[1].Exec(t.Context(), "head -c 10000000 /dev/urandom > again && sync again", nil)
		if err == nil && r.ExitCode != 0 {
			err = fmt.Errorf("with room again: %s", r.Output)
		}
		return err
	})
	h.sh(all[2], "sha1sum --quiet -c sums")
	h.destroy(all[3]) // a daemon does not start with less than 256 MiB
	h.oracle()
	h.wantNothing()
}

// A session whose disk has had an error is not said to run.
func TestF10_DiskOfASessionFails(t *testing.T) {
	disk := newSmall(t, 300)
	h := disk.on("")
	s, other := h.create(nil), h.create(nil)
	h.sh(s, "echo kept > f; sync")
	image, err := os.Stat(filepath.Join(h.Data, "sandboxes", s.ID, "disk.img"))
	if err != nil {
		t.Fatal(err)
	}
	loops, err := h.loops()
	if err != nil {
		t.Fatal(err)
	}
	dev, _, _ := strings.Cut(loops[image.Sys().(*syscall.Stat_t).Ino], " ")
	if err := os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(dev), "trigger_fs_error"), []byte("test"), 0); err != nil {
		t.Fatal(err)
	}
	if info := h.wantStatus(s, "stopped", settle); !strings.Contains(info.EndReason, "read-only") {
		t.Errorf("the reason is %q", info.EndReason)
	}
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.sh(s, "cat f; touch again && echo writable"); got != "kept\nwritable" {
		t.Errorf("started again it prints %q", got)
	}
	h.sh(other, "true")
	h.oracle()
	h.wantNothing()
}
