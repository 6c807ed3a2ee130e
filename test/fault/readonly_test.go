package fault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// With no inode left nothing new can be made, and what there is can be used and
// destroyed.
func TestF11_NoInodes(t *testing.T) {
	disk := newSmall(t, 300, "-N", "256")
	h := disk.on("")
	s, doomed := h.create(nil), h.create(nil)
	spare := filepath.Join(disk.dir, "spare")
	if err := os.Mkdir(spare, 0o700); err != nil {
		t.Fatal(err)
	}
	fill := func() {
		for i := 0; ; i++ {
			f, err := os.OpenFile(filepath.Join(spare, fmt.Sprint(i)), os.O_CREATE|os.O_WRONLY, 0o600)
			if errors.Is(err, syscall.ENOSPC) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	fill()
	var err error
	for range 12 {
		if _, err = h.c.CreateSession(t.Context(), nil); err != nil {
			break
		}
		fill()
	}
	if code(err) != "insufficient_space" {
		t.Errorf("create without an inode: %v (%s); want insufficient_space", err, code(err))
	}
	h.sh(s, "echo works > f; cat f")
	h.destroy(doomed)
	fill()
	if err := os.RemoveAll(spare); err != nil {
		t.Fatal(err)
	}
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}

// A file system that turns read-only by an error refuses changes. Running
// sessions go on; when it has been mended the daemon finishes what it could not.
func TestF11_ReadOnly(t *testing.T) {
	disk := newSmall(t, 300)
	h := disk.on("")
	s, doomed := h.create(nil), h.create(nil)
	fault := filepath.Join("/sys/fs/ext4", filepath.Base(disk.loop), "trigger_fs_error")
	if err := os.WriteFile(fault, []byte("a fault test"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.eventually(settle, func() error {
		err := os.WriteFile(filepath.Join(disk.dir, "probe"), nil, 0o600)
		if errors.Is(err, syscall.EROFS) {
			return nil
		}
		return fmt.Errorf("still writable: %w", err)
	})
	if made, err := h.c.CreateSession(t.Context(), nil); err == nil {
		t.Errorf("session %s was made although nothing can be written", made.ID)
	} else if c := code(err); c != "unavailable" && c != "insufficient_space" {
		t.Errorf("create: %v (%s); want unavailable", err, c)
	}
	h.eventually(settle, func() error {
		if err := blackbox.Probe(t.Context(), h.URL+"/readyz"); err == nil || !strings.Contains(err.Error(), "read-only") {
			return fmt.Errorf("/readyz: %v; want that the file system is read-only", err)
		}
		return blackbox.Probe(t.Context(), h.URL+"/healthz")
	})
	h.sh(s, "true")
	if err := doomed.Destroy(t.Context()); err == nil {
		t.Error("a destroy was acknowledged that cannot have been written")
	}
	h.Kill()
	h.killAll()
	disk.unmount()
	if out, err := exec.Command("e2fsck", "-f", "-y", disk.image).CombinedOutput(); err != nil && !strings.Contains(err.Error(), "status 1") {
		t.Fatalf("e2fsck: %v\n%s", err, out)
	}
	disk.mount()
	h.Start() // waits for /readyz
	for _, one := range []*sandkasten.Session{s, doomed} {
		// Its row may be as lost as what the host had not written yet.
		if info, err := one.Refresh(t.Context()); err != nil && code(err) != "not_found" || info.Status == "running" {
			t.Errorf("session %s is %s: %v", one.ID, info.Status, err)
		}
	}
	h.sh(h.create(nil), "true")
	h.oracle()
	h.wantNothing()
}
