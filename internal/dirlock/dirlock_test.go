package dirlock_test

import (
	"errors"
	"os"
	"testing"

	"github.com/sandkasten/sandkasten/internal/dirlock"
)

func TestSecondHolderIsRefusedAndToldWho(t *testing.T) {
	dir := t.TempDir()
	if _, held, err := dirlock.Holder(dir); held || err != nil {
		t.Fatalf("Holder of a fresh directory = %v, %v", held, err)
	}
	lock, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid, held, err := dirlock.Holder(dir); !held || pid != os.Getpid() || err != nil {
		t.Errorf("Holder = %d, %v, %v, want this process", pid, held, err)
	}
	_, err = dirlock.Acquire(dir)
	if busy, ok := errors.AsType[*dirlock.HeldError](err); !ok || busy.PID != os.Getpid() {
		t.Errorf("second Acquire = %v, want HeldError with pid %d", err, os.Getpid())
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, held, err := dirlock.Holder(dir); held || err != nil {
		t.Errorf("Holder after Release = %v, %v", held, err)
	}
	again, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatalf("Acquire after Release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestLookingDoesNotTake(t *testing.T) {
	dir := t.TempDir()
	lock, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := dirlock.Holder(dir); err != nil {
		t.Fatal(err)
	}
	if lock, err = dirlock.Acquire(dir); err != nil {
		t.Fatalf("Acquire after Holder: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

func TestAbsentDirectory(t *testing.T) {
	if _, err := dirlock.Acquire("/nonexistent/directory"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Acquire = %v, want not-exist", err)
	}
}
