package fault

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// newHost makes a daemon that does not run yet. Tests run beside each other, so
// each fails for what its own daemon leaves on the host. TestMain looks for what is
// nobody's in particular, as descriptors and processes of the tests.
func newHost(t *testing.T, o blackbox.Options) *host {
	t.Helper()
	testenv.NeedsRoot(t)
	if o.DataDir == "" {
		o.DataDir = testenv.DataDir(t)
	}
	if o.Images == "" {
		o.Images = images(t)
	}
	o.Tags = []string{"failpoint"}
	wantNoRemains(t, o.DataDir) // before New, whose clean-up ends the daemon
	return &host{Daemon: blackbox.New(t, o), t: t}
}

// wantNoRemains fails the test unless mounts, loop devices and control groups of
// a data directory are gone when what the test does after this call has ended.
func wantNoRemains(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		err := patiently(settle, func() error {
			left, err := remains(dir)
			if len(left) > 0 {
				err = errors.Join(err, fmt.Errorf("left behind:\n\t%s", strings.Join(left, "\n\t")))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// remains lists mounts below a data directory, loop devices on its files, and
// the control groups of its sandboxes.
func remains(dir string) (left []string, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+dir+"/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		// One that cannot be read is being detached.
		if backing, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(backing), dir+"/") {
			left = append(left, file+": "+strings.TrimSpace(string(backing)))
		}
	}
	all, err := groups(testenv.NodeName(dir))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		left = append(left, fmt.Sprintf("control group %s with %v", name, all[name]))
	}
	return left, err
}
