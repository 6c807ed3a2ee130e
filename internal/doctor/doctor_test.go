package doctor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/dirlock"
	"github.com/sandkasten/sandkasten/internal/doctor"
)

// goodHost has nothing to mend: a distribution kernel with cgroup v2.
func goodHost(t *testing.T) doctor.Host {
	t.Helper()
	h := doctor.Host{
		Root:          t.TempDir(),
		DataDir:       filepath.Join(t.TempDir(), "data"),
		MaxSessions:   1000,
		LookPath:      func(file string) (string, error) { return "/usr/bin/" + file, nil },
		Space:         func(string) (doctor.Space, error) { return doctor.Space{Bytes: 1 << 40, Inodes: 1 << 30}, nil },
		LandlockABI:   func() (int, error) { return 6, nil },
		ClockUnsynced: func() (bool, error) { return false, nil },
	}
	if err := os.Mkdir(h.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.UID = os.Getuid()
	for name, text := range map[string]string{
		"proc/sys/kernel/osrelease":             "6.1.0-28-amd64\n",
		"proc/self/status":                      "Name:\tx\nCapEff:\t000001ffffffffff\n",
		"proc/self/mountinfo":                   "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n",
		"proc/self/limits":                      "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n",
		"proc/sys/kernel/seccomp/actions_avail": "kill_process kill_thread trap errno user_notif trace log allow\n",
		"proc/sys/kernel/pid_max":               "4194304\n",
		"proc/sys/kernel/pty/max":               "4096\n",
		"proc/sys/kernel/pty/reserve":           "1024\n",
		"proc/sys/kernel/threads-max":           "190000\n",
		"proc/sys/fs/file-max":                  "9223372036854775807\n",
		"proc/cmdline":                          "root=/dev/sda1 cgroup.memory=nobpf\n",
		"proc/meminfo":                          "MemTotal:        8165432 kB\nMemFree: 1 kB\n",
		"proc/sys/kernel/core_pattern":          "core\n",
		"proc/sys/dev/tty/legacy_tiocsti":       "0\n",
		"proc/sys/kernel/io_uring_disabled":     "2\n",
		"proc/sys/fs/protected_symlinks":        "1\n",
		"proc/sys/fs/protected_hardlinks":       "1\n",
		"proc/swaps":                            "Filename\tType\tSize\tUsed\tPriority\n",
		"proc/filesystems":                      "nodev\tproc\nnodev\toverlay\n\text4\n",
		"sys/fs/cgroup/cgroup.controllers":      "cpuset cpu io memory hugetlb pids rdma misc\n",
		"sys/kernel/mm/ksm/run":                 "0\n",
		"sys/devices/system/cpu/smt/active":     "0\n",
		"dev/loop-control":                      "",
	} {
		write(t, h, name, text)
	}
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		write(t, h, "proc/self/ns/"+ns, "")
		write(t, h, "proc/sys/user/max_"+ns+"_namespaces", "96365\n")
	}
	return h
}

func write(t *testing.T, h doctor.Host, name, text string) {
	t.Helper()
	path := filepath.Join(h.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, h doctor.Host, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(h.Root, name)); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, h doctor.Host, check string) doctor.Finding {
	t.Helper()
	for _, f := range doctor.Examine(h) {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no check %q", check)
	return doctor.Finding{}
}

func TestGoodHostHasNothingToMend(t *testing.T) {
	h := goodHost(t)
	for _, f := range doctor.Examine(h) {
		if f.Check == "root" && h.UID != 0 {
			continue
		}
		if f.Status != doctor.OK || f.Mend != "" || f.Found == "" {
			t.Errorf("%s: %s %q, mend %q", f.Check, f.Status, f.Found, f.Mend)
		}
	}
}

func TestFindings(t *testing.T) {
	none := errors.New("none")
	file := func(name, text string) func(*testing.T, *doctor.Host) {
		return func(t *testing.T, h *doctor.Host) { write(t, *h, name, text) }
	}
	gone := func(names ...string) func(*testing.T, *doctor.Host) {
		return func(t *testing.T, h *doctor.Host) {
			for _, name := range names {
				remove(t, *h, name)
			}
		}
	}
	host := func(change func(*doctor.Host)) func(*testing.T, *doctor.Host) {
		return func(_ *testing.T, h *doctor.Host) { change(h) }
	}
	tests := []struct {
		check  string
		change func(*testing.T, *doctor.Host)
		status doctor.Status
		found  string // a part of it
		mend   string // a part of it
	}{
		{"root", file("proc/self/status", "CapEff:\t00000000000000fb\n"), doctor.Fail, "without CAP_SYS_ADMIN", "privileged container"},
		{"root", func(t *testing.T, h *doctor.Host) {
			h.Engine = true // in a container of its own
			write(t, *h, "proc/self/status", "CapEff:\t00000000000000fb\n")
		}, doctor.OK, "root", ""},
		{"root", host(func(h *doctor.Host) { h.UID = 1000 }), doctor.Fail, "user 1000", "as root"},
		{"kernel", file("proc/sys/kernel/osrelease", "5.18.19-x"), doctor.Fail, "5.18.19-x", "5.19"},
		{"kernel", file("proc/sys/kernel/osrelease", "5.19.0"), doctor.OK, "5.19.0", ""},
		{"kernel", file("proc/sys/kernel/osrelease", "6.18-rc1"), doctor.OK, "6.18-rc1", ""},
		{"kernel", file("proc/sys/kernel/osrelease", "strange"), doctor.Warn, "strange", "5.19"},
		{"kernel", gone("proc/sys/kernel/osrelease"), doctor.Fail, "unknown", "/proc"},
		{"kernel", file("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft"), doctor.Fail, "WSL 1", "wsl --set-version"},
		{"kernel", file("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2"), doctor.Fail, "5.15.167.4-microsoft", "wsl --update"},
		{"kernel", file("proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2"), doctor.OK, "6.6.87.2", ""},
		{"namespaces", gone("proc/self/ns/user", "proc/self/ns/cgroup"), doctor.Fail, "user, cgroup", "CONFIG_NAMESPACES"},
		{"user namespaces", file("proc/sys/user/max_user_namespaces", "0"), doctor.Fail, "off", "sysctl -w user.max_user_namespaces=65536"},
		{"user namespaces", file("proc/sys/user/max_user_namespaces", "500"), doctor.Warn, "500", "=2000"},
		{"user namespaces", gone("proc/sys/user/max_user_namespaces"), doctor.Fail, "none", "CONFIG_USER_NS"},
		{"cgroups", file("sys/fs/cgroup/cgroup.controllers", "cpu io"), doctor.Fail, "v2 without memory, pids", "cgroup_disable"},
		{"cgroups", hybrid, doctor.OK, "hybrid", ""},
		{"cgroups", func(t *testing.T, h *doctor.Host) {
			hybrid(t, h)
			remove(t, *h, "sys/fs/cgroup/unified")
		}, doctor.Warn, "v1", "unified_cgroup_hierarchy"},
		{"cgroups", func(t *testing.T, h *doctor.Host) {
			hybrid(t, h)
			remove(t, *h, "sys/fs/cgroup/memory")
		}, doctor.Fail, "v1 without memory", "cgroup v2"},
		{"cgroups", func(t *testing.T, h *doctor.Host) {
			hybrid(t, h)
			remove(t, *h, "sys/fs/cgroup/unified")
			write(t, *h, "proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2")
		}, doctor.Warn, "v1", `%UserProfile%\.wslconfig`},
		{"kernel memory", file("proc/cmdline", "quiet cgroup.memory=nobpf,nosocket"), doctor.Warn, "sockets are in no limit", "without cgroup.memory=nosocket"},
		{"kernel memory", file("proc/cmdline", "cgroup.memory=nokmem"), doctor.Warn, "pipes and queues are in no limit", "without cgroup.memory=nokmem"},
		{"kernel memory", gone("proc/cmdline"), doctor.Warn, "unknown", "/proc"},
		{"kernel memory", func(t *testing.T, h *doctor.Host) {
			hybrid(t, h)
			write(t, *h, "proc/cmdline", "cgroup.memory=nosocket") // which v1 does not heed
		}, doctor.OK, "in the limits", ""},
		{"kernel memory", func(t *testing.T, h *doctor.Host) {
			hybrid(t, h)
			remove(t, *h, "sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes")
		}, doctor.Warn, "sockets are in no limit", "unified_cgroup_hierarchy"},
		{"overlayfs", file("proc/filesystems", "\text4\n"), doctor.Fail, "not loaded", "modprobe overlay"},
		{"seccomp", gone("proc/sys/kernel/seccomp"), doctor.Fail, "no seccomp", "CONFIG_SECCOMP_FILTER"},
		{"landlock", host(func(h *doctor.Host) { h.LandlockABI = func() (int, error) { return 0, nil } }), doctor.Warn, "not available", "lsm="},
		{"landlock", host(func(h *doctor.Host) { h.LandlockABI = func() (int, error) { return 0, none } }), doctor.Warn, "none", ""},
		{"disk limits", gone("dev/loop-control"), doctor.Fail, "no loop devices", "modprobe loop"},
		{"disk limits", host(func(h *doctor.Host) { h.LookPath = func(string) (string, error) { return "", none } }), doctor.Fail, "mkfs.ext4", "e2fsprogs"},
		{"forks", host(func(*doctor.Host) {}), doctor.OK, "copies what", ""},
		{"forks", host(func(h *doctor.Host) { h.Pool = true }), doctor.OK, "pool", ""},
		{"forks", host(func(h *doctor.Host) {
			h.Space = func(string) (doctor.Space, error) { return doctor.Space{Bytes: 1 << 40, Shares: true}, nil }
		}), doctor.OK, "copies none", ""},
		{"forks", host(func(h *doctor.Host) {
			h.Pool, h.LookPath = true, func(string) (string, error) { return "", none }
		}), doctor.Fail, "no mkfs.xfs", "xfsprogs"},
		{"data directory", host(func(h *doctor.Host) { h.DataDir += "/later" }), doctor.OK, "will be made", ""},
		{"data directory", host(func(h *doctor.Host) { h.UID = 12345 }), doctor.Fail, "belongs to user", "chown 12345"},
		{"data directory", func(t *testing.T, h *doctor.Host) {
			if err := os.Chmod(h.DataDir, 0o755); err != nil {
				t.Fatal(err)
			}
		}, doctor.Warn, "mode 0755", "chmod 0700"},
		{"data directory", func(t *testing.T, h *doctor.Host) {
			write(t, *h, "file", "")
			h.DataDir = filepath.Join(h.Root, "file")
		}, doctor.Fail, "not a directory", "another data_dir"},
		{"file system", mountedOn("9p"), doctor.Fail, "is on 9p, without the owners", "/var/lib/sandkasten"},
		{"file system", mountedOn("drvfs"), doctor.Fail, "drvfs", "/mnt/c"},
		{"file system", mountedOn("ntfs3"), doctor.Fail, "ntfs3", "ext4"},
		{"file system", mountedOn("xfs"), doctor.OK, "xfs", ""},
		{"file system", mountedOn("9p", "xfs"), doctor.OK, "xfs", ""},
		{"file system", host(func(h *doctor.Host) { h.DataDir += "/later" }), doctor.OK, "ext4", ""},
		{"file system", gone("proc/self/mountinfo"), doctor.Warn, "unknown", "/proc"},
		{"free space", left(1<<30, 1<<30), doctor.Warn, "1024 MiB", "larger disk"},
		{"free space", left(1<<20, 1<<30), doctor.Fail, "1 MiB", "larger disk"},
		{"free space", left(1<<40, 10), doctor.Warn, "10 files", "larger disk"},
		{"free space", left(1<<40, 0), doctor.OK, "MiB", ""},
		{"open files", file("proc/self/limits", "Max open files            1024                 4096               files\n"), doctor.Warn, "4096", "ulimit -Hn 5024"},
		{"open files", file("proc/self/limits", "Max open files            1024                 unlimited               files\n"), doctor.OK, "unlimited", ""},
		{"number of namespaces", file("proc/sys/user/max_net_namespaces", "700"), doctor.Warn, "user.max_net_namespaces is 700", "/etc/sysctl.d/"},
		{"number of namespaces", gone("proc/sys/user/max_ipc_namespaces"), doctor.Warn, "user.max_ipc_namespaces", "/proc/sys"},
		{"memory", file("proc/meminfo", "MemTotal: 1048576 kB\n"), doctor.Warn, "1024 MiB, for up to 1000 sessions, which take 3000 MiB", "add memory"},
		{"memory", gone("proc/meminfo"), doctor.Warn, "unknown", "/proc"},
		{"open files of all", file("proc/sys/fs/file-max", "20000"), doctor.Warn, "20000", "fs.file-max=64000"},
		{"processes", file("proc/sys/kernel/pid_max", "4096"), doctor.Warn, "4096", "kernel.pid_max=16000"},
		{"threads", file("proc/sys/kernel/threads-max", "15999"), doctor.Warn, "15999", "kernel.threads-max=16000"},
		{"terminals", file("proc/sys/kernel/pty/max", "100"), doctor.Warn, "100", "kernel.pty.max=2024"},
		{"terminals", file("proc/sys/kernel/pty/max", "2023"), doctor.Warn, "2023", "kernel.pty.max=2024"},
		{"terminals", file("proc/sys/kernel/pty/max", "2024"), doctor.OK, "may have 1000", ""},
		{"user ids", host(func(h *doctor.Host) { h.MaxIDs = 999 }), doctor.Warn, "999 sandboxes, for up to 1000 sessions", "lower max_sessions"},
		{"user ids", host(func(h *doctor.Host) { h.MaxIDs = 1000 }), doctor.OK, "1000 sandboxes", ""},
		{"core dumps", file("proc/sys/kernel/core_pattern", "|/usr/lib/systemd/systemd-coredump %P"), doctor.OK, "helper", ""},
		{"tty injection", file("proc/sys/dev/tty/legacy_tiocsti", "1"), doctor.OK, "our filter", ""},
		{"io_uring", gone("proc/sys/kernel/io_uring_disabled"), doctor.OK, "our filter", ""},
		{"links in /tmp", file("proc/sys/fs/protected_symlinks", "0"), doctor.Warn, "fs.protected_symlinks", "fs.protected_symlinks=1"},
		{"swap", file("proc/swaps", "Filename\tType\n/dev/sda2 partition\n"), doctor.Warn, "on", "swapoff"},
		{"memory merging", file("sys/kernel/mm/ksm/run", "1"), doctor.Warn, "on", "ksm"},
		{"hyper-threads", file("sys/devices/system/cpu/smt/active", "1"), doctor.Warn, "on", "nosmt"},
		{"clock", host(func(h *doctor.Host) { h.ClockUnsynced = func() (bool, error) { return true, nil } }), doctor.Warn, "not synchronised", "time service"},
		{"memory to disk", host(func(*doctor.Host) {}), doctor.OK, "not available: a paused session keeps its memory in RAM; criu is here", ""},
		{"memory to disk", host(func(h *doctor.Host) { h.LookPath = func(string) (string, error) { return "", none } }), doctor.OK, "keeps its memory in RAM", ""},
		{"image build", host(func(h *doctor.Host) { h.LookPath = func(string) (string, error) { return "", none } }), doctor.Warn, "mmdebstrap", "apt-get install mmdebstrap"},
	}
	for i, test := range tests {
		t.Run(fmt.Sprintf("%s/%d", test.check, i), func(t *testing.T) {
			h := goodHost(t)
			test.change(t, &h)
			f := find(t, h, test.check)
			if f.Status != test.status || !strings.Contains(f.Found, test.found) || !strings.Contains(f.Mend, test.mend) || (test.mend == "") != (f.Mend == "") {
				t.Errorf("got %s %q, mend %q\nwant %s %q, mend %q", f.Status, f.Found, f.Mend, test.status, test.found, test.mend)
			}
		})
	}
}

// mountedOn mounts file systems over each other on what holds the data
// directory, and one with another name that begins so.
func mountedOn(kinds ...string) func(*testing.T, *doctor.Host) {
	return func(t *testing.T, h *doctor.Host) {
		h.DataDir = filepath.Join(t.TempDir(), "a b", "data")
		if err := os.MkdirAll(h.DataDir, 0o700); err != nil {
			t.Fatal(err)
		}
		point := strings.ReplaceAll(filepath.Dir(h.DataDir), " ", `\040`)
		text := "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:5 / " + point[:len(point)-1] + " rw - tmpfs none rw\n"
		for _, kind := range kinds {
			text += "23 21 0:6 / " + point + " rw,noatime shared:7 - " + kind + ` C:\134 rw,aname=drvfs;path=C:\` + "\n"
		}
		write(t, *h, "proc/self/mountinfo", text)
	}
}

// hybrid turns the host into one with v1 controllers and an empty v2 beside.
func hybrid(t *testing.T, h *doctor.Host) {
	remove(t, *h, "sys/fs/cgroup/cgroup.controllers")
	for _, name := range []string{"cpu/tasks", "memory/tasks", "memory/memory.kmem.tcp.limit_in_bytes", "pids/tasks", "unified/cgroup.procs"} {
		write(t, *h, "sys/fs/cgroup/"+name, "")
	}
}

func left(bytes, inodes uint64) func(*testing.T, *doctor.Host) {
	return func(_ *testing.T, h *doctor.Host) {
		h.Space = func(string) (doctor.Space, error) { return doctor.Space{Bytes: bytes, Inodes: inodes}, nil }
	}
}

// What a command mends says which, in words that a shell takes as they are.
func TestCommands(t *testing.T) {
	h := goodHost(t)
	h.DataDir = filepath.Join(h.Root, "data of one's own")
	if err := os.Mkdir(h.DataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.LookPath = func(string) (string, error) { return "", errors.New("none") }
	write(t, h, "proc/sys/fs/protected_symlinks", "0")
	write(t, h, "proc/sys/fs/protected_hardlinks", "0")
	write(t, h, "proc/sys/kernel/pid_max", "4096")
	write(t, h, "proc/filesystems", "\text4\n")
	write(t, h, "sys/devices/system/cpu/smt/active", "1")
	for check, want := range map[string]string{
		"links in /tmp":  "sysctl -w fs.protected_symlinks=1 fs.protected_hardlinks=1",
		"processes":      "sysctl -w kernel.pid_max=16000",
		"overlayfs":      "modprobe overlay",
		"disk limits":    "apt-get install e2fsprogs",
		"data directory": "chmod 0700 '" + h.Root + "/data of one'\\''s own'",
		"hyper-threads":  "",
		"clock":          "",
	} {
		if f := find(t, h, check); f.Command != want {
			t.Errorf("%s: %q, want %q", check, f.Command, want)
		}
	}
}

func TestFreeSpaceOfADirectoryToBeMadeIsItsParents(t *testing.T) {
	h := goodHost(t)
	parent := h.DataDir
	h.DataDir = filepath.Join(parent, "a", "b")
	h.Space = func(dir string) (doctor.Space, error) {
		if dir != parent {
			t.Errorf("asked for the space of %s, want %s", dir, parent)
		}
		return doctor.Space{Bytes: 1 << 40}, nil
	}
	find(t, h, "free space")
}

func TestWorst(t *testing.T) {
	for _, test := range []struct {
		in   []doctor.Finding
		want doctor.Status
	}{
		{nil, doctor.OK},
		{[]doctor.Finding{{Status: doctor.OK}, {Status: doctor.Warn}}, doctor.Warn},
		{[]doctor.Finding{{Status: doctor.Fail}, {Status: doctor.Warn}}, doctor.Fail},
	} {
		if got := doctor.Worst(test.in); got != test.want {
			t.Errorf("Worst(%v) = %s, want %s", test.in, got, test.want)
		}
	}
}

func TestDaemonFindsTheHolderOfTheLock(t *testing.T) {
	h := goodHost(t)
	if f := doctor.Daemon(h); f.Found != "not running" {
		t.Errorf("before: %+v", f)
	}
	lock, err := dirlock.Acquire(h.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if f := doctor.Daemon(h); f.Found != fmt.Sprintf("running, process %d", os.Getpid()) {
		t.Errorf("held: %+v", f)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// The real host must give every check an answer; which one is its own affair.
func TestThisHostAnswersEveryCheck(t *testing.T) {
	h := doctor.ThisHost()
	h.DataDir, h.MaxSessions = t.TempDir(), 10
	for _, f := range doctor.Examine(h) {
		if f.Found == "" || f.Status == "" {
			t.Errorf("%s found nothing: %+v", f.Check, f)
		}
		t.Logf("%-16s %-4s %s (%s)", f.Check, f.Status, f.Found, f.Mend)
	}
}
