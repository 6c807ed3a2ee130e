package vm

import (
	"context"
	"os"
)

// diskSize is what a machine sees; the file on the host is sparse.
const diskSize = 8 << 30

// MakeDisk writes an ext4 image with the content of rootfs, a distribution's
// root filesystem. The caller removes it.
func MakeDisk(ctx context.Context, rootfs, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(diskSize); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	_, err = output(ctx, "", "mkfs.ext4", "-q", "-F", "-d", rootfs, file)
	return err
}
