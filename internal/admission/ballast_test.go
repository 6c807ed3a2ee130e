package admission

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// onTmpfs is a directory with so much room.
func onTmpfs(t *testing.T, size string) string {
	t.Helper()
	testenv.NeedsRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	if err := errors.Join(f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Each start on a full disk has room, and so has the one after it.
func TestBallast(t *testing.T) {
	dir := onTmpfs(t, "64m")
	b := NewBallast(dir)
	if err := errors.Join(b.Hold(), b.Whole(t.Context())); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		fill(t, filepath.Join(dir, "filler"+string(rune('0'+round))))
		b = NewBallast(dir) // of the next daemon
		if d := NewDisk(dir); d.Writable() != nil || !d.Full() {
			t.Errorf("round %d: the disk is not full", round)
		}
		if gave, err := b.GiveBack(); !gave || err != nil {
			t.Fatalf("round %d: given back %v, %v", round, gave, err)
		}
		if left, err := freeSpace(dir); left < ballastLeast || err != nil {
			t.Fatalf("round %d: %d bytes are left, %v", round, left, err)
		}
		if err := b.Hold(); err != nil {
			t.Fatal(err)
		}
		if err := b.Whole(t.Context()); !errdefs.Is(err, errdefs.Unavailable) {
			t.Errorf("round %d: whole, %v", round, err)
		}
	}
	for round := range 3 {
		if err := os.Remove(filepath.Join(dir, "filler"+string(rune('0'+round)))); err != nil {
			t.Fatal(err)
		}
	}
	b.at = b.at.Add(-ballastEvery)
	if err := b.Whole(t.Context()); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if !b.Spare() || b.Whole(t.Context()) == nil {
		t.Error("what is held is whole after some was given")
	}
	if gave, err := b.GiveBack(); gave || err != nil {
		t.Errorf("given back with room left: %v, %v", gave, err)
	}
}
