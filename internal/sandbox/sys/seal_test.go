package sys_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// A page of the file is held for longer than the kernel waits for it, by a pipe.
func TestSealWaitsForPages(t *testing.T) {
	fd, err := unix.MemfdCreate("sealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "sealed")
	defer f.Close()
	page := make([]byte, os.Getpagesize())
	if _, err := f.Write(page); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := unix.Splice(fd, new(int64), int(w.Fd()), nil, len(page), 0); err != nil {
		t.Fatal(err)
	}
	const held = 600 * time.Millisecond
	start := time.Now()
	time.AfterFunc(held, func() { r.Read(page) })
	if err := sys.Seal(fd); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < held {
		t.Errorf("sealed after %v, while the pipe still had the page", took)
	}
	if _, err := f.WriteAt(page, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write to a sealed file: %v; want EPERM", err)
	}
}
