// Package check has the rules for what a client may write in a request,
// wherever they need no more than the request itself: names, environments,
// labels and ranges. What it refuses, it refuses with InvalidArgument.
package check

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// MaxImage is the length of an image's name.
const MaxImage = 255

// What else a request may carry.
const (
	maxEnv         = 128      // variables
	maxEnvBytes    = 64 << 10 // names and values together
	maxLabels      = 64
	maxLabelKey    = 63
	maxLabelValue  = 255
	maxIdempotency = 255
	minMemoryMB    = 16
	minPids        = 8
	minDiskMB      = 16
	minCPU         = 0.01
)

// Limits refuses those that are out of range; x are the maxima.
func Limits(l, x runtime.Limits) error {
	// NaN fails both comparisons of its line, so they are written to accept.
	if l.CPU != 0 && !(l.CPU >= minCPU && l.CPU <= x.CPU) {
		return errdefs.Invalid("limits.cpu", "must be between %g and %g cores", minCPU, x.CPU)
	}
	for _, c := range []struct {
		field            string
		asked, low, high int64
	}{
		{"limits.memory_mb", l.MemoryMB, minMemoryMB, x.MemoryMB},
		{"limits.pids", l.Pids, minPids, x.Pids},
		{"limits.disk_mb", l.DiskMB, minDiskMB, x.DiskMB},
	} {
		if c.asked != 0 && (c.asked < c.low || c.asked > c.high) {
			return errdefs.Invalid(c.field, "must be between %d and %d", c.low, c.high)
		}
	}
	return nil
}

// Disk refuses a limit of the disk for a sandbox of one of the drivers that have
// none.
func Disk(mb int64, driver string, unlimited []string) error {
	if mb == 0 || !slices.Contains(unlimited, driver) {
		return nil
	}
	return &errdefs.Error{
		Code:    errdefs.Unimplemented,
		Field:   "limits.disk_mb",
		Message: "the driver " + driver + " cannot limit what a sandbox writes; leave disk_mb out, or choose another driver",
	}
}

// Env refuses an environment.
func Env(env map[string]string) error {
	if len(env) > maxEnv {
		return errdefs.Invalid("env", "must have at most %d variables", maxEnv)
	}
	total := 0
	for name, value := range env {
		total += len(name) + len(value)
		if !IsEnvName(name) {
			return errdefs.Invalid("env", "must have names of letters, digits and '_' that do not start with a digit")
		}
		if strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
			return errdefs.Invalid("env", "must have values of valid UTF-8 without NUL bytes")
		}
	}
	if total > maxEnvBytes {
		return errdefs.Invalid("env", "must have at most %d bytes in all", maxEnvBytes)
	}
	return nil
}

// Hostname refuses a name of a host; "" is none.
func Hostname(h string) error {
	if h == "" {
		return nil
	}
	if len(h) > 63 || strings.Trim(strings.ToLower(h), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
		strings.HasPrefix(h, "-") || strings.HasSuffix(h, "-") {
		return errdefs.Invalid("hostname", "must be 1 to 63 letters, digits and '-', and not start or end with '-'")
	}
	return nil
}

// Labels refuses what a client notes of what it owns.
func Labels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return errdefs.Invalid("labels", "must be at most %d", maxLabels)
	}
	for k, v := range labels {
		if k == "" || len(k) > maxLabelKey || !IsPrintable(k) {
			return errdefs.Invalid("labels", "must have keys of 1 to %d printable characters", maxLabelKey)
		}
		if len(v) > maxLabelValue || !IsPrintable(v) {
			return errdefs.Invalid("labels", "must have values of at most %d printable characters", maxLabelValue)
		}
	}
	return nil
}

// IdempotencyKey refuses a key; "" is none.
func IdempotencyKey(key string) error {
	if len(key) > maxIdempotency || !IsPrintable(key) {
		return errdefs.Invalid("Idempotency-Key", "must be at most %d printable characters", maxIdempotency)
	}
	return nil
}

// IsName reports whether s is safe as a part of any name: 1 to 64 of
// [a-zA-Z0-9._-].
func IsName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// IsEnvName reports whether s is a name of a shell's variable.
func IsEnvName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && c != '_' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// IsPrintable reports whether s can be shown on one line.
func IsPrintable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}
