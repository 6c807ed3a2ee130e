package vm_test

import (
	"os/exec"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/vm"
)

// engineShell starts an engine with its data in /engine, and the rest of its flags as
// arguments.
const engineShell = daemonShell + importBase + `
export SANDKASTEN_LOG__LEVEL=error SANDKASTEN_DRIVER=docker SANDKASTEN_DOCKER__HOST=unix:///var/run/docker.sock
mkdir /engine
engine() {
	dockerd --data-root /engine --storage-driver overlay2 --bridge none --iptables=false --ip6tables=false "$@" > /var/tmp/log 2>&1 & engine=$!
	until [ -S /var/run/docker.sock ]; do sleep 0.2; kill -0 $engine || { cat /var/tmp/log; exit 1; }; done
}
`

// limitedByEngine has sessions with a limit on their disk on an engine whose overlay2
// is on XFS with project quotas.
const limitedByEngine = engineShell + `
truncate -s 4G /var/tmp/engine
mkfs.xfs -q /var/tmp/engine
mount -o loop,pquota /var/tmp/engine /engine
engine
start env
id=$(sandkasten create base --disk 64 2> /dev/null)
sandkasten exec $id 'printf %30000000s > /a && echo fits'
sandkasten exec $id 'cat /dev/zero > /b 2>/dev/null' 2>&1 | grep -o 'disk was full'
sandkasten exec $id '(cat /dev/zero > /workspace/c) 2>/dev/null || echo full, too'
sandkasten exec $id '> /b; > /workspace/c; printf %30000000s > /workspace/c && echo again'
sandkasten stats $id --json | tr ',' '\n' | grep -o '"disk_limit[a-z_]*": *67108864'
other=$(sandkasten create base --disk 64 2> /dev/null)
sandkasten exec $other 'printf %50000000s > /a && echo apart'
sandkasten fork $other --count 1 > /dev/null
sandkasten rm --all > /dev/null
kill $daemon; wait $daemon
kill $engine; wait $engine
echo done
`

// remappedByEngine has sessions on an engine whose containers have a user namespace,
// as root inside and as another user, and without that namespace.
const remappedByEngine = engineShell + `
echo daemon:100000:65536 | tee /etc/subuid > /etc/subgid
engine --userns-remap daemon
who() { sandkasten exec $1 'read a b c < /proc/self/uid_map; echo $a $b $c as $EUID'; }
stop() { kill $daemon; wait $daemon; }
again() { start "$@"; until sandkasten keep $root > /dev/null 2>&1; do sleep 0.2; done; }
start env
root=$(sandkasten create base 2> /dev/null)
who $root
echo copied > /var/tmp/copied
sandkasten cp /var/tmp/copied $root:copied 2> /dev/null
sandkasten exec $root 'echo kept > /kept'
fork=$(sandkasten fork $root)
sandkasten exec $fork 'cat /kept copied'
sandkasten stop $root > /dev/null 2>&1
sandkasten start $root > /dev/null
sandkasten exec $root 'cat /kept copied'
stop
again env SANDKASTEN_DOCKER__USER=1000:1000
sandkasten exec $root 'echo still $EUID'
user=$(sandkasten create base 2> /dev/null)
who $user
sandkasten cp /var/tmp/copied $user:copied 2> /dev/null
sandkasten exec $user 'echo more >> copied; cat copied; (echo x > /kept) 2> /dev/null || echo not there'
stop
again env SANDKASTEN_DOCKER__USERNS=host
who $(sandkasten create base 2> /dev/null)
sandkasten rm --all > /dev/null
stop
kill $engine; wait $engine
echo done
`

// On an engine with userns-remap sandboxes work as on another, also for a user other
// than root, and docker.userns takes them out of the namespace.
func TestDockerUserNamespace(t *testing.T) {
	onEngine(t, remappedByEngine, "0 100000 65536 as 0\nkept\ncopied\nkept\ncopied\nstill 0\n"+
		"0 100000 65536 as 1000\ncopied\nmore\nnot there\n0 0 4294967295 as 0\ndone\n")
}

// The limit on a container's disk holds where most engines could have one: overlay2
// on XFS. The host of the other tests has no quotas.
func TestDockerDiskOnXFS(t *testing.T) {
	onEngine(t, limitedByEngine, "fits\ndisk was full\nfull, too\nagain\n\"disk_limit\": 67108864\napart\ndone\n")
}

// onEngine runs a script in a machine that has an engine's programs, and wants what
// it prints at the end.
func onEngine(t *testing.T, script, want string) {
	t.Helper()
	ctx, m := prepare(t)
	m.MemoryMB = 3072
	m.Files = map[string]string{path.Join(vm.BinDir, "sandkasten"): testenv.Program(t)}
	for _, name := range []string{"dockerd", "containerd", "containerd-shim-runc-v2", "runc"} {
		file, err := exec.LookPath(name)
		if err == nil {
			file, err = filepath.EvalSymlinks(file)
		}
		if err != nil {
			testenv.Unsupported(t, "no %s (package docker.io)", name)
		}
		m.Files[path.Join(vm.BinDir, name)] = file
	}
	wantAtEnd(ctx, t, m, script, 8*time.Minute, want)
}
