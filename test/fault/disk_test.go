package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// small is a file system of its own for a daemon's data.
type small struct {
	t          *testing.T
	image, dir string
	loop       string
}

// newSmall makes one of so many MiB. It goes with the test, after the daemon. The test
// must not be parallel: it looks at what is left of the whole host.
func newSmall(t *testing.T, mb int64, mkfs ...string) *small {
	t.Helper()
	testenv.NeedsRoot(t)
	base := testenv.DataDir(t)
	wantNoRemains(t, base)
	s := &small{t: t, image: filepath.Join(base, "image"), dir: filepath.Join(base, "data")}
	file, err := os.OpenFile(s.image, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Truncate(mb<<20), file.Close(), os.Mkdir(s.dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	s.share(base)
	s.run("mkfs.ext4", append(mkfs, "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0", s.image)...)
	s.mount()
	t.Cleanup(func() { s.unmount() })
	return s
}

// share makes base a shared mount, as the root is where systemd runs. The runners
// that other daemons keep ready have copies of all mounts that the host had when
// they were made, and only of a shared one does an unmount reach the copies.
func (s *small) share(base string) {
	s.t.Helper()
	if err := errors.Join(unix.Mount(base, base, "", unix.MS_BIND, ""), unix.Mount("", base, "", unix.MS_SHARED, "")); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := unix.Unmount(base, 0); err != nil {
			s.t.Errorf("unmount %s: %v", base, err)
		}
	})
}

func (s *small) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *small) mount() {
	s.t.Helper()
	s.loop = s.run("losetup", "--find", "--show", s.image)
	s.run("mount", "-o", "errors=remount-ro", s.loop, s.dir)
}

func (s *small) unmount() {
	s.t.Helper()
	// Disks in it are let go a moment after their sandboxes.
	err := patiently(settle, func() error { return unix.Unmount(s.dir, 0) })
	if err != nil {
		s.t.Errorf("unmount: %v", err)
		unix.Unmount(s.dir, unix.MNT_DETACH) // the test has failed
	}
	// A runner that another daemon was just making ready has a copy of the mount.
	// When that goes, what the file system still had to write is written: over
	// what e2fsck has mended, if it was not waited for.
	mounted := filepath.Join("/sys/fs/ext4", filepath.Base(s.loop))
	gone := func() error {
		if _, err := os.Stat(mounted); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", mounted, errors.Join(os.ErrExist, err))
		}
		return nil
	}
	if err := patiently(settle, gone); err != nil {
		s.t.Errorf("unmounted, but not everywhere: %v", err)
	}
	s.run("losetup", "--detach", s.loop)
}

// filler is a file that takes all that is left, and more when that is called
// again.
func (s *small) fill() {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	f.Sync()
	if left := s.free(); left > 0 {
		s.t.Logf("%d bytes are left that no file gets", left)
	}
}

func (s *small) empty() {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.dir, "filler")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *small) free() int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.dir, &fs); err != nil {
		s.t.Fatal(err)
	}
	return int64(fs.Bavail) * fs.Bsize
}

// on starts a daemon with its data there, which keeps nothing in reserve.
func (s *small) on(config string) *host {
	s.t.Helper()
	h := newHost(s.t, blackbox.Options{
		DataDir: s.dir, Config: quick + "admission: {memory_reserve_mb: 0, disk_reserve_mb: 0, pids_reserve: 0}\n" + config,
	})
	h.Start()
	return h
}

// A full disk refuses what needs space, by that name. What runs goes on, and a
// destroy works without a byte. With space all is as before.
func TestF10_DiskFull(t *testing.T) {
	disk := newSmall(t, 300)
	h := disk.on("")
	s, doomed := h.create(nil), h.create(nil)
	h.sh(s, "echo kept > f; sync; head -c 3000000 /dev/urandom > big; sync")
	for len(h.inOrder().loops) < 2 { // those that are kept ready have their space
		time.Sleep(50 * time.Millisecond)
	}
	disk.fill()

	for name, call := range map[string]func() error{
		"snapshot": func() error { _, err := s.Snapshot(t.Context(), nil); return err },
		"creates": func() error {
			for range 12 { // some are prepared
				if _, err := h.c.CreateSession(t.Context(), nil); err != nil {
					return err
				}
				disk.fill()
			}
			return nil
		},
		"workspace": func() error {
			_, err := h.c.CreateWorkspace(t.Context(), &sandkasten.WorkspaceOptions{ID: "w"})
			return err
		},
	} {
		if err := call(); code(err) != "insufficient_space" && code(err) != "unavailable" {
			t.Errorf("%s on a full disk: %v (%s); want insufficient_space\n%s", name, err, code(err), h.Log())
		}
		disk.fill()
	}
	if got := h.sh(s, "cat f"); got != "kept" {
		t.Errorf("on a full disk its file is %q", got)
	}
	if err := s.Write(t.Context(), "/workspace/upload", bytes.NewReader(make([]byte, 20<<20)), nil); err == nil {
		t.Log("an upload found room in what its disk had already")
	}
	disk.fill()
	h.destroy(doomed)
	h.wantStatus(doomed, "destroyed", settle)
	disk.fill()
	h.Kill()
	h.Start()
	disk.empty()
	if err := patiently(settle, func() error { _, err := h.c.CreateSession(t.Context(), nil); return err }); err != nil {
		t.Errorf("create with space again: %v", err)
	}
	h.destroy(s) // what it wrote meanwhile is lost, so its disk may be read-only
	h.oracle()
	h.wantNothing()
}

// A daemon starts on a full disk, however often, and however the last one ended:
// creates are refused with the reason, and what there is can be removed. With
// space all is as before, without a restart.
func TestF10_StartOnAFullDisk(t *testing.T) {
	disk := newSmall(t, 300)
	h := disk.on("")
	kept, workspace := h.create(nil), "w"
	h.sh(kept, "v=kept")
	if _, err := h.c.CreateWorkspace(t.Context(), &sandkasten.WorkspaceOptions{ID: workspace}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := kept.Snapshot(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for round, end := range []func(){h.Stop, h.Kill} {
		disk.fill()
		end()
		disk.fill()
		h.Start()
		_, err := h.c.CreateSession(t.Context(), nil)
		if code(err) != "unavailable" || !strings.Contains(err.Error(), "full") {
			t.Errorf("round %d: create on a full disk: %v; want unavailable, with the reason", round, err)
		}
		disk.fill()
		if err := patiently(settle, func() error { return wantDiskFull(t, h) }); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if got := h.sh(kept, "echo $v"); got != "kept" {
			t.Errorf("round %d: its shell has %q", round, got)
		}
	}
	if err := errors.Join(h.c.DeleteSnapshot(t.Context(), snapshot.ID), h.c.DeleteWorkspace(t.Context(), workspace, nil)); err != nil {
		t.Error(err)
	}
	h.destroy(kept)
	h.wantStatus(kept, "destroyed", settle)
	disk.empty()
	if err := patiently(settle, func() error { _, err := h.c.CreateSession(t.Context(), nil); return err }); err != nil {
		t.Errorf("create with space again: %v", err)
	}
	h.oracle()
	h.wantNothing()
}

// wantDiskFull wants /readyz to say so.
func wantDiskFull(t *testing.T, h *host) error {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/readyz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"disk_full"`)) {
		err = fmt.Errorf("/readyz of a full disk: %d %s", resp.StatusCode, text)
	}
	return err
}

// A log that nobody reads holds up no request, and one that is closed does not
// end the daemon.
func TestF34_LogBlocked(t *testing.T) {
	t.Parallel()
	h := prepare(t, blackbox.Options{Config: "log: {level: debug, format: json}"})
	fifo := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { reader.Close() }()
	h.Program = wrapped(t, fmt.Sprintf("exec 2>%s", fifo))
	h.Start()
	for i := range 600 { // a pipe holds 64 KiB
		ctx, cancel := contextFor(t, 20*time.Second)
		_, err := h.c.Info(ctx)
		cancel()
		if err != nil {
			t.Fatalf("request %d, when nobody reads the log: %v", i, err)
		}
	}
	began := time.Now()
	h.sh(h.create(nil), "true")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a create takes %s when nobody reads the log", took)
	}
	reader.Close()
	for range 20 {
		if _, err := h.c.Info(t.Context()); err != nil {
			t.Fatalf("when the log is closed: %v", err)
		}
	}
	if !h.Running() {
		t.Fatal("the daemon has ended with its log")
	}
	h.Kill()
	h.Program = program(t)
	h.Start()
	h.oracle()
	h.wantNothing()
}

// wrapped is a program that runs ours as a daemon after some lines of shell.
// Other commands it runs as they are.
func wrapped(t *testing.T, lines string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sandkasten")
	text := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = daemon ]; then\n%s\nfi\nexec %s \"$@\"\n", lines, program(t))
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// program is the build that all daemons here run.
func program(t *testing.T) string { return testenv.Program(t, "failpoint") }

// contextFor is the test's for so long.
func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
