package check

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/protocol"
)

// User refuses what can name no user whose rights hold; "" is the sandbox's own.
func User(user string) error {
	if user != "" && !IsUser(user) {
		return errdefs.Invalid("user", "must be a name or a number, like agent, 1000 or 1000:1000")
	}
	return nil
}

// Mode refuses what are no permission bits.
func Mode(mode uint32) error {
	if mode > 0o7777 {
		return errdefs.Invalid("mode", "must be at most 07777")
	}
	return nil
}

// IsBelow reports whether name is a clean path below a directory. It need not
// be UTF-8: it is not a name from a client, but one that a listing had.
func IsBelow(name string) bool {
	return len(name) <= protocol.MaxPath && !strings.ContainsRune(name, 0) && !path.IsAbs(name) && path.Clean(name) == name &&
		name != "." && name != ".." && !strings.HasPrefix(name, "../")
}

// Pattern refuses what is no pattern of glob or grep.
func Pattern(field, pattern string) error {
	switch {
	case pattern == "":
		return errdefs.Invalid(field, "must not be empty")
	case len(pattern) > protocol.MaxPattern:
		return errdefs.OverLimit(field, protocol.MaxPattern)
	case strings.ContainsRune(pattern, 0) || !utf8.ValidString(pattern):
		return errdefs.Invalid(field, "must be valid UTF-8 without NUL bytes")
	}
	return nil
}
