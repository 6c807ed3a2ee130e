package service

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  int64 // 0 is none
	}{
		"v2": {map[string]string{
			"proc/self/cgroup":                                         "0::/system.slice/sandkasten.service\n",
			"sys/fs/cgroup/system.slice/memory.max":                    "max\n",
			"sys/fs/cgroup/system.slice/sandkasten.service/memory.max": "268435456\n",
		}, 256 << 20},
		"v2, above": {map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max":   "1000\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n",
		}, 1000},
		"v1": {map[string]string{
			"proc/self/cgroup":                             "4:memory:/x\n3:cpu,cpuacct:/y\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "5000\n",
		}, 5000},
		"v1 without": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
		"nothing known": {nil, 0},
	} {
		root := t.TempDir()
		for file, text := range test.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, ok := MemoryLimit(root); ok != (test.want > 0) || ok && got != test.want {
			t.Errorf("%s: %d, %v; want %d", name, got, ok, test.want)
		}
	}
}
