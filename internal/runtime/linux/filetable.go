package linux

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
)

// fileMaxPath has how many files all processes of the host may have open that are not
// the host's root.
const fileMaxPath = "/proc/sys/fs/file-max"

// chargedPerFile is less than what the kernel charges the control group of a process
// for a file that it opens: its struct file alone takes 192 bytes or more.
const chargedPerFile = 128

// raiseFileTable lets the host have as many open files as its memory can hold. Each is
// charged to the memory of its sandbox, which is limited; the kernel's own default
// takes 1024 bytes for one, so that two sandboxes could use up what the whole host may
// have. systemd removes the limit at boot for the same reason.
func (d *Driver) raiseFileTable() error {
	if protection.Off(protection.FileTable) {
		return nil
	}
	text, err := os.ReadFile(fileMaxPath)
	if err != nil {
		return err
	}
	now, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", fileMaxPath, err)
	}
	enough, err := fullFileTable()
	if err != nil || now >= enough {
		return err
	}
	return writeProc(fileMaxPath, strconv.FormatUint(enough, 10))
}

// fullFileTable is how many open files take all of the host's memory.
func fullFileTable() (uint64, error) {
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return 0, os.NewSyscallError("sysinfo", err)
	}
	return uint64(host.Totalram) * uint64(host.Unit) / chargedPerFile, nil
}
