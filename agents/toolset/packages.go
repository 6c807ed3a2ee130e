package toolset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// Installers are the programs that install packages, whose names follow as arguments.
type Installers struct{ Pip, Npm []string }

var defaultInstallers = Installers{
	Pip: []string{"python3", "-m", "pip", "install", "--no-input", "--no-cache-dir"},
	Npm: []string{"npm", "install", "--global", "--no-audit", "--cache", "/tmp/npm"},
}

// globalModules is where npm installs to, so that programs outside of it find it.
const globalModules = "/usr/local/lib/node_modules"

const (
	packagesName   = "agent-packages"
	installTimeout = 10 * time.Minute
	closing        = 30 * time.Second
	shownOutput    = 2000 // bytes at the end of an installer's output

	// retryInstallation is how long an installer's refusal holds. A model calls again
	// at once, and would wait for the same refusal each time.
	retryInstallation = time.Minute
)

// errInstaller is an installer that could not do it.
var errInstaller = errors.New("the packages of the prompt file could not be installed")

// install is one installer's run.
type install struct {
	Command []string // with the packages
	Group   string   // of hosts that it may reach
}

func (t *Toolset) installs() []install {
	var all []install
	for _, one := range []struct {
		packages   []string
		own, usual []string
		group      string
	}{
		{t.sandbox.PipPackages, t.opts.Installers.Pip, defaultInstallers.Pip, "@pip"},
		{t.sandbox.NpmPackages, t.opts.Installers.Npm, defaultInstallers.Npm, "@npm"},
	} {
		if len(one.packages) == 0 {
			continue
		}
		command := one.own
		if len(command) == 0 {
			command = one.usual
		}
		packages := slices.Clone(one.packages)
		slices.Sort(packages)
		all = append(all, install{slices.Concat(command, packages), one.group})
	}
	return all
}

// withPackages has sessions begin with a snapshot in which the packages are. It is
// made once for a list of packages, an image and an owner.
func (t *Toolset) withPackages(ctx context.Context, options *sandkasten.CreateOptions) error {
	installs := t.installs()
	if len(installs) == 0 {
		return nil
	}
	if len(t.sandbox.NpmPackages) > 0 {
		options.Env = maps.Clone(options.Env)
		if options.Env == nil {
			options.Env = map[string]string{}
		}
		options.Env["NODE_PATH"] = globalModules
	}
	image, err := t.image(ctx, options.Image)
	if err != nil {
		return err
	}
	label, err := packagesLabel(image.Digest, installs)
	if err != nil {
		return err
	}
	id, err := t.findPackages(ctx, label)
	if err != nil {
		return err
	}
	if id == "" {
		if id, err = t.installPackages(ctx, *options, installs, label); err != nil {
			return err
		}
	}
	options.Image, options.RestoreSnapshotID = "", id
	return nil
}

func (t *Toolset) image(ctx context.Context, name string) (sandkasten.Image, error) {
	if name == "" {
		info, err := t.opts.Client.Info(ctx)
		if err != nil {
			return sandkasten.Image{}, fmt.Errorf("find the default image: %w", err)
		}
		name = info.Defaults.Image
	}
	image, err := t.opts.Client.GetImage(ctx, name)
	if err != nil {
		return image, fmt.Errorf("find the image %s: %w", name, err)
	}
	return image, nil
}

// packagesLabel tells snapshots apart. An image that was made anew has another
// digest, and its packages are installed anew.
func packagesLabel(digest string, installs []install) (string, error) {
	text, err := json.Marshal([]any{digest, installs})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return "packages-" + hex.EncodeToString(sum[:16]), nil
}

// findPackages returns the snapshot of a label, or "". An admin's key sees those of
// others, who may have put anything into one.
func (t *Toolset) findPackages(ctx context.Context, label string) (string, error) {
	me, err := t.opts.Client.Me(ctx)
	if err != nil {
		return "", fmt.Errorf("find out whose packages to look for: %w", err)
	}
	saved, err := t.opts.Client.ListSnapshots(ctx, &sandkasten.ListSnapshotsOptions{Name: packagesName})
	if err != nil {
		return "", fmt.Errorf("look for installed packages: %w", err)
	}
	for _, one := range saved {
		if one.Owner == me.Owner && one.Label == label {
			return one.ID, nil
		}
	}
	return "", nil
}

// installPackages makes the snapshot in a session that reaches the package index
// and nothing else.
func (t *Toolset) installPackages(ctx context.Context, options sandkasten.CreateOptions, installs []install, label string) (id string, err error) {
	policy := sandkasten.NetworkPolicy{Mode: "allow"}
	for _, one := range installs {
		policy.Allow = append(policy.Allow, one.Group)
	}
	options.NetworkMode, options.Network = "", &policy
	options.TTL, options.OnExpiry = installTimeout+time.Minute, "destroy"
	session, err := t.opts.Client.CreateSession(ctx, &options)
	if err != nil {
		return "", fmt.Errorf("make a sandbox to install packages in: %w", err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		err = errors.Join(err, session.Destroy(ending))
	}()
	for _, one := range installs {
		if err := runInstaller(ctx, session, one); err != nil {
			return "", err
		}
	}
	saved, err := session.Snapshot(ctx, &sandkasten.SnapshotOptions{
		Name: packagesName, Label: label, Scope: "sandbox", ExcludePaths: []string{"/workspace", "/tmp"},
	})
	if err != nil {
		return "", fmt.Errorf("save the installed packages: %w", err)
	}
	return saved.ID, nil
}

func runInstaller(ctx context.Context, session *sandkasten.Session, one install) error {
	result, err := session.RunProcess(ctx, one.Command, &sandkasten.ProcessOptions{Timeout: installTimeout, OnDisconnect: "kill"})
	if err != nil {
		return fmt.Errorf("install packages with %s: %w", one.Command[0], err)
	}
	if result.ExitCode == 0 {
		return nil
	}
	said := result.Stdout + result.Stderr
	said = said[max(0, len(said)-shownOutput):]
	return fmt.Errorf("%w: %s ended with %d; correct their names or versions, or take an image that has the installer. It said: %s",
		errInstaller, one.Command[0], result.ExitCode, said)
}
