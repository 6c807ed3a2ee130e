package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Host says where to look. ThisHost fills it for the machine we run on.
type Host struct {
	Root        string // stands before /proc, /sys and /dev
	DataDir     string // may not exist yet
	MaxSessions int
	Pool        bool // disks are to be in a pool
	Engine      bool // sandboxes are not made by this host's kernel, but by an engine that has a check of its own
	MaxIDs      int  // sandboxes that can have user ids of their own; 0: as many as there are sessions

	UID           int
	LookPath      func(file string) (string, error)
	Space         func(dir string) (Space, error)
	LandlockABI   func() (int, error)
	ClockUnsynced func() (bool, error)
}

// Space is what a filesystem has left.
type Space struct {
	Bytes  uint64
	Inodes uint64
	Shares bool // two files can have the same data
}

// ThisHost is the machine we run on.
func ThisHost() Host {
	return Host{
		Root:          "/",
		UID:           os.Geteuid(),
		LookPath:      exec.LookPath,
		Space:         measureSpace,
		LandlockABI:   landlockABI,
		ClockUnsynced: clockUnsynced,
	}
}

func measureSpace(dir string) (Space, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Space{}, os.NewSyscallError("statfs "+dir, err)
	}
	const xfs, btrfs = 0x58465342, 0x9123683e
	return Space{
		Bytes: st.Bavail * uint64(st.Bsize), Inodes: st.Ffree,
		Shares: uint32(st.Type) == xfs || uint32(st.Type) == btrfs,
	}, nil
}

// landlockABI asks the kernel for the newest Landlock it has; 0 is none.
func landlockABI() (int, error) {
	const (
		createRuleset = 444
		askVersion    = 1
	)
	abi, _, errno := syscall.Syscall(createRuleset, 0, 0, askVersion)
	switch errno {
	case 0:
		return int(abi), nil
	case syscall.ENOSYS, syscall.EOPNOTSUPP:
		return 0, nil
	default:
		return 0, os.NewSyscallError("landlock_create_ruleset", errno)
	}
}

func clockUnsynced() (bool, error) {
	const unsynced = 0x40 // STA_UNSYNC
	var t syscall.Timex
	if _, err := syscall.Adjtimex(&t); err != nil {
		return false, os.NewSyscallError("adjtimex", err)
	}
	return t.Status&unsynced != 0, nil
}

func (h Host) path(name string) string { return filepath.Join(h.Root, name) }

func (h Host) exists(name string) bool {
	_, err := os.Stat(h.path(name))
	return err == nil
}

// text reads a small file of /proc or /sys without its last newline.
func (h Host) text(name string) (string, error) {
	data, err := os.ReadFile(h.path(name))
	return strings.TrimSpace(string(data)), err
}

func (h Host) number(name string) (int64, error) {
	text, err := h.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return n, nil
}

// setting is a number under /proc/sys by its sysctl name; absent says that
// the kernel does not have it.
func (h Host) setting(name string) (n int64, absent bool, err error) {
	n, err = h.number("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, true, nil
	}
	return n, false, err
}

// field is the rest of the line in a file that begins with name.
func (h Host) field(file, name string) (string, bool) {
	text, err := h.text(file)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

func (h Host) hasTool(name string) bool {
	_, err := h.LookPath(name)
	return err == nil
}
