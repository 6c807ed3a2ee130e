package attack

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// Section P: /proc, /sys, /dev, descriptors and the root.

// P01: what /proc and /sys say of the host is not to be read.
func TestP01_MaskedPaths(t *testing.T) {
	t.Parallel()
	b := attack(t)
	groups := "/sys/fs/cgroup"
	if b.contained() {
		groups = "" // see P05
	}
	// Longer than the driver's own list, and written down apart from it.
	b.none(`cd /proc
		for f in kcore keys key-users kmsg latency_stats sched_debug sysrq-trigger timer_list timer_stats slabinfo \
			vmallocinfo kpagecount kpageflags kpagecgroup kallsyms modules iomem ioports interrupts softirqs config.gz \
			cmdline pagetypeinfo diskstats partitions locks cgroups zoneinfo vmstat buddyinfo devices misc swaps schedstat \
			consoles crypto mtrr dma fb mdstat execdomains sys/fs/file-nr sys/fs/inode-nr sys/fs/inode-state sys/fs/dentry-state \
			sys/fs/aio-nr sys/kernel/hung_task_detect_count sys/kernel/pty/nr sys/kernel/random/entropy_avail /sys/firmware/efi/systab /sys/kernel/notes; do
			[ -e $f ] && n=$(timeout 2 head -c 64 $f 2>/dev/null | wc -c) && [ "$n" != 0 ] && echo "reads $f"
		done
		for d in acpi asound scsi bus fs irq driver dynamic_debug tty/driver pressure /sys/firmware /sys/kernel /sys/devices \
			/sys/class ` + groups + ` /sys/fs/bpf /sys/fs/selinux /sys/module /sys/power; do
			[ -n "$(ls -A $d 2>/dev/null)" ] && echo "lists $d"
		done; cd /workspace`)
}

// settings are files of the host's that a write to would change the machine.
const settings = `/proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/kernel/modprobe
	/proc/sys/net/ipv4/ip_default_ttl /proc/sys/kernel/shmmax /proc/sys/kernel/domainname /proc/irq/default_smp_affinity
	/sys/kernel/uevent_helper /sys/power/state`

// P02: no setting of the kernel's can be written.
func TestP02_KernelSettings(t *testing.T) {
	t.Parallel()
	b := attack(t)
	before := hostSettings(t)
	b.none(`for f in ` + strings.Join(strings.Fields(settings), " ") + ` $(find /sys -name release_agent -o -path '/sys/class/*/power/*' 2>/dev/null); do
			[ -c $f ] && continue # the mask over it
			old=$(cat $f 2>/dev/null); (echo "$old" >$f) 2>/dev/null && echo "writes $f"
		done
		(echo x >/proc/sys/kernel/core_pattern) 2>/dev/null && echo sets core_pattern`)
	if after := hostSettings(t); after != before {
		t.Errorf("the host's settings were\n%sand are\n%s", before, after)
	}
}

func hostSettings(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, file := range strings.Fields(settings) {
		if text, err := os.ReadFile(file); err == nil {
			fmt.Fprintf(&all, "%s %q\n", file, text)
		}
	}
	return all.String()
}

// P03: nothing in /proc and /sys but one's own processes can be written.
func TestP03_WritableFiles(t *testing.T) {
	t.Parallel()
	b := attack(t)
	tries := `echo "may write $f"`
	if b.contained() { // root may open what only other rights than root's can write
		tries = `{ [ -f $f ] && (echo x >$f) 2>/dev/null && echo "writes $f"; }`
	}
	b.none(`find /proc /sys -mindepth 1 -path '/proc/[0-9]*' -prune -o -writable ! -type l -print 2>/dev/null |
		while read f; do [ -c $f ] || ` + tries + `; done | head -n 20`)
}

// P04: in /dev is what programs need, and no other device can be made or opened.
func TestP04_Devices(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.needProbe()
	var list []call
	for i, dev := range []uint64{unix.Mkdev(8, 0), unix.Mkdev(1, 1), unix.Mkdev(10, 229), unix.Mkdev(1, 3), unix.Mkdev(7, 0)} {
		for name, mode := range map[string]int{"b": unix.S_IFBLK, "c": unix.S_IFCHR} {
			node := fmt.Sprintf("%s%d", name, i)
			list = append(list,
				call{"mknod " + node, unix.SYS_MKNOD, []any{node, mode | 0o666, int(dev)}},
				call{"mknodat " + node, unix.SYS_MKNODAT, []any{unix.AT_FDCWD, "at" + node, mode | 0o666, int(dev)}})
		}
	}
	b.denied(list...)
	found := b.x(`find /dev -mindepth 1 ! -path '/dev/pts/[0-9]*' -printf '%P\n' | sort | tr '\n' ' '`)
	if b.contained() {
		found = strings.Replace(found, " mqueue ", " ", 1) // of its own ipc namespace, as shm
	}
	if found != "fd full null ptmx pts pts/ptmx random shm stderr stdin stdout tty urandom zero " {
		t.Errorf("in /dev: %s", found)
	}
	b.none(`for f in mem kmsg fuse kvm loop0 loop-control sda vda nvme0n1 vsock net/tun mapper/control uinput; do
			( exec 3</dev/$f ) 2>/dev/null && echo "opens /dev/$f"; done
		find / -xdev \( -type b -o -type c \)
		python3 -c 'import os; os.mknod("/workspace/whiteout", 0o20644, 0)' 2>/dev/null; true`)
	if _, err := b.session.Snapshot(t.Context(), &sandkasten.SnapshotOptions{Name: "p04"}); err != nil {
		t.Errorf("a snapshot of it: %v", err)
	}
	b.next()
}

// P05: control groups are neither mounted nor named, and cannot be made.
func TestP05_Cgroups(t *testing.T) {
	t.Parallel()
	b := attack(t)
	seen := `grep cgroup /proc/self/mountinfo | grep -v " /proc/cgroups " # the mask over it
		find / -name cgroup.procs -o -name release_agent -o -name notify_on_release 2>/dev/null | head`
	if b.contained() { // its own is there, to be read
		seen = `grep -E ' - cgroup2? ' /proc/self/mountinfo | grep -v ' ro,'
			find / -name release_agent 2>/dev/null
			find /sys/fs/cgroup -type f | while read f; do old=$(head -c 64 $f 2>/dev/null); (echo "$old" >$f) 2>/dev/null && echo "writes $f"; done | head`
	}
	b.none(seen + `
		sed 's/.*:/place /' /proc/self/cgroup | grep -v '^place /$'
		for v in cgroup cgroup2; do mount -t $v x /mnt 2>/dev/null && echo mounts $v; done
		mkdir /sys/fs/cgroup/x 2>/dev/null && [ -e /sys/fs/cgroup/x/cgroup.procs ] && echo makes a group`)
}

// P06: the runner cannot be seen or looked into, and no key of the daemon's is in
// any environment, command line or file.
func TestP06_RunnerInProc(t *testing.T) {
	t.Parallel()
	b := attack(t)
	sees := `ls -d /proc/1 2>/dev/null && echo "sees the runner"`
	lists, opens := `ls fd map_files 2>/dev/null | grep -q '^[0-9]' && echo "lists fd"`, `mem oom_score_adj comm coredump_filter clear_refs uid_map`
	if b.contained() { // the runner is the same user
		sees, lists, opens = "", `ls map_files 2>/dev/null | grep -q '^[0-9]' && echo "lists map_files"
			for f in comm uid_map gid_map attr/current; do (echo 0 0 1 >$f) 2>/dev/null && echo "writes $f"; done`, `mem`
	}
	b.none(sees + `
		( cd /proc/1 || exit
		for f in environ maps mem auxv syscall stack io pagemap; do
			head -c 1 $f >/dev/null 2>&1 && echo "reads $f"; done
		for l in root cwd exe fd/0 fd/3 fd/4 ns/mnt; do readlink $l 2>/dev/null && echo "follows $l"; done
		` + lists + `
		for f in ` + opens + `; do
			(: >>$f) 2>/dev/null && echo "opens $f for writing"; done ) 2>/dev/null`)
	for _, key := range []string{b.daemon.Key, b.keyA, b.keyB} {
		// The pattern's class keeps the command's own text from matching.
		pattern := "[" + key[:1] + "]" + key[1:]
		b.none(`grep -a -l -e '` + pattern + `' /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null
		grep -a -r -l -e '` + pattern + `' /etc /run /tmp /root /var/lib/misc /workspace 2>/dev/null; true`)
	}
}

// P07: the programs that the host runs for a session cannot be written through
// /proc, also not while they are started over and over (CVE-2019-5736).
func TestP07_ProgramsOfTheHost(t *testing.T) {
	t.Parallel()
	b := attack(t)
	before := b.hostProgram()
	b.none(`( for i in $(seq 300); do
			for p in /proc/[0-9]*; do
				case $(readlink $p/exe) in /memfd:*|*runner*|*sandkasten*) ;; *) continue ;; esac
				( exec 3<$p/exe; echo x >/proc/self/fd/3 ) && echo "writes $p/exe"
				( echo x >$p/exe ) && echo "writes $p/exe"
			done
			( echo x >/proc/1/exe ) && echo "writes the runner"
		done ) 2>/dev/null & 
		for i in $(seq 20); do cat /proc/self/status >/dev/null; done; kill %1 2>/dev/null; wait`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 { // each is a process of the runner's program inside
			if _, err := b.session.Stat(t.Context(), "/workspace", nil); err != nil {
				t.Errorf("read: %v", err)
				return
			}
		}
	}()
	b.none(`( end=$((SECONDS+2)); while [ $SECONDS -lt $end ]; do for p in /proc/[0-9]*; do
			case $(readlink $p/exe) in /memfd:*) ( echo x >$p/exe ) && echo "writes $p/exe" ;; esac; done; done ) 2>/dev/null`)
	<-done
	if after := b.hostProgram(); after != before {
		t.Errorf("the daemon's program was %s and is %s", before, after)
	}
}

// hostProgram is the sum of the program that the daemon runs.
func (b *box) hostProgram() string {
	b.t.Helper()
	cmd := b.daemon.Command()
	cmd.Path, cmd.Args = "/usr/bin/sha256sum", []string{"sha256sum", b.daemon.Program}
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return string(out)
}

// P08: no process has a descriptor of the host's, by which it would be out
// whatever the namespaces say (CVE-2024-21626).
func TestP08_LeakedDescriptors(t *testing.T) {
	t.Parallel()
	b := attack(t)
	const look = `for p in $BASHPID $$ $!; do find /proc/$p/fd -type l -printf '%l\n'; done 2>/dev/null`
	out := b.x(`sleep 5 & ` + look + `; kill $!`)
	r, err := b.session.RunProcess(t.Context(), []string{"bash", "-c", look}, nil)
	if err != nil {
		t.Fatal(err)
	}
	onTerminal, err := b.session.RunProcess(t.Context(), []string{"bash", "-c", look}, &sandkasten.ProcessOptions{TTY: true})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out + r.Stdout + onTerminal.Output) {
		target := strings.TrimSpace(line)
		kind, _, special := strings.Cut(target, ":[")
		switch {
		case strings.HasPrefix(target, "/memfd:"): // the command itself, and its input
		case special && (kind == "pipe" || kind == "socket"), target == "/dev/null", target == "/workspace":
		case strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd"): // find itself
		case strings.HasPrefix(target, "/dev/pts/"), target == "anon_inode:[eventpoll]":
		default:
			t.Errorf("a process has %s", target)
		}
	}
	if !strings.Contains(out, "pipe:[") || !strings.Contains(onTerminal.Output, "/dev/pts/") {
		t.Errorf("no descriptors were found: %q, %q", out, onTerminal.Output)
	}
}

// P09: no path leads out of the root, given as a working directory either.
func TestP09_PathsOut(t *testing.T) {
	t.Parallel()
	b := attack(t)
	b.none(`inode=$(stat -c %d:%i /)
		for up in "" /proc/self/cwd/../../.. /proc/self/root/../.. /../.. /proc/1/root /proc/$PPID/root /proc/1/cwd /dev/fd/3 /proc/self/fd/7; do
			cat "$up` + b.canaries.File + `" 2>/dev/null
		done
		cd /proc/self/cwd/../../../..; cat ./` + b.canaries.File + ` 2>/dev/null
		[ $(stat -c %d:%i .) = $inode ] || echo "left the root"; cd /workspace`)
	root := b.x(`stat -c %d:%i /`)
	for _, cwd := range []string{"/proc/self/fd/7", "/proc/self/fd/3", "/proc/1/root", "/proc/1/cwd", "../../..", "/proc/self/root/..", "/proc/self/cwd/../.."} {
		r, err := b.session.RunProcess(t.Context(), []string{"bash", "-c", `cd ./../../../../..; stat -c %d:%i .; cat .` + b.canaries.File + ` 2>/dev/null`},
			&sandkasten.ProcessOptions{Cwd: cwd})
		if err == nil && r.Stdout != root {
			t.Errorf("with the directory %s: %q, want %q", cwd, r.Stdout, root)
		}
	}
	a := b.api(b.keyA, http.MethodPost, "/v1/sessions", `{"cwd": "/proc/self/fd/7"}`)
	if a.Status != http.StatusBadRequest && a.Status != http.StatusUnprocessableEntity {
		t.Errorf("a session with a working directory: %d %s", a.Status, a.Body)
	}
}

// P10: whatever an image has where something is mounted, it is refused or the
// session has its own there, and the host's files stay as they are.
func TestP10_HostileImages(t *testing.T) {
	t.Parallel()
	b := attack(t)
	trap := testenv.DataDir(t)
	plants := map[string]func(path string) error{
		"link to the host":   func(p string) error { return os.Symlink(trap, p) },
		"link upwards":       func(p string) error { return os.Symlink("../../../../../.."+trap, p) },
		"link through /proc": func(p string) error { return os.Symlink("/proc/self/root"+trap, p) },
		"dangling link":      func(p string) error { return os.Symlink(trap+"/new", p) },
		"file":               func(p string) error { return os.WriteFile(p, nil, 0o666) },
		"fifo":               func(p string) error { return unix.Mkfifo(p, 0o666) },
	}
	// One image has the same in all places that are not below each other.
	groups := [][]string{
		{"proc", "sys", "run", "workspace", "tmp"},
		{"dev", "etc"},
		{"dev/null", "dev/pts", "dev/shm", "etc/hosts", "etc/resolv.conf", "etc/hostname"},
	}
	made := 0
	for kind, plant := range plants {
		for i, places := range groups {
			if b.tryImage(fmt.Sprint("hostile", i), kind, places, plant) {
				made++
			}
			if left, err := os.ReadDir(trap); err != nil || len(left) > 0 {
				t.Fatalf("%s at %v: in the host's directory: %v, %v", kind, places, left, err)
			}
		}
	}
	if made == 0 {
		t.Error("no session was made of any of the images: nothing was tried")
	}
}

// shellFiles are what a shell needs, of the base image.
var shellFiles = map[string]string{
	"bin/sh":                         "usr/bin/dash",
	"lib/x86_64-linux-gnu/libc.so.6": "usr/lib/x86_64-linux-gnu/libc.so.6",
	"lib64/ld-linux-x86-64.so.2":     "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
}

// tryImage makes an image of the base's shell and what is planted, and a session
// of it that writes where the traps are. It says whether there was one.
func (b *box) tryImage(name, kind string, places []string, plant func(string) error) bool {
	b.t.Helper()
	root := testenv.DataDir(b.t)
	for _, place := range places {
		path := filepath.Join(root, place)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.t.Fatal(err)
		}
		if err := plant(path); err != nil {
			b.t.Fatal(err)
		}
	}
	for to, from := range shellFiles {
		content, err := os.ReadFile(filepath.Join(testenv.BaseRootfs(b.t), from))
		if err != nil {
			b.t.Fatal(err)
		}
		path := filepath.Join(root, to)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o755)); err != nil {
			b.t.Fatal(err)
		}
	}
	env := append(b.daemon.Env, "SANDKASTEN_DATA_DIR="+b.daemon.Data)
	if err := blackbox.ImportImage(b.t.Context(), b.daemon.Program, root, name, env); err != nil {
		b.t.Logf("%s at %v is refused: %v", kind, places, err)
		return false
	}
	defer func() {
		if out, err := b.daemon.Command("image", "rm", name).CombinedOutput(); err != nil {
			b.t.Errorf("remove the image: %v: %s", err, out)
		}
	}()
	s, err := b.tryCreate(func(o *sandkasten.CreateOptions) { o.Image = name })
	if err != nil {
		b.t.Logf("a session with %s at %v is refused: %v", kind, places, err)
		return false
	}
	defer destroy(b.t, s)
	for _, place := range places {
		command := `{ [ -p /` + place + ` ] || echo escaped >/` + place + `; echo escaped >/` + place + `/escaped; } 2>/dev/null; echo tried`
		r, err := s.Exec(b.t.Context(), command, &sandkasten.ExecOptions{Timeout: patience})
		if err != nil || r.Output != "tried\n" {
			b.t.Errorf("a command with %s at %s: %q, %v", kind, place, r.Output, err)
		}
	}
	return true
}

// P11: places for mounts that change while sessions begin with them lead nobody
// to the host: forks and restored snapshots of a root that somebody toggles.
func TestP11_TogglingPlaces(t *testing.T) {
	t.Parallel()
	b := attack(t)
	trap := testenv.DataDir(t)
	b.x(`cat >toggle.sh <<'END'
while :; do
	for p in etc/resolv.conf etc/hosts etc/hostname mnt srv; do
		rm -rf /$p; ln -s ` + trap + `/$p /$p; rm -f /$p; ln -s /proc/self/root/` + trap + ` /$p; rm -f /$p; mkdir /$p
		rm -rf /$p; mkfifo /$p
	done
done 2>/dev/null
END
sh toggle.sh & sh toggle.sh &`)
	sessions := 0
	try := func(s *sandkasten.Session, err error) {
		if err != nil {
			t.Logf("refused: %v", err)
			return
		}
		sessions++
		_, err = s.Exec(t.Context(), `for p in etc/resolv.conf etc/hosts etc/hostname; do [ -p /$p ] || echo escaped >/$p; echo escaped >/$p/new; done 2>/dev/null`, nil)
		if err != nil {
			t.Logf("a command: %v", err)
		}
		destroy(t, s)
	}
	for range 5 {
		forked, err := b.session.Fork(t.Context(), 2, nil)
		if err != nil {
			try(nil, err)
		}
		for _, s := range forked.Sessions {
			try(s, nil)
		}
		snapshot, err := b.session.Snapshot(t.Context(), &sandkasten.SnapshotOptions{Scope: "sandbox"})
		if err != nil {
			try(nil, err)
			continue
		}
		try(b.tryCreate(func(o *sandkasten.CreateOptions) { o.RestoreSnapshotID = snapshot.ID }))
		if err := b.a.DeleteSnapshot(t.Context(), snapshot.ID); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(trap); err != nil || len(left) > 0 {
		t.Errorf("in the host's directory: %v, %v", left, err)
	}
	if sessions == 0 {
		t.Error("no session began: nothing was tried")
	}
}

// P12: nothing tells of the host's name, users, processes, interfaces, mounts,
// hardware or environment.
func TestP12_FactsAboutTheHost(t *testing.T) {
	b := attack(t)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	facts := []string{b.daemon.Data, b.daemon.Config, "sandkasten-test", b.daemon.Program, "/sandkasten/"}
	for _, file := range []string{"/proc/cmdline", "/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/product_serial", "/etc/machine-id", "/proc/sys/kernel/random/boot_id"} {
		if text, err := os.ReadFile(file); err == nil && len(strings.TrimSpace(string(text))) > 8 {
			facts = append(facts, strings.TrimSpace(string(text)))
		}
	}
	others := `cat`
	if b.contained() { // where the engine keeps its files, which is a directory of the test's
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			t.Fatal(err)
		}
		facts = slices.DeleteFunc(facts, func(fact string) bool {
			return fact == "sandkasten-test" || fact == strings.TrimSpace(string(boot))
		})
		others = `grep -vE ' /\.sandkasten |` + filepath.Dir(strings.TrimPrefix(b.engine.Host, "unix://")) + `'`
	}
	if out := strings.TrimSpace(b.x(`uname -n`)); out == name {
		t.Errorf("the host's name: %s", out)
	}
	seen := b.x(`env; set; cat /proc/self/mountinfo /proc/mounts /proc/self/mountstats /proc/cmdline /proc/*/environ /proc/*/cmdline /etc/hosts /etc/hostname \
		/etc/machine-id /etc/passwd /etc/resolv.conf /proc/sys/kernel/hostname /proc/sys/kernel/random/boot_id /proc/self/cgroup /sys/class/dmi/id/* 2>/dev/null; hostname; ps -ef; uname -n`)
	for _, fact := range facts {
		if strings.Contains(seen, fact) {
			t.Errorf("sees %q", fact)
		}
	}
	b.none(`tail -n +3 /proc/net/dev | grep -v '^ *lo:'
		[ $(ps -e --no-headers | wc -l) -lt 10 ] || ps -e
		grep -E 'sandkasten| /(var|home|root|boot)/' /proc/self/mountinfo /proc/mounts | ` + others + `
		cat ` + b.canaries.File + ` 2>/dev/null`)
}
