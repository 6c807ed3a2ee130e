// Package check has the rules for what a client may write in a request,
// wherever they need no more than the request itself: names, environments,
// labels and ranges; and what a daemon may set for them. What it refuses, it
// refuses with InvalidArgument.
package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/protection"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// Missing is a field that asks for what this daemon does not have: its code is
// Unimplemented.
func Missing(field, format string, args ...any) error {
	return &errdefs.Error{Code: errdefs.Unimplemented, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Image refuses what cannot be the name of an image; "" is that of no default.
func Image(name string) error {
	if name == "" {
		return errdefs.Invalid("image", "must be given: this daemon has no default image")
	}
	if len(name) > MaxImage || !IsPrintable(name) {
		return errdefs.Invalid("image", "must be at most %d printable characters", MaxImage)
	}
	return nil
}

// Driver refuses one that is not among all; "" is the first.
func Driver(name string, all []string) error {
	if name != "" && !slices.Contains(all, name) {
		return errdefs.Invalid("driver", "must be one that this daemon has: %s", strings.Join(all, ", "))
	}
	return nil
}

// settings are the keys of the configuration that bound fields, for whoever may raise them.
var settings = map[string]string{
	"ttl_seconds": "max_session_ttl_seconds", "idle_timeout_seconds": "max_session_ttl_seconds", "lifetime_seconds": "max_lifetime_seconds", "timeout_ms": "defaults.max_exec_timeout_ms",
	"limits.cpu": "maximum.cpu_limit", "limits.memory_mb": "maximum.mem_limit_mb", "limits.pids": "maximum.pids_limit", "limits.disk_mb": "maximum.disk_limit_mb",
}

// overSetting refuses a field that is over what the operator allows. The duty names the bound.
func overSetting(field, duty string, bound ...any) error {
	return errdefs.Invalid(field, duty+", by the daemon's "+settings[field], bound...)
}

// Seconds refuses a time that a client gave; 0 is none, and for longest it is
// no maximum.
func Seconds(field string, asked, longest time.Duration) error {
	switch {
	case asked == 0:
		return nil
	case asked < time.Second:
		return errdefs.Invalid(field, "must be at least 1")
	case longest > 0 && asked > longest:
		return overSetting(field, "must be at most %d", int64(longest/time.Second))
	}
	return nil
}

// What a request may carry. The API's document says the same, which a test of it
// compares.
const (
	MaxImage          = 512      // bytes of a name with a digest
	MaxEnv            = 256      // variables
	maxEnvBytes       = 64 << 10 // names and values together
	MaxLabels         = 64
	maxLabelKey       = 63
	maxLabelValue     = 255
	MaxIdempotencyKey = 255
	MaxName           = 64 // of a session, a shell and what else has one
	MaxHostname       = 63
)

// What a sandbox can do with.
const (
	minMemoryMB = 16
	minPids     = 8
	minDiskMB   = 16
	minCPU      = 0.01
)

// Limits refuses those that are out of range; x are the maxima.
func Limits(l, x runtime.Limits) error {
	// NaN fails both comparisons of its line, so they are written to accept.
	if l.CPU != 0 && !(l.CPU >= minCPU && l.CPU <= x.CPU) {
		return overSetting("limits.cpu", "must be between %g and %g cores", minCPU, x.CPU)
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
			return overSetting(c.field, "must be between %d and %d", c.low, c.high)
		}
	}
	return nil
}

// NoDisk refuses a limit of the disk for a sandbox of a driver that has none for
// it.
func NoDisk(mb int64, driver string, readonlyRoot bool) error {
	switch {
	case mb == 0:
		return nil
	case readonlyRoot:
		return Missing("limits.disk_mb", "the driver %s cannot limit what a sandbox with a read-only root writes; leave disk_mb out, or choose another driver", driver)
	}
	return Missing("limits.disk_mb", "the driver %s cannot limit what a sandbox writes; leave disk_mb out, or choose another driver", driver)
}

// Env refuses an environment.
func Env(env map[string]string) error {
	if len(env) > protection.Wider(protection.RequestSizes, MaxEnv, 256) {
		return errdefs.Invalid("env", "must have at most %d variables", MaxEnv)
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
	if total > protection.Wider(protection.RequestSizes, maxEnvBytes, 8) {
		return errdefs.Invalid("env", "must have at most %d bytes in all", maxEnvBytes)
	}
	return nil
}

// Hostname refuses a name of a host; "" is none.
func Hostname(h string) error {
	if h == "" {
		return nil
	}
	if len(h) > MaxHostname || strings.Trim(strings.ToLower(h), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
		strings.HasPrefix(h, "-") || strings.HasSuffix(h, "-") {
		return errdefs.Invalid("hostname", "must be 1 to 63 letters, digits and '-', and not start or end with '-'")
	}
	return nil
}

// ScopeLabel is the label that says to which run of agents a session belongs, and
// ScopePattern what it may say.
const (
	ScopeLabel   = "sandkasten.scope"
	ScopePattern = `^(workflow|agent|user):[a-zA-Z0-9._:@-]{1,128}$`
)

var scopeForm = regexp.MustCompile(ScopePattern)

// Scope refuses what is no scope.
func Scope(field, scope string) error {
	if scopeForm.MatchString(scope) {
		return nil
	}
	return errdefs.Invalid(field, "must be workflow, agent or user, a colon and an id of 1 to 128 of a-z, A-Z, 0-9 and . _ - : @, as workflow:run-1")
}

// Labels refuses what a client notes of what it owns. One that says a scope says one that
// there can be: nobody would find or end the session by another.
func Labels(labels map[string]string) error {
	if scope, has := labels[ScopeLabel]; has {
		if err := Scope("labels", scope); err != nil {
			return errdefs.Invalid("labels", "must not have this %s: it %s", ScopeLabel, strings.TrimPrefix(errdefs.MessageOf(err), "labels "))
		}
	}
	if len(labels) > MaxLabels {
		return errdefs.Invalid("labels", "must be at most %d", MaxLabels)
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
	if len(key) > MaxIdempotencyKey || !IsPrintable(key) {
		return errdefs.Invalid("Idempotency-Key", "must be at most %d printable characters", MaxIdempotencyKey)
	}
	return nil
}

// IsUser reports whether s names a user, and a group if there is a colon. The
// sandbox knows which there are.
func IsUser(s string) bool {
	user, group, both := strings.Cut(s, ":")
	return IsName(user) && (!both || IsName(group))
}

// IsName reports whether s is safe as a part of any name: 1 to 64 of
// [a-zA-Z0-9._-].
func IsName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for _, c := range []byte(s) {
		if !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' && !(c == ' ' && protection.Off(protection.Names)) {
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
