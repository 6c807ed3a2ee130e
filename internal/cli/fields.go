package cli

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/sdk/go"
)

// fieldFlags are the flags that set a field of the API. What is not here has the
// flag of its own name, if the command has such a flag. A unit is that of the
// numbers in the API's message, which the flag takes in other forms.
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
	"network.mode":         {"network", ""},
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
	as, known := fieldFlags[refused.Field]
	if !known {
		as = fieldFlags[field]
	}
	if as.flag == "" {
		as.flag = strings.ReplaceAll(field, "_", "-")
	}
	if a.HasFlag == nil || !a.HasFlag(as.flag) {
		return text
	}
	return strings.Replace(text, refused.Message, "--"+as.flag+" "+inUnits(rest, as.unit), 1)
}

var number = regexp.MustCompile(`\b[0-9]+\b`)

// inUnits writes the numbers of a duty, as "must be at most 90, by ...", as the flag takes
// them: times as 90s, sizes with their unit.
func inUnits(duty, unit string) string {
	bounds, rest := duty, ""
	if i := strings.IndexAny(duty, ",;"); i >= 0 {
		bounds, rest = duty[:i], duty[i:]
	}
	step := map[string]time.Duration{"seconds": time.Second, "milliseconds": time.Millisecond}[unit]
	switch {
	case step > 0:
		bounds = number.ReplaceAllStringFunc(bounds, func(text string) string {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n > int64(math.MaxInt64/step) {
				return text + " " + unit
			}
			return formatSpan(time.Duration(n) * step)
		})
	case unit != "" && strings.TrimRight(bounds, "0123456789") != bounds:
		bounds += " " + unit
	}
	return bounds + rest
}

// formatSpan writes a time as a Span of one unit, the largest in which it is whole.
func formatSpan(d time.Duration) string {
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if d != 0 && d%unit.of == 0 {
			return strconv.FormatInt(int64(d/unit.of), 10) + unit.name
		}
	}
	return d.String()
}
