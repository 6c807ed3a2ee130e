package linux

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime/linux/procview"
	"github.com/sandkasten/sandkasten/internal/sandbox/guest"
	"github.com/sandkasten/sandkasten/internal/sandbox/stage"
	"github.com/sandkasten/sandkasten/internal/sandbox/sys"
)

// The facade is a small file system in memory with the inodes that a sandbox must
// not share with the host or a neighbour: whoever can open a file can watch who
// else opens it and hold a lock on it. The daemon makes one for each sandbox,
// outside of its user namespace: there the kernel opens no device. Its files belong
// to the host's root, so nothing inside can change their mode or write to them.

// device is a device node of a sandbox.
type device struct {
	name         string
	major, minor uint32
}

// devices are those that programs need, as of devices.txt of the kernel.
func devices() []device {
	all := []device{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}
	if protection.Off(protection.Devices) {
		all = append(all, device{"kmsg", 1, 11})
	}
	return all
}

// bootIDName is the file of the facade that covers stage.BootIDFile.
const bootIDName = "id"

// planFaces lists which files of /proc the facade's cover.
func planFaces() []stage.Face {
	faces := []stage.Face{{Path: stage.BootIDFile, File: bootIDName}}
	if protection.Off(protection.MaskedPaths) {
		return faces
	}
	for _, name := range []string{procview.CPUInfo, procview.Loadavg, procview.Meminfo, procview.Stat} {
		faces = append(faces, stage.Face{Path: "/proc/" + name, File: name})
	}
	return faces
}

// makeFacade makes the facade of one boot of one sandbox, detached, with the files that
// are the same for most.
func makeFacade(files map[string]string) (int, error) {
	fs, err := stage.NewFS("tmpfs", "size=4m,nr_inodes=32,mode=755", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("make a file system for devices: %w", err)
	}
	errs := make([]error, 0, 8)
	for _, dev := range devices() {
		errs = append(errs, makeDevice(fs, dev))
	}
	errs = append(errs, writeFace(fs, stage.EmptyFile, ""), writeFace(fs, bootIDName, guest.NewBootID()+"\n"))
	for name, text := range files {
		errs = append(errs, writeFace(fs, name, text))
	}
	if err := errors.Join(errs...); err != nil {
		sys.Close(fs)
		return -1, err
	}
	return fs, nil
}

func makeDevice(fs int, dev device) error {
	err := unix.Mknodat(fs, dev.name, unix.S_IFCHR|0o666, int(unix.Mkdev(dev.major, dev.minor)))
	if err == nil {
		err = unix.Fchmodat(fs, dev.name, 0o666, 0) // whatever the umask is
	}
	if err != nil {
		return fmt.Errorf("make the device /dev/%s (the daemon needs CAP_MKNOD outside of user namespaces): %w", dev.name, err)
	}
	return nil
}

// writeFace gives a file of the facade its content.
func writeFace(fs int, name, text string) error {
	fd, err := sys.Open(fs, name, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW, 0o444)
	if err != nil {
		return err
	}
	defer sys.Close(fd)
	return setText(fd, text)
}
