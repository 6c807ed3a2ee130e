package attack

import (
	"strings"
	"testing"
)

// leave puts into a directory what might make somebody stronger who comes later.
const leave = `
cp /usr/bin/id ID; chmod 6755 ID; cp /usr/bin/id capable; chmod 755 capable
python3 - <<'PROGRAM'
import os, stat
try: os.setxattr("capable", "security.capability", b"\x01\x00\x00\x02" + b"\xff" * 16)
except OSError: pass
try: os.mknod("disk", 0o666 | stat.S_IFBLK, os.makedev(7, 0))
except OSError: pass
try: os.mknod("memory", 0o666 | stat.S_IFCHR, os.makedev(1, 1))
except OSError: pass
os.mkfifo("pipe")
os.symlink("/proc/1/root/etc/shadow", "link")
open("of-another", "w").write("text\n"); os.chmod("of-another", 0o600); os.chown("of-another", 1234, 1234)
PROGRAM
sync`

// gain is what a program without rights gets from it.
const gain = `
import os, stat
os.setgroups([]); os.setgid(65534); os.setuid(65534)
def got(what): print("GOT", what)
for name in ("ID", "capable"):
    if os.popen("./" + name + " -u").read().strip() != "65534": got("the rights of " + name)
for line in os.popen("./capable >/dev/null; grep CapEff /proc/self/status").read().splitlines():
    if int(line.split()[1], 16): got("capabilities " + line)
for name in ("disk", "memory"):
    try: os.open(name, os.O_RDONLY); got("the device " + name)
    except OSError: pass
try: got("a file of another: " + open("of-another").read())
except OSError: pass
if os.stat("of-another").st_uid != 1234: got("a file of %d" % os.stat("of-another").st_uid)
print("TRIED")
`

// gains runs gain in a directory of a session, of which nothing may come.
func (b *target) gains(t testing.TB, what, dir string) {
	t.Helper()
	b.put(t, "/workspace/.gain.py", gain)
	out := b.sh(t, "cd "+dir+" && python3 /workspace/.gain.py 2>&1")
	if strings.TrimSpace(out) != "TRIED" {
		t.Errorf("%s: %s", what, out)
	}
	b.do(t, "GET", b.file("read", dir+"/pipe"), nil).refused(t, what+": a pipe", 400)
	b.do(t, "GET", b.file("read", dir+"/link"), nil).hides(t, what+": a link", "root:")
}

// H15: what a session leaves in a workspace or a snapshot makes nobody stronger in the next
// one, whose user ids on the host are others.
func TestH15_WhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	s.a.workspace(t, "left-behind")
	shared := map[string]any{"workspace_id": "left-behind"}
	first := s.a.session(t, shared)
	first.sh(t, "cd /workspace"+leave)
	first.gains(t, "where it was left", "/workspace")
	beside := s.a.session(t, shared)
	beside.gains(t, "a session beside it", "/workspace")
	first.end(t)
	s.a.session(t, shared).gains(t, "a later session", "/workspace")
	beside.sh(t, "mkdir -p /opt/left && cd /opt/left"+leave)
	saved := beside.snapshot(t, map[string]any{"scope": "sandbox"})
	restored := s.a.session(t, map[string]any{"restore_snapshot_id": saved})
	restored.gains(t, "a restored one", "/opt/left")
}
