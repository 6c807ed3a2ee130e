package linux

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// The cases L01 and on of docs/attacks.md attack a sandbox by the driver alone: what
// the API does not show, or what needs a driver of one's own. All others are the
// battery's, in test/attack. That each can fail test/attack/control shows, with
// the protections that it takes away from the build with the tag weaken.

// box is where an attack runs.
type box struct {
	t       *testing.T
	d       *Driver
	sandbox *sandbox
	client  *runnerclient.Client
	target  target // B of the attack: another sandbox of the same driver
	execs   int
}

// target is what an attack must not reach.
type target struct {
	id     runtime.ID
	canary string // a file of the host's root
}

// Ids of a test's two sandboxes.
const attacker, neighbour = runtime.ID("attacker"), runtime.ID("neighbour")

const canaryText = "sandkasten-canary-5d41402abc4b2a76"

// newBox makes a driver with two sandboxes; change is what the attacker's has
// otherwise.
func newBox(t *testing.T, change func(*runtime.Spec)) *box {
	t.Helper()
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	canary := filepath.Join(testenv.DataDir(t), "canary")
	if err := os.WriteFile(canary, []byte(canaryText), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, target: target{id: neighbour, canary: canary}}
	b.d = newEscapeDriver(t, probeLayer(t), testenv.BaseRootfs(t))
	spec := runtime.Spec{Image: "test", Limits: runtime.Limits{CPU: 2, MemoryMB: 256, Pids: 128, DiskMB: 256}}
	spec.Env = map[string]string{"PROBE": "/opt/probe", "CANARY": canary}
	if change != nil {
		change(&spec)
	}
	b.create(neighbour, runtime.Spec{Image: "test", Env: spec.Env})
	b.sandbox = b.create(attacker, spec)
	b.client = b.dialler(b.sandbox)
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

func newEscapeDriver(t *testing.T, image ...string) *Driver {
	t.Helper()
	program, err := os.ReadFile(testenv.Runner(t))
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{DataDir: testenv.DataDir(t), Runner: program, Images: layers(image)})
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

// guard fails the test if the attack has hurt anybody else, or the sandbox is
// not what it was.
func (b *box) guard() {
	b.t.Helper()
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

// denied has the probe make system calls, all of which must be refused.
func (b *box) denied(list ...call) {
	b.t.Helper()
	answers := b.answers(`$PROBE calls`, list)
	for _, c := range list {
		if !slices.Contains(refused, answers[c.Name]) {
			b.t.Errorf("%s: the kernel answers %q", c.Name, answers[c.Name])
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
