package linux

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
)

// command runs one in a sandbox and returns its output.
func command(t *testing.T, sandbox runtime.Sandbox, text string) string {
	t.Helper()
	c := &runnerclient.Client{Dial: sandbox.DialRunner}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	out, _, err := run(t, c, rand.Text(), text, nil, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What is stopped holds nothing of the host but its files.
func TestStoppedHoldsNothing(t *testing.T) {
	d := root(t)
	sh := create(t, d, "a", runtime.Spec{Hostname: "box-7", Env: map[string]string{"A": "secret"}})
	sh("echo changed > /etc/hosts; rm -rf /usr/share/doc; mkdir -p /usr/share/doc; chown 1000:1000 /workspace; ln -sf /nowhere /etc/hostname")
	before, err := d.readState("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if groups, err := d.cgroups.List(); err != nil || len(groups) > 0 {
		t.Errorf("groups %v, %v", groups, err)
	}
	if used, err := disk.Attached(d.diskPath("a")); err != nil || used {
		t.Errorf("its disk is in use: %v, %v", used, err)
	}
	if before.Process.alive(d.bootID) {
		t.Error("its runner lives")
	}
	if _, err := os.Stat(filepath.Join(d.dir("a"), socketFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its socket: %v", err)
	}
	state := filepath.Join(d.dir("a"), stateFile)
	if fi, err := os.Stat(state); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v, %v", state, fi.Mode(), err)
	}
	again, err := New(d.opts) // which takes up ids
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := again.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}

	started, err := again.Start(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	got := command(t, started, "hostname; cat /etc/hosts; ls /usr/share/doc | wc -l; stat -c %u /workspace; readlink /etc/hostname; echo $A")
	if got != "box-7\nchanged\n0\n1000\n/nowhere\nsecret\n" {
		t.Errorf("its files and what it was made with: %q", got)
	}
}

// reboot makes a sandbox look as after a crash of the host.
func reboot(t *testing.T, d *Driver, id runtime.ID) {
	t.Helper()
	s, err := d.readState(id)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	if err := d.kill(ctx, id, s, func(runtime.ID, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	unmounted := func() (bool, error) {
		used, err := disk.Attached(d.diskPath(id))
		return !used, err
	}
	if err := errors.Join(d.removeGroup(&state{Group: string(id)}), awaitDone(ctx, unmounted, "")); err != nil {
		t.Fatal(err)
	}
	d.ids.Free(s.IDs)
	s.Process.BootID = "before the crash"
	if err := writeJSON(filepath.Join(d.dir(id), stateFile), s); err != nil {
		t.Fatal(err)
	}
}

func TestAfterACrashOfTheHost(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(map[bool]string{true: "durable", false: "volatile"}[durable], func(t *testing.T) {
			opts := root(t).opts
			opts.Durable = durable
			d, err := New(opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
			create(t, d, "a", runtime.Spec{})("echo kept > /etc/kept; sync")
			reboot(t, d, "a")
			var status runtime.Status
			for s, err := range d.List(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				status = s
			}
			if status.Alive || status.Startable != durable {
				t.Errorf("List: %+v", status)
			}
			err = d.Stop(t.Context(), "a")
			if !durable {
				if !errdefs.Is(err, errdefs.NotFound) {
					t.Errorf("Stop: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			started, err := d.Start(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if out := command(t, started, "cat /etc/kept"); out != "kept\n" {
				t.Errorf("its file is %q", out)
			}
		})
	}
}

// A durable disk has a journal, and its overlay passes a sync on.
func TestDurableIsSynced(t *testing.T) {
	opts := root(t).opts
	opts.Durable = true
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	sh := create(t, d, "a", runtime.Spec{})
	image, err := os.Open(d.diskPath("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	superblock := make([]byte, 1024)
	if _, err := image.ReadAt(superblock, 1024); err != nil {
		t.Fatal(err)
	}
	const features, hasJournal = 0x5c, 4
	if superblock[features]&hasJournal == 0 {
		t.Error("the disk has no journal")
	}
	blocks := func() int64 {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Fstat(int(image.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks
	}
	before := blocks()
	sh("head -c 8000000 /dev/urandom > /root/big; sync /root/big")
	if wrote := (blocks() - before) * 512; wrote < 8_000_000 {
		t.Errorf("%d bytes reached the image", wrote)
	}
}

// A disk that cannot be repaired without a decision is said to be damaged, and stays for who decides.
func TestStartNamesADamagedDisk(t *testing.T) {
	d := root(t)
	create(t, d, "a", runtime.Spec{})
	if err := d.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	image, err := os.OpenFile(d.diskPath("a"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = image.WriteAt(make([]byte, 1<<20), 0) // all that says it is a file system
	if err := errors.Join(err, image.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = d.Start(t.Context(), "a")
	if errdefs.CodeOf(err) != errdefs.Unavailable || !strings.Contains(err.Error(), "the disk of sandbox a is damaged") {
		t.Errorf("a start on it: %v", err)
	}
	if s, err := d.readState("a"); err != nil || !s.Stopped {
		t.Errorf("then it is not stopped: %+v, %v", s, err)
	}
}
