package linux

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/durable"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/smallfile"
)

// state is what a sandbox's directory says of it. It is written when a runner
// has been taken for it, before that is told what to become, by a claim that changes
// it, and when it has been stopped; what is made else is named by the ID alone.
type state struct {
	ID        runtime.ID   `json:"-"`     // the directory's name
	Node      string       `json:"node"`  // whose process, ids and group it has
	Group     string       `json:"group"` // its control group: the id that it was made under; "" is ID
	Spec      runtime.Spec `json:"spec"`  // for the next boot; its environment is why only root may read the file
	IDs       ids.Base     `json:"ids"`
	CreatedAt time.Time    `json:"created_at"`
	Process   process      `json:"process"`
	Durable   bool         `json:"durable"`          // the disk survives a crash of the host
	Stopped   bool         `json:"stopped"`          // the disk is in order but for Failed, and there is no process and no block of ids
	Failed    bool         `json:"failed,omitempty"` // the disk has not taken all that was written: it is repaired before it is used
}

// kept reports whether what the sandbox wrote is still there when its runner
// has ended: the kernel has it, or the disk.
func (s *state) kept(bootID string) bool {
	return s.Stopped || s.Durable || s.Process.BootID == bootID
}

// process is the runner's identity. A pid alone is never trusted: it may have
// been given to somebody else since.
type process struct {
	BootID    string `json:"boot_id"`
	PID       int    `json:"pid"`
	StartTime string `json:"start_time"` // clock ticks since boot, as in /proc/PID/stat
}

// Names in a sandbox's directory.
const (
	stateFile  = "state.json"
	diskFile   = "disk.img"
	socketFile = "runner.sock"
)

// poolFile is the pool in the data directory. A sandbox whose disk is in there
// has a symbolic link for its disk, of which the last part names the image.
const poolFile = "pool.img"

// diskPath is where the image of a sandbox's disk is.
func (d *Driver) diskPath(id runtime.ID) string {
	path := filepath.Join(d.dir(id), diskFile)
	if link, err := os.Readlink(path); err == nil && d.pool != nil {
		return d.pool.Path(filepath.Base(link))
	}
	return path
}

// placeDisk decides where the image of a new disk is to be, and says so on the
// host before there is one.
func (d *Driver) placeDisk(id runtime.ID) (string, error) {
	if d.opts.PoolMB > 0 {
		link := filepath.Join("..", "..", poolFile, string(id)+".img")
		if err := os.Symlink(link, filepath.Join(d.dir(id), diskFile)); err != nil {
			return "", err
		}
	}
	return d.diskPath(id), nil
}

// PoolDir is where the disks of new sandboxes are, for this process and until
// Close, or "" where that is DataDir.
func (d *Driver) PoolDir() string {
	if d.opts.PoolMB == 0 {
		return ""
	}
	return d.pool.Path(".")
}

// diskSpace is what disks of new sandboxes can take, in bytes: a pool has no
// more than the host has for it.
func (d *Driver) diskSpace() (int64, error) {
	var left []int64
	for _, dir := range []string{d.opts.DataDir, d.PoolDir()} {
		if dir == "" {
			continue
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
		left = append(left, int64(fs.Bavail)*fs.Bsize)
	}
	return slices.Min(left), nil
}

func (d *Driver) dir(id runtime.ID) string { return filepath.Join(d.sandboxes, string(id)) }

// claim makes the sandbox's directory. Whoever made it owns the ID.
func (d *Driver) claim(id runtime.ID) error {
	err := os.Mkdir(d.dir(id), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return errdefs.New(errdefs.AlreadyExists, "sandbox %s exists already", id)
	}
	return classify(err)
}

func (d *Driver) readState(id runtime.ID) (*state, error) {
	var s state
	err := readJSON(filepath.Join(d.dir(id), stateFile), &s)
	s.ID = id
	if err != nil {
		s.Node = d.opts.Node
	}
	if s.Node != d.opts.Node {
		// A copy of a sandbox of another installation's. Only its files are ours.
		s.Node, s.Process, s.IDs, s.Group = d.opts.Node, process{}, 0, noGroup
	}
	return &s, err
}

// group is the control group of a sandbox, which keeps its name when another
// id takes the sandbox.
func (d *Driver) group(s *state) cgroup.Group {
	return d.cgroups.Group(s.groupName())
}

func (s *state) groupName() string { return cmp.Or(s.Group, string(s.ID)) }

// alive reports whether the process still runs, or may: what cannot be found
// out is not taken for dead. A zombie does not run.
func (p *process) alive(bootID string) bool {
	state, err := p.find(bootID)
	return state.Running() || err != nil
}

// find returns the state of the process, or 0 if the kernel does not know it any
// more. Of a zombie only the main thread has certainly ended: other threads, and
// with the last of them its namespaces, may end later.
func (p *process) find(bootID string) (inspect.State, error) {
	if p.BootID != bootID {
		return 0, nil
	}
	start, state, err := inspect.Stat(p.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH):
		return 0, nil
	case err != nil:
		return 0, err
	case start != p.StartTime:
		return 0, nil // the number is another's
	}
	return state, nil
}

// reachable reports whether the socket of a sandbox is there. A runner without it
// may live, and nobody can ask it for anything ever again.
func (d *Driver) reachable(id runtime.ID) bool {
	_, err := os.Lstat(filepath.Join(d.dir(id), socketFile))
	return !errors.Is(err, fs.ErrNotExist)
}

func readBootID() (string, error) {
	b, err := os.ReadFile(stage.BootIDFile)
	return strings.TrimSpace(string(b)), err
}

func readJSON(path string, v any) error {
	b, err := smallfile.Read(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeState replaces the sandbox's state. One whose sandbox survives the host
// is on the disk when it returns.
func (d *Driver) writeState(s state) error {
	path := filepath.Join(d.dir(s.ID), stateFile)
	if err := writeJSON(path, s); err != nil || !s.Durable && !s.Stopped {
		return err
	}
	return durable.Sync(path, d.dir(s.ID), d.sandboxes)
}

// syncImage makes the name and the content of a sandbox's disk durable.
func (d *Driver) syncImage(id runtime.ID) error {
	path := d.diskPath(id)
	return durable.Sync(path, filepath.Dir(path), d.dir(id))
}

// writeJSON writes path whole or not at all, as seen by a later daemon. It is
// not synced: most sandboxes do not survive the host either.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
