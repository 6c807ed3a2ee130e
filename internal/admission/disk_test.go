package admission

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

func TestWritableLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := NewDisk(dir).Writable(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	err := NewDisk(dir, filepath.Join(dir, "gone")).Writable()
	if said := errdefs.MessageOf(err); !errdefs.Is(err, errdefs.Unavailable) || said != "data_dir cannot be written: no such file or directory" {
		t.Errorf("a directory that is gone: %v", err)
	}
	// What no probe can be written to, for everybody and as /sys is mounted.
	if err := readOnly("/proc"); err != nil {
		t.Error(err)
	}
	if err := writeTo("/dev/full/x"); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

// The answer is taken anew when it has become old.
func TestWritableLooksAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk(dir)
		if err := d.Writable(); err == nil {
			t.Error("there is no such directory")
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := d.Writable(); err == nil {
			t.Error("it was asked again at once")
		}
		time.Sleep(probeEvery)
		if err := d.Writable(); err != nil {
			t.Error(err)
		}
		d.mu.Lock()
		d.probing = true
		d.mu.Unlock()
		time.Sleep(probePatience - time.Second)
		if err := d.Writable(); err != nil {
			t.Errorf("while it is being looked at: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := d.Writable(); !errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("a disk that does not answer: %v", err)
		}
	})
}
