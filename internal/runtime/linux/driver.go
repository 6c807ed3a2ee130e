// Package linux is the native driver: it makes sandboxes of namespaces,
// control groups, an overlay and a runner, on an ordinary Linux host without
// KVM or another daemon.
//
// What is mounted and allowed is planned as data (plan.go, seccomp/), sent to
// the runner and carried out by it from inside (stage/); the daemon's part is
// what only the host's root can do: ids, disks, idmapped mounts, cgroups.
// Nothing is mounted where the host could see it, and everything that Destroy
// needs is on disk before it is made.
package linux

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/admission/fairqueue"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/backlog"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/cgroup"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/fairshare"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/seccomp"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// Rootfs is an image as the driver mounts it.
type Rootfs struct {
	Layers []string // directories on the host, top first
	Env    []string
	Shell  string // the login shell: /bin/bash, or /bin/sh in an image without it
}

// Images finds the files of an image.
type Images interface {
	// Rootfs returns NotFound for a digest that is not in the store. The
	// directories must stay until no sandbox uses them.
	Rootfs(ctx context.Context, digest string) (Rootfs, error)
}

// Options configure a Driver.
type Options struct {
	DataDir  string // absolute; the driver uses sandboxes/, workspaces/ and scratch/ below it
	Node     string // names what the daemon has on its host; default is made of DataDir, which only some daemons may see
	LeaseDir string // where user ids are leased, shared by all daemons of a host; default is in the tree of control groups
	Runner   []byte // the runner's binary
	Images   Images
	Defaults runtime.Limits // where a Spec is silent
	Durable  bool           // what new sandboxes write survives a crash of the host, as on a disk with a journal
	PoolMB   int64          // of a pool that is made for the disks of new sandboxes; 0 keeps them in DataDir
	Log      *slog.Logger

	ReserveMB int64 // that sandboxes leave free where disks are
}

// MaxSandboxes is how many can run on a host at one time, those of all its
// daemons and the prepared ones together: each has user ids of its own.
const MaxSandboxes = ids.Blocks

// Driver implements runtime.Driver.
type Driver struct {
	opts       Options
	sandboxes  string // one directory per sandbox
	workspaces string // one directory per workspace
	scratch    string // where disks are made; nothing in it is worth keeping
	bootID     string
	masks      stage.Masks
	runner     int // sealed memory file with the runner's binary
	filters    map[runtime.SeccompMode]filters

	cgroups *cgroup.Manager
	ids     *ids.Pool
	disks   *disk.Maker
	pool    *disk.Pool // nil without one
	boots   *fairqueue.Queue

	parked parked
	views  *views
	listed atomic.Pointer[map[runtime.ID]*listed] // by the last List that came to its end

	failing atomic.Pointer[map[process]bool] // the runners of sandboxes whose disk has had an error

	makeReady func(context.Context) (*prepared, error) // prepare

	wg         sync.WaitGroup // of the restocking and of what keeps turns
	quit       chan struct{}  // closed by Close
	mu         sync.Mutex
	shelf      []*prepared // guarded by mu
	restocking bool        // guarded by mu
	closed     bool        // guarded by mu
}

// filters are a mode's compiled policies.
type filters struct{ runner, workload, netlink stage.Filter }

// defaults are for fields that neither Spec nor Options set.
var defaults = guest.Limits

// New prepares the driver's directories and cgroups. Close ends it; sandboxes
// live on.
func New(opts Options) (*Driver, error) {
	opts.Node = cmp.Or(opts.Node, nodeOfPath(opts.DataDir))
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	opts.Defaults = opts.Defaults.Or(defaults)
	d := &Driver{
		opts:       opts,
		sandboxes:  filepath.Join(opts.DataDir, "sandboxes"),
		workspaces: filepath.Join(opts.DataDir, "workspaces"),
		scratch:    filepath.Join(opts.DataDir, "scratch"),
		masks:      planMasks(canRead),
		runner:     -1,
		boots:      newBoots(goruntime.NumCPU()),
		quit:       make(chan struct{}),
	}
	d.makeReady = d.prepare
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.wg.Go(func() { fairshare.New(d.cgroups, d.opts.Log).Run(d.quit) })
	d.wg.Go(d.renewViews)
	if !protection.Off(protection.Backlog) {
		d.wg.Go(func() { backlog.New(d.cgroups, d.opts.Log).Run(d.quit) })
	}
	d.wg.Go(func() { d.keepRoom(d.quit) })
	d.wg.Go(func() { d.restIDs(d.quit) })
	return d, nil
}

func (d *Driver) open() error {
	if !filepath.IsAbs(d.opts.DataDir) {
		return fmt.Errorf("data directory %q is not an absolute path", d.opts.DataDir)
	}
	if len(d.opts.Runner) == 0 {
		return errors.New("this build has no runner in it: build with `go tool task build`")
	}
	for _, dir := range []string{d.opts.DataDir, d.sandboxes, d.workspaces, d.scratch} {
		// 0700: below are files with a sandbox's ids and suid bits.
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var err error
	if d.bootID, err = readBootID(); err != nil {
		return err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if d.cgroups, err = cgroup.New(string(mountinfo), groupsOf(d.opts.Node)); err != nil {
		return err
	}
	if d.views, err = newViews(); err != nil {
		return err
	}
	if err := d.openIDs(); err != nil {
		return err
	}
	if err := d.openDisks(); err != nil {
		return err
	}
	if d.filters, err = compileFilters(); err != nil {
		return err
	}
	d.runner, err = sealedFile("sandkasten-runner", d.opts.Runner, programMode())
	return err
}

// openDisks opens what disks are made of. A pool that was made once is opened
// whether new disks go there or not: there may be some in it.
func (d *Driver) openDisks() (err error) {
	path := filepath.Join(d.opts.DataDir, poolFile)
	images := d.scratch
	if d.opts.PoolMB > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), teardownTimeout) //nolint:forbidigo // New has none
		defer cancel()
		if err := disk.MakePool(ctx, path, d.opts.PoolMB<<20); err != nil {
			return err
		}
	}
	d.pool, err = disk.OpenPool(path, d.opts.Node)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && d.opts.PoolMB == 0) {
		return err
	}
	if d.opts.PoolMB > 0 {
		images = d.pool.Path(".")
	}
	d.disks, err = disk.NewMaker(d.scratch, images, d.opts.Durable, d.opts.Node)
	return err
}

// compileFilters prepares every mode. The empty mode is strict.
func compileFilters() (map[runtime.SeccompMode]filters, error) {
	all := map[runtime.SeccompMode]filters{}
	for _, mode := range []runtime.SeccompMode{runtime.SeccompStrict, runtime.SeccompMVP, runtime.SeccompOff} {
		workload, err := seccomp.Compile(seccomp.Narrow(mode)) // the runner's is inherited
		if err != nil {
			return nil, fmt.Errorf("compile the seccomp policy %q: %w", mode, err)
		}
		runner, err := seccomp.Compile(seccomp.Runner(mode))
		if err != nil {
			return nil, fmt.Errorf("compile the runner's seccomp policy %q: %w", mode, err)
		}
		netlink, err := seccomp.Compile(seccomp.Netlink(mode))
		if err != nil {
			return nil, fmt.Errorf("compile the seccomp policy for netlink %q: %w", mode, err)
		}
		all[mode] = filters{runner: stage.NewFilter(runner), workload: stage.NewFilter(workload), netlink: stage.NewFilter(netlink)}
	}
	all[""] = all[runtime.SeccompStrict]
	return all, nil
}

// Close frees what the driver itself holds.
func (d *Driver) Close() error {
	errs := []error{d.clearShelf()}
	d.parked.close()
	sys.Close(d.runner)
	if d.disks != nil {
		errs = append(errs, d.disks.Close())
	}
	if d.pool != nil {
		errs = append(errs, d.pool.Close())
	}
	if d.cgroups != nil {
		errs = append(errs, d.cgroups.Close())
	}
	if d.ids != nil {
		errs = append(errs, d.ids.Close())
	}
	return errors.Join(errs...)
}

// Own keeps other daemons of this installation away, until Close. They would work
// on a copy of the data directory, and end the sandboxes of the original.
func (d *Driver) Own() error { return d.cgroups.Own() }

// canRead reports whether a sandbox could read path of the host's /proc: its
// root is nobody there.
func canRead(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode().Perm()&0o007 != 0
}

// groupsOf is the directory of an installation below mounts of control groups.
func groupsOf(node string) string { return "sandkasten/" + node }

func (d *Driver) leaseDir() string { return cmp.Or(d.opts.LeaseDir, d.cgroups.LeaseDir()) }

// nodeOfPath names an installation that Options does not: by the path of its data
// directory.
func nodeOfPath(dataDir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	return hex.EncodeToString(sum[:4])
}

// programMode lets nobody but its owner read the runner's program. The kernel
// then keeps others from reading, tracing and taking over a process that runs
// it, also where they have its ids: a tool of the runner's is the sandbox's
// root as they are, and holds the daemon's connection.
func programMode() os.FileMode {
	if protection.Off(protection.ProgramMode) {
		return 0o555
	}
	return 0o511
}

// sealedFile keeps the runner where nothing can change it: not in an image,
// not on a disk, and not through /proc/PID/exe of a running one (CVE-2019-5736).
func sealedFile(name string, content []byte, mode os.FileMode) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return -1, err
	}
	if err := f.Chmod(mode); err != nil {
		return -1, err
	}
	if err := sys.Seal(fd); err != nil {
		return -1, err
	}
	// A read-only descriptor: exec refuses a file that is open for writing.
	return sys.Open(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.O_RDONLY, 0)
}

// Open returns a handle on a running sandbox.
func (d *Driver) Open(_ context.Context, id runtime.ID) (runtime.Sandbox, error) {
	s, err := d.readState(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.New(errdefs.NotFound, "sandbox %s does not exist", id)
	}
	if err != nil {
		return nil, err
	}
	if !s.Process.alive(d.bootID) {
		return nil, errdefs.New(errdefs.NotFound, "sandbox %s is not running", id)
	}
	if !d.reachable(id) {
		return nil, errdefs.Wrap(runtime.ErrCutOff, errdefs.NotFound, "sandbox %s is not running", id)
	}
	return &sandbox{d: d, state: *s}, nil
}

// waits of create and destroy.
const (
	bootTimeout     = 20 * time.Second // of the runner: minutes of a host's time in the worst overload
	killTimeout     = 10 * time.Second // until KILL has ended all processes
	cgroupTimeout   = 2 * time.Second
	freezeTimeout   = 10 * time.Second
	teardownTimeout = 30 * time.Second
)
