package blob_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/blob"
	"github.com/sandkasten/sandkasten/internal/blob/blobtest"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

// TestDirWhileMountsComeAndGo works with a store over which a file system is mounted, or
// which is unmounted itself, in the middle of operations. They may fail as those of a store
// that is not there. But no blob that is there is lost, none that was put is elsewhere, and
// none that was deleted is still there.
func TestDirWhileMountsComeAndGo(t *testing.T) {
	testenv.NeedsRoot(t)
	for name, test := range map[string]struct {
		prepare       func(t *testing.T, path string)
		hide, uncover func(path string) error
	}{
		"another over it": {
			prepare: func(*testing.T, string) {},
			hide:    func(path string) error { return unix.Mount("tmpfs", path, "tmpfs", 0, "") },
			uncover: func(path string) error { return unix.Unmount(path, unix.MNT_DETACH) },
		},
		"its own": {
			prepare: func(t *testing.T, path string) {
				t.Helper()
				t.Cleanup(func() { unmount(t, path) })
				if err := errors.Join(os.Mkdir(path+"-disk", 0o700), os.Mkdir(path, 0o700), unix.Mount(path+"-disk", path, "", unix.MS_BIND, "")); err != nil {
					t.Fatal(err)
				}
			},
			hide:    func(path string) error { return unix.Unmount(path, unix.MNT_DETACH) },
			uncover: func(path string) error { return unix.Mount(path+"-disk", path, "", unix.MS_BIND, "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "blobs")
			test.prepare(t, path)
			d := openDir(t, path)
			blobtest.Put(t, d, "a/kept", []byte("kept"))
			use := usesOfADir{t: t, d: d, failures: map[string]int{}}
			var mounts sync.WaitGroup
			mounts.Go(func() {
				for use.looked.Load() < looks {
					if err := errors.Join(test.hide(path), test.uncover(path)); err != nil {
						t.Error(err)
						return
					}
					for n := use.looked.Load(); use.looked.Load() < min(n+10, looks); {
						runtime.Gosched() // while the store is there
					}
				}
			})
			use.all()
			mounts.Wait()
			t.Logf("of %d looks and %d changes, these failed as they may: %v", 3*looks, 2*looks/10, use.failures)
			if len(use.failures) == 0 {
				t.Error("no operation met a store that was hidden, so this tests nothing")
			}
			want := append(use.kept, "a/kept")
			slices.Sort(want)
			if got := blobtest.Keys(t, d, ""); !slices.Equal(got, want) {
				t.Errorf("the store has %d blobs, and %d were put into it and not deleted:\n%q\n%q", len(got), len(want), got, want)
			}
		})
	}
}

const looks = 5_000

// usesOfADir uses a store that is hidden now and then.
type usesOfADir struct {
	t      *testing.T
	d      *blob.Dir
	looked atomic.Int64

	failures map[string]int // operations that met a store that was hidden
	kept     []string       // keys of blobs that were put and not deleted
}

func (u *usesOfADir) all() {
	for i := range looks {
		u.looked.Add(1)
		_, err := u.d.Stat(u.t.Context(), "a/kept")
		u.may("stat", err)
		r, err := u.d.Open(u.t.Context(), "a/kept", 0)
		u.may("open", err)
		if err == nil {
			r.Close()
		}
		u.list()
		if i%10 == 0 {
			u.change(fmt.Sprintf("b/%d", i))
		}
	}
}

func (u *usesOfADir) list() {
	found := false
	for info, err := range u.d.List(u.t.Context(), "a/") {
		if err != nil {
			u.may("list", err)
			return
		}
		found = found || info.Key == "a/kept"
	}
	if !found {
		u.t.Error("a list is without a blob that is there")
	}
}

// change puts a blob, and deletes every second one.
func (u *usesOfADir) change(key string) {
	_, err := u.d.Put(u.t.Context(), key, strings.NewReader("new"))
	if u.may("put", err); err != nil {
		return
	}
	if len(u.kept)%2 == 0 {
		u.kept = append(u.kept, key)
		return
	}
	err = u.d.Delete(u.t.Context(), key)
	if u.may("delete", err); err != nil {
		u.kept = append(u.kept, key)
	}
}

// may accepts success, and the error of a store that is not there.
func (u *usesOfADir) may(op string, err error) {
	u.t.Helper()
	switch {
	case err == nil:
	case errdefs.Is(err, errdefs.Unavailable):
		u.failures[op]++
	default:
		u.t.Errorf("%s: %v", op, err)
	}
}

func unmount(t *testing.T, path string) {
	t.Helper()
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
}
