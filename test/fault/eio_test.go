package fault

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// breakDisk has every use of a session's disk fail with EIO until it is mounted anew, as a
// device does that has gone.
func (h *host) breakDisk(s *sandkasten.Session) {
	h.t.Helper()
	const ioctlShutdown, noLogFlush = 0x8004587d, 2 // of ext4: include/uapi/linux/ext4.h
	dir, err := os.Open(fmt.Sprintf("/proc/%d/root/workspace", h.runner(s)))
	if err != nil {
		h.t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), ioctlShutdown, noLogFlush); err != nil {
		h.t.Fatal(err)
	}
}

// A session whose disk fails says so and keeps nobody else up. Its stop and start are the way
// back, to all that was on the disk; one that goes can go.
func TestF39_DiskThatFails(t *testing.T) {
	h := start(t, "")
	s, doomed, other := h.create(nil), h.create(nil), h.create(nil)
	for _, one := range []*sandkasten.Session{s, doomed} {
		h.sh(one, "echo kept > kept; sync")
		h.breakDisk(one)
	}
	if err := s.Write(t.Context(), "new", strings.NewReader("lost"), &sandkasten.WriteOptions{Size: 4}); err == nil || code(err) == "internal" {
		t.Errorf("a write: %v (%s)", err, code(err))
	}
	if r, err := s.Exec(t.Context(), "echo lost > new", nil); err == nil && r.ExitCode == 0 || code(err) == "internal" {
		t.Errorf("a command: %+v, %v (%s)", r, err, code(err))
	}
	if got := h.sh(other, "echo works > f; cat f"); got != "works" {
		t.Errorf("another session: %q", got)
	}
	h.destroy(doomed)
	if _, err := s.Stop(t.Context()); err != nil {
		t.Fatalf("stop: %v\n%s", err, h.Log())
	}
	if _, err := s.Start(t.Context()); err != nil {
		t.Fatalf("start: %v\n%s", err, h.Log())
	}
	if got := h.sh(s, "cat kept; ls; echo more > kept; cat kept"); got != "kept\nkept\nmore" {
		t.Errorf("after the start: %q", got)
	}
	h.oracle()
	h.wantNothing()
}
