package linux

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
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
// has and no more.
func TestFileToolIsAProgramOfTheSandbox(t *testing.T) {
	_, c := filesOf(t, runtime.Limits{Pids: 64})
	n := 0
	run := func(command string) string {
		t.Helper()
		n++
		out, _, err := run(t, c, fmt.Sprint("e", n), command, nil, longTimeout)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	w, err := c.Watch(t.Context(), protocol.Watch{Path: "."})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const find = `for p in /proc/[0-9]*; do IFS= read -r -d '' name <$p/cmdline 2>/dev/null; test "$name" = sandkasten-files && break; done; `
	status := func(of string) []string {
		var lines []string
		for line := range strings.Lines(run(find + "grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs|Seccomp):' " + of + "/status")) {
			lines = append(lines, line)
		}
		return lines
	}
	if tool, shell := status("$p"), status("/proc/$$"); len(tool) < 9 || !slices.Equal(tool, shell) {
		t.Errorf("a tool has %q, a shell %q", tool, shell)
	}
	if exe := run(find + "readlink $p/exe"); !strings.HasPrefix(exe, "/memfd:sandkasten-runner") {
		t.Errorf("its program is %q", exe)
	}
	if out := run(find + "exec 9>>$p/exe && echo x >&9 && echo written"); strings.Contains(out, "written") {
		t.Error("its program can be changed")
	}
	for line := range strings.Lines(run(find + "ls -l $p/fd | sed 's/.* [0-9]* -> //'")) {
		to := strings.TrimSpace(line)
		for _, fine := range []string{"total", "/dev/null", "socket:", "/memfd:request", "pipe:", "anon_inode:", "/", "/workspace"} {
			if to == fine || strings.HasPrefix(to, fine) && fine != "/" && fine != "/workspace" {
				to = ""
				break
			}
		}
		if to != "" {
			t.Errorf("it has a descriptor of %q", to)
		}
	}
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
