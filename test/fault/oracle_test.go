package fault

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // to read the rows behind the daemon's back

	"github.com/sandkasten/sandkasten/internal/testenv"
	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
)

// row is what the database says of a session.
type row struct {
	ID, Sandbox, State, Reason, Key string
	Ended                           bool
}

// box is what the driver's file says of a sandbox.
type box struct {
	Group   string
	Stopped bool
	IDs     int
	Process struct {
		PID       int    `json:"pid"`
		StartTime string `json:"start_time"`
	}
}

// picture is what there is of one daemon, by all accounts.
type picture struct {
	Rows  map[string]row // by id
	Boxes map[string]box // by the name of the directory

	groups map[string][]int // control groups below the daemon's own, with their processes
	loops  map[uint64]string
	disks  map[uint64]string // inodes of images that have a name
	other  []string          // files in places that are empty when nothing is under way
}

// db opens the database beside the daemon. The caller closes it.
func (h *host) db() *sql.DB {
	h.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.Data, "sandkasten.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		h.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

func (h *host) rows() (map[string]row, error) {
	db := h.db()
	defer db.Close()
	found, err := db.QueryContext(context.Background(), "SELECT id, sandbox, state, end_reason, idempotency_key, ended_at <> 0 FROM sessions")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	all := map[string]row{}
	for found.Next() {
		var r row
		if err := found.Scan(&r.ID, &r.Sandbox, &r.State, &r.Reason, &r.Key, &r.Ended); err != nil {
			return nil, err
		}
		all[r.ID] = r
	}
	return all, found.Err()
}

// swept is an error until the reaper has removed what a start of the daemon gave up.
func (h *host) swept() error {
	db := h.db()
	defer db.Close()
	var left int
	err := db.QueryRowContext(h.t.Context(), "SELECT count(*) FROM snapshots WHERE state = 'deleting'").Scan(&left)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d snapshots are being removed", left)
	}
	return err
}

// change does to the database what nobody should.
func (h *host) change(statement string, args ...any) {
	h.t.Helper()
	db := h.db()
	defer db.Close()
	if _, err := db.ExecContext(h.t.Context(), statement, args...); err != nil {
		h.t.Fatal(err)
	}
}

// look takes a picture.
func (h *host) look() (p picture, err error) {
	if p.Rows, err = h.rows(); err != nil {
		return p, err
	}
	p.Boxes, p.disks = map[string]box{}, map[uint64]string{}
	dirs, err := os.ReadDir(filepath.Join(h.Data, "sandboxes"))
	if err != nil {
		return p, err
	}
	for _, d := range dirs {
		p.Boxes[d.Name()] = h.box(d.Name())
	}
	for _, pattern := range []string{"sandboxes/*/disk.img", "workspaces/*/disk.img"} {
		p.addDisks(filepath.Join(h.Data, pattern))
	}
	if p.groups, err = groups(h.node()); err != nil {
		return p, err
	}
	if p.loops, err = h.loops(); err != nil {
		return p, err
	}
	for _, dir := range []string{"scratch", "uploads"} {
		left, err := filepath.Glob(filepath.Join(h.Data, dir, "*"))
		if err != nil {
			return p, err
		}
		p.other = append(p.other, left...)
	}
	return p, nil
}

// box reads what the driver has noted; what is not there is zero.
func (h *host) box(name string) (b box) {
	text, err := os.ReadFile(filepath.Join(h.Data, "sandboxes", name, "state.json"))
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Errorf("state of sandbox %s: %v", name, err)
	}
	return b
}

func (p *picture) addDisks(pattern string) {
	images, _ := filepath.Glob(pattern)
	for _, image := range images {
		if fi, err := os.Stat(image); err == nil {
			p.disks[fi.Sys().(*syscall.Stat_t).Ino] = image
		}
	}
}

// node is the name of the daemon's directories below cgroup mounts.
func (h *host) node() string { return testenv.NodeName(h.Data) }

// groups are the control groups of a daemon's sandboxes by their names, with
// the processes in any of their hierarchies.
func groups(node string) (map[string][]int, error) {
	all := map[string][]int{}
	for _, pattern := range []string{"/sys/fs/cgroup/sandkasten/" + node, "/sys/fs/cgroup/*/sandkasten/" + node} {
		roots, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, root := range roots {
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.IsDir() || path == root {
					return ignoreGone(err)
				}
				name, _, _ := strings.Cut(strings.TrimPrefix(path, root+"/"), "/")
				text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
				for word := range strings.FieldsSeq(string(text)) {
					if pid, err := strconv.Atoi(word); err == nil && !slices.Contains(all[name], pid) {
						all[name] = append(all[name], pid)
					}
				}
				if all[name] == nil {
					all[name] = []int{}
				}
				return ignoreGone(err)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// ignoreGone forgives what went away while it was looked at.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// loops are the loop devices on files of the data directory, by the file's inode.
func (h *host) loops() (map[uint64]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	found := map[uint64]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(text), h.Data+"/") {
			continue
		}
		dev := "/dev/" + strings.Split(file, "/")[3]
		fd, err := unix.Open(dev, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it has just gone
		}
		info, err := unix.IoctlLoopGetStatus64(fd)
		unix.Close(fd)
		if err == nil {
			found[info.Inode] = dev + " on " + strings.TrimSpace(string(text))
		}
	}
	return found, nil
}

// readyRunners is how many sandboxes a daemon that runs may have begun to make
// before anybody wants them.
const readyRunners = 5

// problems are what does not agree. While the daemon runs it may have prepared
// what no row names; when it has stopped nothing is left of that.
func (p picture) problems(running bool) (found []string) {
	bad := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	owned := map[string]row{}
	for _, r := range p.Rows {
		if !r.Ended {
			owned[r.Sandbox] = r
		}
		if r.State == "creating" || r.State == "stopping" || r.State == "starting" {
			bad("session %s stays %s (%s)", r.ID, r.State, r.Reason)
		}
	}
	known, groups, leases := map[int]bool{}, map[string]string{}, map[int]string{}
	for name, b := range p.Boxes {
		r, ours := owned[name]
		delete(owned, name)
		if !ours && !strings.HasPrefix(name, warm) {
			bad("sandbox %s belongs to no session", name)
		}
		if ours && b.Stopped != (r.State == "stopped") {
			bad("session %s is %s, its sandbox stopped: %v", r.ID, r.State, b.Stopped)
		}
		if b.Stopped {
			continue
		}
		if !alive(b.Process.PID, b.Process.StartTime) {
			bad("the runner of sandbox %s is dead", name)
		}
		if other := leases[b.IDs]; other != "" {
			bad("sandboxes %s and %s have the same ids", name, other)
		}
		known[b.Process.PID], leases[b.IDs] = true, name
		groups[b.Group] = name
		if p.groups[b.Group] == nil {
			bad("sandbox %s has no control group", name)
		}
	}
	for _, r := range owned {
		bad("session %s is %s and has no sandbox", r.ID, r.State)
	}
	spare := 0
	for name, pids := range p.groups {
		if name != "_runners" {
			if groups[name] == "" {
				bad("control group %s belongs to no sandbox; in it are %v", name, pids)
			}
			continue
		}
		for _, pid := range pids {
			if !known[pid] {
				spare++
			}
		}
	}
	for inode, loop := range p.loops {
		if p.disks[inode] == "" {
			spare++
			if !running {
				bad("nothing names the file of loop device %s", loop)
			}
		}
	}
	if spare > 0 && !running {
		bad("%d runners and disks are left that no sandbox has", spare)
	}
	if spare > 2*readyRunners {
		bad("%d runners and disks are prepared, more than are kept ready", spare)
	}
	if !running {
		for _, file := range p.other {
			bad("left is %s", file)
		}
	}
	slices.Sort(found)
	return found
}

// sessions are the sandboxes but for those that are kept ready.
func (p picture) sessions() map[string]box {
	all := maps.Clone(p.Boxes)
	maps.DeleteFunc(all, func(name string, _ box) bool { return strings.HasPrefix(name, warm) })
	return all
}

// warm begins the names of sandboxes that a pool keeps ready.
const warm = "pool-"

// alive reports whether exactly this process runs.
func alive(pid int, startTime string) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(text)[strings.LastIndex(string(text), ")")+1:])
	return len(fields) > 19 && fields[19] == startTime && fields[0] != "Z" && fields[0] != "X"
}

// settle is how long a daemon may take to finish what a fault interrupted.
const settle = 20 * time.Second

// inOrder looks until nothing is wrong, or for too long.
func (h *host) inOrder() (p picture) {
	h.t.Helper()
	err := patiently(settle, func() (err error) {
		if p, err = h.look(); err != nil {
			return err
		}
		if found := p.problems(h.Running()); len(found) > 0 {
			return errors.New(strings.Join(found, "\n\t"))
		}
		return nil
	})
	if err != nil {
		h.t.Errorf("not in order:\n\t%v\n%s", err, h.Log())
	}
	return p
}

// oracle is what must hold after every fault: rows and sandboxes agree, nothing
// is left that no row names, two more starts of the daemon change nothing, fsck
// finds nothing, and what is said to run can be used.
func (h *host) oracle() {
	h.t.Helper()
	before := h.inOrder()
	for range 2 {
		h.Stop()
		h.inOrder()
		h.Start()
	}
	after := h.inOrder()
	h.fsck()
	if diff := cmp.Diff(before.Rows, after.Rows) + cmp.Diff(before.sessions(), after.sessions()); diff != "" {
		h.t.Errorf("another start of the daemon changes something:\n%s", diff)
	}
	own, err := h.c.ListSessions(h.t.Context(), &sandkasten.ListSessionsOptions{Mine: true})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, s := range own {
		if s.Info.Status == "running" {
			h.sh(s, "true")
		}
	}
}

// fsck has the program itself compare the database with the host.
func (h *host) fsck() {
	h.t.Helper()
	if out, err := h.Command("fsck").CombinedOutput(); err != nil {
		h.t.Errorf("fsck: %v\n%s", err, out)
	}
}

// wantNothing ends all sessions and wants the host as it was.
func (h *host) wantNothing() {
	h.t.Helper()
	h.destroyAll()
	h.eventually(settle, h.swept)
	h.Stop()
	p := h.inOrder()
	h.fsck()
	if len(p.Boxes) > 0 || len(p.loops) > 0 || len(p.groups) > 0 {
		h.t.Errorf("left behind: sandboxes %v, loop devices %v, control groups %v", p.Boxes, p.loops, p.groups)
	}
}
