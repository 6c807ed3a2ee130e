package linux

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/images/extract"
	"github.com/sandkasten/sandkasten/internal/runnerclient"
	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// changes are what a program may do to the root of its sandbox.
const changes = `set -e
rm /etc/debian_version
rm -r /etc/apt; mkdir /etc/apt; echo mine > /etc/apt/f
rm -r /etc/default; echo file > /etc/default
rm /etc/issue; mkdir /etc/issue; touch /etc/issue/in
echo appended >> /etc/passwd
mkdir -p /opt/deep/er; echo new > /opt/new; chown 7:65534 /opt/new; chmod 4751 /opt/new
chmod 2770 /opt/deep; chown 3:4 /opt/deep
ln -s ../nowhere /opt/link; chown -h 5:6 /opt/link
echo program > /bin/mine
rm /usr/bin/yes; mv /usr/bin/tac /usr/bin/yes
mkfifo /opt/pipe; echo hidden > /opt/.wh.new; echo hidden > /opt/.wh..wh..opq
echo other > /etc/hosts
echo no > /workspace/no; echo no > /dev/shm/no`

// look tells all of the root that a snapshot of changes is about.
const look = `cd /; find etc/debian_version etc/apt etc/default etc/issue etc/passwd etc/hosts opt usr/bin/mine usr/bin/yes usr/bin/tac workspace dev/shm \
	-printf '%p %y %m %U:%G %s %l\n' 2>/dev/null | sort; cat etc/passwd etc/default | cksum`

// packRoot packs what was changed of a sandbox's root, while it is paused.
func packRoot(t *testing.T, sb runtime.Sandbox) []byte {
	t.Helper()
	p := sb.(runtime.Pauser)
	if err := p.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	packed, err := c.Pack(t.Context(), protocol.Pack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotLayer})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func() error{packed.Close, c.Close, func() error { return p.Resume(context.WithoutCancel(t.Context())) }} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	return data
}

// What a sandbox has changed of its root is the same in another one where it is
// unpacked, and in one whose image it has become a layer of: owners, links and
// what is gone.
func TestSnapshotOfTheRoot(t *testing.T) {
	d := root(t)
	base := testenv.BaseRootfs(t)
	d.opts.Images = layers{base}
	first := create(t, d, "first", runtime.Spec{})
	if out := first(changes); out != "" {
		t.Fatal(out)
	}
	want := strings.ReplaceAll(first(look), "opt/new f 4751", "opt/new f 751")
	sb, err := d.Open(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	layer := packRoot(t, sb)
	want = dropLines(want, "opt/pipe", "opt/.wh.", "etc/hosts", "workspace/no", "dev/shm", "usr/bin/tac ")

	second := create(t, d, "second", runtime.Spec{Hostname: "second"})
	sb, err = d.Open(t.Context(), "second")
	if err != nil {
		t.Fatal(err)
	}
	c := &runnerclient.Client{Dial: sb.DialRunner}
	defer c.Close()
	u := protocol.Unpack{Path: "/", Format: "tar.zst", Snapshot: protocol.SnapshotLayer, AllowOutside: true}
	if _, err := c.Unpack(t.Context(), u, int64(len(layer)), bytes.NewReader(layer)); err != nil {
		t.Fatal(err)
	}
	if got := dropLines(second(look), "etc/hosts", "dev/shm"); got != want {
		t.Errorf("unpacked:\n%s\nwant:\n%s", got, want)
	}
	if out := second("cat /etc/hosts"); !strings.Contains(out, "second") || strings.Contains(out, "other") {
		t.Errorf("the hosts file is not the second's: %q", out)
	}

	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := extract.Tree(t.Context(), dir, bytes.NewReader(layer), extract.Options{
		Kind: extract.Layer, Limits: extract.DefaultLimits(), Lowers: []string{base},
	}); err != nil {
		t.Fatal(err)
	}
	d.opts.Images = layers{dir, base}
	third := create(t, d, "third", runtime.Spec{})
	if got := dropLines(third(look), "etc/hosts", "dev/shm"); got != want {
		t.Errorf("as an image:\n%s\nwant:\n%s", got, want)
	}
}

// dropLines drops lines that begin with one of the prefixes.
func dropLines(text string, prefixes ...string) string {
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		drop := false
		for _, p := range prefixes {
			drop = drop || strings.HasPrefix(line, p)
		}
		if !drop {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// H10, T04: a root that is hostile makes no layer that reaches anything, and
// takes the runner no memory.
func TestEscape_HostileRootInSnapshot(t *testing.T) {
	d := root(t)
	d.opts.Images = layers{testenv.BaseRootfs(t)}
	sh := create(t, d, "hostile", runtime.Spec{})
	sh(`cd /opt; ln -s /proc/1/root host; ln -s / top; mkdir -p d/d; ln -s ../.. d/d/up; mkfifo p
python3 - <<'EOF'
import os, socket
os.makedirs("/opt/" + "/".join(["n"*20]*40), exist_ok=True)
for i in range(3000): open("/opt/%05d" % i, "w").close()
socket.socket(socket.AF_UNIX).bind("/opt/socket")
for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.origin", "user.other"):
    try: os.setxattr("/opt/d", name, b"y")
    except OSError: pass
EOF`)
	sb, err := d.Open(t.Context(), "hostile")
	if err != nil {
		t.Fatal(err)
	}
	found, err := extract.Scan(t.Context(), bytes.NewReader(packRoot(t, sb)), extract.Options{Kind: extract.Layer, Limits: extract.DefaultLimits()})
	if err != nil || found.Entries < 3000 || found.Entries > 4000 {
		t.Errorf("%+v, %v", found, err)
	}
	memory := runnerMemory(t, sb.(*sandbox).state.Process.PID)
	if memory > 64<<20 {
		t.Errorf("the runner has %d bytes", memory)
	}
}

func runnerMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident * int64(os.Getpagesize())
}
