package strictjson

import (
	"slices"
	"strings"
)

// otherWords are what other APIs call fields of ours.
var otherWords = map[string]string{
	"command": "cmd", "directory": "cwd", "workdir": "cwd", "working_dir": "cwd", "environment": "env", "environ": "env", "envs": "env",
	"content": "text", "contents": "text", "tags": "labels", "metadata": "labels", "workspace": "workspace_id", "snapshot": "restore_snapshot_id",
	"ram": "memory_mb", "cpus": "cpu", "cores": "cpu", "template": "image", "args": "argv", "input": "stdin", "old": "old_text", "new": "new_text",
}

// Suggestion names the field that somebody meant who wrote name, "; did you mean x?",
// or those that there are, if they are few.
func Suggestion(name string, known []string) string {
	if meant := nearest(name, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	const most = 24
	if len(known) == 0 || len(known) > most {
		return ""
	}
	return "; there are " + strings.Join(known, ", ")
}

// nearest is the one of known that name was meant to be, or "". It is told by
// other spelling (timeoutMs), a missing or another unit (timeout, memory_bytes), another API's
// word (command) or a slip or two of the keyboard.
func nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	plain := plainName(name)
	if other := otherWords[plainWords(name)]; other != "" && slices.Contains(known, other) {
		return other
	}
	stem, _, _ := strings.Cut(strings.ToLower(name), "_")
	best, off := "", 3
	for _, field := range known {
		switch p := plainName(field); {
		case p == plain:
			return field
		case len(plain) > 2 && (strings.HasPrefix(field, strings.ToLower(name)+"_") || strings.HasPrefix(p, plain)):
			return field
		case len(stem) > 2 && strings.HasPrefix(field, stem+"_") && off > 2:
			best, off = field, 2
		case len(plain) > 3:
			if d := distance(plain, p); d < off {
				best, off = field, d
			}
		}
	}
	return best
}

// plainName is a name without what spelling adds.
func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

func plainWords(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// distance is how many letters have to be changed, left out or put in.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			changed := corner
			if a[i] != b[j] {
				changed++
			}
			row[j+1] = min(changed, above+1, row[j]+1)
			corner = above
		}
	}
	return row[len(b)]
}
