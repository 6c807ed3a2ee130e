package attack

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/test/blackbox"
)

// scene is where a case of requests takes place: the battery's daemon, or one
// of the case's own with another configuration, and its two owners.
type scene struct {
	d    *blackbox.Daemon
	a, b *caller

	canary, secret   string // a file of the host's, and what is in it
	port             int    // of the host's server, on all its addresses
	socket, abstract string // and its other names

	w *watched
}

// Configurations of a daemon of the case's own.
const (
	ownDaemon  = "max_sessions: 999"
	outsideToo = "files: {outside_workspace: true}"
)

// stage begins a case. With a configuration the case has a daemon of its own,
// which ends with it; the guard watches over the battery's all the same.
func stage(t *testing.T, config string) *scene {
	t.Helper()
	if config != "" {
		return stageWith(t, blackbox.Options{}, config)
	}
	s := newScene(t)
	s.on(t, s.w.daemon)
	return s
}

// stageWith is stage for a daemon that has more particulars.
func stageWith(t *testing.T, o blackbox.Options, config string) *scene {
	t.Helper()
	s := newScene(t)
	o.Program, o.Env = os.Getenv(programVar), append(o.Env, weakenVar+"="+os.Getenv(weakenVar))
	if o.Images == "" {
		o.Images = filepath.Join(s.w.daemon.Data, "images")
	}
	o.Config = s.w.config() + config
	s.on(t, blackbox.Start(t, o))
	if strings.Contains(config, "pool:") {
		t.Cleanup(func() { // what is ready goes, too
			s.d.SetEnv("SANDKASTEN_POOL__ENABLED=false")
			s.d.Restart()
		})
	}
	return s
}

func newScene(t *testing.T) *scene {
	t.Helper()
	w := watch(t)
	c := w.canaries
	return &scene{canary: c.File, secret: c.Text, port: c.Port, socket: c.Socket, abstract: c.Abstract, w: w}
}

// on sets the daemon. What the owners have saved goes with the case.
func (s *scene) on(t *testing.T, d *blackbox.Daemon) {
	t.Helper()
	s.d, s.a, s.b = d, as(t, d, s.w.keyA), as(t, d, s.w.keyB)
	s.a.made, s.b.made = s.w.made, s.w.made
	s.w.own(d)
	t.Cleanup(func() {
		for _, c := range []*caller{s.a, s.b} {
			c.forgetSnapshots(t)
		}
	})
}

// touched is what was done to the host's canaries since it was last asked.
func (s *scene) touched() []string { return s.w.canaries.touched() }

// unharmed fails the test if anything was.
func (s *scene) unharmed(t testing.TB, what string) {
	t.Helper()
	for _, seen := range s.touched() {
		t.Errorf("%s: %s", what, seen)
	}
}

// forgetSnapshots removes those of the caller.
func (c *caller) forgetSnapshots(t testing.TB) {
	t.Helper()
	if !c.d.Running() {
		return
	}
	var list struct{ Snapshots []struct{ ID string } }
	c.do(t, "GET", "/v1/snapshots", nil).into(t, &list)
	for _, one := range list.Snapshots {
		c.forget(t, "/v1/snapshots/"+one.ID)
	}
}

// cli is a command of the program's, which its caller runs with the key.
func (c *caller) cli(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sandkasten.yaml")
	text := fmt.Sprintf("listen: %s\ndata_dir: %s\napi_key: %s\n", strings.TrimPrefix(c.d.URL, "http://"), c.d.Data, c.key)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := c.d.Command(args...)
	cmd.Env = append(cmd.Env, "SANDKASTEN_CONFIG="+file)
	return cmd
}

// snapshot saves the session's files and returns the snapshot's id.
func (b *target) snapshot(t testing.TB, request map[string]any) string {
	t.Helper()
	if request == nil {
		request = map[string]any{}
	}
	var made struct{ ID string }
	b.do(t, "POST", b.at("/snapshots"), request).into(t, &made)
	return made.ID
}

// memory is what the daemon has in memory, in bytes.
func (s *scene) memory(t testing.TB) int64 {
	t.Helper()
	bytes, err := statusOf(s.d.PID(), "VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// mostMemory is the most that the daemon has had, in bytes.
func (s *scene) mostMemory(t testing.TB) int64 {
	t.Helper()
	bytes, err := statusOf(s.d.PID(), "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// statusOf is a size that the kernel tells of a process, in bytes.
func statusOf(pid int, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), name+":")
	if !ok {
		return 0, fmt.Errorf("process %d has no %s", pid, name)
	}
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10, err
}

// goroutines is how many the daemon has.
func (s *scene) goroutines(t testing.TB) int {
	t.Helper()
	text := as(t, s.d, s.d.Key).do(t, "GET", "/metrics", nil).body
	_, rest, ok := strings.Cut(text, "\ngo_goroutines ")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]))
	if !ok || err != nil {
		t.Fatalf("no goroutines in the metrics: %v in %s", err, text)
	}
	return n
}

// diskUsed is what data_dir takes without the images, in bytes.
func (s *scene) diskUsed(t testing.TB) (sum int64) {
	t.Helper()
	for _, file := range s.files(t) {
		if info, err := os.Lstat(file); err == nil {
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
	}
	return sum
}

// files are those in data_dir, but for images, which are behind a link.
func (s *scene) files(t testing.TB) (found []string) {
	t.Helper()
	err := filepath.WalkDir(s.d.Data, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			found = append(found, file)
		}
		return nil //nolint:nilerr // it has gone meanwhile
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// logOf is the daemon's log once it has the line about a request, which is
// written behind its answer.
func (s *scene) logOf(t testing.TB, a reply) string {
	t.Helper()
	id := a.header.Get("X-Request-Id")
	for deadline := time.Now().Add(paced(10 * time.Second)); ; time.Sleep(10 * time.Millisecond) {
		if log := s.d.Log(); strings.Contains(log, id) {
			return log
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log has no line about the request %q", id)
		}
	}
}

// spoolFiles are those of uploads and snapshots under way.
func (s *scene) spoolFiles(t testing.TB) (left []string) {
	t.Helper()
	for _, file := range s.files(t) {
		if rel, err := filepath.Rel(s.d.Data, file); err == nil && (strings.HasPrefix(rel, "spool") || strings.HasPrefix(rel, "tmp")) {
			left = append(left, rel)
		}
	}
	return left
}

// wantGone fails the test if data_dir has anything of a session that has ended.
func (s *scene) wantGone(t testing.TB, id string) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left, err := filepath.Glob(filepath.Join(s.d.Data, "*", id+"*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("a minute after its end there are %v", left)
			return
		}
	}
}

// count is how many a list has.
func (c *caller) count(t testing.TB, path string) int {
	t.Helper()
	var list []json.RawMessage
	c.do(t, "GET", path, nil).into(t, &list)
	return len(list)
}
