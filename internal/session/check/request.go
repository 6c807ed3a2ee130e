package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/ids"
)

// SessionName refuses the name of a session; "" is none. What could be an id is none,
// so that an id never means another session.
func SessionName(name string) error {
	if name == "" {
		return nil
	}
	if !IsName(name) || strings.ContainsRune("._-", rune(name[0])) {
		return errdefs.Invalid("name", "must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and begin with a letter or digit")
	}
	if ids.Is(name) {
		return errdefs.Invalid("name", "must not look like an id, which is 26 characters of a-z and 2-7")
	}
	return nil
}

// Idle refuses an idle timeout that never comes, because the session ends before.
func Idle(timeout, ttl time.Duration) error {
	if timeout <= ttl {
		return nil
	}
	return errdefs.Invalid("idle_timeout_seconds", "is %d and must be less than ttl_seconds, which is %d and ends the session: raise that, or lower this",
		int64(timeout/time.Second), int64(ttl/time.Second))
}

// HashRequest tells a retry of a request from another one.
func HashRequest(req any) (string, error) {
	text, err := json.Marshal(req) // maps come out sorted
	if err != nil {
		return "", fmt.Errorf("hash a request: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// ForkHostname names a fork after its source.
func ForkHostname(source, id string) string {
	const most, suffix = 63, 7 // what a label may have, and what is appended
	if len(source) > most-suffix {
		source = strings.TrimRight(source[:most-suffix], "-.")
	}
	return source + "-" + id[:suffix-1]
}

// ForkKey is the idempotency key of the fork i. That of the first is the
// client's, so that it meets other requests with it; those of the others have
// a space, which no client's has.
func ForkKey(key string, i int) string {
	if key == "" || i == 0 {
		return key
	}
	return fmt.Sprintf("%s %d", key, i)
}
