package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/protocol"
)

// testInspect is SECURITY.md's D01 on a container that the engine has made.
func testInspect(t *testing.T, d *Driver) {
	for name, readonly := range map[string]bool{"writable": false, "readonly": true} {
		x := newBox(t, d, runtime.ID(name), func(s *runtime.Spec) { s.ReadonlyRoot = readonly })
		got, err := d.inspect(t.Context(), x.ID())
		if err != nil {
			t.Fatal(err)
		}
		spec := testSpec()
		spec.ReadonlyRoot = readonly
		checkHardened(t, d, spec, got.Config, got.HostConfig)
		out, record := x.try(t, "echo x > /etc/x && echo written")
		if (out == "written") == readonly {
			t.Errorf("%s: %q, %+v", name, out, record)
		}
		x.run(t, "echo x > /workspace/x && echo x > /tmp/x && echo x > /run/x && echo x > /dev/shm/x")
	}
}

// testRights looks at what a program in a sandbox has.
func testRights(t *testing.T, d *Driver) {
	x := newBox(t, d, "rights")
	for _, c := range []struct{ command, want string }{
		{"grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status | cut -f2 | sort -u", "00000000000005db"}, // without KILL
		{"grep -E 'Cap(Inh|Amb)' /proc/self/status | cut -f2 | sort -u", "0000000000000000"},
		{"grep -E 'NoNewPrivs|Seccomp:' /proc/self/status | cut -f2 | tr '\\n' ' '", "1 2 "},
		{"ls /sys/class /sys/kernel /sys/devices | grep -v :", "\n"},
		{"cat /proc/kallsyms /proc/interrupts /proc/iomem", ""},
		{"hostname; cat /proc/self/oom_score_adj", "sandbox\n500"},
		{"ls /sys/class/net 2>/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '", "lo"},
	} {
		if got, _ := x.try(t, c.command); strings.Trim(got, "\n") != strings.Trim(c.want, "\n") {
			t.Errorf("%s: %q, want %q", c.command, got, c.want)
		}
	}
}

// testAttacks tries from inside what must not be possible there, the runner
// above all.
func testAttacks(t *testing.T, d *Driver) {
	x := newBox(t, d, "attacks", func(s *runtime.Spec) { s.Seccomp = runtime.SeccompMVP }) // where tracing is not refused as such
	const python = "python3 -c '\nimport os,socket\n%s'"
	for name, command := range map[string]string{
		"speak to the runner":  fmt.Sprintf(python, `s=socket.socket(socket.AF_UNIX)`+"\n"+`s.connect("\0sandkasten-runner")`+"\n"+`s.sendall(b"{\"type\":\"ping\"}\n")`+"\n"+`assert s.recv(1)`),
		"kill the runner":      "kill -9 1; kill -TERM 1; kill -STOP 1; ps -o stat= -p 1 | grep T",
		"read its environment": "cat /proc/1/environ",
		"read its memory":      "head -c 1 /proc/1/mem",
		"see its descriptors":  "readlink /proc/1/fd/0 || cat /proc/1/fd/0 || readlink /proc/1/fd/*",
		"speak for it":         "echo lie > /proc/1/fd/2",
		"change the program":   "echo x > /.sandkasten/runner || rm /.sandkasten/runner || mount -o remount,rw /.sandkasten",
		"a relay of its own":   "echo x | timeout 5 /.sandkasten/runner relay | grep .",
		"a container again":    "/.sandkasten/runner contained",
		"mount":                "mount -t tmpfs none /mnt",
		"a user namespace":     "unshare -U true",
		"a device":             "mknod /tmp/d b 254 0",
		"a kernel switch":      "echo 1 > /proc/sys/kernel/panic",
		"a cgroup":             "echo 1 > /sys/fs/cgroup/pids/pids.max || echo max > /sys/fs/cgroup/pids.max || touch /sys/fs/cgroup/x",
		"a raw socket":         fmt.Sprintf(python, `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`),
		"a vsock":              fmt.Sprintf(python, `socket.socket(40, socket.SOCK_STREAM)`),
		"kernel crypto":        fmt.Sprintf(python, `socket.socket(38, socket.SOCK_SEQPACKET)`),
		"a network":            fmt.Sprintf(python, `socket.create_connection(("1.1.1.1", 53), 2)`),
	} {
		if out, record := x.try(t, "("+command+") 2>&1"); record.ExitCode == 0 {
			t.Errorf("%s: it worked: %q", name, out)
		}
	}
	if got := x.run(t, "echo fine"); got != "fine" {
		t.Errorf("afterwards %q", got)
	}
}

// inEngine runs a program with nothing of ours around it but what the engine
// was told, and returns its output.
func inEngine(t *testing.T, d *Driver, id runtime.ID, argv ...string) string {
	t.Helper()
	made, err := d.engine.ExecCreate(t.Context(), d.container(id), client.ExecCreateOptions{AttachStdout: true, AttachStderr: true, Cmd: argv})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := d.engine.ExecAttach(t.Context(), made.ID, client.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer attached.Close()
	var rest bytes.Buffer
	out, err := io.ReadAll(&frames{from: attached.Reader, only: stdoutStream, rest: &rest})
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + rest.String()
}

// testProfileOfTheEngine shows that the engine took our profile: its own lets
// some of these pass.
func testProfileOfTheEngine(t *testing.T, d *Driver) {
	x := newBox(t, d, "profile")
	for what, c := range map[string]struct{ call, want string }{
		"vsock":     {`import socket; socket.socket(40, socket.SOCK_STREAM)`, "Operation not permitted"},
		"alg":       {`import socket; socket.socket(38, socket.SOCK_SEQPACKET)`, "Operation not permitted"},
		"unshare":   {`import os; os.execlp("unshare", "unshare", "-U", "echo", "made")`, "Operation not permitted"},
		"tcp":       {`import socket; socket.socket(socket.AF_INET6, socket.SOCK_STREAM); print("made")`, "made"},
		"processes": {`import os; print("made" if os.wait and os.waitpid(os.fork() or os._exit(0), 0) else "")`, "made"},
	} {
		if got := inEngine(t, d, x.ID(), "python3", "-c", c.call); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// testMemory: the kernel kills who takes too much, never the runner, and the
// command's end says so.
func testMemory(t *testing.T, d *Driver) {
	x := newBox(t, d, "memory", func(s *runtime.Spec) { s.Limits.MemoryMB = 64 })
	for range 2 {
		_, record := x.try(t, "python3 -c 'x = bytearray(200_000_000); print(len(x))'")
		if record.Cause != protocol.CauseOOMKilled {
			t.Errorf("%+v, want %s", record, protocol.CauseOOMKilled)
		}
	}
	if got := x.run(t, "echo fine"); got != "fine" {
		t.Errorf("afterwards %q", got)
	}
}

// testProcesses: a sandbox full of them still has a runner that answers.
func testProcesses(t *testing.T, d *Driver) {
	x := newBox(t, d, "processes")
	limit := testSpec().Limits.Pids
	x.run(t, "python3 -c '\nimport os,time\ntry:\n while os.fork(): pass\n time.sleep(600)\nexcept OSError: pass'")
	stats, err := x.Stats(t.Context())
	if err != nil || stats.Pids > limit || stats.Pids < limit/2 {
		t.Errorf("%+v, %v", stats, err)
	}
	if err := x.client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// testLinks: the runner itself relays for who has started it, and a process
// beside it for others. One serves all of a driver's connections, ends with the
// driver, and is replaced when somebody ends it.
func testLinks(t *testing.T, d *Driver) {
	x := newBox(t, d, "links")
	relays := func() string { return relaysOf(t, x) }
	for range 3 {
		conn, err := x.DialRunner(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if n := relays(); n != "0" {
		t.Errorf("%s relays beside the runner", n)
	}
	other := open(t, d.opts)
	again, err := other.Open(t.Context(), x.ID())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := again.DialRunner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := relays(); n != "1" {
		t.Errorf("%s relays of another driver", n)
	}
	var caps uint64 // that the relay can hand on; K16 of test/attack has no relay of its own
	bound := x.run(t, `sed -n 's/^CapBnd:[[:space:]]*//p' /proc/$(pgrep -f '[r]unner relay')/status`)
	if _, err := fmt.Sscanf(bound, "%x", &caps); err != nil || caps&^stage.WorkloadCaps != 0 {
		t.Errorf("the relay's bounding set is %q, %v", bound, err)
	}
	if err := errors.Join(conn.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if _, err := again.DialRunner(t.Context()); err == nil {
		t.Error("dialled with a driver that is closed")
	}
	for end := time.Now().Add(30 * time.Second); relays() != "0"; {
		if time.Now().After(end) {
			t.Fatal("the relay of a driver that is closed is still there")
		}
	}
	x.run(t, "x=kept")
	if err := errors.Join(x.client.Close(), d.unlink(x.ID())); err != nil {
		t.Fatal(err)
	}
	if n, kept := relays(), x.run(t, "echo $x"); n != "1" || kept != "kept" {
		t.Errorf("%s relays after the first link, and %q is kept", n, kept)
	}
	inEngine(t, d, x.ID(), "pkill", "-KILL", "-f", "[r]unner relay")
	for end := time.Now().Add(30 * time.Second); ; { // until we hear of it
		conn, err := x.DialRunner(t.Context())
		if err == nil {
			if err = conn.Close(); err == nil && d.linkNow(x.ID()) != nil {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatalf("no new relay: %v", err)
		}
	}
	y := use(d, x.Sandbox)
	defer y.client.Close()
	if got := y.run(t, "echo fine"); got != "fine" {
		t.Errorf("afterwards %q", got)
	}
}

func relaysOf(t *testing.T, x *box) string {
	t.Helper()
	return x.run(t, "pgrep -fc '[r]unner relay' || true")
}

// testByHand removes a container behind our back.
func testByHand(t *testing.T, d *Driver) {
	x := newBox(t, d, "hand")
	if _, err := d.engine.ContainerRemove(t.Context(), d.container(x.ID()), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		t.Fatal(err)
	}
	_, openErr := d.Open(t.Context(), x.ID())
	_, dialErr := x.DialRunner(t.Context())
	_, statsErr := x.Stats(t.Context())
	_, startErr := d.Start(t.Context(), x.ID())
	for what, err := range map[string]error{"Open": openErr, "DialRunner": dialErr, "Stats": statsErr, "Start": startErr, "Stop": d.Stop(t.Context(), x.ID())} {
		if !errdefs.Is(err, errdefs.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for s, err := range d.List(t.Context()) {
		if err != nil || s.ID == x.ID() {
			t.Errorf("listed: %+v, %v", s, err)
		}
	}
}

// testProgram: the volume with the runner comes back when somebody removes it,
// is repaired when half of it was written, and goes when it is another
// version's.
func testProgram(t *testing.T, d *Driver) {
	remove := func() {
		t.Helper()
		if _, err := d.engine.VolumeRemove(t.Context(), d.programVolume(), client.VolumeRemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	if got := newBox(t, d, "back").run(t, "echo fine"); got != "fine" {
		t.Errorf("%q", got)
	}
	if err := d.Destroy(t.Context(), "back"); err != nil {
		t.Fatal(err)
	}
	remove()
	old := d.opts
	old.Runner = []byte("half a program")
	half := open(t, old)
	image, err := half.provideImage(t.Context(), testImage, Rootfs{})
	if err != nil {
		t.Fatal(err)
	}
	cut := volumeFile{name: programFile, content: func(context.Context) ([]byte, error) { return old.Runner, nil }}
	if err := d.copyFile(t.Context(), image, cut); err != nil {
		t.Fatal(err)
	}
	if _, err := half.provideProgram(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	whole := open(t, d.opts)
	if got := newBox(t, whole, "whole").run(t, "echo fine"); got != "fine" {
		t.Errorf("%q", got)
	}
	if err := errors.Join(whole.Destroy(t.Context(), "whole"), whole.Sweep(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := d.engine.VolumeInspect(t.Context(), half.programVolume(), client.VolumeInspectOptions{}); err == nil {
		t.Error("another version's program is still there")
	}
}

// testImages: an image that somebody removed from the engine comes back, and
// one that the store has no more goes.
func testImages(t *testing.T, d *Driver) {
	if _, err := d.engine.ImageRemove(t.Context(), d.imageName(testImage), client.ImageRemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := newBox(t, d, "loaded").run(t, "echo fine"); got != "fine" {
		t.Errorf("%q", got)
	}
	if err := errors.Join(d.Sweep(t.Context()), d.Destroy(t.Context(), "loaded"), d.Sweep(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := d.engine.ImageInspect(t.Context(), d.imageName(testImage)); err != nil {
		t.Errorf("an image of the store: %v", err)
	}
	const old = "sha256:01d"
	if err := d.loadImage(t.Context(), d.imageName(old), old, Rootfs{Layers: []string{t.TempDir()}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.engine.ImageInspect(t.Context(), d.imageName(old)); err == nil {
		t.Error("an image that the store has no more is still there")
	}
}
