package linux

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// census looks at what could tell one sandbox from another, or of another:
// the environment and the shell's own variables, files and their owners, names,
// processes, mounts, ports, IPC objects and control groups. What differs for
// every process there is, is left out. It first waits until a shell that was replaced
// is gone, in the same command: the second command of a shell finds that changed.
const census = `while [ "$(ps -eo args= | grep -c '^bash ')" -gt 2 ]; do sleep 0.02; done # beside this one and its subshell
	env | sort | grep -v '^_='; set | grep -Ev '^(_|BASH_ARGC|BASH_LINENO|BASHPID|EPOCH.*|LINENO|PPID|RANDOM|SECONDS|SRANDOM)=' | grep -v '^__sk'
	cd /; ls -lAn --time-style=+ / /etc /home /opt /root /run /tmp /usr /var/log /var/tmp /workspace /dev /dev/shm /dev/pts | grep -v " proc$" # whose size is the host's
	cat /etc/hosts /etc/hostname /etc/resolv.conf 2>&1; sed 's/^[0-9a-f]\{32\}$/its own/' /etc/machine-id 2>&1; hostname
	grep -v 'ps -eo' <<< "$(ps -eo user,args)"; jobs; history # no pipe, whose other end may still be a shell
	sed 's/^[0-9]* [0-9]* [0-9]*:[0-9]* //; s/ - ext4 [^ ]*/ - ext4/; s/[a-z]*=[0-9]*//g' /proc/self/mountinfo | sort
	df --output=size / /workspace /dev/shm | tail -3
	cat /proc/self/cgroup /proc/net/tcp /proc/net/udp /proc/net/unix | sed 's/^[0-9a-f]*: //; s/ [0-9]*$//' | sort
	cat /proc/sysvipc/shm; ulimit -a; umask; pwd`

// L06: a session cannot tell whether its sandbox was made for it or was ready: so it
// has nothing of the pool and nothing of a sibling.
func TestL06_ReadySandboxes(t *testing.T) {
	d := root(t)
	spec := runtime.Spec{Image: "test", Hostname: "mine", Env: map[string]string{"TOKEN": "own"}, Limits: runtime.Limits{MemoryMB: 128, DiskMB: 64}}
	plain := runtime.Spec{Image: "test", Limits: runtime.Limits{DiskMB: 64}}
	claim := func(id runtime.ID, spec runtime.Spec) func(string) string {
		t.Helper()
		ready := "ready-of-" + id
		create(t, d, ready, plain) // and its clean-up
		if _, err := d.Claim(t.Context(), ready, id, spec); err != nil {
			t.Fatal(err)
		}
		return session(t, d, id)
	}

	sibling := claim("sibling", runtime.Spec{Image: "test", Hostname: "other", Env: map[string]string{"TOKEN": canaryText}, Limits: plain.Limits})
	sibling("echo " + canaryText + " | tee /tmp/f /workspace/f /root/.bash_history /etc/machine-id /dev/shm/f; nohup sleep 600 >/dev/null 2>&1 &")

	claimed := claim("claimed", spec)(census)
	created := create(t, d, "created", spec)(census)
	if diff := differences(created, claimed); diff != "" {
		t.Errorf("a claimed sandbox differs from one that was created:\n%s", diff)
	}
	for _, trace := range []string{canaryText, "other", "ready", "sibling"} {
		if strings.Contains(strings.ReplaceAll(claimed, "already", ""), trace) {
			t.Errorf("it shows %q", trace)
		}
	}
	// The control: the census sees what a sandbox has of another's spec.
	for name, change := range map[string]func(*runtime.Spec){
		"name":   func(s *runtime.Spec) { s.Hostname = "yours" },
		"env":    func(s *runtime.Spec) { s.Env = map[string]string{"TOKEN": "yours"} },
		"memory": func(s *runtime.Spec) { s.Limits.MemoryMB = 64 },
	} {
		other := spec
		change(&other)
		if out := claim(runtime.ID("control-"+name), other)(census); differences(created, out) == "" {
			t.Errorf("the census does not see another %s", name)
		}
	}
}

// differences are the lines that only one of two texts has.
func differences(a, b string) string {
	count := map[string]int{}
	for line := range strings.Lines(a) {
		count[line]++
	}
	for line := range strings.Lines(b) {
		count[line]--
	}
	var out strings.Builder
	for line, n := range count {
		if n != 0 {
			fmt.Fprintf(&out, "%+d %s", -n, line)
		}
	}
	return out.String()
}

// Shells that were started beside each other have different random numbers.
func TestReadySandboxesAreRandomApart(t *testing.T) {
	d := root(t)
	seen := map[string]bool{}
	for i := range 4 {
		id := runtime.ID(fmt.Sprint("ready", i))
		create(t, d, id, runtime.Spec{})
		claimed := id + "-claimed"
		if _, err := d.Claim(t.Context(), id, claimed, runtime.Spec{Image: "test"}); err != nil {
			t.Fatal(err)
		}
		out := session(t, d, claimed)("echo $RANDOM$RANDOM$RANDOM")
		if seen[out] {
			t.Errorf("the same numbers twice: %s", out)
		}
		seen[out] = true
	}
}

// What a directory says of a sandbox is written anew if the claim changes it.
func TestClaimWritesWhatChanges(t *testing.T) {
	d := root(t)
	for name, c := range map[string]struct {
		change  func(*runtime.Spec)
		written bool
	}{
		"nothing": {func(*runtime.Spec) {}, false},
		"limits":  {func(s *runtime.Spec) { s.Limits.MemoryMB = 128 }, true},
		"name":    {func(s *runtime.Spec) { s.Hostname = "mine" }, true},
		"env":     {func(s *runtime.Spec) { s.Env = map[string]string{"A": "b"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			ready, claimed := runtime.ID("changes-"+name), runtime.ID("changed-"+name)
			create(t, d, ready, runtime.Spec{})
			before, err := os.Stat(filepath.Join(d.dir(ready), stateFile))
			if err != nil {
				t.Fatal(err)
			}
			spec := runtime.Spec{Image: "test"}
			c.change(&spec)
			if _, err := d.Claim(t.Context(), ready, claimed, spec); err != nil {
				t.Fatal(err)
			}
			after, err := os.Stat(filepath.Join(d.dir(claimed), stateFile))
			if err != nil || os.SameFile(before, after) == c.written {
				t.Errorf("the file is the same: %t, %v", os.SameFile(before, after), err)
			}
			s, err := d.readState(claimed)
			spec.Limits = spec.Limits.Or(d.opts.Defaults)
			if err != nil || s.Spec.Limits != spec.Limits || hostnameOf(s.Spec) != hostnameOf(spec) || !maps.Equal(s.Spec.Env, spec.Env) {
				t.Errorf("it says %+v, %v", s, err)
			}
			if err := d.Destroy(t.Context(), claimed); err != nil {
				t.Error(err)
			}
		})
	}
}

// A ready sandbox that fails when it has its new name already is none that can
// be handed out to the next.
func TestClaimThatFailsLate(t *testing.T) {
	d := root(t)
	for name, harm := range map[string]func(id runtime.ID) error{
		"no socket": func(id runtime.ID) error {
			d.parked.drop(id)
			return os.Remove(filepath.Join(d.dir(id), socketFile))
		},
		"no group": func(id runtime.ID) error {
			s, err := d.readState(id)
			s.Group = "gone"
			return errors.Join(err, d.writeState(*s))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ready := runtime.ID(strings.ReplaceAll(name, " ", "-"))
			claimed := ready + "-claimed"
			create(t, d, ready, runtime.Spec{})
			whole, err := d.readState(ready)
			if err := errors.Join(err, harm(ready)); err != nil {
				t.Fatal(err)
			}
			_, err = d.Claim(t.Context(), ready, claimed, runtime.Spec{Image: "test", Limits: runtime.Limits{MemoryMB: 64}})
			if !errdefs.Is(err, errdefs.Conflict) {
				t.Errorf("error %v", err)
			}
			if s, err := d.readState(claimed); err != nil || !s.Process.alive(d.bootID) {
				t.Errorf("it has not got its new name: %+v, %v", s, err)
			}
			whole.ID = claimed // for the group's end
			if err := errors.Join(d.writeState(*whole), d.Destroy(t.Context(), claimed)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The first thread of a process cannot end, so nothing of it may be changed.
func TestThrowawayThread(t *testing.T) {
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			err := onThrowawayThread(func() error {
				if unix.Gettid() == unix.Getpid() {
					return fmt.Errorf("it is the process's first")
				}
				return unix.EBADF
			})
			if err != unix.EBADF {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
