package strictjson

import "testing"

func TestAWrongFieldNamesTheRightOne(t *testing.T) {
	known := []string{"auto_resume", "cmd", "cpu", "cwd", "disk_mb", "env", "image", "labels", "memory_mb", "on_idle", "timeout_ms", "ttl_seconds"}
	for name, want := range map[string]string{
		"timeout": "timeout_ms", "timeoutMs": "timeout_ms", "timeout_seconds": "timeout_ms", "ttl": "ttl_seconds", "command": "cmd", "memory": "memory_mb",
		"imgae": "image", "enviroment": "", "environment": "env", "Labels": "labels", "label": "labels", "memoryMB": "memory_mb", "working-dir": "cwd",
		"owner": "", "x": "", "": "", "on": "", "zzzzzzzz": "", "autoresume": "auto_resume",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("%q was meant to be %q, not %q", name, got, want)
		}
	}
}
