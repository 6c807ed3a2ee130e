package runtimetest

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/protocol"
)

// ChangeRoot is what a program may do to the root of its sandbox.
const ChangeRoot = `set -e
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
echo other | tee /etc/hosts > /etc/machine-id
echo no > /workspace/no; echo no > /dev/shm/no`

// LookAtRoot tells all of the root that a snapshot after ChangeRoot is about.
const LookAtRoot = `cd /; find etc/debian_version etc/apt etc/default etc/issue etc/passwd etc/hosts opt usr/bin/mine usr/bin/yes usr/bin/tac workspace dev/shm \
	-printf '%p %y %m %U:%G %s %l\n' 2>/dev/null | sort; cat etc/passwd etc/default | cksum`

// SavedOfRoot is what LookAtRoot tells of a sandbox that a snapshot was brought
// back to, of what it tells of the one that it was made of.
func SavedOfRoot(text string) string {
	var kept []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "opt/new f 4751", "opt/new f 751"), "\n") {
		drop := false
		for _, path := range []string{"opt/pipe", "opt/.wh.", "etc/hosts", "workspace/no", "dev/shm", "usr/bin/tac "} {
			drop = drop || strings.HasPrefix(line, path)
		}
		if !drop {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// HostileRoot leads out of a root and takes memory of whoever packs it.
const HostileRoot = `cd /opt; ln -s /proc/1/root host; ln -s / top; mkdir -p d/d; ln -s ../.. d/d/up; mkfifo p
python3 - <<'EOF'
import os, socket
os.makedirs("/opt/" + "/".join(["n"*20]*40), exist_ok=True)
for i in range(3000): open("/opt/%05d" % i, "w").close()
socket.socket(socket.AF_UNIX).bind("/opt/socket")
for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.origin", "user.other"):
    try: os.setxattr("/opt/d", name, b"y")
    except OSError: pass
EOF`

// packRoot packs what was changed of a sandbox's root, while it is paused.
func (b box) packRoot(t *testing.T) []byte {
	t.Helper()
	if err := pauser(t, b).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	packed, err := b.client.Pack(t.Context(), protocol.Pack{Path: ".", Format: "tar.zst", Snapshot: protocol.SnapshotLayer})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := pauser(t, b).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	return data
}

// machineID is each sandbox's own where its image has one, and keeps.
func (s *suite) machineID(t *testing.T) {
	d := s.open(t)
	b := s.create(t, d, s.spec())
	boxes := []box{b, s.create(t, d, s.spec())}
	if !s.opts.NoForks {
		boxes = append(boxes, s.forks(t, b.ID(), 2, s.spec())...)
	}
	const look = "cat /etc/machine-id"
	seen := map[string]bool{testenv.MachineID + "\n": true}
	for _, x := range boxes {
		id, _ := x.run(t, look)
		if seen[id] || len(strings.Trim(id, "0123456789abcdef")) != 1 || len(id) != 33 {
			t.Errorf("machine-id %q, after %q", id, slices.Sorted(maps.Keys(seen)))
		}
		seen[id] = true
	}
	first, _ := b.run(t, look)
	b = s.restartBox(t, b.ID())
	b.wantOutput(t, look, first)
}

// snapshotRoot: what a sandbox has changed of its root is the same in another
// one where it is unpacked. Of a fork it is that of both.
func (s *suite) snapshotRoot(t *testing.T) {
	d := s.open(t)
	spec := s.spec()
	spec.Limits.MemoryMB = 512
	from := s.create(t, d, spec)
	if nothing := from.packRoot(t); len(nothing) > 4<<10 {
		t.Errorf("%d bytes of a root that nobody has changed", len(nothing))
	}
	from.wantOutput(t, ChangeRoot, "")
	seen, _ := from.run(t, LookAtRoot)
	want := SavedOfRoot(seen)
	sources := map[string]box{"itself": from}
	if _, forks := d.(runtime.Forker); forks && !s.opts.NoForks {
		fork := s.forks(t, from.ID(), 1, spec)[0]
		fork.wantOutput(t, "cat /opt/new; touch -r /etc/hosts /opt/later", "new\n")
		sources["a fork"] = fork
	}
	for name, source := range sources {
		layer := source.packRoot(t)
		to := s.create(t, d, spec)
		u := protocol.Unpack{Path: "/", Format: "tar.zst", Snapshot: protocol.SnapshotLayer, AllowOutside: true}
		if _, err := to.client.Unpack(t.Context(), u, int64(len(layer)), bytes.NewReader(layer)); err != nil {
			t.Fatal(err)
		}
		to.wantOutput(t, "ls -d /opt/later 2>/dev/null; rm -f /opt/later; true", map[string]string{"a fork": "/opt/later\n"}[name])
		if got, _ := to.run(t, LookAtRoot); SavedOfRoot(got) != want {
			t.Errorf("of %s:\n%s\nwant:\n%s", name, got, want)
		}
		to.wantOutput(t, "grep other /etc/hosts /etc/machine-id; true", "")
	}
}
