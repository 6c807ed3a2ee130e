package orchestrator

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// Ways to cover the archives of a daemon. What is full or read-only is still the store,
// by its marker.
var (
	fullDisk = func(dir string) error {
		return asStore(dir, "nr_inodes=2")
	}
	readOnlyDisk = func(dir string) error {
		return errors.Join(asStore(dir, ""), unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	noDisk = func(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "") }
)

// asStore mounts an empty file system with the marker of the store.
func asStore(dir, options string) error {
	name := filepath.Join(dir, ".store")
	marker, err := os.ReadFile(name)
	return errors.Join(err, unix.Mount("tmpfs", dir, "tmpfs", 0, options), os.WriteFile(name, marker, 0o600))
}

// cover puts a file system over the archives of a daemon, and returns what takes it away.
func cover(t *testing.T, dir string, by func(dir string) error) (uncover func()) {
	t.Helper()
	if err := by(dir); err != nil {
		t.Fatal(err)
	}
	covered := true
	uncover = func() {
		if !covered {
			return
		}
		covered = false
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(uncover)
	return uncover
}

// unsavedDaemon is a daemon with a ready session that has a file.
func unsavedDaemon(t *testing.T, m mode) (*follower, *blackbox.Daemon) {
	t.Helper()
	testenv.NeedsRoot(t)
	d := blackbox.Start(t, blackbox.Options{Config: m.config(t) + "orchestrator: {enabled: true, reaper_interval_seconds: 1}\n"})
	f := &follower{client: clientOf(t, d, d.Key), daemon: d, model: model{saved: map[string]string{}}}
	f.must(nil, http.MethodPost, sessionsPath, `{"id":"`+someID+`","mode":"`+m.name+`"}`, http.StatusCreated)
	f.must(nil, http.MethodPost, one+"upload/", `{"path":"f","content":"kept"}`, http.StatusOK)
	return f, d
}

// wantFile checks that the session has the file again.
func (f *follower) wantFile() {
	f.t.Helper()
	var ran struct {
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
		Exit   int    `json:"exit_code"`
	}
	f.must(&ran, http.MethodPost, one+"exec/", `{"command":"cat f"}`, http.StatusOK)
	if ran.Exit == 137 { // it was the first to notice that the sandbox is gone
		f.must(&ran, http.MethodPost, one+"exec/", `{"command":"cat f"}`, http.StatusOK)
	}
	if ran.Stdout != "kept" {
		var x map[string]any
		f.must(&x, http.MethodGet, one, "", http.StatusOK)
		f.t.Errorf("the file is %+v; the session is %v\n%s", ran, x, f.daemon.Log())
	}
}

// awaitUnsaved waits until the session is unsaved, or is not.
func (f *follower) awaitUnsaved(want bool) session {
	f.t.Helper()
	return f.awaitSession(one, fmt.Sprintf("unsaved: %t", want), func(x session) bool {
		unsaved, _ := x.Metadata["unsaved"].(bool)
		return unsaved == want && x.Status == "terminated"
	})
}

// TestStopOnAFullDisk stops a session while its archive has no place. The files outlive
// that, a death of the daemon and a change of the weather, whichever comes first.
func TestStopOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, disk := range map[string]func(string) error{"full": fullDisk, "read-only": readOnlyDisk, "not mounted": noDisk} {
		for then, next := range map[string]func(t *testing.T, f *follower, d *blackbox.Daemon, uncover func()){
			"a command": func(*testing.T, *follower, *blackbox.Daemon, func()) {},
			"the daemon dies, then a command": func(_ *testing.T, _ *follower, d *blackbox.Daemon, _ func()) {
				d.Kill()
				d.Start()
			},
			"there is room, and the reaper comes first": func(_ *testing.T, f *follower, _ *blackbox.Daemon, uncover func()) {
				uncover()
				if x := f.awaitUnsaved(false); x.Metadata["latest_snapshot_id"] == nil {
					f.t.Errorf("%+v", x)
				}
			},
			"the daemon dies, there is room": func(_ *testing.T, f *follower, d *blackbox.Daemon, uncover func()) {
				d.Kill()
				uncover()
				d.Start()
				f.awaitUnsaved(false)
			},
		} {
			t.Run(name+", "+then, func(t *testing.T) {
				t.Parallel()
				f, d := unsavedDaemon(t, native)
				f.t = t
				uncover := cover(t, filepath.Join(d.Data, "snapshots"), disk)
				f.must(nil, http.MethodPost, one+"stop/", "", http.StatusNoContent)
				if x := f.awaitUnsaved(true); !strings.Contains(x.Error, "the host's disk") {
					t.Errorf("it does not say what is full: %q", x.Error)
				}
				next(t, f, d, uncover)
				f.wantFile()
			})
		}
	}
}

// TestForcedStopOnAFullDisk leaves no disk.
func TestForcedStopOnAFullDisk(t *testing.T) {
	t.Parallel()
	f, d := unsavedDaemon(t, native)
	cover(t, filepath.Join(d.Data, "snapshots"), fullDisk)
	f.must(nil, http.MethodDelete, one, "", http.StatusNoContent)
	f.awaitUnsaved(true)
	f.must(nil, http.MethodDelete, one+"?force=true", "", http.StatusNoContent)
	f.awaitUnsaved(false)
	var all []struct{}
	if f.must(&all, http.MethodGet, "/v1/sessions", "", http.StatusOK); len(all) != 0 {
		t.Errorf("%d sandboxes are left", len(all))
	}
}

// TestUnsavedDisksCount has an owner's quota full of a disk that could not be saved. It
// counts as that of any session, and no other session takes its room.
func TestUnsavedDisksCount(t *testing.T) {
	t.Parallel()
	const disk, other = 256, "6f1c1c9e-4b43-4d25-9f0e-2f6f4a0c0a33"
	testenv.NeedsRoot(t)
	d := blackbox.Start(t, blackbox.Options{Config: fmt.Sprintf("orchestrator: {enabled: true, reaper_interval_seconds: 1}\nquota: {disk_mb: %d}\n", disk*3/2)})
	f := &follower{client: clientOf(t, d, d.Key), daemon: d, model: model{saved: map[string]string{}}}
	create := func(id string, want int) {
		t.Helper()
		f.must(nil, http.MethodPost, sessionsPath, fmt.Sprintf(`{"id":%q,"ephemeral_storage":"%dMi"}`, id, disk), want)
	}
	wantUsed := func(sessions int, diskMB int64) {
		t.Helper()
		var used struct {
			Now struct {
				Sessions int
				DiskMB   int64 `json:"disk_mb"`
			}
		}
		if f.must(&used, http.MethodGet, "/v1/me/usage", "", http.StatusOK); used.Now.Sessions != sessions || used.Now.DiskMB != diskMB {
			t.Errorf("used are %+v, want %d sessions with %d MiB", used, sessions, diskMB)
		}
	}
	create(someID, http.StatusCreated)
	f.must(nil, http.MethodPost, one+"upload/", `{"path":"f","content":"kept"}`, http.StatusOK)
	uncover := cover(t, filepath.Join(d.Data, "snapshots"), noDisk)
	f.must(nil, http.MethodPost, one+"stop/", "", http.StatusNoContent)
	f.awaitUnsaved(true)
	wantUsed(1, disk)
	create(other, http.StatusInsufficientStorage)
	wantUsed(1, disk)
	f.wantFile()
	f.must(nil, http.MethodPost, one+"stop/", "", http.StatusNoContent)
	f.awaitUnsaved(true)
	uncover()
	f.awaitUnsaved(false)
	wantUsed(0, 0)
	create(other, http.StatusCreated)
	wantUsed(1, disk)
	f.must(nil, http.MethodDelete, sessionsPath+other+"/", "", http.StatusNoContent)
	f.wantFile()
}

// TestArchivesAreGoneForAMoment restores while the directory of the archives is not
// mounted, and when it is again.
func TestArchivesAreGoneForAMoment(t *testing.T) {
	t.Parallel()
	f, d := unsavedDaemon(t, native)
	f.must(nil, http.MethodPost, one+"stop/", "", http.StatusNoContent)
	uncover := cover(t, filepath.Join(d.Data, "snapshots"), noDisk)
	for range 3 { // no number of looks at another place makes a loss
		f.must(nil, http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`, http.StatusServiceUnavailable)
	}
	uncover()
	if left, err := filepath.Glob(filepath.Join(d.Data, "snapshots", "snapshots_*")); err != nil || len(left) != 1 {
		t.Errorf("%d archives, %v", len(left), err)
	}
	f.must(nil, http.MethodPost, sessionsPath, `{"id":"`+someID+`"}`, http.StatusCreated)
	f.wantFile()
}

// TestContainersThatStop keeps the files of containers that somebody else has stopped,
// whatever comes first: the reaper, or a command.
func TestContainersThatStop(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(t *testing.T, e *testenv.Engine, id string){
		"the engine starts again, without live-restore": func(t *testing.T, e *testenv.Engine, _ string) {
			e.Stop(t, syscall.SIGTERM)
			e.Start(t)
		},
		"docker kill": func(t *testing.T, e *testenv.Engine, id string) { dockerOutput(t, e, "kill", id) },
		"docker stop": func(t *testing.T, e *testenv.Engine, id string) { dockerOutput(t, e, "stop", "--time=0", id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.NeedsRoot(t)
			e := testenv.StartEngine(t)
			f, _ := unsavedDaemon(t, mode{"docker", func(*testing.T) string { return fmt.Sprintf("driver: docker\ndocker: {host: %q}\n", e.Host) }})
			for _, saves := range []bool{true, false} {
				stop(t, e, containerOf(t, e, "astraforge.sandbox.session="+someID))
				if saves {
					f.awaitSaved()
				}
				f.wantFile()
			}
		})
	}
}

// awaitSaved waits until the session has ended with a snapshot.
func (f *follower) awaitSaved() {
	f.t.Helper()
	f.awaitSession(one, "saved", func(x session) bool {
		unsaved, _ := x.Metadata["unsaved"].(bool)
		return x.Status == "terminated" && !unsaved && x.Metadata["latest_snapshot_id"] != nil
	})
}
