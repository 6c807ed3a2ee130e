// Package inuse reads what is in use on this host: memory, tasks, disk, and
// what sandboxes leave if something goes wrong. It knows nothing of how they
// are made.
package inuse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory returns the fields of /proc/meminfo in bytes.
func Memory() (map[string]int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	return parseMeminfo(string(text))
}

// parseMeminfo reads lines of names with numbers, of kilobytes where they say so.
func parseMeminfo(text string) (map[string]int64, error) {
	fields := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("%q is not a name with a number", line)
		}
		if unit == "kB" {
			n *= 1024
		}
		fields[name] = n
	}
	return fields, nil
}

// Below returns the descendants of a process.
func Below(pid int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		child, parent, err := parseStat(string(text))
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], child)
	}
	all := slices.Clone(children[pid])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// parseStat reads pid and parent from /proc/PID/stat. The name between them
// may contain anything, parentheses too.
func parseStat(text string) (pid, parent int, err error) {
	end := strings.LastIndexByte(text, ')')
	begin := strings.IndexByte(text, ' ')
	if begin < 0 || end < begin {
		return 0, 0, fmt.Errorf("%q is not a process's status", text)
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("%q is not a process's status", text)
	}
	pid, err = strconv.Atoi(text[:begin])
	if err != nil {
		return 0, 0, err
	}
	parent, err = strconv.Atoi(fields[1])
	return pid, parent, err
}

// Name is what the kernel calls a process.
func Name(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "(gone)"
	}
	return strings.TrimSpace(string(name))
}

// Tasks counts the processes and threads of the host.
func Tasks() (int, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	return parseTasks(string(text))
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
			fields, err := parseMeminfo(line)
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

// Groups returns the control groups of sandboxes of the daemon on
// dataDir, by whose hash the driver names them.
func Groups(dataDir string) ([]string, error) {
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	node := hex.EncodeToString(sum[:4])
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/sandkasten/" + node + "/*", "/sys/fs/cgroup/*/sandkasten/" + node + "/*"} {
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
