package vm

import (
	"context"
	"os"
	"path/filepath"
)

// Prepare gets what every machine needs: the kernel, from the cache of the
// user who runs it, and in dir, which is the caller's to remove, the init and
// a disk with the content of rootfs. The machine has no jobs yet.
func Prepare(ctx context.Context, rootfs, dir string) (Machine, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Machine{}, err
	}
	kernel, err := FetchKernel(ctx, filepath.Join(cache, "sandkasten", "kernels"))
	if err != nil {
		return Machine{}, err
	}
	m := Machine{
		Kernel:   kernel,
		Init:     filepath.Join(dir, "init"),
		Disk:     filepath.Join(dir, "disk.ext4"),
		MemoryMB: 2048,
		CPUs:     2,
	}
	if err := goBuild(ctx, m.Init, "github.com/sandkasten/sandkasten/test/vm/init"); err != nil {
		return Machine{}, err
	}
	return m, MakeDisk(ctx, rootfs, m.Disk)
}
