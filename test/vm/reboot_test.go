package vm_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/vm"
	"github.com/sandkasten/sandkasten/test/vm/guest"
)

// daemonShell is what all lives of a machine begin with.
const daemonShell = `set -e
export SANDKASTEN_DATA_DIR=/var/lib/sandkasten SANDKASTEN_LOG__LEVEL=warn PATH=$PATH:` + vm.BinDir + `
start() { "$@" sandkasten daemon & daemon=$!; until sandkasten ls >/dev/null 2>&1; do sleep 0.2; kill -0 $daemon; done; }
`

// importBase makes the least image that a shell needs: an emulated processor
// unpacks it.
const importBase = `
cd /image
tar -c bin lib lib64 usr/bin/bash usr/bin/dash usr/bin/sh usr/bin/cat usr/bin/sync usr/bin/sleep usr/lib64 \
	usr/lib/x86_64-linux-gnu/libc.so.6 usr/lib/x86_64-linux-gnu/libtinfo.so.6* usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 | sandkasten image import --name base --tar -
`

// atWork makes a session that does not survive a restart of the host, one that
// does, one that is stopped and one with a workspace, and has them at work.
const atWork = daemonShell + importBase + `
start env
volatile=$(sandkasten create base)
sandkasten exec $volatile 'echo gone > kept'
kill $daemon; wait $daemon
start env SANDKASTEN_SESSIONS__SURVIVE_REBOOT=true
durable=$(sandkasten create base)
sandkasten exec $durable 'echo durable > kept; sync'
stopped=$(sandkasten create base)
sandkasten exec $stopped 'echo stopped > kept'
sandkasten stop $stopped
user=$(sandkasten create base --workspace project)
sandkasten exec $user 'echo shared > kept; sync'
echo "volatile=$volatile durable=$durable stopped=$stopped user=$user" > /var/lib/sessions
sync
sandkasten exec $durable 'while :; do echo x >> busy; done' &
sandkasten exec $volatile 'while :; do echo x >> busy; done' &
until sandkasten ps $durable | grep -q busy; do sleep 0.1; done
echo AT WORK
sleep 1000
`

// afterwards looks at what the next boot finds.
const afterwards = daemonShell + `
. /var/lib/sessions
if sandkasten fsck > /dev/null; then echo nothing was cut off; fi
start env SANDKASTEN_SESSIONS__SURVIVE_REBOOT=true
for name in volatile durable stopped user; do
	eval id=\$$name
	echo $name $(sandkasten ls --all | grep $id | grep -o -w -e crashed -e stopped -e running | uniq)
done
for id in $durable $stopped $user; do
	sandkasten start $id > /dev/null
	sandkasten exec $id 'cat kept'
done
sandkasten fsck
sandkasten rm --all > /dev/null
new=$(sandkasten create base 2> /dev/null)
sandkasten exec $new 'echo new'
sandkasten rm $new > /dev/null
kill $daemon; wait $daemon
sandkasten fsck
losetup -a
ls /var/lib/sandkasten/sandboxes
`

// A host that loses its power in the middle of work has lost what it promises to
// lose and nothing else, and all that was cut off is put in order.
func TestPowerLoss(t *testing.T) {
	ctx, m := prepare(t)
	m.Root = m.Disk + ".root"
	if out, err := exec.CommandContext(ctx, "cp", "--sparse=always", m.Disk, m.Root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.Files = map[string]string{path.Join(vm.BinDir, "sandkasten"): testenv.Program(t)}

	working, powerOff := context.WithCancelCause(ctx)
	defer powerOff(nil)
	var printed bytes.Buffer
	m.Jobs = []guest.Job{{Args: []string{"/bin/bash", "-c", atWork}, Timeout: 5 * time.Minute}}
	err := m.Run(working, func(ev guest.Event) {
		if printed.Write(ev.Output); strings.Contains(printed.String(), "AT WORK") {
			powerOff(errors.New("the power is off"))
		}
	})
	if working.Err() == nil {
		t.Fatalf("the machine did not come to work: %v\n%s", err, printed.String())
	}

	wantAtEnd(ctx, t, m, afterwards, 5*time.Minute, "volatile crashed\ndurable stopped\nstopped stopped\nuser stopped\n"+
		"durable\nstopped\nshared\nNothing differs.\nnew\nNothing differs.\n")
}

// wantAtEnd runs a script in a machine and wants what it prints at the end.
func wantAtEnd(ctx context.Context, t *testing.T, m vm.Machine, script string, limit time.Duration, want string) {
	t.Helper()
	m.Jobs = []guest.Job{{Args: []string{"/bin/bash", "-c", script}, Timeout: limit}}
	var printed bytes.Buffer
	if err := m.Run(ctx, func(ev guest.Event) { printed.Write(ev.Output) }); err != nil {
		t.Fatal(err)
	}
	if got := printed.String(); !strings.HasSuffix(got, want) {
		t.Errorf("the machine printed:\n%s\nwant at the end:\n%s", got, want)
	}
}

// clockSet sets the clock while a daemon runs and while none does, and tells each
// time what is left of a session's hour, in tens of minutes.
const clockSet = daemonShell + importBase + `
export SANDKASTEN_LOG__LEVEL=error
left() {
	for try in $(seq 60); do # until the daemon has noticed
		end=$(sandkasten ls --json | tr ',' '\n' | grep '"expires_at"' | cut -d'"' -f4)
		tens=$((($(date -d "$end" +%s) - $(date +%s) + 300) / 600))
		[ $tens != 6 ] || break
		sleep 0.5
	done
	echo $1 $tens $(sandkasten exec $id 'echo $x')
}
start env
id=$(sandkasten create base --ttl 8h --lifetime 1h)
sandkasten exec $id 'x=kept'
left first
date -s '+3 hours' >/dev/null
left ahead
date -s '-10 hours' >/dev/null
left back
{ kill -9 $daemon; wait $daemon || true; } 2>/dev/null
date -s '+2 days' >/dev/null
start env
left down
short=$(sandkasten create base --ttl 1s --on-expiry destroy 2>/dev/null)
until sandkasten ls --all | grep $short | grep -o expired; do sleep 0.5; done
sandkasten rm $id >/dev/null
kill $daemon; wait $daemon
`

// A session has as much of its time left as it had when somebody sets the host's
// clock, and ends when that is over.
func TestClockSet(t *testing.T) {
	ctx, m := prepare(t)
	m.Files = map[string]string{path.Join(vm.BinDir, "sandkasten"): testenv.Program(t)}
	wantAtEnd(ctx, t, m, clockSet, 5*time.Minute, "first 6 kept\nahead 6 kept\nback 6 kept\ndown 6 kept\nexpired\n")
}
