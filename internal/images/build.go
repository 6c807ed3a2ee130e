package images

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/images/extract"
)

const (
	bootstrapper   = "mmdebstrap"
	debianKeyring  = "/usr/share/keyrings/debian-archive-keyring.gpg"
	buildCleanup   = 30 * time.Second
	keptErrorLines = 20
	maxBuildLine   = 4 << 10
)

// BuildRequest says what to build.
type BuildRequest struct {
	Name   string
	Recipe Recipe
	// IfAbsent returns the image that has the name, if the same recipe made it.
	IfAbsent bool
	// Mirror is where packages come from; empty takes the host's own apt
	// sources for the suite, or Debian's.
	Mirror   string
	Files    []File // that the recipe may copy
	NoCache  bool   // make each step anew, also one that was made a moment ago
	Progress ProgressFunc
}

// Build makes an image from a recipe with mmdebstrap and stores it. Package
// installation runs maintainer scripts as root of this host in a chroot, so
// recipes must be trusted. When ctx ends the build is stopped and cleans up.
//
// The error is Unimplemented, with the remedy, if mmdebstrap is missing,
// PermissionDenied if this process is not root, Unavailable if the packages
// cannot be had, and any error of Import.
func (s *Store) Build(ctx context.Context, req BuildRequest) (Image, error) {
	name, recipe, err := checkRequest(req)
	if err != nil {
		return Image{}, err
	}
	if req.IfAbsent {
		img, err := s.Inspect(ctx, name)
		if err == nil && img.Recipe == recipe {
			return img, nil
		}
		if err != nil && !errdefs.Is(err, errdefs.NotFound) {
			return Image{}, err
		}
	}
	if err := canBuild(); err != nil {
		return Image{}, err
	}
	return s.transact(func(t *transaction) (Image, error) { return t.build(ctx, name, recipe, req) })
}

// CheckBuild returns the name that Build would give the image, and the digest of
// the recipe. The error is one that Build would return before it begins.
func CheckBuild(req BuildRequest) (name, recipe string, err error) {
	if name, recipe, err = checkRequest(req); err != nil {
		return "", "", err
	}
	return name, recipe, canBuild()
}

func checkRequest(req BuildRequest) (name, recipe string, err error) {
	if name, err = parseName(req.Name); err != nil {
		return "", "", err
	}
	if err := req.Recipe.check(); err != nil {
		return "", "", err
	}
	recipe, err = req.digest()
	return name, recipe, err
}

func canBuild() error {
	if os.Geteuid() != 0 {
		return errdefs.New(errdefs.PermissionDenied, "building an image needs root")
	}
	if _, err := exec.LookPath(bootstrapper); err != nil {
		return errdefs.Wrap(err, errdefs.Unimplemented,
			"building an image needs mmdebstrap; install it with `apt-get install mmdebstrap debian-archive-keyring`")
	}
	return nil
}

func (t *transaction) build(ctx context.Context, name, recipe string, req BuildRequest) (Image, error) {
	packages := req.Recipe
	packages.Env, packages.Steps, packages.WorkingDir = nil, nil, ""
	l, err := t.cached(cacheKey("packages", packages, req.Mirror), req.NoCache, func() (Layer, error) { return t.bootstrap(ctx, req) })
	if err != nil {
		return Image{}, err
	}
	layers, err := t.steps(ctx, req, l)
	if err != nil {
		return Image{}, err
	}
	return t.commit(ctx, name, config{
		layers:     layers,
		env:        req.Recipe.env(),
		workingDir: req.Recipe.WorkingDir,
		source:     "Debian " + req.Recipe.Suite,
		recipe:     recipe,
	})
}

// bootstrap makes the layer of the packages.
func (t *transaction) bootstrap(ctx context.Context, req BuildRequest) (Layer, error) {
	b, err := startBootstrap(ctx, t, req)
	if err != nil {
		return Layer{}, err
	}
	unpacked, err := t.unpack(ctx, b.out, extract.Root, nil)
	if err := b.wait(ctx, err); err != nil {
		return Layer{}, err
	}
	req.Progress.report(Progress{Phase: "store"})
	return t.keep(ctx, unpacked)
}

// bootstrap is mmdebstrap at work.
type bootstrap struct {
	cmd  *exec.Cmd
	out  io.ReadCloser
	said chan []string // its last lines, once stderr ends
}

// startBootstrap runs mmdebstrap with the archive on its standard output. The
// caller reads that and calls wait.
func startBootstrap(ctx context.Context, t *transaction, req BuildRequest) (*bootstrap, error) {
	mirrors := []string{req.Mirror}
	if req.Mirror == "" {
		mirrors = hostMirrors(os.DirFS("/etc/apt"), req.Recipe.Suite)
	}
	cmd := exec.CommandContext(ctx, bootstrapper, bootstrapArgs(req.Recipe, mirrors)...)
	// Scripts of packages run in it: what configures the daemon is not for them.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SANDKASTEN_") || strings.HasPrefix(v, "AWS_")
	}), "TMPDIR="+t.dir, "LC_ALL=C")
	// Its mounts must not be seen on the host, and must be gone when it is.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = buildCleanup
	// If this process dies, the child keeps the lock, and so the staging
	// directory, until it is gone too.
	cmd.ExtraFiles = []*os.File{t.use.f}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start mmdebstrap: %w", err)
	}
	words, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start mmdebstrap: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start mmdebstrap: %w", err)
	}
	b := &bootstrap{cmd: cmd, out: out, said: make(chan []string, 1)}
	go func() { b.said <- followBuild(words, req.Progress) }() // ends with the child's stderr; wait receives
	return b, nil
}

func bootstrapArgs(r Recipe, mirrors []string) []string {
	args := []string{
		"--format=tar",
		"--variant=minbase",
		"--components=main",
		"--include=" + strings.Join(r.Packages, ","),
		// A sandbox's root has few capabilities; apt must not try to become
		// another user to download.
		`--aptopt=APT::Sandbox::User "root"`,
		`--aptopt=Acquire::Languages "none"`,
	}
	if _, err := os.Stat(debianKeyring); err == nil {
		args = append(args, "--keyring="+debianKeyring)
	}
	for _, g := range r.Exclude {
		args = append(args, "--dpkgopt=path-exclude="+g)
	}
	for _, g := range r.Include {
		args = append(args, "--dpkgopt=path-include="+g)
	}
	return append(append(args, r.Suite, "-"), mirrors...)
}

// followBuild reports mmdebstrap's own progress lines and keeps its last words.
func followBuild(words io.Reader, report ProgressFunc) []string {
	var last []string
	lines := bufio.NewScanner(words)
	lines.Buffer(nil, maxBuildLine)
	for lines.Scan() {
		line := lines.Text()
		phase, ok := strings.CutPrefix(line, "I: ")
		if phase, step := strings.CutSuffix(phase, "..."); ok && step {
			report.report(Progress{Phase: phase})
		}
		if last = append(last, line); len(last) > keptErrorLines {
			last = last[1:]
		}
	}
	// A line too long ends the scan; the child must still be able to write.
	if _, err := io.Copy(io.Discard, words); err != nil {
		last = append(last, err.Error())
	}
	return last
}

// wait ends the child and returns why the build failed, given what became of
// its output.
func (b *bootstrap) wait(ctx context.Context, unpackErr error) error {
	// A child whose output was refused would write for ever.
	closed := b.out.Close()
	said := <-b.said
	err := b.cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unpackErr != nil && err == nil:
		return unpackErr
	case err != nil && unpackErr != nil && !errdefs.Is(unpackErr, errdefs.Unprocessable):
		return unpackErr
	case err != nil:
		return errdefs.Wrap(err, errdefs.Unavailable, "mmdebstrap could not build the image:\n%s", strings.Join(said, "\n"))
	case closed != nil && !errors.Is(closed, os.ErrClosed):
		return fmt.Errorf("build: %w", closed)
	}
	return nil
}
