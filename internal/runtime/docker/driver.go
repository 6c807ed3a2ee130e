// Package docker is the driver that makes sandboxes of containers, on a Docker
// engine: one on this host, or one that is reached over the network.
//
// The engine makes the container as plan.go wants it and starts our runner in
// it, from a volume that this package fills (program.go). What is said to the
// runner goes through one process beside it that the engine starts
// (link.go). All that Destroy needs is the container's name; all that a later
// daemon has to know is in its labels.
package docker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"regexp"
	gort "runtime"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/singleflight"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/relay"
)

// Rootfs is an image as the engine gets it.
type Rootfs struct {
	Layers []string // directories with overlayfs's marks of what they delete, top first
	Env    []string
	Shell  string // the login shell
	User   string // as the image says, unchecked; may be empty
}

// Images finds the files of an image.
type Images interface {
	// Rootfs returns NotFound for a digest that is not in the store. The
	// directories must stay while the image is loaded into the engine.
	Rootfs(ctx context.Context, digest string) (Rootfs, error)
}

// Options configure a Driver.
type Options struct {
	Host     string // of the engine: unix:///path, tcp://host:port or ssh://user@host; "" is what DOCKER_HOST says
	CertPath string // a directory with ca.pem, cert.pem and key.pem for tcp; "" is what DOCKER_CERT_PATH says
	Node     string // tells this daemon's containers from those of others on the engine: lower case letters and digits
	Runner   []byte // the runner's program, for the engine's machine
	Images   Images
	Defaults runtime.Limits // where a Spec is silent
	Runtime  string         // of the engine's, such as kata; "" is its default
	Userns   string         // of containers: "host" is none, where the engine has one for all; "" is the engine's default
	Network  string         // of the engine, for sandboxes of runtime.NetworkEngine; "" has none
	User     string         // whom programs are: a name or uid, with :group or :gid if wanted; ImageUser; "" is root
	Memory   bool           // workspaces of sandboxes' own are in memory
	Tmpfs    []string       // directories in memory below a read-only root, beside /tmp and /run
	Log      *slog.Logger
}

// Driver implements runtime.Driver and its optional parts.
type Driver struct {
	opts     Options
	engine   *client.Client
	profiles map[runtime.SeccompMode]profile
	loads    singleflight.Group // of images and of the runner, into the engine
	dials    singleflight.Group // of links, by sandbox

	mu     sync.Mutex
	links  map[runtime.ID]*relay.Link // guarded by mu
	filled map[string]bool            // guarded by mu; files that the volume with the runner has, by name
	claims map[runtime.ID]bool        // guarded by mu; ready sandboxes that are being claimed
	disk   diskLimit                  // guarded by mu
	sizes  map[string]int64           // guarded by mu; of images in bytes, by digest, where that counts
	closed bool                       // guarded by mu
}

var (
	_ runtime.Driver          = (*Driver)(nil)
	_ runtime.Stopper         = (*Driver)(nil)
	_ runtime.Volatile        = (*sandbox)(nil)
	_ runtime.WorkspaceKeeper = (*Driver)(nil)
	_ runtime.Claimer         = (*Driver)(nil)
	_ runtime.Forker          = (*Driver)(nil)
	_ runtime.Pauser          = (*sandbox)(nil)
)

var nodeName = regexp.MustCompile(`^[a-z0-9]{1,32}$`)

// New prepares a driver. It does not talk to the engine yet. Close ends it;
// sandboxes live on.
func New(opts Options) (*Driver, error) {
	if !nodeName.MatchString(opts.Node) {
		return nil, fmt.Errorf("node %q is not 1 to 32 lower case letters and digits", opts.Node)
	}
	if len(opts.Runner) == 0 {
		return nil, errors.New("this build has no runner in it: build with `go tool task build`")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Defaults = opts.Defaults.Or(guest.Limits)
	profiles, err := newProfiles()
	if err != nil {
		return nil, err
	}
	engine, err := connect(opts)
	if err != nil {
		return nil, err
	}
	return &Driver{
		opts: opts, engine: engine, profiles: profiles,
		links: make(map[runtime.ID]*relay.Link), filled: make(map[string]bool), claims: make(map[runtime.ID]bool),
		sizes: make(map[string]int64),
	}, nil
}

// Close ends the connections to runners. Sandboxes live on.
func (d *Driver) Close() error {
	d.mu.Lock()
	links := d.links
	d.links, d.closed = nil, true
	d.mu.Unlock()
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, d.engine.Close())...)
}

// architectures is what engines call those that we build for.
var architectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// answerTime is how long the engine may take to say what there is, before it
// counts as one that does not answer.
const answerTime = 10 * time.Second

// Check implements runtime.Driver.
func (d *Driver) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	got, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return d.unavailable(err)
	}
	info := got.Info
	var missing []string
	for _, need := range []struct {
		there bool
		what  string
	}{
		{info.MemoryLimit, "limits of memory"},
		{info.CPUCfsQuota, "limits of processor time"},
		{info.PidsLimit, "limits of processes"},
		{strings.Contains(strings.Join(info.SecurityOptions, " "), "name=seccomp"), "seccomp"},
	} {
		if !need.there {
			missing = append(missing, need.what)
		}
	}
	switch {
	case info.OSType != "linux" || info.Architecture != architectures[gort.GOARCH]:
		return fmt.Errorf("the engine runs %s on %s, and this daemon's runner is for linux on %s: use the daemon built for the engine's machine", info.OSType, info.Architecture, architectures[gort.GOARCH])
	case len(missing) > 0:
		return fmt.Errorf("the engine has no %s: its kernel lacks them, or it was started without", strings.Join(missing, ", no "))
	}
	if _, ok := info.Runtimes[d.opts.Runtime]; d.opts.Runtime != "" && !ok {
		return fmt.Errorf("the engine has no runtime %q: register it in its daemon.json, or change docker.runtime", d.opts.Runtime)
	}
	return d.learnDisk(ctx, info)
}

// Sweep removes what earlier daemons of this node left and no sandbox owns.
func (d *Driver) Sweep(ctx context.Context) error {
	if err := d.ping(ctx); err != nil {
		return err
	}
	return errors.Join(d.look(ctx), d.sweepHelpers(ctx), d.sweepPrograms(ctx), d.sweepImages(ctx), d.sweepForks(ctx), d.sweepEnvs(ctx))
}

// ping returns Unavailable if the engine does not answer.
func (d *Driver) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := d.engine.Ping(ctx, client.PingOptions{})
	return d.unavailable(err)
}

// Open implements runtime.Driver.
func (d *Driver) Open(ctx context.Context, id runtime.ID) (runtime.Sandbox, error) {
	got, err := d.inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	if !got.State.Running {
		return nil, d.notRunning(id)
	}
	return d.handle(id, got), nil
}

// inspect returns NotFound if the engine has no container of that sandbox.
func (d *Driver) inspect(ctx context.Context, id runtime.ID) (container.InspectResponse, error) {
	got, err := d.engine.ContainerInspect(ctx, d.container(id), client.ContainerInspectOptions{})
	if err == nil && (got.Container.State == nil || got.Container.Config == nil) {
		err = errors.New("the engine says nothing of the container's state")
	}
	if err != nil {
		return container.InspectResponse{}, d.classify(err, id)
	}
	return got.Container, nil
}

// List implements runtime.Driver.
func (d *Driver) List(ctx context.Context) iter.Seq2[runtime.Status, error] {
	return func(yield func(runtime.Status, error) bool) {
		listing, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		got, err := d.engine.ContainerList(listing, client.ContainerListOptions{All: true, Filters: d.own(labelSandbox)})
		if err != nil {
			yield(runtime.Status{}, d.unavailable(err))
			return
		}
		if err := d.look(ctx); err != nil { // it has come back, as one that was absent
			d.opts.Log.WarnContext(ctx, "cannot learn what the engine limits", "err", err)
		}
		for _, c := range got.Items {
			id, named := d.idOf(c)
			if !named {
				continue // somebody has renamed it
			}
			status := runtime.Status{
				ID:        id,
				Alive:     c.State == container.StateRunning || c.State == container.StatePaused,
				Startable: c.State == container.StateExited && c.Labels[labelMemory] == "",
				CreatedAt: time.Unix(c.Created, 0),
			}
			if !yield(status, nil) {
				return
			}
		}
	}
}

// idOf is the sandbox that a container is. Its label says how it was made; it
// may have been claimed since.
func (d *Driver) idOf(c container.Summary) (runtime.ID, bool) {
	if len(c.Names) == 0 {
		return "", false
	}
	id, named := strings.CutPrefix(c.Names[0], "/"+d.container(""))
	return runtime.ID(id), named
}

// own selects this node's objects that have a label.
func (d *Driver) own(label string) client.Filters {
	return make(client.Filters).Add("label", labelNode+"="+d.opts.Node, label)
}
