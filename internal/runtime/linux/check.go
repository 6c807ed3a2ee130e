package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// oldest is the first kernel that can put an overlay on idmapped mounts.
var oldest = [2]int{5, 19}

// Check reports everything that keeps the driver from working here.
func (d *Driver) Check(context.Context) error {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return os.NewSyscallError("uname", err)
	}
	return errors.Join(
		checkRoot(os.Geteuid()),
		checkKernel(unix.ByteSliceToString(uts.Release[:])),
		checkSysctl("/proc/sys/user/max_user_namespaces"),
		checkSysctl("/proc/sys/user/max_net_namespaces"),
		checkDevices(),
		checkTool("mkfs.ext4", "e2fsprogs"),
		checkTool("e2fsck", "e2fsprogs"),
	)
}

// checkDevices makes the devices of a sandbox, and opens one: in a user namespace, or
// where devices are refused, that fails.
func checkDevices() error {
	fs, err := makeFacade(nil)
	if err != nil {
		return err
	}
	defer sys.Close(fs)
	fd, err := sys.Open(fs, "null", unix.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open a device that the daemon has made (it must run outside of user namespaces, and may not be denied devices): %w", err)
	}
	sys.Close(fd)
	return nil
}

func checkRoot(euid int) error {
	if euid != 0 {
		return errors.New("the native driver needs root: start the daemon as root (sandboxes never are)")
	}
	return nil
}

func checkKernel(release string) error {
	var v [2]int
	parts := strings.SplitN(release, ".", 3)
	for i := range v {
		if i >= len(parts) {
			return fmt.Errorf("kernel release %q is not understood", release)
		}
		number, _, _ := strings.Cut(parts[i], "-") // as in 7.0-rc1
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("kernel release %q is not understood", release)
		}
		v[i] = n
	}
	if v[0] < oldest[0] || v[0] == oldest[0] && v[1] < oldest[1] {
		return fmt.Errorf("kernel %s is too old: %d.%d or newer is needed for idmapped overlays (Debian 12, Ubuntu 24.04, or a hardware enablement kernel)", release, oldest[0], oldest[1])
	}
	return nil
}

func checkSysctl(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the kernel lacks user namespaces: %w", err)
	}
	if strings.TrimSpace(string(b)) == "0" {
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/proc/sys/"), "/", ".")
		return fmt.Errorf("%s is 0: set it with `sysctl -w %s=30000`", name, name)
	}
	return nil
}

func checkTool(name, pkg string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%s is missing: `apt-get install %s`", name, pkg)
	}
	return nil
}
