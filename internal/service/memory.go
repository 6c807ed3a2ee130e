package service

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit is how many bytes of memory this process may have by the limits of
// its control group and those above, of cgroup v2 or v1, and whether there is such
// a limit. root is "/" but in tests.
func MemoryLimit(root string) (limit int64, ok bool) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0, false
	}
	limit = math.MaxInt64
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		dir, file := "sys/fs/cgroup", "memory.max"
		switch {
		case controllers == "":
		case strings.Contains(","+controllers+",", ",memory,"):
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for ; ; group = path.Dir(group) {
			if bytes, ok := bytesIn(filepath.Join(root, dir, group, file)); ok {
				limit = min(limit, bytes)
			}
			if group == "/" || group == "." {
				break
			}
		}
	}
	// What v1 has for no limit is this, less a page.
	return limit, limit < 1<<62
}

// bytesIn reads a limit. Groups without one have no such file, or "max" in it.
func bytesIn(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
