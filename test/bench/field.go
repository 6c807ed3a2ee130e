package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/test/bench/docker"
)

// fieldDir is where a run keeps its files: on a disk, and reachable for ids
// that are nobody on the host.
const fieldDir = "/var/tmp"

// rootfsCache keeps the root filesystem between runs.
const rootfsCache = "/var/cache/sandkasten-bench"

// playingField is everything that a run measures, started and ready.
type playingField struct {
	dir        string
	contenders []contender
	daemon     *daemon                                                     // nil if ours is not wanted
	another    func(ctx context.Context, settings string) (*daemon, error) // starts one more; nil likewise
	tools      map[string][]string                                         // how each tool tells its version
	closers    []func(context.Context) error
}

// assemble starts what is to be measured. The caller closes the field.
func assemble(ctx context.Context, o options, progress func(string, ...any)) (_ *playingField, err error) {
	f := &playingField{tools: map[string][]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close(context.WithoutCancel(ctx)))
		}
	}()
	if f.dir, err = os.MkdirTemp(fieldDir, "sandkasten-bench-"); err != nil {
		return nil, err
	}
	f.closers = append(f.closers, func(context.Context) error { return os.RemoveAll(f.dir) })
	if err := os.Chmod(f.dir, 0o755); err != nil {
		return nil, err
	}
	rootfs := o.rootfs
	if rootfs == "" {
		progress("making the root filesystem in %s, if it is not there", rootfsCache)
		if rootfs, err = makeRootfs(ctx); err != nil {
			return nil, err
		}
	}
	if rootfs, err = filepath.Abs(rootfs); err != nil {
		return nil, err
	}
	tar := filepath.Join(f.dir, "rootfs.tar")
	if out, err := exec.CommandContext(ctx, "tar", "--numeric-owner", "--one-file-system", "-C", rootfs, "-cf", tar, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tar: %w: %s", err, out)
	}
	for _, add := range []func(context.Context, options, string, string) error{f.addSandkasten, f.addOCI, f.addBubblewrap, f.addDocker} {
		if err := add(ctx, o, rootfs, tar); err != nil {
			return nil, err
		}
	}
	if len(f.contenders) == 0 {
		return nil, fmt.Errorf("nothing to measure: none of %q is installed", o.only)
	}
	for _, c := range f.contenders {
		progress("taking part: %s", c.name())
	}
	return f, nil
}

// close ends and removes everything, the latest first.
func (f *playingField) close(ctx context.Context) error {
	var errs []error
	for _, c := range slices.Backward(f.closers) {
		errs = append(errs, c(ctx))
	}
	return errors.Join(errs...)
}

func (o options) wants(name string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (f *playingField) addSandkasten(ctx context.Context, o options, _, tar string) error {
	if !o.wants("sandkasten") {
		return nil
	}
	bin, err := filepath.Abs(o.binary)
	if err != nil {
		return err
	}
	d, err := startDaemon(ctx, bin, f.dir, tar, "")
	if err != nil {
		return err
	}
	f.daemon = d
	f.another = func(ctx context.Context, settings string) (*daemon, error) {
		dir, err := os.MkdirTemp(f.dir, "another-")
		if err != nil {
			return nil, err
		}
		return startDaemon(ctx, bin, dir, tar, settings)
	}
	f.closers = append(f.closers, d.stop)
	f.contenders = append(f.contenders, contender{subject: &sandkastenSubject{d}})
	f.tools["sandkasten"] = []string{bin, "version"}
	return nil
}

func (f *playingField) addOCI(_ context.Context, o options, rootfs, _ string) error {
	bundle := filepath.Join(f.dir, "bundle")
	if err := os.Mkdir(bundle, 0o755); err != nil {
		return err
	}
	if err := writeBundle(bundle, rootfs); err != nil {
		return err
	}
	if o.wants("runc") && installed("runc") {
		f.contenders = append(f.contenders, contender{subject: ociSubject("runc", startHere, bundle)})
		f.tools["runc"] = []string{"runc", "--version"}
	}
	if o.wants("crun") && installed("crun") {
		start, stop, err := startWithoutV2()
		if err != nil {
			return err
		}
		f.closers = append(f.closers, func(context.Context) error { stop(); return nil })
		f.contenders = append(f.contenders, contender{subject: ociSubject("crun", start, bundle)})
		f.tools["crun"] = []string{"crun", "--version"}
	}
	return nil
}

func (f *playingField) addBubblewrap(_ context.Context, o options, rootfs, _ string) error {
	if o.wants("bubblewrap") && installed("bwrap") {
		f.contenders = append(f.contenders, contender{subject: bwrapSubject(rootfs)})
		f.tools["bubblewrap"] = []string{"bwrap", "--version"}
	}
	return nil
}

// addDocker takes part with the docker that answers, or with one of our own
// if that is asked for. Without either docker is left out.
func (f *playingField) addDocker(ctx context.Context, o options, _, tar string) error {
	if !o.wants("docker") || !installed("docker") {
		return nil
	}
	e := docker.NewEngine(o.socket)
	if err := e.Ping(ctx); err != nil {
		if !o.dockerd {
			return nil
		}
		dir := filepath.Join(f.dir, "docker")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		var stop func() error
		if e, stop, err = docker.Start(ctx, dir); err != nil {
			return err
		}
		f.closers = append(f.closers, func(context.Context) error { return stop() })
	}
	if err := e.Import(ctx, tar, imageName); err != nil {
		return err
	}
	f.closers = append(f.closers, func(ctx context.Context) error {
		_, err := e.Call(ctx, "DELETE", "/images/"+imageName+"?force=1", nil, nil)
		return err
	})
	f.contenders = append(
		f.contenders,
		contender{subject: dockerRunSubject(e.Host(), imageName), slow: true, cli: true},
		contender{subject: &engineSubject{e, imageName}, slow: true},
	)
	f.tools["docker"] = []string{"docker", "--host", e.Host(), "version", "--format", "{{.Server.Version}}"}
	return nil
}

// makeRootfs returns a Debian root filesystem, made at the first call on a
// host and kept.
func makeRootfs(ctx context.Context) (string, error) {
	dir := filepath.Join(rootfsCache, "bookworm")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := os.MkdirAll(rootfsCache, 0o755); err != nil {
		return "", err
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--mode=root", "--format=directory", "--variant=minbase", "bookworm", partial)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mmdebstrap: %w\n%s", err, out)
	}
	return dir, os.Rename(partial, dir)
}
