package linux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// The TestEscape tests are the claims of docs/security.md. Each attacks a
// sandbox from inside and notes what the attack achieved. It is run twice: on
// the sandbox that users get, where nothing may be achieved, and as a control
// where something must be: with the protection left out, or on the bare host.
// A test whose control achieves nothing would pass whatever became of the
// protection, and fails.
type escapeTest struct {
	spec     func(*runtime.Spec) // what the test wants different, in both runs
	leaveOut []string            // protections that neither run has, for a test of the line behind them
	control  variant
	attack   func(b *box)
}

// variant is the place of a control run.
type variant struct {
	host     bool                // no sandbox at all: for attacks that only look
	leaveOut []string            // protections
	spec     func(*runtime.Spec) // wider limits
	before   string              // a command that makes the sandbox what it must not be
}

func without(protections ...string) variant { return variant{leaveOut: protections} }

func (e escapeTest) run(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	t.Run("holds", func(t *testing.T) {
		b := newBox(t, e, variant{})
		e.attack(b)
		for _, achieved := range b.achieved {
			t.Error(achieved)
		}
		b.guard()
	})
	t.Run("control", func(t *testing.T) {
		b := newBox(t, e, e.control)
		e.attack(b)
		if len(b.achieved) == 0 {
			t.Errorf("the attack achieves nothing without the protection either (%+v): this test cannot fail", e.control)
		}
		t.Log("achieved without the protection:\n\t" + strings.Join(b.achieved, "\n\t"))
	})
}

// box is where an attack runs.
type box struct {
	t        *testing.T
	d        *Driver
	sandbox  *sandbox // nil on the host
	client   *runnerclient.Client
	target   target // B of the attack: another sandbox of the same driver
	execs    int
	achieved []string
}

// target is what an attack must not reach.
type target struct {
	id     runtime.ID
	canary string // a file of the host's root
}

// Ids of a test's two sandboxes.
const attacker, neighbour = runtime.ID("attacker"), runtime.ID("neighbour")

const canaryText = "sandkasten-canary-5d41402abc4b2a76"

func newBox(t *testing.T, e escapeTest, v variant) *box {
	t.Helper()
	canary := filepath.Join(testenv.DataDir(t), "canary")
	if err := os.WriteFile(canary, []byte(canaryText), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, target: target{id: neighbour, canary: canary}}
	probe := probeLayer(t)
	if v.host {
		t.Setenv("PROBE", filepath.Join(probe, "opt", "probe"))
		return b
	}
	layers := []string{probe, testenv.BaseRootfs(t)}
	b.d = newEscapeDriver(t, layers, append(v.leaveOut, e.leaveOut...))
	spec := runtime.Spec{Image: "test", Limits: runtime.Limits{CPU: 2, MemoryMB: 256, Pids: 128, DiskMB: 256}}
	spec.Env = map[string]string{"PROBE": "/opt/probe", "CANARY": canary}
	for _, change := range []func(*runtime.Spec){e.spec, v.spec} {
		if change != nil {
			change(&spec)
		}
	}
	b.sandbox = b.create(neighbour, runtime.Spec{Image: "test", Env: spec.Env})
	b.sandbox = b.create(attacker, spec)
	b.client = b.dialler(b.sandbox)
	if v.before != "" {
		b.sh(v.before)
	}
	return b
}

// probeLayer is an image layer with the probe in /opt.
func probeLayer(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile(testenv.Build(t, "./internal/runtime/linux/testdata/probe"))
	if err != nil {
		t.Fatal(err)
	}
	layer := testenv.DataDir(t)
	return writeLayer(t, layer, map[string]string{"opt/probe": string(program)})
}

// writeLayer fills a directory with executable files and returns it.
func writeLayer(t *testing.T, layer string, files map[string]string) string {
	t.Helper()
	if err := os.Chmod(layer, 0o755); err != nil { // it is also the root of the image
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(layer, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return layer
}

// layers is an Images with one image.
type layers []string

func (l layers) Rootfs(context.Context, string) (Rootfs, error) {
	return Rootfs{Layers: l, Shell: "/bin/bash"}, nil
}

func newEscapeDriver(t *testing.T, image []string, leaveOut []string) *Driver {
	t.Helper()
	program, err := os.ReadFile(testenv.Runner(t))
	if err != nil {
		t.Fatal(err)
	}
	left := protections{}
	for _, name := range leaveOut {
		left[name] = true
	}
	d, err := New(Options{DataDir: testenv.DataDir(t), Runner: program, Images: layers(image), leaveOut: left})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (b *box) create(id runtime.ID, spec runtime.Spec) *sandbox {
	b.t.Helper()
	sb, err := b.d.Create(b.t.Context(), id, spec)
	if err != nil {
		b.t.Fatalf("create %s: %v", id, err)
	}
	b.t.Cleanup(func() {
		if err := b.d.Destroy(context.WithoutCancel(b.t.Context()), id); err != nil {
			b.t.Errorf("destroy %s: %v", id, err)
		}
	})
	return sb.(*sandbox)
}

// dialler returns a client that is closed before the sandbox is destroyed.
func (b *box) dialler(sb *sandbox) *runnerclient.Client {
	c := &runnerclient.Client{Dial: sb.DialRunner}
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return c
}

// got notes something that an attack achieved.
func (b *box) got(format string, args ...any) {
	b.achieved = append(b.achieved, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// sh runs a command where the attack is and returns its output. That the
// command fails is the attack's affair.
func (b *box) sh(command string) string {
	b.t.Helper()
	out, _ := b.exec(command, nil, 30*time.Second)
	return out
}

// exec runs a command, in a sandbox as an exec of the default shell.
func (b *box) exec(command string, stdin []byte, timeout time.Duration) (string, protocol.Record) {
	b.t.Helper()
	if b.sandbox == nil {
		return b.onHost(command, stdin), protocol.Record{}
	}
	out, record, err := run(b.t, b.client, fmt.Sprintf("e%d", b.execs), command, stdin, timeout)
	b.execs++
	if err != nil {
		b.t.Fatalf("exec %q: %v\n%s", command, err, out)
	}
	return out, record
}

func run(t *testing.T, c *runnerclient.Client, id, command string, stdin []byte, timeout time.Duration) (string, protocol.Record, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout+20*time.Second)
	defer cancel()
	var out bytes.Buffer
	record, err := c.Exec(ctx, protocol.Exec{
		ID: id, TimeoutMS: timeout.Milliseconds(), GraceMS: 500, OutputLimit: 1 << 20,
	}, command, stdin, &out)
	return out.String(), record, err
}

func (b *box) onHost(command string, stdin []byte) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "bash", "-c", command)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Dir = b.t.TempDir()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatalf("%q: %v", command, err)
	}
	return string(out)
}

// guard fails the test if the attack has hurt anybody else, or the sandbox is
// not what it was.
func (b *box) guard() {
	b.t.Helper()
	if b.sandbox == nil {
		return
	}
	other, err := b.d.Open(b.t.Context(), b.target.id)
	if err != nil {
		b.t.Fatalf("the neighbour: %v", err)
	}
	if out, _, err := run(b.t, b.dialler(other.(*sandbox)), "guard", "echo well", nil, longTimeout); out != "well\n" || err != nil {
		b.t.Errorf("the neighbour answers %q, %v", out, err)
	}
	if text, err := os.ReadFile(b.target.canary); string(text) != canaryText || err != nil {
		b.t.Errorf("the host's file has %q, %v", text, err)
	}
	if out := b.sh("echo well"); out != "well\n" {
		b.t.Errorf("the sandbox itself answers %q", out)
	}
}

// call is a system call for the probe to make. An argument is an int or a
// string, whose address is passed.
type call struct {
	Name string `json:"name"`
	Nr   int
	Args []any
}

// refused are the errors of a protection that stood in the way. Any other,
// and success, came from the code that it should have kept the call from.
var refused = []string{"EPERM", "EACCES", "ENOSYS"}

// calls has the probe make system calls, and notes those that got through.
func (b *box) calls(list ...call) {
	b.t.Helper()
	b.noteCalls(`$PROBE calls`, list)
}

func (b *box) noteCalls(command string, list []call) {
	b.t.Helper()
	answers := b.answers(command, list)
	for _, c := range list {
		if !slices.Contains(refused, answers[c.Name]) {
			b.got("%s: %s", c.Name, answers[c.Name])
		}
	}
}

// answers makes the calls and returns what each one returned.
func (b *box) answers(command string, list []call) map[string]string {
	b.t.Helper()
	in, err := json.Marshal(list)
	if err != nil {
		b.t.Fatal(err)
	}
	answers := map[string]string{}
	b.decode(command, in, &answers)
	if len(answers) != len(list) {
		b.t.Fatalf("%d answers to %d calls", len(answers), len(list))
	}
	return answers
}

// decode runs a command whose output is JSON.
func (b *box) decode(command string, stdin []byte, into any) {
	b.t.Helper()
	out, _ := b.exec(command, stdin, 60*time.Second)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		b.t.Fatalf("%s: %v: %.1000q", command, err, out)
	}
}
