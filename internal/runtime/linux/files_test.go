package linux

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// filesOf returns a client of a new sandbox.
func filesOf(t *testing.T, limits runtime.Limits) (runtime.Sandbox, *runnerclient.Client) {
	t.Helper()
	d := root(t)
	d.opts.Images = layers{testenv.BaseRootfs(t)}
	create(t, d, "files", runtime.Spec{Limits: limits})
	sb, err := d.Open(t.Context(), "files")
	if err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return sb, c
}

// H06, R14: the work on files is charged to the sandbox.
func TestFileWorkIsCharged(t *testing.T) {
	sb, c := filesOf(t, runtime.Limits{})
	noise := rand.NewChaCha8([32]byte{})
	const size = 32 << 20
	before, err := sb.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), protocol.Write{Path: "noise"}, size, io.LimitReader(noise, size)); err != nil {
		t.Fatal(err)
	}
	packed, err := c.Pack(t.Context(), protocol.Pack{Path: ".", Format: "tar.gz"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, packed); err != nil {
		t.Fatal(err)
	}
	after, err := sb.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The kernel compresses and copies no faster than that.
	if used := after.CPUUsageUsec - before.CPUUsageUsec; used < 10_000 {
		t.Errorf("%d µs of processor time were charged", used)
	}
}

// A tool is a program of the sandbox: it is refused like one, and has what one
// has and no more. Only the host can look at it.
func TestFileToolIsAProgramOfTheSandbox(t *testing.T) {
	sb, c := filesOf(t, runtime.Limits{Pids: 64})
	if _, _, err := run(t, c, "shell", "true", nil, longTimeout); err != nil {
		t.Fatal(err)
	}
	shells := workload(t, sb.(*sandbox))
	if len(shells) != 1 {
		t.Fatalf("%v run in a new sandbox", shells)
	}
	w, err := c.Watch(t.Context(), protocol.Watch{Path: "."})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	tools := slices.DeleteFunc(workload(t, sb.(*sandbox)), func(dir string) bool { return dir == shells[0] })
	if len(tools) != 1 {
		t.Fatalf("%v run beside the shell", tools)
	}
	tool := tools[0]
	if got, want := rightsOf(t, tool), rightsOf(t, shells[0]); len(got) < 9 || !slices.Equal(got, want) {
		t.Errorf("a tool has %q, a shell %q", got, want)
	}
	exe, err := os.Readlink(tool + "/exe")
	if err != nil || !strings.HasPrefix(exe, "/memfd:sandkasten-runner") {
		t.Errorf("its program is %q, %v", exe, err)
	}
	if f, err := os.OpenFile(tool+"/exe", os.O_WRONLY, 0); err == nil {
		t.Errorf("its program can be changed, %v", f.Close())
	}
	fds, err := os.ReadDir(tool + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(tool + "/fd/" + fd.Name())
		if err != nil {
			continue // closed meanwhile
		}
		fine := to == "/" || to == "/workspace"
		for _, prefix := range []string{"/dev/null", "socket:", "/memfd:request", "pipe:", "anon_inode:"} {
			fine = fine || strings.HasPrefix(to, prefix)
		}
		if !fine {
			t.Errorf("it has a descriptor of %q", to)
		}
	}
}

// workload returns the directories in /proc of a sandbox's programs.
func workload(t *testing.T, sb *sandbox) []string {
	t.Helper()
	var dirs []string
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		text, err := os.ReadFile(filepath.Join(root, "sandkasten", sb.d.opts.Node, string(sb.state.ID), "cgroup.procs"))
		if err != nil {
			continue // the tree is at the other place
		}
		for pid := range strings.FieldsSeq(string(text)) {
			dirs = append(dirs, "/proc/"+pid)
		}
	}
	return dirs
}

// rightsOf returns the lines of a process's status that say what it may do.
func rightsOf(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		for _, what := range []string{"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:"} {
			if strings.HasPrefix(line, what) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// Where the sandbox is out of processes, small operations go on and large ones
// say why they do not.
func TestFilesWithoutProcesses(t *testing.T) {
	_, c := filesOf(t, runtime.Limits{Pids: 16})
	if _, _, err := run(t, c, "fill", "sh -c 'for i in $(seq 64); do sleep 1000 & done' 2>/dev/null", nil, longTimeout); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), protocol.Write{Path: "f"}, 5, strings.NewReader("small")); err != nil {
		t.Error(err)
	}
	err := c.Copy(t.Context(), protocol.Copy{From: "f", To: "g"})
	if !errdefs.Is(err, errdefs.ResourceExhausted) {
		t.Errorf("%v, want resource_exhausted", err)
	}
	if _, r, err := c.Read(t.Context(), protocol.Read{Path: "f"}); err != nil {
		t.Error(err)
	} else if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, []byte("small")) {
		t.Errorf("%q, %v", got, err)
	}
}
