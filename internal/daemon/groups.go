package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sandkasten/sandkasten/internal/drivers"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images"
	"github.com/sandkasten/sandkasten/internal/network/groups"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/protocol"
)

const (
	askTimeout     = 20 * time.Second // for the package clients to answer
	morePatience   = 6                // times that, when they are asked once more
	askMakeTimeout = 2 * time.Minute  // for their sandbox, whose engine may have to be brought the image
	askEndTimeout  = time.Minute      // for its removal
)

// groupAsker knows what the groups of a network policy mean in an image: it asks the
// image's package clients, once, in a sandbox without a network that is no session's.
type groupAsker struct {
	store  *images.Store
	driver runtime.Driver
	named  string       // the driver whose sandboxes are made
	spec   runtime.Spec // of one, but for the image

	patience time.Duration // for the clients to answer
	settled  <-chan struct{}
	log      *slog.Logger

	asking singleflight.Group // by digest
	ctx    context.Context    // of all that is asked
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool                // guarded by mu
	live   map[runtime.ID]bool // guarded by mu; their sandboxes, which no session has
}

// openGroups makes the asker, which asks nothing before the sessions of an earlier
// daemon were taken up. What it asks ends before the drivers close.
func (d *Daemon) openGroups(ctx context.Context) *groupAsker {
	a := &groupAsker{
		store: d.images, driver: d.drivers.Driver, named: d.cfg.Driver, settled: d.settled, log: d.log, live: map[runtime.ID]bool{},
		patience: askTimeout,
		spec: runtime.Spec{
			Limits:  drivers.Limits(d.cfg.Defaults.Limits),
			Network: runtime.Network{Mode: runtime.NetworkNone},
			Seccomp: cmp.Or(runtime.SeccompMode(d.cfg.Security.Seccomp), runtime.SeccompStrict),
		},
	}
	if !d.drivers.DiskLimited(a.named, a.spec.ReadonlyRoot) {
		a.spec.Limits.DiskMB = 0
	}
	a.ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx)) // of the start, which ends before
	d.closers = append(d.closers, a.Close)
	return a
}

// Close ends what is asked, and returns when its sandboxes are gone.
func (a *groupAsker) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.stop()
	a.work.Wait()
	return nil
}

// Groups returns the entries of each group of an image. It asks if nobody has; who
// stops waiting does not stop that. A group that is missing has no client in the
// image. The error is Unavailable if the clients do not answer.
func (a *groupAsker) Groups(ctx context.Context, digest string) (map[string][]string, error) {
	stored, err := a.store.Groups(digest)
	if err != nil || stored != nil {
		return stored, err
	}
	asked := a.asking.DoChan(digest, func() (any, error) {
		done, err := a.begin()
		if err != nil {
			return nil, err
		}
		defer done()
		return a.askGroups(a.ctx, digest)
	})
	select {
	case result := <-asked:
		found, _ := result.Val.(map[string][]string)
		return found, result.Err
	case <-ctx.Done():
		if a.ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errdefs.Wrap(ctx.Err(), errdefs.Unavailable, "the package clients of the image are being asked for their hosts, which happens once for each image and takes long on a busy host; try again in a moment")
	}
}

// askLater asks in the background. Groups asks again what could not be asked.
func (a *groupAsker) askLater(digest string) {
	done, err := a.begin()
	if err != nil {
		return // the next daemon does
	}
	go func() {
		defer done()
		if _, err := a.Groups(a.ctx, digest); err != nil && a.ctx.Err() == nil {
			a.log.WarnContext(a.ctx, "cannot ask the package clients of an image for their hosts yet", "digest", digest, "err", err)
		}
	}()
}

// begin counts work that Close waits for, until done is called.
func (a *groupAsker) begin() (done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errdefs.New(errdefs.Unavailable, "the daemon is stopping")
	}
	a.work.Add(1)
	return a.work.Done, nil
}

// askGroups asks the package clients of an image, and stores what they say.
func (a *groupAsker) askGroups(ctx context.Context, digest string) (map[string][]string, error) {
	select {
	case <-a.settled:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	id := runtime.NewPassingID().In(a.named)
	a.setLive(id, true)
	defer a.setLive(id, false)
	found, err := a.askIn(ctx, id, digest, a.patience)
	if err != nil && !errdefs.Is(err, errdefs.NotFound) && ctx.Err() == nil {
		// A busy host may need longer. Asked once more with more patience, it is not asked
		// by each of the next who need the answer.
		found, err = a.askIn(ctx, id, digest, morePatience*a.patience)
	}
	if errdefs.Is(err, errdefs.NotFound) {
		return nil, err // the image is gone
	}
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.Unavailable, "cannot ask the package clients of the image for their hosts; try again")
	}
	return found, a.store.SetGroups(digest, found)
}

// askIn asks in a sandbox of that id.
func (a *groupAsker) askIn(ctx context.Context, id runtime.ID, digest string, patience time.Duration) (map[string][]string, error) {
	making, cancel := context.WithTimeout(ctx, askMakeTimeout)
	defer cancel()
	spec := a.spec
	spec.Image = digest
	sandbox, err := a.driver.Create(making, id, spec)
	if err != nil {
		return nil, err
	}
	defer a.destroy(ctx, id)
	return runScript(ctx, sandbox, patience)
}

// destroy removes a sandbox that was asked in. What stays is removed by the next
// start, as nobody's.
func (a *groupAsker) destroy(ctx context.Context, id runtime.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askEndTimeout)
	defer cancel()
	if err := a.driver.Destroy(ctx, id); err != nil {
		a.log.ErrorContext(ctx, "cannot remove a sandbox that the hosts of an image were asked in; the next start does", "sandbox", id, "err", err)
	}
}

// runScript runs the script of groups. What it prints is a stranger's.
func runScript(ctx context.Context, sandbox runtime.Sandbox, patience time.Duration) (_ map[string][]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience) // whatever the runner does
	defer cancel()
	client := &runnerclient.Client{Dial: sandbox.DialRunner}
	defer func() { err = errors.Join(err, client.Close()) }()
	start := protocol.Start{
		ID: string(runtime.NewPassingID()), TimeoutMS: patience.Milliseconds(), GraceMS: time.Second.Milliseconds(), OutputLimit: groups.MaxOutput,
	}
	var out boundedBuffer
	record, err := client.Run(ctx, start, runnerclient.Program{Args: []string{"/bin/sh", "-c", groups.Script()}}, &out)
	if err != nil {
		return nil, err
	}
	if record.Cause != protocol.CauseExited || record.ExitCode != 0 {
		return nil, fmt.Errorf("they did not answer: %s, exit code %d", record.Cause, record.ExitCode)
	}
	return groups.Parse(out.Bytes())
}

// boundedBuffer takes no more than groups.Parse does.
type boundedBuffer struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > groups.MaxOutput {
		return 0, errors.New("the package clients say too much")
	}
	return b.Buffer.Write(p)
}

func (a *groupAsker) setLive(id runtime.ID, live bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if live {
		a.live[id] = true
		return
	}
	delete(a.live, id)
}

// owns reports whether a sandbox is one that is being asked in.
func (a *groupAsker) owns(id runtime.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live[id]
}
