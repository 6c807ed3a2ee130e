package attack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// watched is the battery as a case meets it: what it is to find again afterwards, and
// the sessions that it made.
type watched struct {
	*battery
	pid int // of the daemon

	mu       sync.Mutex
	sessions []string // guarded by mu
}

// watch begins a case. It ends with the guard, once its sessions have ended.
func watch(t *testing.T) *watched {
	t.Helper()
	w := theBattery(t)
	w.guarding.Lock()
	defer w.guarding.Unlock()
	if !w.daemon.Running() {
		w.mend(t)
	}
	w.running++
	w.suspects = append(w.suspects, t.Name())
	c := &watched{battery: w, pid: w.daemon.PID()}
	t.Cleanup(func() { c.guard(t) })
	return c
}

// made notes a session of the case.
func (c *watched) made(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = append(c.sessions, id)
}

// own tells the guard of a daemon of the case's own, which runs.
func (c *watched) own(d *blackbox.Daemon) {
	c.guarding.Lock()
	defer c.guarding.Unlock()
	if node := testenv.NodeName(d.Data); !slices.Contains(c.nodes, node) {
		c.nodes = append(c.nodes, node)
	}
}

// guard is asked after each case, once its sessions have ended: the daemon is
// the one it was and answers, the neighbour works, the canaries have seen
// nobody, the kernel is sound, and of the case nothing is left on the host.
//
// Cases that run beside others have a share in what the host is like. Of such a
// case the guard looks for its own sessions, and for everything else behind the last
// of them.
func (c *watched) guard(t *testing.T) {
	t.Helper()
	w := c.battery
	w.guarding.Lock()
	defer w.guarding.Unlock()
	w.running--
	alone := w.running == 0
	var hurt []string
	note := func(format string, args ...any) { hurt = append(hurt, fmt.Sprintf(format, args...)) }
	if !w.daemon.Running() || w.daemon.PID() != c.pid {
		note("the daemon has ended:\n%s", tail(w.daemon.Log()))
	} else {
		if err := within(time.Second, func(ctx context.Context) error { return healthy(ctx, w.daemon.URL) }); err != nil {
			note("/healthz: %v", err)
		}
		if err := within(2*time.Second, w.neighbourAnswers); err != nil {
			note("the neighbour: %v", err)
		}
	}
	for _, what := range w.canaries.touched() {
		note("%s", what)
	}
	left, suspects := c.leftOfSessions, []string{t.Name()}
	if alone {
		left, suspects = w.leftOnHost, w.suspects
		w.suspects = nil
	}
	for _, what := range left() {
		note("%s", what)
	}
	if len(hurt) == 0 {
		return
	}
	t.Errorf("guard of %s:\n\t%s", strings.Join(suspects, ", "), strings.Join(hurt, "\n\t"))
	w.mend(t)
}

// leftOfSessions is what is there of the case's own sessions.
func (c *watched) leftOfSessions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left(func(now host) (left []string) {
		for _, thing := range now.things {
			if slices.ContainsFunc(c.sessions, func(id string) bool { return strings.Contains(thing, id) }) {
				left = append(left, "left behind: "+thing)
			}
		}
		return left
	})
}

var errSlow = errors.New("too slow")

// within is the error of f, or that it took longer than it may, three times: a host may
// stand still once.
func within(limit time.Duration, f func(context.Context) error) (err error) {
	for range 3 {
		if err = onceWithin(limit, f); !errors.Is(err, errSlow) {
			return err
		}
	}
	return err
}

// onceWithin is within for what cannot be done twice.
func onceWithin(limit time.Duration, f func(context.Context) error) error {
	limit = paced(limit)
	// What is late is told from what never comes.
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	start := time.Now()
	err := f(ctx)
	if took := time.Since(start); err == nil && took > limit {
		err = fmt.Errorf("%w: it took %s, more than %s", errSlow, took.Round(time.Millisecond), limit)
	}
	return err
}

func healthy(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

func (w *battery) neighbourAnswers(ctx context.Context) error {
	r, err := w.neighbour.Exec(ctx, "echo ok; cat /workspace/canary", nil)
	if err == nil && r.Output != "ok\n"+neighbourText {
		err = fmt.Errorf("answers %d, %q", r.ExitCode, r.Output)
	}
	return err
}

func tail(log string) string { return log[max(0, len(log)-2000):] }

// host is what a case could leave there. Prepared sandboxes come and go, so
// that loop devices are counted.
type host struct {
	things  []string // mounts, control groups, network devices, sandboxes
	loops   int
	tainted string
}

// settled is how long what is removed in the background may take.
const settled = 10 * time.Second

// leftOnHost is what is there and was not before.
func (w *battery) leftOnHost() []string {
	before := w.before
	return w.left(func(now host) (left []string) {
		for _, thing := range now.things {
			if !slices.Contains(before.things, thing) {
				left = append(left, "left behind: "+thing)
			}
		}
		if now.loops > before.loops {
			left = append(left, fmt.Sprintf("%d loop devices instead of %d", now.loops, before.loops))
		}
		return left
	})
}

// left is what search finds on the host and does not go away, and whether the kernel
// is sound.
func (w *battery) left(search func(host) []string) []string {
	for deadline := time.Now().Add(paced(settled)); ; time.Sleep(20 * time.Millisecond) {
		now, err := w.readHost()
		if err != nil {
			return []string{err.Error()}
		}
		found := search(now)
		if now.tainted != w.before.tainted {
			return append(found, fmt.Sprintf("the kernel is tainted: %s, before %s", now.tainted, w.before.tainted))
		}
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
	}
}

// steadyHost is the host once nothing changes any more.
func (w *battery) steadyHost() (host, error) {
	var last host
	for same, deadline := 0, time.Now().Add(paced(settled)); same < 25; time.Sleep(20 * time.Millisecond) {
		now, err := w.readHost()
		if err != nil {
			return host{}, err
		}
		if now.loops != last.loops || !slices.Equal(now.things, last.things) {
			same = 0
		}
		last = now
		same++
		if time.Now().After(deadline) {
			return host{}, errors.New("the host does not come to rest")
		}
	}
	return last, nil
}

// deviceName is of the network device that attacks of this process try to make, so
// that one which is there is theirs: nothing of the kernel's says who made a device,
// and other programs of the host make some at any time.
var deviceName = fmt.Sprintf("skx%d", os.Getpid())

// traces are what mounts of the battery's have in their lines, and where its
// control groups, devices and directories are. Daemons that are not of this process
// stand beside it, and come and go with theirs.
func (w *battery) traces() (places, patterns []string) {
	places = []string{w.daemon.Data}
	patterns = []string{filepath.Join("/sys/class/net", deviceName), filepath.Join(w.daemon.Data, "sandboxes", "*")}
	for _, node := range w.nodes {
		patterns = append(patterns, "/sys/fs/cgroup/sandkasten*/"+node+"/*", "/sys/fs/cgroup/*/sandkasten*/"+node+"/*")
	}
	if w.contained() {
		dir := filepath.Dir(strings.TrimPrefix(w.engine.Host, "unix://"))
		places = append(places, dir)
		patterns = append(patterns, filepath.Join(dir, "data/containers/*"), filepath.Join(dir, "data/volumes/*"),
			filepath.Join("/sys/fs/cgroup", filepath.Base(dir), "*"), filepath.Join("/sys/fs/cgroup/*", filepath.Base(dir), "*"))
	}
	return places, patterns
}

func (w *battery) readHost() (host, error) {
	var h host
	places, patterns := w.traces()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(mounts)) {
		if testenv.OwnMount(line) || slices.ContainsFunc(places, func(place string) bool { return strings.Contains(line, place) }) {
			h.things = append(h.things, "mount "+strings.TrimSpace(line))
		}
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return h, err
		}
		for _, path := range found {
			if strings.Contains(path, "/volumes/sandkasten-runner-") {
				continue // one of each daemon, which stays
			}
			if info, err := os.Stat(path); err == nil && info.IsDir() {
				h.things = append(h.things, path)
			}
		}
	}
	if h.loops, err = loops(w.daemon.Data); err != nil {
		return h, err
	}
	tainted, err := os.ReadFile("/proc/sys/kernel/tainted")
	h.tainted = strings.TrimSpace(string(tainted))
	return h, err
}

// loops counts the loop devices with files below dir.
func loops(dir string) (int, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, file := range files {
		backing, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue // it went away since the glob
		}
		if err != nil {
			return 0, err
		}
		if strings.Contains(string(backing), dir) {
			n++
		}
	}
	return n, nil
}

// destroy ends a session of a case, which may take as long as the session has
// things to end.
func destroy(t testing.TB, s *sandkasten.Session) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Destroy(ctx); err != nil && !errors.Is(err, sandkasten.ErrNotFound) {
		t.Errorf("destroy %s: %v", s.ID, err)
	}
}
