// Package ids makes the ids of sessions and of what belongs to them.
package ids

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// encoding makes ids that need no escaping anywhere.
var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

// New returns 26 characters that hold 128 random bits.
func New() string {
	var random [16]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return encoding.EncodeToString(random[:])
}

// Is reports whether s may have come from New.
func Is(s string) bool { return len(s) == 26 && strings.Trim(s, alphabet) == "" }
