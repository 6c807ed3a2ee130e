package linux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/failpoint"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/disk"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
	"github.com/sandkasten/sandkasten/protocol"
)

var _ runtime.Claimer = (*Driver)(nil)

// Claim renames the directory of ready to id, and gives the sandbox what is
// the session's after that: so one that has anything of a session is never
// found under the name of a ready one.
func (d *Driver) Claim(ctx context.Context, ready, id runtime.ID, spec runtime.Spec) (runtime.Sandbox, error) {
	if err := guest.CheckSpec(id, spec); err != nil {
		return nil, err
	}
	s, err := d.readState(ready)
	if err != nil || !s.Process.alive(d.bootID) {
		return nil, errdefs.Wrap(err, errdefs.Conflict, "sandbox %s is not running", ready)
	}
	spec.Limits = spec.Limits.Or(d.opts.Defaults)
	if err := claimable(s.Spec, spec); err != nil {
		return nil, err
	}
	c := &claiming{d: d, from: s.Spec, state: *s, volume: -1}
	c.state.ID, c.state.Spec = id, spec
	defer func() { sys.Close(c.volume) }()
	d.views.forget(ready) // or its renewal would undo what follows
	if err := c.run(ctx, ready); err != nil {
		return nil, err
	}
	d.views.track(&c.state, d.group(&c.state), time.Now())
	return &sandbox{d: d, state: c.state}, nil
}

// claimable reports whether a sandbox made of ready can become one of spec.
func claimable(ready, spec runtime.Spec) error {
	same := ready.Image == spec.Image && ready.Limits.DiskMB == spec.Limits.DiskMB && ready.ReadonlyRoot == spec.ReadonlyRoot &&
		ready.Network.Equal(spec.Network) && ready.Seccomp == spec.Seccomp
	plain := ready.Workspace == "" && len(ready.Env) == 0 && hostnameOf(ready) == disk.DefaultHostname
	// Its /etc cannot be written any more.
	renamed := spec.ReadonlyRoot && hostnameOf(spec) != disk.DefaultHostname
	if !same || !plain || renamed {
		return errdefs.New(errdefs.Unimplemented, "a ready sandbox of %+v cannot become one of another kind", ready)
	}
	return nil
}

// hostnameOf is the name of a sandbox of spec.
func hostnameOf(spec runtime.Spec) string { return cmp.Or(spec.Hostname, disk.DefaultHostname) }

// needsChange reports whether a sandbox of ready, which can become one of spec, is
// none yet.
func needsChange(ready, spec runtime.Spec) bool {
	return ready.Limits != spec.Limits || spec.Workspace != "" || len(spec.Env) > 0 || hostnameOf(ready) != hostnameOf(spec)
}

// claiming is one Claim under way.
type claiming struct {
	d      *Driver
	from   runtime.Spec
	state  state // as it is to be
	volume int   // a detached mount, or -1
}

// run takes the steps in order. The crash tests stop the daemon after each. What
// fails once the sandbox has its new name is Conflict, whatever it was: other
// codes say that ready is what it was.
func (c *claiming) run(ctx context.Context, ready runtime.ID) error {
	renamed := false
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"attached", c.attach},
		{"renamed", func(context.Context) error { return c.rename(ready) }},
		{"limits", c.limit},
		{"workspace", c.remount},
		{"settled", c.settle},
	} {
		err := step.do(ctx)
		renamed = renamed || step.name == "renamed" && err == nil
		if err = errors.Join(err, failpoint.Hit("linux.claim."+step.name)); err == nil {
			continue
		}
		err = classify(fmt.Errorf("claim sandbox %s as %s, step %q: %w", ready, c.state.ID, step.name, err))
		if renamed {
			err = errdefs.Wrap(err, errdefs.Conflict, "sandbox %s cannot be used any more", ready)
		}
		return err
	}
	return nil
}

// attach mounts the workspace, where nobody sees it yet.
func (c *claiming) attach(ctx context.Context) error {
	if c.state.Spec.Workspace == "" {
		return nil
	}
	userns, err := openUserNS(c.state.Process.PID)
	if err != nil {
		return err
	}
	defer sys.Close(userns)
	if c.volume, err = c.d.attachWorkspace(ctx, c.state.Spec.Workspace); err != nil {
		return err
	}
	return idmap(c.volume, userns, 0)
}

// rename is the claim: of two that want the same sandbox one finds it gone.
func (c *claiming) rename(ready runtime.ID) error {
	err := unix.Renameat2(unix.AT_FDCWD, c.d.dir(ready), unix.AT_FDCWD, c.d.dir(c.state.ID), unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errdefs.New(errdefs.Conflict, "sandbox %s has been claimed by somebody else", ready)
	case errors.Is(err, fs.ErrExist):
		return errdefs.New(errdefs.AlreadyExists, "sandbox %s exists already", c.state.ID)
	case err == nil:
		c.d.parked.move(ready, c.state.ID)
	}
	return os.NewSyscallError("renameat2", err)
}

// limit changes the control group, and the file systems in memory whose sizes
// follow from the limits.
func (c *claiming) limit(context.Context) error {
	was, is := c.from.Limits, c.state.Spec.Limits
	if was == is {
		return nil
	}
	if err := c.d.group(&c.state).Limit(groupLimits(is)); err != nil {
		return err
	}
	if err := errors.Join(c.d.writeView(c.state.Process, c.d.views.host.blank(is)), c.d.replace(c.d.group(&c.state), c.state.Process.PID, is)); err != nil {
		return err
	}
	if was.MemoryMB == is.MemoryMB {
		return nil
	}
	root, err := openRoot(c.state.Process.PID)
	if err != nil {
		return err
	}
	defer sys.Close(root)
	before := planMounts(c.from)
	for _, m := range planMounts(c.state.Spec) {
		i := slices.IndexFunc(before, func(b stage.Mount) bool { return b.Target == m.Target })
		if m.FS != "tmpfs" || before[i].Options == m.Options {
			continue
		}
		if err := resize(root, m); err != nil {
			return fmt.Errorf("resize %s: %w", m.Target, err)
		}
	}
	return nil
}

// remount puts the workspace where the sandbox has its own.
func (c *claiming) remount(context.Context) error {
	if c.volume < 0 {
		return nil
	}
	return replaceMount(c.state.Process.PID, c.volume, disk.Workspace, guest.Workspace)
}

// settle tells the runner. While that wakes up the state is written, if there is
// anything new: a new file takes as long as the runner's answer.
func (c *claiming) settle(ctx context.Context) error {
	spec := c.state.Spec
	message := protocol.Settle{Moved: spec.Workspace != ""}
	if name := hostnameOf(spec); name != disk.DefaultHostname {
		message.Hostname, message.HostsFile = name, disk.HostsFile(name)
	}
	write := func() error { return errors.Join(c.d.writeState(c.state), failpoint.Hit("linux.claim.state")) }
	if !needsChange(c.from, spec) {
		write = nil
	}
	return guest.Settle(ctx, &sandbox{d: c.d, state: c.state}, message, spec.Env, write)
}
