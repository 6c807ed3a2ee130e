package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/installation"
)

// Tasks counts the processes and threads of the host.
func Tasks() (int, error) {
	return parseTasks(Text("/proc/loadavg"))
}

// parseTasks returns the number of tasks of /proc/loadavg: "0.1 0.2 0.3 1/234 5678".
func parseTasks(loadavg string) (int, error) {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 0, fmt.Errorf("/proc/loadavg: %q is not understood", loadavg)
	}
	_, all, _ := strings.Cut(fields[3], "/")
	return strconv.Atoi(all)
}

// Process returns the resident bytes of a process and its open descriptors.
func Process(pid int) (bytes int64, descriptors int, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS:") {
			fields, err := Meminfo(line)
			if err != nil {
				return 0, 0, err
			}
			bytes = fields["VmRSS"]
		}
	}
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	return bytes, len(fds), err
}

// Disk is what the files below dir take of the disk, holes left out.
func Disk(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		const block = 512
		sum += st.Blocks * block
		return nil
	})
	return sum, err
}

// Groups returns the control groups of sandboxes of the daemon on dataDir.
func Groups(dataDir string) ([]string, error) {
	node, err := installation.Read(filepath.Join(dataDir, "node"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/sandkasten/" + string(node) + "/*", "/sys/fs/cgroup/*/sandkasten/" + string(node) + "/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if fi, err := os.Stat(path); err == nil && fi.IsDir() && filepath.Base(path) != "_runners" {
				found = append(found, path)
			}
		}
	}
	return found, nil
}
