package cli

import (
	"errors"
	"strings"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// fieldFlags are the flags that set a field of the API. What is not here has the
// flag of its own name, if the command has such a flag. A unit is that of the
// numbers in the API's message, where the flag takes others as well.
var fieldFlags = map[string]struct{ flag, unit string }{
	"ttl_seconds":          {"ttl", "seconds"},
	"lifetime_seconds":     {"lifetime", "seconds"},
	"idle_timeout_seconds": {"idle-timeout", "seconds"},
	"timeout_ms":           {"timeout", "milliseconds"},
	"wait_ms":              {"timeout", "milliseconds"},
	"memory_mb":            {"memory", "MiB"},
	"disk_mb":              {"disk", "MiB"},
	"size_mb":              {"size", "MiB"},
	"workspace_id":         {"workspace", ""},
	"restore_snapshot_id":  {"restore", ""},
	"session_id":           {"session", ""},
	"labels":               {"label", ""},
	"hosts":                {"host", ""},
	"include_paths":        {"include", ""},
	"exclude_paths":        {"exclude", ""},
}

// inFlags says in the command's flags what the daemon says of a field.
func (a *App) inFlags(err error, text string) string {
	refused, ok := errors.AsType[*sandkasten.APIError](err)
	if !ok || refused.Field == "" {
		return text
	}
	word, rest, ok := strings.Cut(refused.Message, " ")
	field := refused.Field[strings.LastIndexByte(refused.Field, '.')+1:] // limits.cpu is cpu
	if !ok || word != refused.Field && word != field {
		return text
	}
	as := fieldFlags[field]
	if as.flag == "" {
		as.flag = strings.ReplaceAll(field, "_", "-")
	}
	if a.HasFlag == nil || !a.HasFlag(as.flag) {
		return text
	}
	said := "--" + as.flag + " " + rest
	if as.unit != "" && strings.TrimRight(rest, "0123456789") != rest {
		said += " " + as.unit
	}
	return strings.Replace(text, refused.Message, said, 1)
}
