package linux

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runtime"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/testenv"
)

func TestEscape_MaskedPaths(t *testing.T) {
	escapeTest{control: without("masks"), attack: func(b *box) {
		// Longer than the driver's own list, and written down apart from it.
		out := b.sh(`cd /proc
			for f in kcore keys key-users kmsg latency_stats sched_debug sysrq-trigger timer_list timer_stats slabinfo \
				vmallocinfo kpagecount kpageflags kpagecgroup kallsyms modules iomem ioports interrupts softirqs config.gz \
				cmdline pagetypeinfo diskstats partitions locks cgroups zoneinfo vmstat buddyinfo devices misc swaps schedstat \
				consoles crypto mtrr dma fb mdstat execdomains sys/fs/file-nr sys/fs/inode-nr sys/fs/inode-state sys/fs/dentry-state \
				sys/fs/aio-nr sys/kernel/hung_task_detect_count sys/kernel/pty/nr sys/kernel/random/entropy_avail /sys/firmware/efi/systab /sys/kernel/notes; do
				[ -e $f ] && n=$(head -c 64 $f 2>/dev/null | wc -c) && [ "$n" != 0 ] && echo "reads $f"
			done
			for d in acpi asound scsi bus fs irq driver dynamic_debug tty/driver pressure /sys/firmware /sys/kernel /sys/devices \
				/sys/class /sys/fs/cgroup /sys/module /sys/power; do
				[ -n "$(ls -A $d 2>/dev/null)" ] && echo "lists $d"
			done; true`)
		for line := range strings.Lines(out) {
			b.got("%s", line)
		}
	}}.run(t)
}

// countables prints what is in the files of /proc that belong to no process.
const countables = `cd /proc && find . -path './[0-9]*' -prune -o -path ./self -prune -o -path ./thread-self -prune -o -path ./kmsg -prune -o \
	-path ./kcore -prune -o -path ./sysvipc -prune -o -type f -perm -o=r -print 2>/dev/null |
	while read f; do echo "$f $(timeout 1 head -c 65536 $f 2>/dev/null | md5sum)"; done`

// ownCounts are files that change by what the sandbox itself does, or by time alone.
var ownCounts = []string{
	"./uptime", "./sys/kernel/random/uuid", "./sys/kernel/ns_last_pid", "./stat", "./meminfo", "./loadavg",
}

// What others do, on disks above all, changes no number in /proc.
func TestEscape_CountingNeighbours(t *testing.T) {
	escapeTest{control: without("masks"), attack: func(b *box) {
		before := b.sh(countables)
		other, err := b.d.Open(b.t.Context(), b.target.id)
		if err != nil {
			b.t.Fatal(err)
		}
		const work = `for i in 1 2 3; do dd if=/dev/zero of=/workspace/x bs=1M count=8 conv=fsync status=none; cat /usr/lib/x86_64-linux-gnu/*.so >/dev/null; done; rm /workspace/x`
		if _, _, err := run(b.t, b.dialler(other.(*sandbox)), "work", work, nil, longTimeout); err != nil {
			b.t.Fatal(err)
		}
		after := b.sh(countables)
		if strings.Count(before, "\n") < 100 {
			b.t.Fatalf("found too few files: %q", before)
		}
		for line := range strings.Lines(after) {
			file, _, _ := strings.Cut(line, " ")
			if !strings.Contains(before, line) && !slices.Contains(ownCounts, file) {
				b.got("%s changes with what others do", file)
			}
		}
	}}.run(t)
}

func TestEscape_KernelSettings(t *testing.T) {
	escapeTest{control: without("masks"), attack: func(b *box) {
		pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
		if err != nil {
			b.t.Fatal(err)
		}
		out := b.sh(`
			for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/kernel/modprobe \
				/proc/sys/net/ipv4/ip_default_ttl /proc/sys/kernel/shmmax /proc/sys/kernel/domainname /proc/irq/default_smp_affinity \
				/sys/kernel/uevent_helper /sys/power/state $(find /sys/fs/cgroup -name release_agent 2>/dev/null); do
				[ -c $f ] && continue # the mask over it
				old=$(cat $f 2>/dev/null); (echo "$old" >$f) 2>/dev/null && echo "writes $f"
			done
			find /proc /sys -mindepth 1 -path '/proc/[0-9]*' -prune -o -writable ! -type l -print 2>/dev/null |
				while read f; do [ -c $f ] || echo "may write $f"; done | head -n 20`)
		for line := range strings.Lines(out) {
			b.got("%s", line)
		}
		if now, err := os.ReadFile("/proc/sys/kernel/core_pattern"); string(now) != string(pattern) || err != nil {
			b.got("core_pattern of the host is %q, %v", now, err)
		}
	}}.run(t)
}

func TestEscape_DevicesOfTheHost(t *testing.T) {
	escapeTest{control: variant{before: "mkfifo /dev/kmsg"}, attack: func(b *box) {
		out := b.sh(`for f in mem kmsg fuse kvm loop0 loop-control sda vda nvme0n1 vsock net/tun mapper/control uinput; do
			[ -e /dev/$f ] && echo /dev/$f; done; find / -xdev \( -type b -o -type c \)`)
		for line := range strings.Lines(out) {
			b.got("there is %s", line)
		}
	}}.run(t)
}

func TestEscape_Cgroups(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		for line := range strings.Lines(b.sh(`grep cgroup /proc/self/mountinfo | grep -v " /proc/cgroups "`)) {
			b.got("mounted: %s", line)
		}
		for line := range strings.Lines(b.sh(`cat /proc/self/cgroup`)) {
			if path := line[strings.LastIndexByte(line, ':')+1:]; path != "/\n" {
				b.got("sees its place: %s", line)
			}
		}
		for line := range strings.Lines(b.sh(`find /sys -name cgroup.procs -o -name tasks 2>/dev/null | head`)) {
			b.got("found %s", line)
		}
	}}.run(t)
}

// PID 1, the runner, is in the sandbox but not for the sandbox to look into.
// On the host the same is tried on this test's own process.
func TestEscape_RunnerInProc(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		pid := 1
		if b.sandbox == nil {
			pid = os.Getpid()
		}
		out := b.sh(fmt.Sprintf(`( cd /proc/%d || exit
			for f in environ maps mem auxv syscall stack io pagemap; do
				head -c 1 $f >/dev/null 2>&1 && echo "reads $f"; done
			for l in root cwd exe fd/0 fd/3 fd/4 ns/mnt; do readlink $l 2>/dev/null && echo "follows $l"; done
			ls fd map_files 2>/dev/null | grep -q '^[0-9]' && echo "lists fd"
			for f in mem exe oom_score_adj comm coredump_filter clear_refs uid_map; do
				(: >>$f) 2>/dev/null && echo "opens $f for writing"; done ) 2>/dev/null`, pid))
		for line := range strings.Lines(out) {
			b.got("%s", line)
		}
	}}.run(t)
}

// The program that the runner runs cannot be changed by any way there is, so
// neither can those of other sandboxes, which share it.
func TestEscape_RunnerProgramIsSealed(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	seals, err := unix.FcntlInt(uintptr(b.d.runner), unix.F_GET_SEALS, 0)
	if want := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE; err != nil || seals != want {
		t.Errorf("seals are %#x, %v; want %#x", seals, err, want)
	}
	exe := fmt.Sprintf("/proc/%d/exe", b.sandbox.state.Process.PID)
	if f, err := os.OpenFile(exe, os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Error("the host's root can open the running program for writing")
	}
}

// A descriptor of the host's that came along would be a way out, whatever the
// namespaces say (CVE-2024-21626).
func TestEscape_LeakedDescriptors(t *testing.T) {
	escapeTest{control: variant{before: `exec 77</etc/passwd`}, attack: func(b *box) {
		out := b.sh(`sleep 5 & for p in $BASHPID $$ $!; do find /proc/$p/fd -type l -printf '%l\n'; done; kill $!`)
		for line := range strings.Lines(out) {
			target := strings.TrimSpace(line)
			kind, _, special := strings.Cut(target, ":[")
			switch {
			case strings.HasPrefix(target, "/memfd:"): // the command itself, and its input
			case special && (kind == "pipe" || kind == "socket"), target == "/dev/null", target == "/workspace":
			case strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd"): // find itself
			case strings.HasPrefix(target, "/dev/pts/"), target == "anon_inode:[eventpoll]":
			default:
				b.got("a process has %s", target)
			}
		}
		if !strings.Contains(out, "pipe:[") {
			b.t.Errorf("no descriptors were found: %q", out)
		}
	}}.run(t)
}

func TestEscape_PathsOut(t *testing.T) {
	escapeTest{control: variant{before: `mkdir -p $(dirname $CANARY) && echo ` + canaryText + ` >$CANARY`}, attack: func(b *box) {
		out := b.sh(`inode=$(stat -c %d:%i /)
			for up in "" /proc/self/cwd/../../.. /proc/self/root/../.. /../.. /proc/1/root /proc/$PPID/root /proc/1/cwd /dev/fd/3 /proc/self/fd/7; do
				cat "$up$CANARY" 2>/dev/null
			done
			cd /proc/self/cwd/../../../..; cat ./$CANARY 2>/dev/null
			[ $(stat -c %d:%i .) = $inode ] || echo "left the root"; cd /workspace`)
		for line := range strings.Lines(out) {
			b.got("%s", line)
		}
	}}.run(t)
}

func TestEscape_FactsAboutTheHost(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		hostname, err := os.Hostname()
		if err != nil {
			b.t.Fatal(err)
		}
		if out := strings.TrimSpace(b.sh(`uname -n`)); out == hostname {
			b.got("the host's name: %s", out)
		}
		for line := range strings.Lines(b.sh(`tail -n +3 /proc/net/dev`)) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), ":"); name != "lo" {
				b.got("a network interface: %s", name)
			}
		}
		mounts := strings.ReplaceAll(b.sh(`cat /proc/self/mountinfo /proc/mounts /proc/self/mountstats`), stage.BootIDFile, "its own")
		for _, path := range []string{"sandkasten", "/var/", "/home", "/root", "/boot", " /sys/fs"} {
			if strings.Contains(mounts, path) {
				b.got("%s in the mount table", path)
			}
		}
		if out := b.sh(`ps -eo pid= | wc -l`); len(strings.TrimSpace(out)) > 1 {
			b.got("%s processes", strings.TrimSpace(out))
		}
	}}.run(t)
}

// What the daemon was started with is nobody else's to know.
func TestEscape_EnvironmentOfTheDaemon(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		b.t.Setenv("SANDKASTEN_CANARY", canaryText)
		// A driver starts runners with whatever the environment is then.
		if b.sandbox != nil {
			b.sandbox = b.create("second", runtime.Spec{Image: "test"})
			b.client = b.dialler(b.sandbox)
		}
		if out := b.sh(`env; cat /proc/*/environ 2>/dev/null | tr '\0' '\n'`); strings.Contains(out, canaryText) {
			b.got("sees the daemon's environment")
		}
	}}.run(t)
}

// In network mode none nothing of the host answers, on any of its addresses.
func TestEscape_Network(t *testing.T) {
	escapeTest{control: variant{host: true}, attack: func(b *box) {
		ln, err := net.Listen("tcp", ":0")
		if err != nil {
			b.t.Fatal(err)
		}
		defer ln.Close()
		port := ln.Addr().(*net.TCPAddr).Port
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			b.t.Fatal(err)
		}
		hosts := []string{"127.0.0.1", "127.0.0.53", "0.0.0.0", "::1", "169.254.169.254"}
		for _, a := range addrs {
			hosts = append(hosts, a.(*net.IPNet).IP.String())
		}
		for _, host := range hosts {
			if out := b.sh(fmt.Sprintf(`timeout 1 bash -c 'exec 3<>/dev/tcp/%s/%d && echo reached' 2>/dev/null`, host, port)); out != "" {
				b.got("%s is %s", host, out)
			}
		}
		for line := range strings.Lines(b.sh(`tail -n +2 /proc/net/route; grep -v ' lo$' /proc/net/ipv6_route`)) {
			b.got("a route: %s", line)
		}
	}}.run(t)
}

// An image may be made by anyone. Whatever stands where something is mounted,
// Create refuses the image or makes a sandbox, and the host's files stay.
func TestEscape_HostileImages(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	trap := testenv.DataDir(t)
	base := testenv.BaseRootfs(t)
	probe := probeLayer(t)
	for _, place := range []string{"proc", "dev", "workspace", "tmp", "run", "etc", "etc/hosts", "etc/hostname", "etc/resolv.conf"} {
		for kind, plant := range map[string]func(path string) error{
			"link to the host":   func(p string) error { return os.Symlink(trap, p) },
			"link upwards":       func(p string) error { return os.Symlink("../../../../../.."+trap, p) },
			"link through /proc": func(p string) error { return os.Symlink("/proc/self/root"+trap, p) },
			"dangling link":      func(p string) error { return os.Symlink(trap+"/new", p) },
			"file":               func(p string) error { return os.WriteFile(p, nil, 0o666) },
			"fifo":               func(p string) error { return unix.Mkfifo(p, 0o666) },
		} {
			t.Run(place+" "+kind, func(t *testing.T) {
				layer := writeLayer(t, testenv.DataDir(t), map[string]string{"opt/x": ""})
				path := filepath.Join(layer, place)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := plant(path); err != nil {
					t.Fatal(err)
				}
				tryImage(t, []string{layer, probe, base}, place)
				if left, err := os.ReadDir(trap); err != nil || len(left) > 0 {
					t.Errorf("in the host's directory: %v, %v", left, err)
				}
			})
		}
	}
}

// tryImage makes a sandbox of the layers and writes where the trap is.
func tryImage(t *testing.T, image []string, place string) {
	t.Helper()
	b := &box{t: t, d: newEscapeDriver(t, image, nil)}
	sb, err := b.d.Create(t.Context(), attacker, runtime.Spec{Image: "test", Hostname: "changed"})
	if err != nil {
		t.Logf("refused: %v", err)
		if _, err := b.d.Open(t.Context(), attacker); err == nil {
			t.Error("a refused sandbox is there")
		}
		return
	}
	b.sandbox = sb.(*sandbox)
	b.client = b.dialler(b.sandbox)
	b.sh(`timeout 2 sh -c 'echo escaped >/` + place + `; echo escaped >/` + place + `/escaped'`)
	if err := b.d.Destroy(t.Context(), attacker); err != nil {
		t.Error(err)
	}
}

// What one sandbox does to the image's files is its own affair: neither the
// host's copy nor a neighbour's view of it changes, in memory or on disk.
func TestEscape_SharedImage(t *testing.T) {
	testenv.NeedsRoot(t)
	testenv.CheckHost(t)
	b := newBox(t, escapeTest{}, variant{})
	const files = `/bin/bash /bin/ls /etc/passwd /etc/os-release /usr/bin/python3.* /opt/probe`
	const sums = `sha256sum ` + files
	other, err := b.d.Open(t.Context(), neighbour)
	if err != nil {
		t.Fatal(err)
	}
	theirs := b.dialler(other.(*sandbox))
	before, _, err := run(t, theirs, "before", sums, nil, longTimeout)
	if err != nil || strings.Count(before, "\n") < 6 {
		t.Fatalf("%q, %v", before, err)
	}
	onDisk := hostSums(t, testenv.BaseRootfs(t))

	b.sh(`for f in ` + files + `; do exec 5<$f; echo x >>$f; dd if=/dev/zero of=$f conv=notrunc bs=4k count=1; truncate -s 0 $f; done 2>/dev/null
		rm -rf --no-preserve-root /usr/lib/python3 /etc/passwd; chmod -R 777 /etc`)

	after, _, err := run(t, theirs, "after", sums, nil, longTimeout)
	if err != nil || after != before {
		t.Errorf("the neighbour saw\n%sand now sees\n%s%v", before, after, err)
	}
	if now := hostSums(t, testenv.BaseRootfs(t)); now != onDisk {
		t.Errorf("the image was\n%sand is now\n%s", onDisk, now)
	}
}

// hostSums reads files of the image past the page cache and through it.
func hostSums(t *testing.T, root string) string {
	t.Helper()
	const script = `for f in bin/bash bin/ls etc/passwd etc/os-release; do
		dd if=$f iflag=direct bs=64k status=none | sha256sum; sha256sum <$f; stat -c '%a %u %s' $f; done`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
