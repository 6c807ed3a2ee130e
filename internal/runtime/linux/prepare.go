package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/ids"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/inspect"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/internal/spawn"
)

// prepared is the part of a sandbox that is the same for all: a runner in its
// namespaces under ids of its own, waiting to be told what to become, and a
// disk of the default size. It has no name, no image, no limits and no place
// on disk where a later daemon would look: when we die it ends by itself.
type prepared struct {
	d       *Driver
	ids     ids.Base
	process process
	running bool // the program was started, and nobody has waited for its end
	pidfd   int
	control int // our end of the runner's message socket
	disk    *disk.Disk
	facade  int // a detached mount: its devices and files for /proc
}

// readyRunners is how many are kept for the next creates. Each costs the host
// about 1.5 MB and saves a create a third of its time.
const readyRunners = 4

// restockPause is how long the next runners wait for the create that took one:
// its session's first command wants the same processors.
const restockPause = 25 * time.Millisecond

// After a failure the next runner is tried after a pause, which doubles: what the host is
// short of does not come back by asking for it at each create.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// take returns a prepared runner, from the shelf or made now.
func (d *Driver) take(ctx context.Context) (*prepared, error) {
	d.mu.Lock()
	var p *prepared
	if n := len(d.shelf); n > 0 {
		p, d.shelf = d.shelf[n-1], d.shelf[:n-1]
	}
	d.mu.Unlock()
	if p != nil && p.process.alive(d.bootID) {
		return p, nil
	}
	if p != nil { // somebody killed it
		if err := p.discard(); err != nil {
			return nil, err
		}
	}
	return d.prepare(ctx)
}

// Prepare tries what every create needs before it has an image: ids, a runner in new
// namespaces and a disk. It leaves nothing of them.
func (d *Driver) Prepare(ctx context.Context) error {
	p, err := d.prepare(ctx)
	if err != nil {
		return err
	}
	return p.discard()
}

// restock fills the shelf in the background.
func (d *Driver) restock() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.restocking || d.closed {
		return
	}
	d.restocking = true
	d.wg.Go(func() {
		d.awaitRestock(restockPause)
		retry := time.Duration(0)
		for d.wantsMore() {
			p, err := d.makeReady(context.Background()) //nolint:forbidigo // ends with the shelf, which Close ends
			if err != nil {
				retry = min(max(2*retry, firstRetry), lastRetry)
				d.opts.Log.Warn("prepare a runner for the next sandbox", "again_in", retry, "err", err)
				d.awaitRestock(retry)
				continue
			}
			retry = 0
			d.shelve(p)
		}
	})
}

// awaitRestock waits, or until the driver is closed.
func (d *Driver) awaitRestock(pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-d.quit:
	}
}

// wantsMore reports whether another runner is wanted, and ends the restocking
// if not.
func (d *Driver) wantsMore() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restocking = !d.closed && len(d.shelf) < readyRunners
	return d.restocking
}

func (d *Driver) shelve(p *prepared) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shelf = append(d.shelf, p)
}

// clearShelf ends what nobody will take any more.
func (d *Driver) clearShelf() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.quit)
	}
	d.mu.Unlock()
	d.wg.Wait()
	var errs []error
	for _, p := range d.shelf { // nobody else is left to touch it
		errs = append(errs, p.discard())
	}
	d.shelf = nil
	return errors.Join(errs...)
}

// prepare makes a runner and a disk beside each other.
func (d *Driver) prepare(ctx context.Context) (*prepared, error) {
	p := &prepared{d: d, pidfd: -1, control: -1, facade: -1}
	// Each time: whoever applies the host's settings anew sets it back.
	err := d.raiseFileTable()
	if err != nil {
		d.opts.Log.Warn("raise fs.file-max: sandboxes can use up what the host may have of open files", "err", err)
	}
	if p.ids, err = d.ids.Take(); err != nil {
		return nil, err
	}
	var diskErr error
	made := make(chan struct{})
	go func() {
		defer close(made)
		p.disk, diskErr = d.disks.Make(ctx, d.opts.Defaults.DiskMB<<20)
	}()
	err = errors.Join(failpoint.Hit("linux.create.leased"), p.start())
	var facadeErr error
	p.facade, facadeErr = makeFacade(d.views.host.blank(d.opts.Defaults))
	<-made
	if err = errors.Join(err, facadeErr, diskErr); err != nil {
		return nil, errors.Join(err, p.discard())
	}
	return p, nil
}

// start clones the runner into its namespaces and lets it begin.
func (p *prepared) start() error {
	child, err := p.clone()
	if err != nil {
		return fmt.Errorf("clone the runner: %w", err)
	}
	p.pidfd = child.PidFD
	if err := errors.Join(failpoint.Hit("linux.create.cloned"), p.admit(child.PID)); err != nil {
		// The end of its socket ends it at the barrier; until then it works on
		// our memory.
		sys.Close(p.control)
		p.control = -1
		return errors.Join(err, child.Wait())
	}
	if err := child.Wait(); err != nil {
		return fmt.Errorf("start the runner: %w", err)
	}
	p.running = true
	// When the host runs out of memory, sandboxes go before its services. Not
	// before the program runs: until then the value would be ours as well, whose
	// memory the child shares.
	return writeProc("/proc/"+strconv.Itoa(child.PID)+"/oom_score_adj", "500")
}

// clone makes the process, up to the barrier. It is the block's last id on
// the host and nobody inside.
func (p *prepared) clone() (*spawn.Process, error) {
	ours, theirs, err := sys.Socketpair()
	if err != nil {
		return nil, err
	}
	p.control = ours
	defer sys.Close(theirs)
	tv := unix.NsecToTimeval(bootTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(ours, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	cgroupDir, tasks, err := p.d.cgroups.Runners()
	if err != nil {
		return nil, err
	}
	defer sys.Close(append(tasks, cgroupDir)...)
	id := p.ids.Runner()
	if protection.Off(protection.RunnerID) {
		id = int(p.ids) // root inside
	}
	cmd := &spawn.Cmd{
		ExecFD:     p.d.runner,
		Args:       []string{"sandkasten-runner"},
		Env:        append([]string{"GOMAXPROCS=1", "GOTRACEBACK=none"}, protection.Environ()...),
		Files:      map[int]int{stage.ControlFD: theirs},
		Identity:   &spawn.Identity{UID: id, GID: id},
		CgroupFD:   cgroupDir,
		CloneFlags: namespaceFlags(),
		Steps:      p.d.runnerSteps(tasks, theirs),
	}
	return cmd.Clone()
}

// namespaceFlags are those that a runner begins in. The cgroup namespaces of its
// children are made when they are where they belong.
func namespaceFlags() uint64 {
	var all uint64 = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if protection.Off(protection.NetworkNS) {
		all &^= unix.CLONE_NEWNET
	}
	if protection.Off(protection.IPCNS) {
		all &^= unix.CLONE_NEWIPC
	}
	return all
}

// admit maps the runner's ids and lets it pass the barrier.
func (p *prepared) admit(pid int) error {
	start, _, err := inspect.Stat(pid)
	if err != nil {
		return err
	}
	p.process = process{BootID: p.d.bootID, PID: pid, StartTime: start}
	base := "/proc/" + strconv.Itoa(pid)
	idMap := fmt.Sprintf("0 %d %d\n", p.ids, ids.Mapped)
	for _, name := range []string{"uid_map", "gid_map"} {
		if err := writeProc(base+"/"+name, idMap); err != nil {
			return err
		}
	}
	return sys.Write(p.control, "x")
}

// close lets go of a runner that a sandbox owns, or that is dead.
func (p *prepared) close() {
	sys.Close(p.control, p.pidfd, p.facade)
	if p.disk != nil {
		p.disk.Close()
	}
}

// discard ends a runner that no sandbox has come to own, and frees the rest.
func (p *prepared) discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout) //nolint:forbidigo // must happen whatever became of the caller
	defer cancel()
	var errs []error
	if p.running {
		errs = append(errs, endProcess(ctx, p.pidfd), reapChild(p.process.PID))
	}
	p.close()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end an unused runner: %w", err)
	}
	p.d.ids.Free(p.ids)
	return nil
}

// runnerSteps are the runner's first acts, up to its program's start.
func (d *Driver) runnerSteps(tasks []int, theirs int) []spawn.Step {
	var steps []spawn.Step
	for _, fd := range tasks {
		steps = append(steps, spawn.Write("join memory cgroup", fd, "0"))
	}
	// Or copies of our own ends, this one's and other runners', would keep the barrier from
	// ending with us.
	steps = append(steps, spawn.CloseOthers(theirs, d.runner)...)
	steps = append(steps,
		spawn.Barrier(theirs),
		spawn.Setgroups(),
		spawn.Setsid(),
		spawn.TimerSlack(stage.RunnerSlack),
		// A runner's heap is less than one of them. It shares our memory until it
		// executes, so this is said of us as well, who have no use for them either.
		spawn.HugePages(false),
		spawn.Rlimit("core", unix.RLIMIT_CORE, coreLimit()),
		spawn.Rlimit("nofile", unix.RLIMIT_NOFILE, openFiles).Optional(), // raising it takes a right we may lack
		spawn.Rlimit("memlock", unix.RLIMIT_MEMLOCK, 64<<10),
		spawn.Rlimit("msgqueue", unix.RLIMIT_MSGQUEUE, 819200),
		spawn.Rlimit("sigpending", unix.RLIMIT_SIGPENDING, 4096),
	)
	// The runner is not root inside, so its rights pass the exec as ambient ones.
	steps = append(steps, spawn.Capset(stage.EnterCaps, stage.EnterCaps))
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if stage.EnterCaps&(1<<c) != 0 {
			steps = append(steps, spawn.Prctl("PR_CAP_AMBIENT_RAISE", unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c))
		}
	}
	// The bounding set is what root inside can come to have by exec. After the
	// above, which it would limit too.
	if !protection.Off(protection.Capabilities) {
		for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
			if stage.WorkloadCaps&(1<<c) == 0 {
				steps = append(steps, spawn.Prctl("PR_CAPBSET_DROP", unix.PR_CAPBSET_DROP, c))
			}
		}
	}
	if !protection.Off(protection.NoNewPrivs) {
		steps = append(steps, spawn.Prctl("PR_SET_NO_NEW_PRIVS", unix.PR_SET_NO_NEW_PRIVS, 1))
	}
	return steps
}

const openFiles = 16384

// coreLimit keeps cores from being dumped. The kernel runs a core_pattern
// helper as the host's root even at a limit of 0, but not at 1.
func coreLimit() uint64 {
	if protection.Off(protection.CoreLimit) {
		return unix.RLIM_INFINITY
	}
	return 1
}

func writeProc(path, text string) error {
	fd, err := sys.Open(unix.AT_FDCWD, path, unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	if err := sys.Write(fd, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
