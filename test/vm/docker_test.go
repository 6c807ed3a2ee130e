package vm_test

import (
	"bytes"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/vm"
	"github.com/sandkasten/sandkasten/test/vm/guest"
)

// limitedByEngine has sessions with a limit on their disk on an engine whose overlay2
// is on XFS with project quotas.
const limitedByEngine = daemonShell + importBase + `
export SANDKASTEN_LOG__LEVEL=error
mkdir /engine
truncate -s 4G /var/tmp/engine
mkfs.xfs -q /var/tmp/engine
mount -o loop,pquota /var/tmp/engine /engine
dockerd --data-root /engine --storage-driver overlay2 --bridge none --iptables=false --ip6tables=false > /var/tmp/log 2>&1 & engine=$!
until [ -S /var/run/docker.sock ]; do sleep 0.2; kill -0 $engine || { cat /var/tmp/log; exit 1; }; done
start env SANDKASTEN_DRIVER=docker SANDKASTEN_DOCKER__HOST=unix:///var/run/docker.sock
id=$(sandkasten create base --disk 64)
sandkasten exec $id 'printf %30000000s > /a && echo fits'
sandkasten exec $id 'cat /dev/zero > /b 2>/dev/null' 2>&1 | grep -o 'disk was full'
sandkasten exec $id '(cat /dev/zero > /workspace/c) 2>/dev/null || echo full, too'
sandkasten exec $id '> /b; > /workspace/c; printf %30000000s > /workspace/c && echo again'
sandkasten stats $id --json | tr ',' '\n' | grep -o '"disk_limit[a-z_]*": *67108864'
other=$(sandkasten create base --disk 64)
sandkasten exec $other 'printf %50000000s > /a && echo apart'
sandkasten fork $other --count 1 > /dev/null
sandkasten rm --all > /dev/null
kill $daemon; wait $daemon
kill $engine; wait $engine
echo done
`

// The limit on a container's disk holds where most engines could have one: overlay2
// on XFS. The host of the other tests has no quotas.
func TestDockerDiskOnXFS(t *testing.T) {
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
	m.Jobs = []guest.Job{{Args: []string{"/bin/bash", "-c", limitedByEngine}, Timeout: 8 * time.Minute}}
	var printed bytes.Buffer
	if err := m.Run(ctx, func(ev guest.Event) { printed.Write(ev.Output) }); err != nil {
		t.Fatal(err)
	}
	const want = "fits\ndisk was full\nfull, too\nagain\n\"disk_limit\": 67108864\napart\ndone\n"
	if got := printed.String(); !strings.HasSuffix(got, want) {
		t.Errorf("on an engine with overlay2 on XFS:\n%s\nwant at the end:\n%s", got, want)
	}
}
