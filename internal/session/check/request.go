package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

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

// HashRequest tells a retry of a request from another one.
func HashRequest(req any) (string, error) {
	text, err := json.Marshal(req) // maps come out sorted
	if err != nil {
		return "", fmt.Errorf("hash a request: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
